import type { Announced, EntryDraft } from "../audit/entry.ts";
import { escapeName } from "../audit/escape.ts";
import { REFUSALS, Refusal, type RefusalCode, type Stage } from "../core/errors.ts";
import type { AnyEvidence, CallOutcome, Receipt, Verified } from "../core/evidence.ts";
import { sanitizeInput } from "../core/manifest/input-policy.ts";
import type { CallTrace, TraceEnd, Tracer } from "../core/tracing.ts";
import type { Caller, KeyUse, Tool } from "../core/types.ts";
import { DETECTOR, type Detector } from "../detection/sensitive.ts";
import type { CallRequest } from "./call-request.ts";
import { CallScope } from "./call-scope.ts";
import {
  approvalFacts,
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
import { textWithoutSecrets, withoutSecrets } from "./redactor.ts";

/** The stages that are timed. PLAN counts as EXECUTION when it refuses. */
type Step = Stage | "PLAN";

export interface CallRecordOptions {
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Milliseconds from an arbitrary origin, never decreasing. */
  readonly monotonic: () => number;
  /** UUIDv7s. */
  readonly ids: () => string;
  readonly hashArgs: (sent: unknown) => string;
  readonly hashAlg: string;
  /** Makes the entry durable. */
  readonly record: (entry: EntryDraft, request: CallRequest) => Promise<Receipt>;
  /** Receives every recorded entry. */
  readonly observe: (entry: EntryDraft) => void;
  readonly log: (line: CallRecordLog) => void;
  readonly tracer?: Tracer | undefined;
}

/** Refusals that the caller causes: a missing file, an argument that the target rejects, a disconnect. */
const CAUSED_BY_CALLER: ReadonlySet<RefusalCode> = new Set(["TARGET_REFUSED", "CANCELLED"]);

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
}

