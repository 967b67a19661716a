import { HIDDEN } from "../../approvals/operator-rules.ts";
import type { Mode } from "../../approvals/types.ts";
import { membersOf } from "../../audit/query/view.ts";
import { type LineMembers, NOT_LOGGED } from "../../core/audit-fields.ts";
import type { DryRunVerdict } from "../../core/call-result.ts";
import { canonicalJson, hmacSha256Hex, NotJsonError, sha256Hex } from "../../core/digest.ts";
import type { RegisteredTool } from "../../core/evidence.ts";
import { ARGUMENT_LIMITS, asString, asStrings, isTable } from "../../core/json.ts";
import type { CompiledPolicy } from "../../core/output-policy/output-policy.ts";
import { REFUSALS, type RefusalCode } from "../../core/refusals.ts";
import { MODES } from "../../core/types.ts";
import { DATA_FLOW } from "../../pipeline/policy-points.ts";
import { readInput } from "../../pipeline/schema-validator.ts";
import type { RecordedFlow } from "./flow.ts";
import type { CallVerdict, KnownArguments } from "./judge.ts";

/** A call as the audit recorded it, with what policies said then. */
export interface RecordedCall {
  readonly traceId: string;
  readonly tool: string;
  readonly iss: string;
  readonly sub: string;
  readonly permissions: readonly string[];
  /** Roles that the caller held. */
  readonly roles: readonly string[];
  readonly actors: readonly string[];
  /** The mode that an operator had set for the session; "usual" without one, undefined when it is not known whether there was one. */
  readonly sessionMode: Mode | "usual" | undefined;
  readonly then: CallVerdict;
  /** The person or the callback that approved the call, or the grant. */
  readonly approvedBy: string | undefined;
  readonly policyVersion: string | undefined;
  readonly request: LineMembers;
  readonly argsDigest: string | undefined;
  /** Whether the input schema of that time has accepted the arguments; undefined when the call was refused before. */
  readonly isAccepted: boolean | undefined;
  readonly flow: RecordedFlow;
  /** What data flow said by the configuration of that time. */
  readonly flowThen: DryRunVerdict;
}

/**
 * Reads what policies said about a call. Returns why it is left out when no policy decided how the call ended: a limit, a missing
 * token, a target that refused the plan, an approval that could not be used.
 */
export function readRecorded(line: LineMembers): RecordedCall | { readonly leftOut: string } {
  const caller = membersOf(line["caller"]);
  const [sub, iss] = [asString(caller?.["sub"]), asString(caller?.["iss"])];
  const code = asString(membersOf(line["error"])?.["code"]);
  const tool = membersOf(line["tool"]);
  if (line["dryRun"] === true) return { leftOut: "dry run" };
  if (line["count"] !== undefined || sub === undefined || iss === undefined) return { leftOut: code ?? "no caller" };
  const then = verdictThen(line, code);
  if (typeof then === "object") return then;
  const by = asString(membersOf(line["approval"])?.["by"]);
  return {
    traceId: asString(line["traceId"]) ?? "",
    tool: asString(tool?.["name"]) ?? "",
    iss,
    sub,
    permissions: asStrings(caller?.["permissions"]),
    actors: asStrings(caller?.["act"]),
    roles: asStrings(caller?.["roles"]),
    flow: flowOf(line),
    flowThen: flowThen(line),
    sessionMode: modeOf(line["sessionMode"]) ?? (isModeRead(line, then, by) ? "usual" : undefined),
    then,
    approvedBy: by !== undefined && isByApproval(by) ? by : undefined,
    policyVersion: asString(line["policyVersion"]),
    request: membersOf(line["request"]) ?? {},
    argsDigest: asString(tool?.["argsDigest"]),
    isAccepted: membersOf(line["stages"])?.["VALIDATION"] === undefined ? undefined : then !== "INVALID_INPUT",
  };
}

function flowOf(line: LineMembers): RecordedFlow {
  const { before, sources } = membersOf(line["dataFlow"]) ?? {};
  return {
    before: Array.isArray(before) ? asStrings(before) : undefined,
    sources: tablesOf(sources).map((source) => ({
      argument: asString(source["argument"]) ?? "",
      labels: asStrings(source["labels"]),
      isTrusted: source["trusted"] === true,
      isWhole: source["part"] !== true,
    })),
  };
}

function flowThen(line: LineMembers): RecordedCall["flowThen"] {
  const found = tablesOf(line["decisionReasons"]).filter(({ point }) => point === DATA_FLOW);
  if (found.some(({ verdict }) => verdict === "deny")) return "deny";
  return found.length > 0 ? "ask" : "allow";
}

function tablesOf(value: unknown): readonly LineMembers[] {
  const items: readonly unknown[] = Array.isArray(value) ? value : [];
  return items.map(membersOf).filter((members) => members !== undefined);
}

function verdictThen(line: LineMembers, code: string | undefined): CallVerdict | { readonly leftOut: string } {
  const approval = membersOf(line["approval"]);
  const stages = membersOf(line["stages"]) ?? {};
  const by = asString(approval?.["by"]);
  // The gate let the call pass, however it ended then.
  if (by !== undefined && by !== code) {
    if (by === "idempotency-key") return { leftOut: "answered again by its Idempotency-Key" };
    return isByApproval(by) ? "ask" : "allow";
  }
  if (code === undefined || !isRefusalCode(code)) return { leftOut: "unknown outcome" };
  const { cause } = REFUSALS[code];
  // Operators and earlier calls are the cause: no configuration says what they had changed by then.
  if (cause === "stop" || cause === "quota") return { leftOut: code };
  const details = membersOf(membersOf(line["denial"])?.["details"]);
  const isPlanning = stages["PLAN"] !== undefined && stages["APPROVAL"] === undefined;
  if (isPlanning) return { leftOut: `planning ended with ${code}` };
  const reasons = line["decisionReasons"];
  const isOfPoint = Array.isArray(reasons) && reasons.some((reason) => membersOf(reason)?.["verdict"] === "deny");
  if (cause === "policy" || isOfPoint) return code;
  if (code === "APPROVAL_REQUIRED") return "ask";
  // Without an approver, the refusal names the rule; otherwise a person has denied the call.
  if (code === "APPROVAL_DENIED") return details?.["rule"] === undefined ? "ask" : code;
  if (code === "RATE_LIMITED" && details?.["limit"] === "pendingApprovals") return "ask";
  return { leftOut: code };
}

