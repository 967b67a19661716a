import { randomUUID } from "node:crypto";
import { createInterface } from "node:readline/promises";
import { Refusal } from "../../core/errors.ts";
import type { RegisteredTool } from "../../core/evidence.ts";
import { isTable, kindAt } from "../../core/json.ts";
import { PartialAnswer } from "../../core/partial-answer.ts";
import { withoutAbsentNulls } from "../../core/schema/absent-nulls.ts";
import type { CallerContext, ExecutionPlan, Json, RunContext } from "../../core/types.ts";
import { MODULES } from "../../modules.ts";
import type { Parts } from "../../runtime/composition/wiring.ts";
import { assemble } from "../../runtime/composition/wiring.ts";
import type { Config } from "../../runtime/config/config.ts";
import { agentIssuers, callersTenant } from "../../runtime/config/tenants.ts";
import { judge } from "../../runtime/replay/judge.ts";
import { argumentsIn } from "../arguments.ts";
import { type ConfigurationOptions, configuration, findTool } from "../configuration.ts";
import { filterSample, pathText, tried, Withheld } from "../filter.ts";
import { CommandError, EXIT, print, wrongUsage } from "../output.ts";
import type { Attempt } from "./attempt.ts";
import { causesOf } from "./causes.ts";
import { credentialsIn, withoutCredentials } from "./credentials.ts";
import { type Denial, denialsIn } from "./denials.ts";

interface TryOptions extends ConfigurationOptions {
  readonly yes?: boolean;
  readonly json?: boolean;
  readonly sub?: string;
}

const PLAN_TIMEOUT_MS = 30_000;

/**
 * `stc try`: runs a tool once, on this machine, and shows its author what the agent must not see. Applies no permission, approval,
 * quota or limit of rate, and writes nothing: no audit, no approval store.
 */
export async function tryTool(name: string, args: string, options: TryOptions): Promise<void> {
  const sent = argumentsIn(args);
  const { config, start } = await configuration(options);
  // On the development stand, the service may be running already, with its own targets.
  const stop = await start().catch(() => async () => {});
  const attempt: Attempt = { tool: name, ok: false, observed: [], timings: [] };
  try {
    const parts = await assemble(config, MODULES, {
      onUpstream: ({ system, type, reason }) =>
        attempt.observed.push({ what: "MCP server", facts: { system, [type]: reason } }),
    });
    try {
      await tryWith(parts, config, { attempt, sent, options });
    } finally {
      await parts.close();
    }
  } finally {
    await stop();
  }
}

interface Trial {
  readonly attempt: Attempt;
  readonly sent: Readonly<Record<string, unknown>>;
  readonly options: TryOptions;
}

async function tryWith(parts: Parts, config: Config, { attempt, sent, options }: Trial): Promise<void> {
  const found = findTool(parts, attempt.tool, config);
  await confirm(found, options);
  const caller = callerFor(found, config, options);
  const isOk = await new Trying(attempt, { parts, config, found, caller }).run(sent);
  const { system } = found.tool.target;
  // Servers of other tools are started too, and write something.
  const observed = attempt.observed.filter(({ what, facts }) => what !== "MCP server" || facts["system"] === system);
  const shown = withoutCredentials({ ...attempt, ok: isOk, observed }, credentialsIn(config)) as Attempt;
  if (options.json === true) print.json(jsonOf(shown));
  else (await import("./attempt-view.ts")).showAttempt(shown, found.tool);
  if (!isOk) process.exitCode = EXIT.failed;
}

