import { shownScript } from "../approvals/view.ts";
import type { AuditEntry } from "../audit/entry.ts";
import { escapeName } from "../audit/escape.ts";
import { type PolicyFinding, Refusal } from "../core/errors.ts";
import type { CallOutcome, RegisteredTool } from "../core/evidence.ts";
import { isTable } from "../core/json.ts";
import { sanitizeInput } from "../core/manifest/input-policy.ts";
import type { Stage } from "../core/refusals.ts";
import { shellScriptOf } from "../core/shell-script.ts";
import type { CallTrace } from "../core/tracing.ts";
import type { CallerContext, ExecutionPlan, Json, KeyUse } from "../core/types.ts";
import { DETECTOR, type Detector } from "../detection/sensitive.ts";
import type { CallProtocol } from "./call-request.ts";
import { outputReleasedWith } from "./output-filter.ts";
import { secretsOf, textWithoutSecrets, withoutSecrets } from "./redactor.ts";

/** The facts that the audit entry takes from the evidence of the stages. */
export interface Facts {
  readonly registered: RegisteredTool;
  readonly caller: CallerContext;
  readonly input: unknown;
  readonly digest: string;
  readonly plan: ExecutionPlan;
  readonly by: string;
  readonly approvalId: string;
  readonly keyUse: KeyUse;
  readonly findings: readonly PolicyFinding[];
}

/** The arguments of a call, as the audit and everything that quotes it may hold them. */
interface ArgumentFacts {
  readonly args: Readonly<Record<string, Json>>;
  /** Paths of the arguments in which the agent sent a secret. */
  readonly secrets: readonly string[] | undefined;
}

type FactsOfArguments = { readonly [Name in "registered" | "input" | "plan"]: Facts[Name] | undefined };

/**
 * Returns the arguments that `inputPolicy` allows, without secrets. A shell's command keeps everything that the shell runs: text
 * that looks like the rest of a secret may be another command.
 */
export function argumentFacts({ registered, input, plan }: FactsOfArguments, detector: Detector): ArgumentFacts {
  const { input: safe, secrets } = withoutSecrets(input, detector);
  if (registered === undefined || input === undefined) return { args: {}, secrets };
  const script = secrets && plan && shellScriptOf(plan["argv"]);
  const shown = script === undefined ? safe : withScript(safe, script, { input, detector });
  return { args: sanitizeInput(registered.inputPolicy, shown), secrets };
}

/** Shows everything that a script runs, in each argument that holds the script. */
function withScript(
  safe: unknown,
  script: string,
  { input, detector }: { readonly input: unknown; readonly detector: Detector },
): unknown {
  if (!isTable(safe) || !isTable(input)) return safe;
  const names = Object.keys(input).filter((name) => input[name] === script);
  const shown = shownScript(script, secretsOf(detector));
  return { ...safe, ...Object.fromEntries(names.map((name) => [name, shown])) };
}

/** Returns who approved the call; otherwise the approval request that the call created or asked about. */
export function approvalFacts(
  refusal: Refusal | undefined,
  by: string | undefined,
  id: string | undefined,
): AuditEntry["approval"] {
  if (by !== undefined) return id === undefined ? { by } : { by, id };
  const request: unknown = refusal?.details?.["approval"];
  if (refusal === undefined || typeof request !== "object" || request === null || !("id" in request)) return undefined;
  return { id: String(request.id) };
}

export function denialFacts(refusal: Refusal, stage: Stage, detector: Detector): NonNullable<AuditEntry["denial"]> {
  const reason = textWithoutSecrets(refusal.message, detector) ?? "";
  return { reason, stage, details: withoutSecrets(refusal.details, detector).input };
}

/** Returns the decisions of the policy points other than allow. The points' reasons hold no secrets. */
export function decisionFacts(findings: readonly PolicyFinding[] | undefined): AuditEntry["decisionReasons"] {
  return findings?.map(({ point, verdict, reason }) => ({ point, verdict, reason }));
}

/** Returns which part of the result was released, and what was hidden in it. */
export function responseFacts(outcome: CallOutcome): AuditEntry["response"] {
  const released = outcome instanceof Refusal ? outputReleasedWith(outcome) : outcome;
  if (released === undefined || "verdict" in released) return undefined;
  const { filteredFields, outputHash, redactions, truncated } = released;
  return { filteredFields, truncated, outputHash, redactions };
}

/** Returns the plan's digest and the confinement of the run. */
export function planFacts(digest: string | undefined, plan: ExecutionPlan | undefined): AuditEntry["plan"] {
  if (digest === undefined) return undefined;
  const confinement = plan?.["confinement"];
  const isConfined = typeof confinement === "object" && confinement !== null && "level" in confinement;
  return isConfined ? { digest, confinement: String(confinement["level"]) } : { digest };
}

const CLIENT_CHARACTERS_MAX = 128;

/** Returns the protocol, with what the client says of itself bounded, escaped and without secrets. */
export function protocolFacts(
  protocol: CallProtocol | undefined,
  detector: Detector = DETECTOR,
): AuditEntry["protocol"] {
  if (protocol === undefined) return undefined;
  const { name, version, client } = protocol;
  const shown = (text: string): string => textWithoutSecrets(escapeName(text, CLIENT_CHARACTERS_MAX), detector) ?? "";
  return { name, version, client: client && { name: shown(client.name), version: shown(client.version) } };
}

/** Caches the facts of each caller: they are the same in all entries of that caller. */
const factsOfCallers = new WeakMap<CallerContext, AuditEntry["caller"]>();

export function callerFacts(caller: CallerContext | undefined): AuditEntry["caller"] {
  if (caller === undefined) return { sub: "anonymous", permissions: [] };
  let facts = factsOfCallers.get(caller);
  if (facts === undefined) {
    const { subject, issuer, permissions, roles, actors } = caller;
    // Copies, because JSON.stringify takes three times as long for an object that holds a frozen list.
    facts = {
      sub: subject,
      permissions: [...permissions],
      roles: roles && [...roles],
      iss: issuer,
      act: actors.length > 0 ? [...actors] : undefined,
    };
    factsOfCallers.set(caller, facts);
  }
  return facts;
}

/** Reads `00-<trace id>-<parent span id>-<flags>`. */
export function traceFacts(traceparent: string | undefined, trace: CallTrace | undefined): AuditEntry["trace"] {
  const ours = trace?.spanId === undefined ? undefined : { traceId: trace.traceId, spanId: trace.spanId };
  if (traceparent === undefined) return ours;
  const [, traceId = "", parentSpanId = ""] = traceparent.split("-");
  return ours?.traceId === traceId ? { ...ours, parentSpanId } : (ours ?? { traceId, parentSpanId });
}

/** Returns the W3C trace id of a call that is not traced: the id of the incoming trace, otherwise its own. */
export function wireTrace(callId: string, traceparent: string | undefined): { readonly traceId: string } {
  return { traceId: traceparent?.split("-")[1] ?? callId.replaceAll("-", "") };
}
