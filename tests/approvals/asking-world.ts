import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { AskingService, type CallExtras, type Loose, type Reply } from "../support/asking-service.ts";
import type { LiveIssuers } from "../support/live-tokens.ts";
import { AGENTS_AUDIENCE } from "../support/tokens.ts";

/** Signed with the agents' key, for tokens of the kind "other issuer": another issuer whose agents may call, too. */
const OTHER_ISSUER = "https://evil.example";
export const PEOPLE = "https://people.test";

interface AskingOptions {
  readonly tools?: readonly unknown[];
  readonly approvals?: Readonly<Record<string, unknown>>;
  /** Programs that tools may run. */
  readonly commands?: readonly string[];
  /** Where they are looked for. */
  readonly path?: string;
  /** Another service of the same store, issuers and deeds, with an audit of its own. */
  readonly beside?: AskingWorld;
  /** With those of another service, or what it left. */
  readonly issuers?: LiveIssuers;
  readonly folder?: string;
}

const permissions = { required: ["deeds:do"] };
const output = z.object({ done: z.boolean() });
const outputPolicy = { done: "allow" } as const;

/** A tool that writes down what it was given. */
export function recordingTool(name: string, deeds: unknown[], input: z.ZodObject, more: Record<string, unknown> = {}) {
  return defineTool({
    ...({ name, description: "Does it", classification: "write", category: "write" } as const),
    ...{ permissions, input, output, outputPolicy },
    handler: (given: unknown) => {
      deeds.push(given);
      return { done: true };
    },
    ...more,
  } as never);
}

/** A service whose tools a test brings along. Several may stand on one store. */
export class AskingWorld extends AskingService {
  readonly deeds: unknown[];
  readonly #options: AskingOptions;

  constructor(options: AskingOptions = {}) {
    const { beside } = options;
    super({
      ...{ issuers: beside?.issuers ?? options.issuers, folder: beside?.folder ?? options.folder },
      ...(beside !== undefined && { audit: `audit-${crypto.randomUUID()}` }),
    });
    this.deeds = beside?.deeds ?? [];
    this.#options = options;
  }

  async start(changes: Pick<AskingOptions, "tools" | "approvals" | "path"> = {}): Promise<this> {
    const { approvals, tools, beside, commands, path } = { ...this.#options, ...changes };
    const [agents, people] = this.issuers.profiles();
    const others = { ...agents, issuer: OTHER_ISSUER, audience: AGENTS_AUDIENCE };
    const sections = {
      tools: tools ?? beside?.tools ?? this.tools,
      jwt: { issuers: [agents, people, others] },
      approvals: { store: "sqlite://./approvals.sqlite", ...(approvals ?? beside?.approvals) },
      ...(commands !== undefined && { commands: { allowed: commands, confinement: "off" } }),
    };
    await this.run(sections, path);
    return this;
  }

  get tools(): readonly unknown[] {
    return (
      this.#options.tools ?? [
        recordingTool("deed", this.deeds, z.strictObject({ what: z.string().max(100), count: z.int().default(1) })),
      ]
    );
  }

  get approvals(): Readonly<Record<string, unknown>> {
    return this.#options.approvals ?? {};
  }

  async call(tool: string, args: unknown, { headers, signal, token, ...rest }: CallExtras = {}): Promise<Reply> {
    return this.send("POST", "/call", {
      token: token ?? (await this.agent()),
      ...(headers !== undefined && { headers }),
      ...(signal !== undefined && { signal }),
      // Text is a body's own spelling of its arguments.
      body: typeof args === "string" ? `{"tool":"${tool}","args":${args}${rawMembers(rest)}}` : { tool, args, ...rest },
    });
  }

  /** Asks, and answers the id of the question. */
  async ask(tool: string, args: unknown, extras: CallExtras = {}): Promise<string> {
    const asked = await this.call(tool, args, extras);
    if (asked.http !== 202) throw new Error(`not asked: ${asked.http} ${JSON.stringify(asked.body)}`);
    return asked.body.approval.id;
  }

  async show(id: string): Promise<Loose> {
    const shown = await this.send("GET", `/approvals/${id}`, { token: await this.person() });
    return shown.body.approval;
  }

  /** What happened to one approval, in order. */
  story(id: string): readonly string[] {
    return this.journal()
      .filter((line) => line["id"] === id)
      .map(({ type }) => type);
  }
}

function rawMembers(members: Readonly<Record<string, unknown>>): string {
  return Object.entries(members)
    .map(([name, value]) => `,${JSON.stringify(name)}:${JSON.stringify(value)}`)
    .join("");
}

export function codeOf({ http, body }: Reply): string {
  return http === 202 ? "PENDING" : (body?.error?.code ?? `HTTP ${http}`);
}
