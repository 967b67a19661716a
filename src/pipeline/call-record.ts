import { type Announced, type EntryDraft, UNSTAMPED } from "../audit/entry.ts";
import { escapeName } from "../audit/escape.ts";
import { canonicalJson, NotJsonError } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import type { AnyEvidence, CallOutcome, Elevated, Receipt, Verified } from "../core/evidence.ts";
import { ARGUMENT_LIMITS } from "../core/json.ts";
import { REFUSALS, type Stage } from "../core/refusals.ts";
import type { CallTrace, TraceEnd, Tracer } from "../core/tracing.ts";
import type { CallerContext, Json, KeyUse, Tool } from "../core/types.ts";
import type { DataFlowPolicy } from "../data-flow/flow.ts";
import { DETECTOR, type Detector } from "../detection/sensitive.ts";
import type { HaltableCall } from "../halts/halt.ts";
import type { CallBudget } from "../quotas/quotas.ts";
import { CallFlow } from "./call-flow.ts";
import type { CallRequest } from "./call-request.ts";
import { type CallScope, CallScopes, type CallScopesOptions } from "./call-scope.ts";
import { grantSession, sessionText } from "./call-session.ts";
import { isJudged, verdictOf } from "./dry-run.ts";
import {
  approvalFacts,
  argumentFacts,
  callerFacts,
  decisionFacts,
  denialFacts,
  type Facts,
  planFacts,
  protocolFacts,
  responseFacts,
  traceFacts,
  wireTrace,
} from "./entry-facts.ts";
import type { Execution } from "./executor.ts";
import { bearerToken } from "./identity/reader.ts";
import { textWithoutSecrets } from "./redactor.ts";

/** The stages that are timed. PLAN counts as EXECUTION when it refuses. */
type Step = Stage | "PLAN";

/** Stages that only read memory. Their time counts as zero: it is added to the next stage, which saves reading the clock. */
const INSTANT: Readonly<Partial<Record<Step, true>>> = { REQUEST: true, REGISTRY: true, LIMIT: true };

type Latest<Record> = { -readonly [Name in keyof Record]: Record[Name] | undefined };

export interface CallRecordOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds from an arbitrary origin, never decreasing. */
  readonly monotonic: () => number;
  /** Returns a new UUIDv7. */
  readonly ids: () => string;
  /** Hashes the canonical text of the arguments, or the body of a request that is not a call. */
  readonly hashArgs: (sent: string | Uint8Array) => string;
  readonly hashAlg: string;
  /** Makes the entry durable. */
  readonly record: (entry: EntryDraft, request: CallRequest) => Promise<Receipt>;
  /** Receives every recorded entry. */
  readonly observe: (entry: EntryDraft) => void;
  readonly log: (line: CallRecordLog) => void;
  readonly tracer?: Tracer | undefined;
  /** Returns why a call must not start: it is halted, or the halts are not known. */
  readonly refusalFor?: CallScopesOptions["refusalFor"];
}

export interface CallRecordLog {
  /** "debug" for refused unauthenticated clients, because operators need those lines only when they look for them. */
  readonly level: "debug" | "info" | "error";
  readonly traceId: string;
  /** The W3C ids of the call, for other logs and traces. */
  readonly trace: { readonly traceId: string; readonly spanId?: string | undefined };
  readonly tool: string;
  readonly code: string;
  readonly cause: unknown;
}

export interface Consumed {
  readonly approvalId: string | undefined;
  readonly keyUse: KeyUse | undefined;
}

export interface CallRecords {
  start(request: CallRequest): CallRecord;
  /** Ends every call that is being planned or executed. */
  shutDown(): void;
  /** Ends the calls for which `refusalFor` returns a refusal. */
  halt: CallScopes["halt"];
}

export function createCallRecords(options: CallRecordOptions): CallRecords {
  const scopes = new CallScopes(options);
  return {
    start: (request) => new CallRecord(options, request, scopes),
    shutDown: () => scopes.shutDown(),
    halt: (refusalFor) => scopes.halt(refusalFor),
  };
}

