import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { parse, stringify } from "yaml";
import { manifestOf } from "../../../src/cli/import/mcp.ts";
import { zodFromJson } from "../../../src/core/json-schema/zod.ts";
import { otherKey } from "../../../src/core/output-policy/field-path.ts";
import { pathOf, policyFields } from "../../../src/core/output-policy/output-fields.ts";
import type { ToolDraft } from "../../../src/core/target-kind.ts";
import type { Json } from "../../../src/core/types.ts";
import type { Approval, ToolCallResult } from "../../../src/index.ts";
import { auditEntries } from "../../support/audit-files.ts";
import { assemble, readConfig, wire } from "../../support/build.ts";
import { LiveIssuers } from "../../support/live-tokens.ts";
import { AGENTS_ISSUER } from "../../support/tokens.ts";

const PROGRAM = join(import.meta.dir, "suites.py");
const SYSTEM = "dojo";
const PERMISSION = "dojo:use";
const CLOSE_GRACE_MS = 10_000;

/** Reads what the provider shows to everybody. The tools of the evaluation itself are not part of what is measured. */
const PUBLIC: Declaration = { classification: "read" };
/** A declaration says everything: what it leaves out is not the case. */
const NOTHING = { reads: [], sends: [] };

type Table = Readonly<Record<string, unknown>>;

interface Declaration {
  readonly classification?: string;
  readonly dataFlow?: Table;
}

export interface StandOptions {
  readonly python: string;
  readonly version: string;
  readonly suite: string;
  /** The section `dataFlow` of the configuration; undefined: manifests and configuration have none. */
  readonly dataFlow: Table | undefined;
  /** Replaces declarations of `declarations.yaml`. */
  readonly declarations?: Readonly<Record<string, Declaration>>;
}

export interface Agent {
  readonly subject: string;
  readonly token: string;
}

/** A call and what became of it. */
export interface Called {
  readonly tool: string;
  readonly args: Table;
  /** Code of the refusal; `success` or `pending` otherwise. */
  readonly outcome: string;
  readonly result: Json | undefined;
  readonly traceId: string;
  /** The approval request, as approvers see it. */
  readonly asked: Approval | undefined;
}

/**
 * One suite of AgentDojo behind the proxy: the whole pipeline with a SQLite store and the audit on disk, in front of an MCP server
 * that holds the suite's environment. The tools are data-only manifests, drafted from the server's definitions, with the declarations
 * of `declarations.yaml`.
 */
export class Stand {
  readonly #options: StandOptions;
  readonly #folder = mkdtempSync(join(realpathSync(tmpdir()), "stc-agentdojo-"));
  readonly #issuers = new LiveIssuers();
  #service: Awaited<ReturnType<typeof wire>> | undefined;
  #agents = 0;

  constructor(options: StandOptions) {
    this.#options = options;
  }

