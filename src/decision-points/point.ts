import { canonicalJson, sha256Hex } from "../core/digest.ts";
import { errorText } from "../core/error-text.ts";
import { Refusal } from "../core/errors.ts";
import { hasExactNumbers, isTable } from "../core/json.ts";
import {
  ALLOWED,
  type GivenApproval,
  POINT_SECONDS,
  type PointState,
  type PolicyDecision,
  type PolicyRequests,
  type StagePoint,
  undecided,
} from "../core/policy-point.ts";
import type { WatchOptions } from "../core/target-kind.ts";
import type { EpochMs, Json, Tool } from "../core/types.ts";
import type { OpenedPoint, PointAnswer, PointQuestion } from "./kind.ts";

/** The settings that entries of all kinds share, and what the service lends a point. */
export interface PointOptions {
  readonly name: string;
  /** The key of its kind. */
  readonly kind: string;
  /** True when the point is another system. */
  readonly isRemote: boolean;
  readonly timeoutMs: number;
  readonly onAccessRequest: "deny" | "ask";
  /** Time for which an `allow` is kept; 0: none is. */
  readonly cacheSeconds: number;
  /** Returns whether the point decides about a tool. */
  readonly concerns: (tool: Tool) => boolean;
  /** Returns the arguments as far as the point may see them. @throws {Error} when they are not JSON */
  readonly argumentsOf: (tool: Tool, input: unknown) => PointQuestion["args"];
  /** Claims of the caller's token that the point may see, besides `client_id` and `azp`. */
  readonly claims: readonly string[];
  /** The tenant whose calls are decided: several may have the point from their service. Undefined: the service itself. */
  readonly tenant?: string | undefined;
  readonly now: () => EpochMs;
  /** Milliseconds, never decreasing. */
  readonly monotonic: () => number;
  readonly tally: PointTally;
}

type Request = PolicyRequests["elevation"];

/** Time beyond the point's own limit, which reports the cause, before the pipeline stops waiting. */
const GRACE_MS = 250;
const CACHED_MAX = 10_000;
const REASON_CHARACTERS_MAX = 300;
const KEY_LIMITS = { depthMax: 64, nodesMax: 1_000_000, bytesMax: 16_777_216 } as const;
const AGENT_CLAIMS: readonly string[] = ["client_id", "azp"];

/** A decision point of the configuration as a policy point of the stage `elevation`. */
export class ConfiguredPoint implements StagePoint<"elevation"> {
  readonly stage = "elevation";
  readonly name: string;
  readonly timeoutMs: number;
  /** Present where a denial may become a question to a person. */
  readonly confirm?: NonNullable<StagePoint<"elevation">["confirm"]>;
  readonly #opened: OpenedPoint;
  readonly #options: PointOptions;
  readonly #allowed: AllowedCalls | undefined;
  readonly #claims: ReadonlySet<string>;

  constructor(opened: OpenedPoint, options: PointOptions) {
    this.name = options.name;
    this.timeoutMs = options.timeoutMs + GRACE_MS;
    this.#opened = opened;
    this.#options = options;
    this.#allowed = options.cacheSeconds > 0 ? new AllowedCalls(options.cacheSeconds * 1_000, options.now) : undefined;
    this.#claims = new Set([...options.claims, ...AGENT_CLAIMS]);
    if (options.onAccessRequest === "ask") this.confirm = (request, approval) => this.#confirm(request, approval);
  }