/** Asks before a tool runs that can change something. */
async function confirm({ tool }: RegisteredTool, { yes }: TryOptions): Promise<void> {
  if (tool.classification === "read" || yes === true) return;
  const says = `${tool.name} is classified ${tool.classification}: it runs on the real target, and no approver is asked.`;
  if (process.stdin.isTTY !== true) return wrongUsage(`${says} Give --yes to run it.`);
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${says} Run it? Type yes: `);
    if (answer.trim() !== "yes") throw new CommandError(EXIT.failed, "not run");
  } finally {
    terminal.close();
  }
}

/** Returns a caller with every permission that the tool may need. */
function callerFor({ tool }: RegisteredTool, config: Config, { sub }: TryOptions): CallerContext {
  const { required, elevatedIf } = tool.permissions;
  const [first] = agentIssuers(config);
  return {
    issuer: first?.issuer ?? "(issuer)",
    subject: sub ?? "stc-try",
    tenant: callersTenant(config),
    actors: [],
    expiresAt: Number.MAX_SAFE_INTEGER,
    permissions: [...required, ...(elevatedIf?.required ?? [])],
  };
}

interface TryingParts {
  readonly parts: Parts;
  readonly config: Config;
  readonly found: RegisteredTool;
  readonly caller: CallerContext;
}

/** Runs the stages of one call, and keeps what each of them did. */
class Trying {
  readonly #attempt: Attempt;
  readonly #with: TryingParts;
  readonly #observe = (what: string, facts: Readonly<Record<string, unknown>>): void =>
    void this.#attempt.observed.push({ what, facts: shownFacts(facts) });

  constructor(attempt: Attempt, parts: TryingParts) {
    this.#attempt = attempt;
    this.#with = parts;
  }

  /** Returns whether an agent would have got an answer. */
  async run(sent: Readonly<Record<string, unknown>>): Promise<boolean> {
    try {
      return await this.#stages(sent);
    } catch (error) {
      const refusal = error instanceof Refusal ? error : undefined;
      this.#attempt.refusal = {
        code: refusal?.code ?? "INTERNAL",
        message: refusal?.message ?? "The call failed inside the service.",
        ...(refusal?.details !== undefined && { details: refusal.details }),
      };
      this.#attempt.causes = causesOf(error);
      return false;
    } finally {
      this.#attempt.denials = this.#denials();
    }
  }

  async #stages(sent: Readonly<Record<string, unknown>>): Promise<boolean> {
    const { found, parts, caller } = this.#with;
    const { tool, binding } = found;
    const parsed = await this.#timed("validation", () => {
      const asSent = tool.input.safeParse(sent);
      // As for agents: null for an optional argument means that it is absent.
      return asSent.success ? asSent : tool.input.safeParse(withoutAbsentNulls(tool.input, sent as Json));
    });
    if (!parsed.success) {
      this.#attempt.issues = parsed.error.issues.map((issue) => ({
        path: pathText(issue.path) || "(arguments)",
        message: issue.message,
        received: kindAt(sent, issue.path),
      }));
      const message = "The arguments do not match the tool's input schema.";
      this.#attempt.refusal = { code: "INVALID_INPUT", message };
      return false;
    }
    const input: unknown = parsed.data;
    this.#attempt.input = input;
    const plan = await this.#timed("plan", () =>
      binding.plan(input, { signal: AbortSignal.timeout(PLAN_TIMEOUT_MS), observe: this.#observe }),
    );
    this.#attempt.plan = binding.preview?.(plan) ?? plan;
    this.#attempt.notApplied = await this.#policies(sent, plan);
    const stop = new AbortController();
    const onSignal = (): void => stop.abort();
    // Not `once`: on Ctrl-C, the terminal and the launcher of the package each send the signal.
    process.on("SIGINT", onSignal);
    const context: RunContext = {
      signal: AbortSignal.any([AbortSignal.timeout(tool.timeoutMs), stop.signal]),
      deadline: Date.now() + tool.timeoutMs,
      traceId: randomUUID(),
      caller,
      observe: this.#observe,
    };
    const raw = await this.#timed("run", () => binding.run(plan, context)).finally(() => {
      process.off("SIGINT", onSignal);
    });
    const answer = PartialAnswer.is(raw) ? raw.kept : raw;
    if (PartialAnswer.is(raw))
      this.#observe("limit", { note: "the answer is over a limit: only its beginning was read" });
    this.#attempt.raw = answer;
    const filtered = await this.#timed("output", () => tried(() => filterSample(found, parts.detector, answer)));
    if (filtered instanceof Withheld) {
      this.#attempt.withheld = { code: filtered.code, issues: filtered.issues };
      return false;
    }
    if (filtered instanceof Error) throw filtered;
    this.#attempt.released = filtered;
    return true;
  }

  async #timed<T>(stage: string, work: () => T | Promise<T>): Promise<T> {
    const from = performance.now();
    try {
      return await work();
    } finally {
      this.#attempt.timings.push({ stage, ms: Math.round((performance.now() - from) * 100) / 100 });
    }
  }

  /** Returns what policies would say. Points that are other systems are not asked. */
  async #policies(sent: unknown, plan: ExecutionPlan): Promise<NonNullable<Attempt["notApplied"]>> {
    const { parts, config, found, caller } = this.#with;
    const { mode } = config.approvals;
    const call = { tool: found.tool.name, caller, mode, plan, args: { kind: "sent", value: sent } as const };
    const judged = await judge({ parts, config, asks: ({ isLocal }) => isLocal === true }, call);
    const reasons = judged.statements
      .filter(({ verdict }) => verdict !== "allow")
      .map(
        ({ point, verdict, reasons: why }) => `${point}: ${verdict}${why.length === 0 ? "" : ` (${why.join("; ")})`}`,
      );
    return { verdict: [...judged.verdicts].sort().join(" or "), reasons, permissions: caller.permissions };
  }

  #denials(): readonly Denial[] {
    const { plan, observed } = this.#attempt;
    if (!isTable(plan)) return [];
    const stderr = observed.flatMap(({ what, facts }) => (what === "process" ? [String(facts["stderr"] ?? "")] : []));
    const { confinement, command, cwd } = plan;
    return denialsIn({ stderr: stderr.join("\n"), confinement, command: String(command), cwd: String(cwd) });
  }
}

/** Returns facts as JSON: bytes as text, errors as their chains of causes. */
function shownFacts(facts: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const shown = Object.entries(facts).map(([name, value]) => {
    if (value instanceof Uint8Array) return [name, new TextDecoder().decode(value)];
    if (value instanceof Error) return [name, causesOf(value)];
    return [name, value];
  });
  return Object.fromEntries(shown);
}

/** Returns the attempt as JSON; values that JSON does not know become texts. */
function jsonOf(attempt: Attempt): unknown {
  const seen = (_: string, value: unknown): unknown => (typeof value === "bigint" ? String(value) : value);
  return JSON.parse(JSON.stringify(attempt, seen));
}