  async start(): Promise<this> {
    const tools = join(this.#folder, "tools");
    mkdirSync(tools);
    const declared = {
      ...(parse(readFileSync(join(import.meta.dir, "declarations.yaml"), "utf8")) as Record<string, Declaration>),
      ...this.#options.declarations,
    };
    for (const draft of await this.#drafts()) {
      const declaration = declared[draft.name] ?? PUBLIC;
      const { dataFlow, ...others } = declaration;
      const isFollowed = this.#options.dataFlow !== undefined;
      const text = manifest(draft, isFollowed ? { ...others, dataFlow: { ...NOTHING, ...dataFlow } } : others);
      writeFileSync(join(tools, `${draft.name}.tool.yaml`), text);
    }
    const { dataFlow } = this.#options;
    this.#service = await wire(this.#read({ ...this.#configuration([tools]), ...(dataFlow && { dataFlow }) }));
    return this;
  }

  #read(written: Table) {
    return readConfig(written, { folder: this.#folder, environment: { PATH: "" }, origin: "evaluation" });
  }

  #configuration(tools: readonly unknown[]) {
    const { python, version, suite } = this.#options;
    const reads = [dirname(dirname(python)), dirname(dirname(realpathSync(python))), import.meta.dir];
    const mcp = {
      ...{ command: python, args: [PROGRAM, "serve", version, suite], reads, startSeconds: 120, idleSeconds: 3_600 },
      // All agents share the environment, which is replaced between tasks.
      stateless: true,
      env: { PYTHONDONTWRITEBYTECODE: "1" },
    };
    return {
      tools,
      audit: { dir: "audit" },
      jwt: { issuers: this.#issuers.profiles() as never },
      systems: { [SYSTEM]: { mcp } },
      commands: { confinement: "prefer" as const, launchers: 0 },
      // Nothing but the policies below the modes asks: what is counted comes from them.
      approvals: { store: "sqlite://./approvals.sqlite", mode: "yolo" as const },
    };
  }

  async #drafts(): Promise<readonly ToolDraft[]> {
    const parts = await assemble(this.#read(this.#configuration(["."])));
    try {
      const drafts = await parts.targets.drafts("mcp", SYSTEM);
      if (drafts === undefined || typeof drafts === "string") throw new Error(`no tools: ${drafts}`);
      return drafts;
    } finally {
      await parts.close();
    }
  }

  #token(sub: string, claims: Table = {}): Promise<string> {
    return this.#issuers.token({ kind: "good", sub, permissions: [PERMISSION], claims });
  }

  /** Returns an agent that has read nothing yet. */
  async newAgent(): Promise<Agent> {
    this.#agents += 1;
    return this.agent(`agent-${this.#agents}`);
  }

  /** Returns an agent by its subject, with other claims in its token: a session, or an actor. */
  async agent(subject: string, claims: Table = {}): Promise<Agent> {
    return { subject, token: await this.#token(subject, claims) };
  }

  /** As when the labels of an agent have ended. */
  async forget({ subject }: Pick<Agent, "subject">): Promise<void> {
    await this.#running.dataFlow()?.clear({ issuer: AGENTS_ISSUER, subject });
  }

  /** Tells the proxy what the user asked an agent to do, as `POST /data-flow/requests` does. */
  async tell({ subject }: Agent, text: string): Promise<void> {
    await this.#running.dataFlow()?.vouch({ issuer: AGENTS_ISSUER, subject }, text);
  }

  /** Makes a call as an agent. With `isApproved`, a person approves it when it asks, and it is made again. */
  async call(
    { token }: Pick<Agent, "token">,
    { tool, args }: Pick<Called, "tool" | "args">,
    { isApproved }: { readonly isApproved: boolean },
  ): Promise<Called> {
    const { approvals } = this.#running;
    const first = await this.#made(token, { tool, args });
    if (first.status !== "pending") return called(tool, args, first, undefined);
    const { id } = first.approval;
    const asked = await approvals?.get(id);
    if (approvals === undefined || asked === undefined)
      throw new Error(`the approval request of ${tool} is not stored`);
    const by = { issuer: "https://people.test", subject: "a person" };
    const decision = await approvals.decide({ id, by, decision: isApproved ? "approve" : "deny" });
    if (decision.outcome !== "decided")
      throw new Error(`the approval of ${tool} was not accepted: ${decision.outcome}`);
    if (!isApproved) return called(tool, args, first, asked);
    return called(tool, args, await this.#made(token, { tool, args, approvalId: id }), asked);
  }

  async #made(
    token: string,
    call: Pick<Called, "tool" | "args"> & { readonly approvalId?: string },
  ): Promise<ToolCallResult> {
    const request = { ...call, authorization: `Bearer ${token}`, source: "evaluation" };
    return (await this.#running.proxy.call(request)).result as ToolCallResult;
  }

  /** Starts a user task in a new environment. Returns what the user asks for. */
  async reset(user: string, injections: Readonly<Record<string, string>>): Promise<string> {
    const { result } = (await this.#own("eval_reset", { user, injections })) as { readonly result: string };
    return result;
  }

  /** Returns what AgentDojo says about the state: whether the user's task is solved, and whether the attacker's goal is reached. */
  async judge(injection: string): Promise<{ readonly utility: boolean; readonly reached: boolean }> {
    const judged = await this.#own("eval_judge", { injection });
    return judged as { readonly utility: boolean; readonly reached: boolean };
  }

  async #own(tool: string, args: Table): Promise<unknown> {
    const { outcome, result } = await this.call(
      { token: await this.#token("evaluation") },
      { tool, args },
      { isApproved: true },
    );
    if (outcome !== "success") throw new Error(`${tool}: ${outcome}`);
    return result;
  }

  get #running() {
    if (this.#service === undefined) throw new Error("is not started");
    return this.#service;
  }

  /** Entries of the audit, by trace id. */
  audit(): ReadonlyMap<string, ReturnType<typeof auditEntries>[number]> {
    return new Map(auditEntries(join(this.#folder, "audit")).map((entry) => [entry.traceId, entry]));
  }

  async end(): Promise<void> {
    await this.#service?.close(CLOSE_GRACE_MS);
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function called(tool: string, args: Table, result: ToolCallResult, asked: Approval | undefined): Called {
  const outcome = "error" in result ? result.error.code : result.status;
  const { traceId } = result;
  return { tool, args, outcome, result: "result" in result ? (result.result as Json) : undefined, traceId, asked };
}

/** Returns the text of a manifest: the server's definition, with everything released, and the operator's declaration. */
function manifest(draft: ToolDraft, { classification = "write", dataFlow }: Declaration): string {
  const written = parse(manifestOf(draft.name, SYSTEM, { ...draft, accepted: true })) as Record<string, unknown>;
  const { scan: _, ...kept } = written;
  const fields = policyFields({ output: zodFromJson("output", written["output"]).schema, outputPolicy: {} }).map(
    ({ steps }) => pathOf(steps.includes(otherKey) ? steps.slice(0, steps.indexOf(otherKey)) : steps),
  );
  const reason = "The evaluation compares what agents read with what they send.";
  return stringify(
    {
      ...kept,
      classification,
      category: classification === "read" ? "read" : "network",
      permissions: { required: [PERMISSION] },
      outputPolicy: Object.fromEntries(fields.map((field) => [field, { action: "allow", reason }])),
      ...(dataFlow !== undefined && { dataFlow }),
    },
    { aliasDuplicateObjects: false },
  );
}