  decide(request: Request): PolicyDecision | Promise<PolicyDecision> {
    if (!this.#options.concerns(request.tool)) return ALLOWED;
    return this.#measured(() => {
      const question = this.#questionOf(request);
      const key = this.#allowed?.keyOf(question);
      if (key !== undefined && this.#allowed?.has(key)) {
        this.#options.tally.cached += 1;
        return { allows: true, reasons: [] };
      }
      const answer = this.#opened.evaluate(question);
      if (key === undefined || !(answer instanceof Promise)) return answer;
      return answer.then((settled) => {
        if (settled.allows === true) this.#allowed?.add(key, question.caller.expiresAt * 1_000);
        return settled;
      });
    });
  }

  /** Returns what would be asked about a call; undefined when nothing would be. */
  preview(request: Request): Json | undefined {
    return this.#options.concerns(request.tool) ? this.#opened.preview(this.#questionOf(request)) : undefined;
  }

  state(): PointState {
    const { name, kind, tally } = this.#options;
    const { lastError, verdicts, errors, cached, counts, secondsSum } = tally;
    return {
      name,
      kind,
      ...this.#opened.state?.(),
      lastError,
      verdicts: { ...verdicts },
      errors,
      cached,
      seconds: { counts, sum: secondsSum },
    };
  }

  get isLocal(): boolean {
    return !this.#options.isRemote;
  }

  get readsMoment(): boolean {
    return this.#options.claims.length > 0 || this.#opened.readsMoment === true;
  }

  concerns(tool: Tool): boolean {
    return this.#options.concerns(tool);
  }

  get isRemote(): boolean {
    return this.#options.isRemote;
  }

  get tally(): PointTally {
    return this.#options.tally;
  }

  /** Observations for `stc check` that are not errors. */
  get notes(): readonly string[] {
    return this.#opened.notes ?? [];
  }

  /** Prepares the point for the tools that it decides about. Returns observations for `stc check`. */
  prepare(tools: readonly Tool[]): readonly string[] {
    const concerned = tools.filter(this.#options.concerns);
    const notes = concerned.length === 0 ? ["decides about no tool"] : (this.#opened.prepare?.(concerned) ?? []);
    return notes.map((note) => `decision point ${this.name}: ${note}`);
  }

  watch(options: WatchOptions): void {
    this.#opened.watch?.(options);
  }

  /** The revocation list has changed: a caller whose calls were allowed may be revoked. */
  revoked(): void {
    this.#allowed?.clear();
  }

  async close(): Promise<void> {
    this.#allowed?.clear();
    await this.#opened.close();
  }

  /** Only a plain `allow` confirms: a point cannot ask for another approval. Nothing here is cached. */
  #confirm(request: Request, approval: GivenApproval): PolicyDecision | Promise<PolicyDecision> {
    return this.#measured(async () => {
      const { mayAsk: _, ...answer } = await this.#opened.evaluate({ ...this.#questionOf(request), approval });
      return answer;
    });
  }

  /** @throws {Error} when the arguments are not JSON, or a claim is not exact */
  #questionOf({ tool, caller, input, traceId }: Request): PointQuestion {
    const { claims } = caller;
    const shown = claims && Object.entries(claims).filter(([name]) => this.#claims.has(name));
    const inexact = shown?.find(([, value]) => !hasExactNumbers(value));
    if (inexact !== undefined)
      throw new Error(`the claim ${inexact[0]} has a number beyond 2^53: issue it as a string`);
    const { tenant } = this.#options;
    return {
      tool,
      caller: { ...caller, claims: shown && Object.fromEntries(shown), tenant },
      args: this.#options.argumentsOf(tool, input),
      traceId,
    };
  }

  #measured(ask: () => PointAnswer | Promise<PointAnswer>): PolicyDecision | Promise<PolicyDecision> {
    const { monotonic } = this.#options;
    const startedAt = monotonic();
    const failed = (error: unknown): PolicyDecision => this.#decideFailure(error, startedAt);
    const settled = (answer: PointAnswer): PolicyDecision => {
      const decision = this.#decisionOf(answer);
      this.#options.tally.observe(decision.verdict, monotonic() - startedAt);
      return decision;
    };
    try {
      const answer = ask();
      return answer instanceof Promise ? answer.then(settled).catch(failed) : settled(answer);
    } catch (error) {
      return failed(error);
    }
  }

  /** @throws {Error} for an answer that a kind should not give */
  #decisionOf({ allows, reasons, mayAsk = false }: PointAnswer): PolicyDecision {
    if (allows === true) return ALLOWED;
    if (allows !== false) throw new Error("the answer is not a decision");
    if (!mayAsk || this.#options.onAccessRequest !== "ask") return { verdict: "deny", reasons };
    return { verdict: "requireApproval", reasons, rememberable: false };
  }

  #decideFailure(error: unknown, startedAt: number): PolicyDecision {
    const { name, now, monotonic, tally } = this.#options;
    const reason = reasonOf(error);
    tally.fail({ at: now(), reason }, monotonic() - startedAt);
    const cause = new Error(`decision point ${name} could not decide: ${reason}`, { cause: error });
    return undecided(`could not decide: ${reason}`, cause);
  }
}