export function createCallRecords(options: CallRecordOptions): CallRecords {
  const open = new Set<CallScope>();
  return {
    start: (request) => new CallRecord(options, request, open),
    shutDown: () => {
      for (const scope of open) scope.shutDown();
    },
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
  readonly #options: CallRecordOptions;
  readonly #startedAt: number;
  readonly #stages: Partial<Record<Step, number>> = {};
  readonly #cleanups: (() => void)[] = [];
  /** The evidence of the stages, latest last. */
  readonly #evidence: AnyEvidence[] = [];
  /** Length of `#evidence` when the call last waited. */
  #waitedAt = 0;
  #step: Step = "REQUEST";
  #stepAt: number;
  #duration = 0;
  /** Kept from the intent, so that the arguments of a changing call are hashed and searched for secrets only once. */
  #requestFacts: EntryDraft["request"] | undefined;
  readonly #open: Set<CallScope>;
  readonly #trace: CallTrace | undefined;

  constructor(options: CallRecordOptions, request: CallRequest, open: Set<CallScope>) {
    this.#open = open;
    this.#options = options;
    this.request = request;
    this.traceId = options.ids();
    this.#startedAt = this.#stepAt = options.monotonic();
    this.#trace = options.tracer?.begin({ callId: this.traceId, request, at: this.#startedAt });
  }

  /** Runs one stage and keeps its evidence. */
  at<E extends AnyEvidence | Promise<AnyEvidence>>(step: Step, run: () => E): E {
    this.#enter(step);
    const evidence = run();
    if (!(evidence instanceof Promise)) this.keep(evidence);
    return evidence;
  }

  /** `cleanup` runs when the call ends, whatever its outcome. */
  atEnd(cleanup: () => void): void {
    this.#cleanups.push(cleanup);
  }

  openScope(timeoutMs: number): CallScope {
    const scope = new CallScope({ timeoutMs, now: this.#options.clock, disconnect: this.request.disconnect });
    this.#open.add(scope);
    this.atEnd(() => {
      scope.close();
      this.#open.delete(scope);
    });
    return scope;
  }

  execution(scope: CallScope): Execution {
    const { traceId, detector } = this;
    const { traceparent, tracestate } = this.request;
    const trace = this.#trace;
    return {
      scope,
      traceId,
      traceparent: trace === undefined ? traceparent : trace.traceparent,
      tracestate,
      requests: trace?.requests,
      detector,
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

  /** True when anything may have run. */
  get ran(): boolean {
    return this.#stages.EXECUTION !== undefined || this.#step === "EXECUTION";
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
    let approvalId: string | undefined;
    let keyUse: KeyUse | undefined;
    for (let index = this.#waitedAt; index < this.#evidence.length; index += 1) {
      const evidence = this.#evidence[index] as unknown as Partial<Facts>;
      approvalId = evidence.approvalId ?? approvalId;
      keyUse = evidence.keyUse ?? keyUse;
    }
    return approvalId === undefined && keyUse === undefined ? undefined : { approvalId, keyUse };
  }

  /** True when the call changed files of the workspace, or may have changed them. */
  get wroteFiles(): boolean {
    return this.ran && this.changes && this.#fact("registered")?.binding.writesFiles === true;
  }

  /** Releases the call's capacity while an approver is asked. */
  releaseCapacity(): void {
    for (const clean of this.#cleanups.splice(0)) clean();
    this.#waitedAt = this.#evidence.length;
  }

  /** The caller, once its token is verified. */
  get caller(): Caller | undefined {
    return this.#fact("caller");
  }

  get durationMs(): number {
    return this.#duration;
  }

  stageOf(refusal: Refusal): Stage {
    if (refusal.code !== "INTERNAL") return REFUSALS[refusal.code].stage;
    return this.#step === "PLAN" ? "EXECUTION" : this.#step;
  }

  /** Writes the audit entry. Resolves when it is on disk. */
  async close(outcome: CallOutcome): Promise<Receipt> {
    const step = this.#step;
    this.#enter("AUDIT");
    this.#step = step;
    this.#duration = round(this.#stepAt - this.#startedAt);
    for (const clean of this.#cleanups) clean();
    const entry = this.#entry(outcome);
    if (outcome instanceof Refusal && outcome.cause !== undefined) {
      this.#log(this.#levelOf(outcome), outcome.code, outcome.cause);
    }
    const recording = this.#options.record(entry, this.request);
    const { monotonic } = this.#options;
    const receipt = await (this.#trace ? endTrace(this.#trace, { entry, recording, monotonic }) : recording);
    this.#options.observe(entry);
    return receipt;
  }

  #levelOf({ code }: Refusal): CallRecordLog["level"] {
    if (REFUSALS[code].decision === "ERROR" && !CAUSED_BY_CALLER.has(code)) return "error";
    return this.#fact("caller") === undefined ? "debug" : "info";
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

  /** Two parts of one stage count as one. */
  #enter(step: Step): void {
    if (step === this.#step) return;
    const now = this.#options.monotonic();
    this.#stages[this.#step] = round((this.#stages[this.#step] ?? 0) + now - this.#stepAt);
    this.#step = step;
    this.#stepAt = now;
    this.#trace?.enter(step, now);
  }

  /** Keeps evidence that a stage delivered later. Evidence that `at` has kept already is not kept twice. */
  keep<E extends AnyEvidence>(evidence: E): E {
    if (this.#evidence.at(-1) !== evidence) this.#evidence.push(evidence);
    return evidence;
  }

  /** Returns the latest value of a fact. */
  #fact<Name extends keyof Facts>(name: Name): Facts[Name] | undefined {
    for (let index = this.#evidence.length - 1; index >= 0; index -= 1) {
      const evidence = this.#evidence[index] as unknown as Partial<Facts>;
      if (evidence[name] !== undefined) return evidence[name];
    }
    return undefined;
  }

  get #tool(): Tool | undefined {
    return this.#fact("registered")?.tool;
  }

  #announced(): Announced {
    this.#requestFacts = this.#requestOf(undefined);
    return {
      traceId: this.traceId,
      caller: callerFacts(this.#fact("caller")),
      tool: this.#toolFacts(),
      request: this.#requestFacts,
      protocol: protocolFacts(this.request.protocol, this.detector),
      approval: approvalFacts(undefined, this.#fact("by"), this.#fact("approvalId")),
      plan: planFacts(this.#fact("digest"), this.#fact("plan")),
      trace: traceFacts(this.request.traceparent, this.#trace),
    };
  }

  #entry(outcome: CallOutcome): EntryDraft {
    const refusal = outcome instanceof Refusal ? outcome : undefined;
    return {
      traceId: this.traceId,
      caller: callerFacts(this.#fact("caller")),
      tool: this.#toolFacts(),
      request: this.#requestFacts ?? this.#requestOf(refusal),
      protocol: protocolFacts(this.request.protocol, this.detector),
      decision: refusal === undefined ? "ALLOWED" : REFUSALS[refusal.code].decision,
      denial: refusal && denialFacts(refusal, this.stageOf(refusal), this.detector),
      decisionReasons: decisionFacts(refusal?.findings ?? this.#fact("findings")),
      error: refusal && { code: refusal.code },
      response: responseFacts(outcome),
      approval: approvalFacts(refusal, this.#fact("by"), this.#fact("approvalId")),
      plan: planFacts(this.#fact("digest"), this.#fact("plan")),
      stages: this.#stages,
      trace: traceFacts(this.request.traceparent, this.#trace),
      duration: this.#duration,
    };
  }

  #toolFacts(): EntryDraft["tool"] {
    const tool = this.#tool;
    return {
      name: tool?.name ?? textWithoutSecrets(escapeName(this.request.tool), this.detector) ?? "",
      classification: tool?.classification ?? "unknown",
      targetSystem: tool?.target.system ?? "unknown",
    };
  }

  #requestOf(refusal: Refusal | undefined): EntryDraft["request"] {
    const { args, session, callId, reason, body } = this.request;
    const registered = this.#fact("registered");
    const { input, secrets } = withoutSecrets(this.#fact("input"), this.detector);
    this.secretsSent = secrets;
    return {
      args: registered === undefined || input === undefined ? {} : sanitizeInput(registered.inputPolicy, input),
      argsHash: this.#options.hashArgs(refusal !== undefined && this.#step === "REQUEST" ? (body ?? {}) : args),
      hashAlg: this.#options.hashAlg,
      session: textWithoutSecrets(this.#fact("caller")?.session ?? session, this.detector),
      callId: textWithoutSecrets(callId, this.detector),
      reason: textWithoutSecrets(reason, this.detector),
      secrets,
    };
  }
}

/** Rounds to the microsecond. */
function round(ms: number): number {
  return Math.round(ms * 1000) / 1000;
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
  const http = entry.error === undefined ? HTTP_OK : REFUSALS[entry.error.code].http;
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
