import type { Approver } from "../approvals/identities.ts";
import type { Approvals, Mode } from "../approvals/types.ts";
import { Refusal } from "../core/errors.ts";
import type {
  AnyEvidence,
  CallOutcome,
  Fresh,
  Judged,
  Receipt,
  Released,
  Verified,
  WithinRate,
} from "../core/evidence.ts";
import { present } from "../core/present.ts";
import { REFUSALS } from "../core/refusals.ts";
import type { DataFlowPolicy } from "../data-flow/flow.ts";
import type { Detector } from "../detection/sensitive.ts";
import type { Halts } from "../halts/halts.ts";
import type { CallBudget, Quotas } from "../quotas/quotas.ts";
import type { Admission } from "./admission.ts";
import { type Answer, judged, refused, succeeded, unrecorded } from "./answer.ts";
import type { ApprovalGate } from "./approval/gate.ts";
import { inProgress } from "./approval/refusals.ts";
import { assertStillHeld } from "./built-in-points.ts";
import type { CallRecord, CallRecords } from "./call-record.ts";
import type { CallRequest } from "./call-request.ts";
import type { CallScope } from "./call-scope.ts";
import type { CallerVerifier } from "./caller-context.ts";
import { isJudged } from "./dry-run.ts";
import type { Executor } from "./executor.ts";
import { type ObserverSlot, release } from "./output-filter.ts";
import { makePlan } from "./planner.ts";
import type { Assessed, PolicyEvaluator } from "./policy-points.ts";
import type { Registry } from "./registry.ts";
import { amended, checkRepeat, reportOutcome } from "./repeats.ts";
import { parseInput } from "./schema-validator.ts";
import type { WaitingRoom } from "./waiting-room.ts";

interface ProxyParts {
  /** Provides the tools, the agents' keys and the approval rules: everything that a reload replaces. */
  readonly snapshots: Snapshots;
  readonly admission: Admission;
  readonly waitingRoom: WaitingRoom;
  readonly halts: Pick<Halts, "refusalFor">;
  /** Stores approvals and idempotency keys. Undefined in deployments without approvals. */
  readonly approvals: Approvals | undefined;
  readonly executor: Executor;
  readonly callRecords: CallRecords;
  readonly observerSlot?: ObserverSlot;
  readonly quotaSlot?: QuotaSlot;
}

/** Holds the quotas of a service, while there are any. */
export interface QuotaSlot {
  quotas: Quotas | undefined;
}

export interface ToolProxy {
  call(request: CallRequest): Promise<Answer>;
  /** Refuses a request that an endpoint rejects before it becomes a call. The audit gets an entry all the same. */
  rejectRequest(request: CallRequest, refusal: Refusal): Promise<Answer>;
}

/** Creates the proxy that ends every call with an answer and with one audit entry, which is on disk before the answer is sent. */
export function createProxy(parts: ProxyParts): ToolProxy {
  return {
    async call(request) {
      const record = parts.callRecords.start(request);
      const outcome = await outcomeOf(parts, request, record);
      return await conclude(parts, record, request.waitMs ? await afterApproval(parts, record, outcome) : outcome);
    },
    async rejectRequest(request, refusal) {
      const record = parts.callRecords.start(request);
      const { callers } = record.use(parts.snapshots.current());
      await record.identify(() => verifyCaller(callers, request));
      return await conclude(parts, record, refusal);
    },
  };
}

/** Runs the pipeline. What the outcome releases of the target's answer is remembered before it is released. */
async function outcomeOf(parts: ProxyParts, request: CallRequest, record: CallRecord): Promise<CallOutcome> {
  const outcome = await decide(parts, request, record).catch(asRefusal);
  return record.flow === undefined ? outcome : await record.flow.settle(outcome, record.detector);
}