/** Returns the reason in our own words. The hint of a refusal says more than its message, which is for agents. */
function reasonOf(error: unknown): string {
  const cause = error instanceof Refusal && isTable(error.cause) ? error.cause : {};
  const hints = [cause["hint"], cause["because"]].filter((text) => typeof text === "string");
  return (hints.length > 0 ? hints.join(": ") : errorText(error)).slice(0, REASON_CHARACTERS_MAX);
}

/** Counts of one point, which a reload hands on to the point of the same name. */
export class PointTally {
  readonly verdicts = { allow: 0, deny: 0, ask: 0 };
  readonly counts = new Float64Array(POINT_SECONDS.length + 1);
  secondsSum = 0;
  errors = 0;
  cached = 0;
  lastError: PointState["lastError"];

  observe(verdict: PolicyDecision["verdict"], ms: number): void {
    this.verdicts[verdict === "requireApproval" ? "ask" : verdict] += 1;
    this.#time(ms);
  }

  fail(error: NonNullable<PointState["lastError"]>, ms: number): void {
    this.verdicts.deny += 1;
    this.errors += 1;
    this.lastError = error;
    this.#time(ms);
  }

  #time(ms: number): void {
    this.secondsSum += ms / 1_000;
    let bucket = 0;
    while (bucket < POINT_SECONDS.length && ms > (POINT_SECONDS[bucket] ?? 0) * 1_000) bucket += 1;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
  }
}

/**
 * Calls that a point has allowed, by the digest of everything that a question may contain. They end with the caller's token, when
 * the revocation list changes, and with the configuration, which creates its points anew. Denials are not kept: a change of the
 * point's policy helps the next call.
 */
class AllowedCalls {
  readonly #forMs: number;
  readonly #now: () => EpochMs;
  /** Digest → the time at which it ends, and when it was added. */
  readonly #until = new Map<string, { readonly from: EpochMs; readonly until: EpochMs }>();
  #epoch = 0;

  constructor(forMs: number, now: () => EpochMs) {
    this.#forMs = forMs;
    this.#now = now;
  }

  /** The key belongs to the calls that are kept now: one that is made before a revocation adds nothing after it. */
  keyOf({ tool, caller, args }: PointQuestion): string {
    const { issuer, subject, actors, permissions, session, claims } = caller;
    const who = { issuer, subject, actors, permissions, session: session ?? null, claims: claims ?? null };
    return `${this.#epoch} ${sha256Hex(canonicalJson({ tool: tool.name, who, args: args ?? null }, KEY_LIMITS))}`;
  }

  has(key: string): boolean {
    const kept = this.#until.get(key);
    const now = this.#now();
    // A clock that was set back does not prolong what is kept.
    if (kept !== undefined && now >= kept.from && now < kept.until) return true;
    this.#until.delete(key);
    return false;
  }

  add(key: string, tokenEndsAt: EpochMs): void {
    if (!key.startsWith(`${this.#epoch} `)) return;
    const from = this.#now();
    this.#until.delete(key);
    this.#until.set(key, { from, until: Math.min(from + this.#forMs, tokenEndsAt) });
    const [oldest] = this.#until.keys();
    if (this.#until.size > CACHED_MAX && oldest !== undefined) this.#until.delete(oldest);
  }

  clear(): void {
    this.#epoch += 1;
    this.#until.clear();
  }
}
