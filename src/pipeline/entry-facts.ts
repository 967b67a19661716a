import type { AuditEntry } from "../audit/entry.ts";
import { Refusal, type Stage } from "../core/errors.ts";
import type { RegisteredTool, Released } from "../core/evidence.ts";
import type { CallTrace } from "../core/tracing.ts";
import type { Caller, ExecutionPlan, KeyUse } from "../core/types.ts";
import { outputReleasedWith } from "./output-so-far.ts";
import { textWithoutSecrets, withoutSecrets } from "./redactor.ts";

/** What the audit wants to know of what the steps earned. */
export interface Facts {
  readonly registered: RegisteredTool;
  readonly caller: Caller;
  readonly input: unknown;
  readonly digest: string;
  readonly plan: ExecutionPlan;
  readonly by: string;
  readonly approvalId: string;
  readonly keyUse: KeyUse;
}

/** Who let the call through, or which question it met. */
export function approvalFacts(
  refusal: Refusal | undefined,
  by: string | undefined,
  id: string | undefined,
): AuditEntry["approval"] {
  if (by !== undefined) return id === undefined ? { by } : { by, id };
  const asked: unknown = refusal?.details?.["approval"];
  if (refusal === undefined || typeof asked !== "object" || asked === null || !("id" in asked)) return undefined;
  return { by: refusal.code, id: String(asked.id) };
}

export function denialFacts(refusal: Refusal, stage: Stage): NonNullable<AuditEntry["denial"]> {
  const reason = textWithoutSecrets(refusal.message) ?? "";
  return { reason, stage, details: withoutSecrets(refusal.details).input };
}

/** What left, and what was hidden of it. */
export function responseFacts(ending: Released | Refusal): AuditEntry["response"] {
  const released = ending instanceof Refusal ? outputReleasedWith(ending) : ending;
  if (released === undefined) return undefined;
  const { filteredFields, outputHash, redactions, truncated } = released;
  return { filteredFields, truncated, outputHash, redactions };
}

/** What was to run, and how it was held. */
export function planFacts(digest: string | undefined, plan: ExecutionPlan | undefined): AuditEntry["plan"] {
  if (digest === undefined) return undefined;
  const confinement = plan?.["confinement"];
  const isHeld = typeof confinement === "object" && confinement !== null && "level" in confinement;
  return isHeld ? { digest, confinement: String(confinement["level"]) } : { digest };
}

/** The facts of callers who are known: the same in all their entries. */
const factsOfCallers = new WeakMap<Caller, AuditEntry["caller"]>();

export function callerFacts(caller: Caller | undefined): AuditEntry["caller"] {
  if (caller === undefined) return { sub: "anonymous", permissions: [] };
  let facts = factsOfCallers.get(caller);
  if (facts === undefined) {
    const { subject, issuer, permissions, actors } = caller;
    // Copies: JSON.stringify of anything that holds a frozen list takes three times as long.
    facts = {
      sub: subject,
      permissions: [...permissions],
      iss: issuer,
      act: actors.length > 0 ? [...actors] : undefined,
    };
    factsOfCallers.set(caller, facts);
  }
  return facts;
}

/** `00-<trace id>-<parent span id>-<flags>` */
export function traceFacts(traceparent: string | undefined, trace: CallTrace | undefined): AuditEntry["trace"] {
  const ours = trace?.spanId === undefined ? undefined : { traceId: trace.traceId, spanId: trace.spanId };
  if (traceparent === undefined) return ours;
  const [, traceId = "", parentSpanId = ""] = traceparent.split("-");
  return ours?.traceId === traceId ? { ...ours, parentSpanId } : (ours ?? { traceId, parentSpanId });
}

/** The W3C id of a call that nobody traces: that of the trace it came from, else its own. */
export function wireTrace(callId: string, traceparent: string | undefined): { readonly traceId: string } {
  return { traceId: traceparent?.split("-")[1] ?? callId.replaceAll("-", "") };
}
