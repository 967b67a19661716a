import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import type { BuildModules } from "../../src/modules.ts";
import type { CallExtras, Loose, Reply } from "./asking-service.ts";
import { HoldingService } from "./holding-service.ts";

const permissions = { required: ["deeds:do"] };
const input = z.strictObject({ what: z.string().max(20) });
const output = z.object({ done: z.string() });
const outputPolicy = { done: "allow" } as const;

/** A service with reads, changes that ask, changes that do not, and tools that run until the test lets them end. */
export class HaltService extends HoldingService {
  /** Runs that have begun, in order. */
  readonly begun: string[] = [];

  async start(sections: Readonly<Record<string, unknown>> = {}, modules?: BuildModules): Promise<this> {
    const approvals = { store: "sqlite://./approvals.sqlite" };
    await this.run({ tools: this.#tools(), approvals, ...sections }, "", modules);
    return this;
  }

  async call(tool: string, extras: CallExtras & { readonly what?: string } = {}): Promise<Reply> {
    const { token = await this.agent(), headers = {}, signal, what = "a", ...rest } = extras;
    const sent = { token, headers, ...(signal !== undefined && { signal }) };
    return this.send("POST", "/call", { ...sent, body: { tool, args: { what }, ...rest } });
  }

  async halt(body: Readonly<Record<string, unknown>>): Promise<Reply> {
    return this.send("POST", "/halts", { token: await this.halter(), body: { reason: "drill", ...body } });
  }

  async resume(id: string): Promise<Reply> {
    return this.send("DELETE", `/halts/${id}`, { token: await this.halter() });
  }

  async halts(): Promise<Loose> {
    return (await this.send("GET", "/halts", { token: await this.halter() })).body;
  }

  halter(): Promise<string> {
    return this.person({ sub: "olga", permissions: ["halts:read", "halts:write", "metrics:read"] });
  }

  #tools() {
    const handler =
      (isSlow: boolean) =>
      async ({ what }: { readonly what: string }) => {
        this.begun.push(what);
        if (isSlow) {
          await this.hold();
        }
        return { done: what };
      };
    const common = { permissions, input, output, outputPolicy };
    const write = { ...common, classification: "write", category: "write" } as const;
    return [
      defineTool({ ...common, name: "do_read", description: "Reads", classification: "read", handler: handler(false) }),
      defineTool({
        ...common,
        name: "slow_read",
        description: "Reads",
        classification: "read",
        handler: handler(true),
      }),
      defineTool({ ...write, name: "do_write", description: "Writes; asked", handler: handler(false) }),
      defineTool({
        ...write,
        name: "free_write",
        description: "Writes; never asked",
        approval: { needsApproval: () => false },
        handler: handler(false),
      }),
      defineTool({
        ...write,
        name: "slow_write",
        description: "Writes; never asked",
        approval: { needsApproval: () => false },
        handler: handler(true),
      }),
    ];
  }
}
