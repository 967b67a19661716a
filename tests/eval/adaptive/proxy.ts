import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { defineTool } from "../../../src/index.ts";
import { readConfig, wire } from "../../support/build.ts";
import { LiveIssuers } from "../../support/live-tokens.ts";
import { AGENTS_ISSUER } from "../../support/tokens.ts";

export type Table = Readonly<Record<string, unknown>>;

/** The parts of a configuration that a set of rules is. */
export interface Sections {
  readonly dataFlow?: unknown;
  readonly systems?: Table;
}

/** What an evaluation says about one of its tools. */
export interface ToolFacts {
  readonly name: string;
  readonly system: string;
  readonly classification: "read" | "write" | "destructive";
  readonly input: z.ZodRawShape;
  readonly output?: z.ZodRawShape;
  readonly dataFlow?: Table | undefined;
  readonly target?: Table;
  readonly handler?: (input: never) => unknown;
}

const PERMISSION = "world:use";
const CLOSE_GRACE_MS = 10_000;
const STOPPED: ReadonlySet<string> = new Set(["POLICY_DENIED", "APPROVAL_DENIED", "POLICY_STATE_UNAVAILABLE"]);

/**
 * A proxy with an evaluation's tools: the whole pipeline with a SQLite store and the audit on disk, in the mode in which only data
 * flow and destructive tools ask.
 */
export class EvaluatedProxy {
  readonly #folder = mkdtempSync(join(realpathSync(tmpdir()), "stc-adaptive-"));
  readonly #issuers = new LiveIssuers();
  #service: Awaited<ReturnType<typeof wire>> | undefined;
  #agents = 0;
  /** The text that others wrote into what the tools answer. */
  incoming = "";

  protected async serve(tools: readonly unknown[], { dataFlow, systems = {} }: Sections): Promise<void> {
    const written = {
      ...{ tools, systems },
      audit: { dir: "audit" },
      jwt: { issuers: this.#issuers.profiles() },
      approvals: { store: "sqlite://./approvals.sqlite", mode: "yolo" },
      dataFlow,
    };
    const source = { folder: this.#folder, environment: {}, origin: "evaluation" };
    this.#service = await wire(readConfig(written as never, source));
  }

  async end(): Promise<void> {
    await this.#service?.close(CLOSE_GRACE_MS);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Returns a caller that has read nothing yet. */
  newAgent(): Agent {
    this.#agents += 1;
    return new Agent(this, `agent-${this.#agents}`);
  }

  token(sub: string, claims: Table): Promise<string> {
    return this.#issuers.token({ kind: "good", sub, permissions: [PERMISSION], claims });
  }

  /** Returns whether a call ran, and its result. Nobody approves it. */
  async call(token: string, tool: string, args: Table, extras: Table = {}) {
    const request = { tool, args, authorization: `Bearer ${token}`, source: "evaluation", ...extras };
    const { result } = await this.#running.proxy.call(request);
    if ("error" in result && !STOPPED.has(result.error.code))
      throw new Error(`${tool}: ${result.error.code} ${result.error.message}`);
    return { isStopped: result.status === "pending" || "error" in result, result };
  }

  async tell(subject: string, request: string): Promise<void> {
    await this.#running.dataFlow()?.vouch({ issuer: AGENTS_ISSUER, subject }, request);
  }

  /** As when the labels of a caller have ended. */
  async forget(subject: string): Promise<void> {
    await this.#running.dataFlow()?.clear({ issuer: AGENTS_ISSUER, subject });
  }

  get #running() {
    if (this.#service === undefined) throw new Error("is not started");
    return this.#service;
  }
}

/** A caller that does whatever the attacker's program says. */
export class Agent {
  readonly #proxy: EvaluatedProxy;
  readonly #subject: string;
  readonly #claims: Table;
  /** Calls that a person would have been asked about, or that were denied. */
  stopped = 0;

  constructor(proxy: EvaluatedProxy, subject: string, claims: Table = {}) {
    this.#proxy = proxy;
    this.#subject = subject;
    this.#claims = claims;
  }

  /** Makes a call. Returns its result, or nothing if it did not run. */
  async call(tool: string, args: Table = {}, extras: Table = {}): Promise<Table | undefined> {
    const token = await this.#proxy.token(this.#subject, this.#claims);
    const { isStopped, result } = await this.#proxy.call(token, tool, args, extras);
    if (isStopped) this.stopped += 1;
    return "result" in result ? (result.result as Table) : undefined;
  }

  /** Reads a text that somebody outside wrote: by default, a mail. */
  async reads(words: string, tool = "read_mail"): Promise<Table | undefined> {
    this.#proxy.incoming = words;
    return this.call(tool, tool === "read_mail" || tool === "read_ticket" ? { id: 7 } : {});
  }

  /** The same caller with other claims: another session, or an actor. */
  as(claims: Table): Agent {
    return new Agent(this.#proxy, this.#subject, claims);
  }

  /** Another caller for whom this one acts. */
  for(subject: string): Agent {
    return new Agent(this.#proxy, subject, { act: { sub: this.#subject } });
  }

  /** Another caller. */
  other(): Agent {
    return this.#proxy.newAgent();
  }

  tell(request: string): Promise<void> {
    return this.#proxy.tell(this.#subject, request);
  }

  /** Its labels end. */
  waits(): Promise<void> {
    return this.#proxy.forget(this.#subject);
  }
}

export function evaluationTool({ name, system, classification, input, dataFlow, ...facts }: ToolFacts) {
  const { output = { ok: z.boolean() }, target, handler } = facts;
  const reason = "the evaluation compares what agents read with what they send";
  return defineTool({
    ...{ name, description: `The tool ${name}`, classification },
    category: classification === "read" ? "read" : "network",
    permissions: { required: [PERMISSION] },
    input: z.strictObject(input),
    target: target ?? { system },
    ...(handler !== undefined && { handler }),
    output: z.strictObject(output),
    outputPolicy: Object.fromEntries(Object.keys(output).map((field) => [field, { action: "allow", reason }])),
    ...(dataFlow !== undefined && { dataFlow }),
  } as never);
}