/** Runs the pipeline. Each stage takes the evidence of the previous stage, so that a skipped stage does not compile. */
async function decide(parts: ProxyParts, request: CallRequest, record: CallRecord): Promise<Released | Judged> {
  const { admission, approvals, executor, halts } = parts;
  const { registry, callers, policy, gate, detector, dataFlow } = record.use(parts.snapshots.enter());

  const found = record.at("REGISTRY").keep(registry.find(request.tool));
  const verified = record.at("AUTH").keep(await verifyCaller(callers, request));
  const admitted = record.at("LIMIT").keep(admission.admit(verified, record.steppedAt));
  record.atEnd(() => admission.leave(admitted, request.disconnect?.disconnected === true));
  const known = record.at("REGISTRY").keep(registry.known(found, admitted));
  const permitted = record.at("PERMISSION").keep(await policy.permit(known, { session: request.session, halts }));
  const limited = record.at("LIMIT").keep(admission.limitRate(permitted, record.steppedAt));
  const parsed = record.at("VALIDATION").keep(parseInput(limited, request.args, record));
  const elevated = record.at("PERMISSION").keep(await policy.elevate(parsed, record));
  record.follow(dataFlow, elevated);
  const fresh = unhalted(halts, record, record.at("VALIDATION").keep(await checkRepeat(elevated, record, approvals)));
  if ("result" in fresh) return fresh;
  const scope = record.openScope(elevated.tool.timeoutMs);
  const planned = record.at("PLAN").keep(await makePlan(fresh, scope, record));
  const replan = (args: unknown): Promise<Assessed> => amend({ record, policy, limited, fresh, scope }, args);
  const verifyAgain = (): Promise<void> => assertStillMay(callers, request, limited);
  const noteMode = (mode: Mode): void => record.noteMode(mode);
  const budget = openBudget(parts, record);
  const context = { request, traceId: record.traceId, scope, replan, verifyAgain, budget, noteMode };
  const assessed = record.at("APPROVAL").keep(await policy.assess(planned, record.flow));
  if (request.dryRun === true) return record.at("APPROVAL").keep(await gate.judge(assessed, context));
  const approved = record.at("APPROVAL").keep(await gate.approve(assessed, context));
  const executed = record.at("EXECUTION").keep(await executor.execute(approved, record.execution(scope, budget)));
  const options = { bytesMax: request.resultBytesMax, observer: parts.observerSlot?.observer };
  return charged(record.at("OUTPUT").keep(release(executed, detector, options)), budget);
}

/**
 * Returns the evidence of a call that nobody has halted while decision points and the store were asked: a halted call plans, requests
 * and repeats nothing.
 *
 * @throws {Refusal} HALTED, POLICY_STATE_UNAVAILABLE
 */
function unhalted<E extends AnyEvidence>(halts: ProxyParts["halts"], { haltable }: CallRecord, evidence: E): E {
  const refusal = haltable && halts.refusalFor(haltable);
  if (refusal !== undefined) throw refusal;
  return evidence;
}

/** Returns what a call takes of the quotas; what it has taken is given back if its run does not begin. */
function openBudget({ quotaSlot }: ProxyParts, record: CallRecord): CallBudget | undefined {
  const budget = quotaSlot?.quotas?.open();
  if (budget !== undefined) record.atEnd(() => budget.end());
  return budget;
}

/** Charges a released answer. Waits only where a quota counts bytes that were not taken before. */
function charged(released: Released, budget: CallBudget | undefined): Released | Promise<Released> {
  return budget?.charge(released.result)?.then(() => released) ?? released;
}

/** Verifies the token. Most tokens are already in the cache. */
function verifyCaller(callers: CallerVerifier, request: CallRequest): Verified | Promise<Verified> {
  const { authorization, certificate } = request;
  return callers.recall(authorization, "agents", certificate) ?? callers.verify(authorization, "agents", certificate);
}

/** Verifies the token of a call that has waited for an approver, and that its caller has lost no permission meanwhile. */
async function assertStillMay(
  callers: CallerVerifier,
  request: CallRequest,
  { tool, caller }: WithinRate,
): Promise<void> {
  assertStillHeld(tool, caller, (await verifyCaller(callers, request)).caller);
}

interface RunningCall {
  readonly record: CallRecord;
  readonly policy: PolicyEvaluator;
  readonly limited: WithinRate;
  readonly fresh: Fresh;
  readonly scope: CallScope;
}

/** Replaces the arguments of a running call with the approver's: they pass VALIDATION, PERMISSION and PLAN again. */
async function amend({ record, policy, limited, fresh, scope }: RunningCall, args: unknown): Promise<Assessed> {
  const { session } = record.request;
  const parsed = record.at("VALIDATION").keep(parseInput(limited, args));
  const elevated = record.at("PERMISSION").keep(await policy.elevate(parsed, record));
  const sent = { request: { session } };
  const planned = record.at("PLAN").keep(await makePlan(amended(fresh, elevated), scope, sent));
  return record.at("APPROVAL").keep(await policy.assess(planned, record.flow));
}

