import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { AskingService, type CallExtras, type Reply } from "./asking-service.ts";

/** What the tools did, in order. */
export type Deeds = string[];

const output = z.object({ done: z.string() });
const outputPolicy = { done: "allow" } as const;
const permissions = { required: ["deeds:do"] };

function tools(deeds: Deeds) {
  const handler = ({ what }: { readonly what: string }) => {
    deeds.push(what);
    if (what === "fails") throw new Error("as it was told");
    return { done: what };
  };
  const input = z.strictObject({ what: z.enum(["a", "b", "c", "fails"]) });
  const common = { permissions, input, output, outputPolicy, handler };
  return [
    defineTool({ ...common, name: "do_write", description: "Writes", classification: "write", category: "write" }),
    defineTool({ ...common, name: "do_read", description: "Reads", classification: "read" }),
    defineTool({ ...common, name: "do_network", description: "Sends", classification: "write", category: "network" }),
    defineTool({
      ...common,
      name: "do_destroy",
      description: "Destroys",
      classification: "destructive",
      category: "write",
      approval: { message: "Nothing brings it back." },
    }),
    defineTool({
      ...common,
      name: "do_once",
      description: "Writes; each time asked",
      classification: "write",
      category: "write",
      approval: { scopes: ["once"] },
    }),
  ];
}

/** A service whose tools each stand for a kind of deed. */
export class ApprovalService extends AskingService {
  readonly deeds: Deeds = [];
  readonly #extra: Readonly<Record<string, unknown>>;

  constructor(extra: Readonly<Record<string, unknown>> = {}) {
    super();
    this.#extra = extra;
  }

  async start(changes: Readonly<Record<string, unknown>> = {}): Promise<this> {
    const approvals = { store: "sqlite://./approvals.sqlite", ...this.#extra, ...changes };
    await this.run({ tools: tools(this.deeds), approvals });
    return this;
  }

  async call(tool: string, what: unknown, extras: CallExtras = {}): Promise<Reply> {
    const { token = await this.agent(), headers = {}, signal, ...rest } = extras;
    const sent = { token, headers, ...(signal !== undefined && { signal }) };
    return this.send("POST", "/call", { ...sent, body: { tool, args: { what }, ...rest } });
  }
}