function isByApproval(by: string): boolean {
  return /^(?:human:|callback|grant:)/.test(by);
}

function isRefusalCode(code: string): code is RefusalCode {
  return Object.hasOwn(REFUSALS, code);
}

function modeOf(value: unknown): Mode | undefined {
  return MODES.find((known) => known === value);
}

/** Returns whether the session's mode was read, or there was no session that could have one. */
function isModeRead(line: LineMembers, then: CallVerdict, by: string | undefined): boolean {
  return membersOf(line["request"])?.["session"] === undefined || then === "ask" || by?.startsWith("mode:") === true;
}

/** What is needed to recognize arguments. */
export interface Recognizer {
  /** The key of the argument hashes; undefined: plain hashes. */
  readonly hashKey: Uint8Array | undefined;
  /** Fields that were left out of the last recognized call of a tool: the next one is probably alike. */
  readonly lastOmitted: Map<string, readonly string[]>;
}

/** More optional fields are not tried: each doubles the number of hashes. */
const OMITTED_FIELDS_MAX = 8;

/**
 * Returns the arguments as they were sent if the recorded ones are complete, which their hash proves; otherwise which of them are
 * known, and whether the schema accepts them. Recorded arguments are those after parsing: fields that the schema added are
 * left out again until the hash fits.
 */
export function argumentsOf(call: RecordedCall, registered: RegisteredTool, recognizer: Recognizer): KnownArguments {
  const { request, tool, isAccepted } = call;
  const args = request["args"];
  const isWhole = isTable(args) && request["truncated"] !== true && request["secrets"] === undefined;
  const sent = isWhole ? sentArguments(args, { registered, request, tool, recognizer }) : undefined;
  if (sent !== undefined) return { kind: "sent", value: sent };
  const isSame = call.argsDigest !== undefined && call.argsDigest === registered.argsDigest;
  if (!isSame || isAccepted !== true)
    return { kind: "hidden", isAccepted: isSame ? isAccepted : undefined, shown: HIDDEN };
  return { kind: "hidden", isAccepted, shown: isWhole ? shownOf(registered.inputPolicy.root, args) : HIDDEN };
}

interface Recorded {
  readonly registered: RegisteredTool;
  readonly request: LineMembers;
  readonly tool: string;
  readonly recognizer: Recognizer;
}

function sentArguments(
  args: Readonly<Record<string, unknown>>,
  { registered, request, tool, recognizer }: Recorded,
): unknown {
  const { hashKey, lastOmitted } = recognizer;
  const alg = hashKey === undefined ? "sha256" : "hmac-sha256";
  const wanted = request["argsHash"];
  if (request["hashAlg"] !== alg || typeof wanted !== "string") return undefined;
  const isSent = (candidate: Readonly<Record<string, unknown>>): boolean => {
    try {
      const text = canonicalJson(candidate, ARGUMENT_LIMITS);
      return (hashKey === undefined ? sha256Hex(text) : hmacSha256Hex(hashKey, text)) === wanted;
    } catch (error) {
      if (error instanceof NotJsonError) return false;
      throw error;
    }
  };
  const usual = lastOmitted.get(tool) ?? [];
  for (const omitted of usual.length === 0 ? [[]] : [usual, []]) {
    const candidate = without(args, omitted);
    if (isSent(candidate)) return candidate;
  }
  // A hidden value makes every attempt futile.
  if (holdsHidden(args)) return undefined;
  const optional = Object.keys(args).filter((field) => fitsSchema(registered, without(args, [field])));
  if (optional.length > OMITTED_FIELDS_MAX) return undefined;
  for (let mask = 1; mask < 2 ** optional.length; mask += 1) {
    const omitted = optional.filter((_field, at) => (mask >> at) & 1);
    const candidate = without(args, omitted);
    if (!isSent(candidate)) continue;
    lastOmitted.set(tool, omitted);
    return candidate;
  }
  return undefined;
}

function without(
  args: Readonly<Record<string, unknown>>,
  fields: readonly string[],
): Readonly<Record<string, unknown>> {
  return fields.length === 0 ? args : Object.fromEntries(Object.entries(args).filter(([key]) => !fields.includes(key)));
}

function fitsSchema({ tool }: RegisteredTool, args: unknown): boolean {
  try {
    readInput(tool, args);
    return true;
  } catch {
    return false;
  }
}

function holdsHidden(value: unknown): boolean {
  if (value === NOT_LOGGED) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(holdsHidden);
}

/** Returns the recorded arguments with `HIDDEN` in place of values that the policy does not let into the audit unchanged. */
function shownOf(node: CompiledPolicy["root"], value: unknown): unknown {
  if (typeof value !== "object" || value === null)
    return node.action === "allow" && value !== NOT_LOGGED ? value : HIDDEN;
  if (Array.isArray(value)) return value.map((item) => shownOf(node.element.node, item));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, shownOf((node.keys.get(key) ?? node.other).node, inner)]),
  );
}