/** The record of one call: times the stages, keeps their evidence and writes the audit entry. It makes no decisions. */
export class CallRecord {
  readonly traceId: string;
  readonly request: CallRequest;
  /** Names of the arguments that contained a secret; known once the audit entry is written. */
  secretsSent: readonly string[] | undefined;
  /** Finds secrets by the rules of the configuration snapshot that the call uses. */
  detector: Detector = DETECTOR;
  /** Digest of the configuration snapshot that the call uses. */
  #policyVersion: string | undefined;
  #sessionMode: EntryDraft["sessionMode"];
  /** Follows what the caller has read; undefined where data flow is off, and before the arguments are parsed. */
  flow: CallFlow | undefined;
  readonly #options: CallRecordOptions;
  readonly #startedAt: number;
  readonly #stages: Partial<Record<Step, number>> = {};
  readonly #cleanups: (() => void)[] = [];
  readonly #facts: Latest<Facts> = {
    registered: undefined,
    caller: undefined,
    input: undefined,
    digest: undefined,
    plan: undefined,
    by: undefined,
    approvalId: undefined,
    keyUse: undefined,
    findings: undefined,
  };
  #step: Step = "REQUEST";
  #stepAt: number;
  #duration = 0;
  /** Set when the intent is written: a changing call's arguments are hashed and searched for secrets only once. */
  #requestFacts: EntryDraft["request"] | undefined;
  #argsText: string | undefined;
  #recorded: EntryDraft | undefined;
  readonly #scopes: CallScopes;
  #scope: CallScope | undefined;
  readonly #trace: CallTrace | undefined;

  constructor(options: CallRecordOptions, request: CallRequest, scopes: CallScopes) {
    this.#scopes = scopes;
    this.#options = options;
    this.request = request;
    this.#argsText = request.argsText;
    this.traceId = options.ids();
    this.#startedAt = this.#stepAt = options.monotonic();
    this.#trace = options.tracer?.begin({ callId: this.traceId, request, at: this.#startedAt });
  }

  /** Starts a stage, whose evidence is kept next. */
  at(step: Step): this {
    this.#enter(step);
    return this;
  }

  /** Returns the configuration snapshot, which the call uses from now on and leaves when it ends. */
  use<Used extends UsedSnapshot>(snapshot: Used): Used {
    this.detector = snapshot.detector;
    this.#policyVersion = snapshot.version;
    this.atEnd(() => snapshot.leave?.());
    return snapshot;
  }

  /** Follows what the caller has read, and what the call's answer adds to it. `policy` is undefined where data flow is off. */
  follow(policy: DataFlowPolicy | undefined, { tool, caller }: Elevated): void {
    const { traceId } = this;
    const args = () => argumentFacts(this.#facts, this.detector).args;
    const session = grantSession({ caller, named: this.request.session });
    this.flow = policy && new CallFlow(policy, { tool, caller, args, traceId, session });
  }

  /** Keeps the mode that an operator has set for the call's session. */
  noteMode(mode: EntryDraft["sessionMode"]): void {
    this.#sessionMode = mode;
  }

  /** Monotonic time at which the current stage started, in milliseconds. */
  get steppedAt(): number {
    return this.#stepAt;
  }

  /** `cleanup` runs when the call ends, whatever its outcome. */
  atEnd(cleanup: () => void): void {
    this.#cleanups.push(cleanup);
  }

  /** Opens the scope that begins with the stage PLAN. */
  openScope(timeoutMs: number): CallScope {
    this.#enter("PLAN");
    const { disconnect } = this.request;
    const scope = this.#scopes.open({ timeoutMs, disconnect, call: this.haltable, now: this.#stepAt });
    this.#scope = scope;
    this.atEnd(() => scope.close());
    return scope;
  }

  execution(scope: CallScope, budget?: CallBudget): Execution {
    const { traceId, detector } = this;
    const { traceparent, tracestate } = this.request;
    const trace = this.#trace;
    return {
      scope,
      traceId,
      traceparent: trace === undefined ? traceparent : trace.traceparent,
      tracestate,
      requests: trace?.requests,
      callerToken: () => {
        const { authorization } = this.request;
        return authorization === undefined ? undefined : bearerToken(authorization);
      },
      detector,
      budget,
      beforeChange: () => this.flow?.beforeChange(),
      announced: () => this.#announced(),
    };
  }

  /** Names the caller of a rejected request when its token is valid. */
  async identify(verify: () => Verified | Promise<Verified>): Promise<void> {
    if (this.request.authorization === undefined && this.request.certificate === undefined) return;
    try {
      this.keep(await verify());
    } catch {
      // The request is already refused; its sender stays "anonymous".
    }
  }

  /**
   * Returns the canonical JSON text of the arguments, which is computed once.
   * @throws NotJsonError
   */
  get argsText(): string {
    this.#argsText ??= canonicalJson(this.request.args, ARGUMENT_LIMITS);
    return this.#argsText;
  }

  /** Takes these as the arguments: the call is the same as one that was sent with them. */
  readAs(args: Json): void {
    this.#argsText = canonicalJson(args, ARGUMENT_LIMITS);
  }

  /** True when anything may have run. */
  get ran(): boolean {
    return this.#stages.EXECUTION !== undefined || this.#step === "EXECUTION";
  }

  /** True when the target has got the plan. */
  get hasStarted(): boolean {
    return this.#scope?.isRunning === true;
  }

  /** The call as halts judge it; undefined until its tool and its caller are known. */
  get haltable(): HaltableCall | undefined {
    const { caller } = this.#facts;
    const tool = this.#tool;
    return tool && caller && { tool, caller, session: this.request.session };
  }

  get safeToRepeat(): boolean {
    const tool = this.#tool;
    return tool !== undefined && (tool.classification === "read" || tool.idempotent);
  }

  get changes(): boolean {
    return this.#tool?.classification !== "read";
  }

  /** Returns the approval and the idempotency key that this call has consumed since it last waited. */
  consumed(): Consumed | undefined {
    const { approvalId, keyUse } = this.#facts;
    return approvalId === undefined && keyUse === undefined ? undefined : { approvalId, keyUse };
  }

  /** True when the call changed files of the workspace, or may have changed them. */
  get wroteFiles(): boolean {
    return this.ran && this.changes && this.#facts.registered?.binding.writesFiles === true;
  }

  /** Releases the call's capacity while an approver is asked. */
  releaseCapacity(): void {
    for (const clean of this.#cleanups.splice(0)) clean();
    this.#facts.approvalId = undefined;
    this.#facts.keyUse = undefined;
  }

  /** The caller, once its token is verified. */
  get caller(): CallerContext | undefined {
    return this.#facts.caller;
  }

  get durationMs(): number {
    return this.#duration;
  }

  stageOf(refusal: Refusal): Stage {
    if (refusal.code !== "INTERNAL") return REFUSALS[refusal.code].stage;
    return this.#step === "PLAN" ? "EXECUTION" : this.#step;
  }

  /** Writes the audit entry. Resolves when it is on disk. */
  close(outcome: CallOutcome): Promise<Receipt> {
    // The record stays at the step that ended the call.
    this.#endStep("AUDIT");
    this.#duration = round(this.#stepAt - this.#startedAt);
    for (const clean of this.#cleanups) clean();
    const entry = this.#entry(outcome);
    if (outcome instanceof Refusal && outcome.cause !== undefined) {
      this.#log(this.#levelOf(outcome), outcome.code, outcome.cause);
    }
    this.#recorded = entry;
    const recording = this.#options.record(entry, this.request);
    const { monotonic } = this.#options;
    return this.#trace === undefined ? recording : endTrace(this.#trace, { entry, recording, monotonic });
  }

  /** Reports the entry, once it is on disk. */
  report(): void {
    if (this.#recorded !== undefined) this.#options.observe(this.#recorded);
  }

  #levelOf({ code }: Refusal): CallRecordLog["level"] {
    // Below 500, the caller is the cause: a missing file, an argument that the target rejects, a disconnect.
    if (REFUSALS[code].decision === "ERROR" && REFUSALS[code].http >= 500) return "error";
    return this.#facts.caller === undefined ? "debug" : "info";
  }

  logUnsettled(cause: unknown): void {
    this.#log("error", "APPROVAL_UNAVAILABLE", cause);
  }

  logUnrecorded(cause: unknown): void {
    this.#log("error", "AUDIT_UNAVAILABLE", cause);
  }

  #log(level: CallRecordLog["level"], code: string, cause: unknown): void {
    const trace = this.#trace ?? wireTrace(this.traceId, this.request.traceparent);
    this.#options.log({ level, traceId: this.traceId, trace, tool: this.#tool?.name ?? "unknown", code, cause });
  }

  /** Starts timing a step. Consecutive runs of the same step are timed as one. */
  #enter(step: Step): void {
    if (step === this.#step) return;
    this.#endStep(step);
    this.#step = step;
  }

  /** Adds the time since the current step started to it. The time of the next one starts now. */
  #endStep(next: Step): void {
    const isInstant = INSTANT[this.#step] === true && next !== "AUDIT";
    const now = isInstant ? this.#stepAt : this.#options.monotonic();
    this.#stages[this.#step] = round((this.#stages[this.#step] ?? 0) + now - this.#stepAt);
    this.#stepAt = now;
    this.#trace?.enter(next, now);
  }

  /** Keeps the facts that the evidence of the current stage adds. */
  keep<E extends AnyEvidence>(evidence: E): E {
    const facts = this.#facts;
    const added = evidence as Partial<Facts>;
    switch (this.#step) {
      case "REGISTRY":
        facts.registered = added.registered ?? facts.registered;
        break;
      case "REQUEST":
      case "AUTH":
        facts.caller = added.caller;
        break;
      case "VALIDATION":
        facts.input = added.input ?? facts.input;
        facts.keyUse = added.keyUse ?? facts.keyUse;
        facts.by = added.by ?? facts.by;
        break;
      case "PLAN":
        facts.plan = added.plan;
        facts.digest = added.digest;
        break;
      case "PERMISSION":
        facts.findings = added.findings ?? facts.findings;
        break;
      case "APPROVAL":
        facts.findings = added.findings ?? facts.findings;
        facts.by = added.by ?? facts.by;
        facts.approvalId = added.approvalId ?? facts.approvalId;
        break;
    }
    return evidence;
  }

  get #tool(): Tool | undefined {
    return this.#facts.registered?.tool;
  }

  #announced(): Announced {
    return {
      ...this.#asked(undefined),
      approval: approvalFacts(undefined, this.#facts.by, this.#facts.approvalId),
      plan: planFacts(this.#facts.digest, this.#facts.plan),
      trace: traceFacts(this.request.traceparent, this.#trace),
      keyHash: this.#facts.keyUse?.keyHash,
    };
  }

  /** Returns who asked for what, and by which configuration it is judged. */
  #asked(refusal: Refusal | undefined) {
    this.#requestFacts ??= this.#requestOf(refusal);
    return {
      ...UNSTAMPED,
      traceId: this.traceId,
      caller: callerFacts(this.#facts.caller),
      tool: this.#toolFacts(),
      request: this.#requestFacts,
      protocol: protocolFacts(this.request.protocol, this.detector),
      policyVersion: this.#policyVersion,
    };
  }

  #entry(outcome: CallOutcome): EntryDraft {
    const refusal = outcome instanceof Refusal ? outcome : undefined;
    return {
      ...this.#asked(refusal),
      decision: this.#decisionOf(outcome),
      dryRun: this.request.dryRun === true ? true : undefined,
      denial: refusal && denialFacts(refusal, this.stageOf(refusal), this.detector),
      decisionReasons: decisionFacts(refusal?.findings ?? this.#facts.findings),
      dataFlow: this.flow?.facts(),
      error: errorFacts(outcome),
      response: responseFacts(outcome),
      approval: approvalFacts(refusal, this.#facts.by, this.#facts.approvalId),
      sessionMode: this.#sessionMode,
      plan: planFacts(this.#facts.digest, this.#facts.plan),
      stages: this.#stages,
      trace: traceFacts(this.request.traceparent, this.#trace),
      duration: this.#duration,
    };
  }

  #decisionOf(outcome: CallOutcome): EntryDraft["decision"] {
    if (verdictOf(this.request, outcome) !== undefined) return "DRY_RUN";
    return outcome instanceof Refusal ? REFUSALS[outcome.code].decision : "ALLOWED";
  }

  /** Returns "" for arguments that are not JSON or exceed every endpoint's limits. */
  #sentText(): string {
    try {
      return this.argsText;
    } catch (error) {
      if (error instanceof NotJsonError) return "";
      throw error;
    }
  }

  #toolFacts(): EntryDraft["tool"] {
    const tool = this.#tool;
    return {
      name: tool?.name ?? textWithoutSecrets(escapeName(this.request.tool), this.detector) ?? "",
      classification: tool?.classification ?? "unknown",
      targetSystem: tool?.target.system ?? "unknown",
      argsDigest: this.#facts.registered?.argsDigest,
    };
  }

  #requestOf(refusal: Refusal | undefined): EntryDraft["request"] {
    const { session, callId, reason, body } = this.request;
    const { caller } = this.#facts;
    const { args, secrets } = argumentFacts(this.#facts, this.detector);
    this.secretsSent = secrets;
    return {
      args,
      argsHash: this.#options.hashArgs(
        refusal !== undefined && this.#step === "REQUEST" ? (body ?? "{}") : this.#sentText(),
      ),
      hashAlg: this.#options.hashAlg,
      session: textWithoutSecrets(sessionText({ caller, named: session }) || undefined, this.detector),
      callId: textWithoutSecrets(callId, this.detector),
      reason: textWithoutSecrets(reason, this.detector),
      secrets,
    };
  }
}

/** Returns the code of the refusal. A dry run that would ask a person has the one that the call would have had. */
function errorFacts(outcome: CallOutcome): EntryDraft["error"] {
  if (outcome instanceof Refusal) return { code: outcome.code };
  return isJudged(outcome) && outcome.verdict === "ask" ? { code: "APPROVAL_REQUIRED" } : undefined;
}

/** Rounds to the microsecond. */
function round(ms: number): number {
  return Math.round(ms * 1000) / 1000;
}

interface UsedSnapshot {
  readonly detector: Detector;
  readonly version: string;
  /** Undefined for work that is not a call. */
  leave?(): void;
}

interface Recording {
  readonly entry: EntryDraft;
  readonly recording: Promise<Receipt>;
  readonly monotonic: () => number;
}

const HTTP_OK = 200;

/** Waits for the audit entry and ends the call's trace. A call without an entry ends with the error that its answer reports. */
async function endTrace(trace: CallTrace, { entry, recording, monotonic }: Recording): Promise<Receipt> {
  let receipt: Receipt;
  try {
    receipt = await recording;
  } catch (error) {
    const code = "AUDIT_UNAVAILABLE";
    const { stage, decision, http } = REFUSALS[code];
    end(trace, { call: { ...entry, decision, error: { code }, denial: { stage } }, http, at: monotonic() });
    throw error;
  }
  const isAnswered = entry.error === undefined || entry.decision === "DRY_RUN";
  const http = isAnswered ? HTTP_OK : REFUSALS[entry.error.code].http;
  end(trace, { call: entry, http, at: monotonic() });
  return receipt;
}

function end(trace: CallTrace, traced: TraceEnd): void {
  try {
    trace.end(traced);
  } catch {
    // A recorded call is not refused because its trace is broken.
  }
}