/** Waits up to the caller's `waitMs` for an approver, then runs the whole pipeline again, token and permissions included. */
async function afterApproval(parts: ProxyParts, record: CallRecord, outcome: CallOutcome): Promise<CallOutcome> {
  const { request } = record;
  if (!(outcome instanceof Refusal) || outcome.code !== "APPROVAL_REQUIRED") return outcome;
  await reportOutcome(parts.approvals, record, outcome);
  record.releaseCapacity();
  const claim = await parts.waitingRoom.untilAnswered(outcome, record);
  if (claim === undefined) return outcome;
  if (claim instanceof Refusal) return claim;
  const claimed = await outcomeOf(parts, claim, record);
  if (!(claimed instanceof Refusal)) return claimed;
  // The call waited without naming the approval, and the same call was faster.
  if (claimed.code === "APPROVAL_CONSUMED" && request.approvalId === undefined)
    return inProgress(present(claim.approvalId, "the id of the approval"));
  // No capacity now: the caller must learn of its approval request, because it can claim the approval later.
  const isOverload = REFUSALS[claimed.code].cause === "load";
  return isOverload && record.consumed()?.approvalId === undefined ? outcome : claimed;
}

/** Writes the audit entry and builds the answer. Without a receipt there is no result. */
async function conclude(parts: ProxyParts, record: CallRecord, outcome: CallOutcome): Promise<Answer> {
  // This comes first: whatever happens next, files may have changed by now.
  const revoking = revokeCommandGrants(parts, record);
  if (revoking !== undefined) await revoking;
  let receipt: Receipt;
  try {
    receipt = await record.close(outcome);
    record.report();
  } catch (error) {
    await reportOutcome(parts.approvals, record, "unrecorded");
    return unrecorded(record, error);
  }
  const reporting = reportOutcome(parts.approvals, record, outcome);
  if (reporting !== undefined) await reporting;
  if (outcome instanceof Refusal) return refused(receipt, outcome, record);
  return isJudged(outcome) ? judged(receipt, outcome, record) : succeeded(receipt, outcome, record);
}

/** Turns an error that is not a refusal into INTERNAL: it is the service's own error, and the agent learns nothing about it. */
function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal("INTERNAL", "The call failed inside the service. Quote the trace id to its operators.", {
    cause: error,
  });
}

/** The approver that the journal names for revoked grants. */
const REVOKED_BY: Approver = { issuer: "safe-tool-call", subject: "a write to the workspace" };

/**
 * Revokes the grants for commands after a tool has written to the workspace. A session's approval of a command was given for the
 * workspace as it was: after a write, the command may do something else and must be approved again. All sessions share the
 * workspace, so it does not matter who wrote or in which session. Returns undefined for every other call.
 */
function revokeCommandGrants({ approvals, snapshots }: ProxyParts, record: CallRecord): Promise<void> | undefined {
  if (approvals === undefined || !record.wroteFiles) return undefined;
  const tools = snapshots.current().registry.list();
  const commands = tools.flatMap(({ tool }) => (tool.category === "command" ? [tool.name] : []));
  return approvals.revokeGrantsFor(commands, REVOKED_BY).catch((error: unknown) => record.logUnsettled(error));
}

/** The result of reading configuration, manifests and keys once. A reload replaces it as a whole. */
export interface Snapshot {
  readonly registry: Registry;
  readonly callers: CallerVerifier;
  readonly policy: PolicyEvaluator;
  readonly gate: ApprovalGate;
  /** Finds secrets and personal data by the rules of this configuration. */
  readonly detector: Detector;
  /** Digest (hex SHA-256) of the configuration and the tools. */
  readonly version: string;
  /** Follows what callers read into what they send; undefined: data flow is off. */
  readonly dataFlow: DataFlowPolicy | undefined;
}

/** The snapshot that a call keeps using, whatever a reload replaces meanwhile. */
export interface Entered extends Snapshot {
  /** Every call leaves exactly once: the last call to leave a replaced snapshot closes its targets. */
  leave(): void;
}

export interface Snapshots {
  /** Returns the current snapshot for work that is not a call. */
  current(): Snapshot;
  enter(): Entered;
}
