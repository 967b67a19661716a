import type { Approver } from "../approvals/identities.ts";
import type { Approvals } from "../approvals/types.ts";
import { Refusal } from "../core/errors.ts";
import type { Fresh, Receipt, Released, Verified, WithinRate } from "../core/evidence.ts";
import type { Detector } from "../detection/sensitive.ts";
import type { Admission } from "./admission.ts";
import { type Answer, refused, succeeded, unrecorded } from "./answer.ts";
import type { ApprovalGate } from "./approval-gate.ts";
import type { CallRecord, CallRecords } from "./call-record.ts";
import type { CallRequest } from "./call-request.ts";
import type { CallScope } from "./call-scope.ts";
import type { CallerContext } from "./caller-context.ts";
import type { Executor } from "./executor.ts";
import { release } from "./output-filter.ts";
import { makePlan } from "./planner.ts";
import type { Judged, Policy } from "./policy.ts";
import type { Registry } from "./registry.ts";
import { amended, firstOrAgain, settle } from "./repeats.ts";
import { parseInput } from "./schema-validator.ts";
import type { WaitingRoom } from "./waiting-room.ts";

interface ProxyParts {
  /** Provides the tools, the agents' keys and the approval rules: everything that a reload replaces. */
  readonly generations: Snapshots;
  readonly admission: Admission;
  readonly waitingRoom: WaitingRoom;
  /** Stores approvals and idempotency keys. Undefined in deployments without approvals. */
  readonly approvals: Approvals | undefined;
  readonly executor: Executor;
  readonly trails: CallRecords;
}

export interface ToolProxy {
  call(request: CallRequest): Promise<Answer>;
  /** Refuses a request that an endpoint rejects before it becomes a call. The audit gets an entry all the same. */
  turnAway(request: CallRequest, refusal: Refusal): Promise<Answer>;
}

/** Creates the proxy that ends every call with an answer and with one audit entry, which is on disk before the answer is sent. */
export function createProxy(parts: ProxyParts): ToolProxy {
  return {
    async call(request) {
      const trail = parts.trails.start(request);
      const ending = await decide(parts, request, trail).catch(asRefusal);
      return conclude(parts, trail, request.waitMs ? await afterAnswer(parts, trail, { ending, request }) : ending);
    },
    async turnAway(request, refusal) {
      const trail = parts.trails.start(request);
      const { callers, detector } = parts.generations.current();
      trail.detector = detector;
      await trail.identify(() => whoCalls(callers, request));
      return conclude(parts, trail, refusal);
    },
  };
}

/** Runs the pipeline. Each stage takes the evidence of the previous stage, so that a skipped stage does not compile. */
async function decide(parts: ProxyParts, request: CallRequest, trail: CallRecord): Promise<Released> {
  const { admission, executor } = parts;
  const { registry, callers, policy, gate, detector, leave } = parts.generations.enter();
  trail.detector = detector;
  trail.atEnd(leave);

  const found = trail.at("REGISTRY", () => registry.find(request.tool));
  const verified = trail.keep(await trail.at("AUTH", () => whoCalls(callers, request)));
  const admitted = trail.at("LIMIT", () => admission.admit(verified));
  trail.atEnd(() => admission.leave(admitted, request.departure?.gone === true));
  const known = trail.at("REGISTRY", () => registry.known(found, admitted));
  const permitted = trail.at("PERMISSION", () => policy.permit(known));
  const authorized = permitted instanceof Promise ? trail.keep(await permitted) : permitted;
  const paced = trail.at("LIMIT", () => admission.pace(authorized));
  const parsed = trail.at("VALIDATION", () => parseInput(paced, request.args));
  const raised = trail.at("PERMISSION", () => policy.elevate(parsed));
  const elevated = raised instanceof Promise ? trail.keep(await raised) : raised;
  const fresh = await trail.at("VALIDATION", () => firstOrAgain(elevated, request, parts.approvals));
  if ("result" in fresh) return trail.keep(fresh);
  const scope = trail.openScope(elevated.tool.timeoutMs);
  const planned = trail.keep(await trail.at("PLAN", () => makePlan(fresh, scope, request.session)));
  const replan = (args: unknown): Promise<Judged> => amend({ request, trail, policy, paced, fresh, scope }, args);
  const verifyAgain = async (): Promise<Verified> => whoCalls(callers, request);
  const asking = { request, traceId: trail.traceId, scope, replan, verifyAgain };
  const judgement = trail.at("APPROVAL", () => policy.judge(planned));
  const judged = judgement instanceof Promise ? trail.keep(await judgement) : judgement;
  const approved = trail.keep(await trail.at("APPROVAL", () => gate.approve(judged, asking)));
  const executed = await trail.at("EXECUTION", () => executor.execute(approved, trail.execution(scope)));
  return trail.at("OUTPUT", () => release(executed, detector));
}

/** Verifies the token. Most tokens are already in the cache. */
function whoCalls(callers: CallerContext, { authorization, certificate }: CallRequest): Verified | Promise<Verified> {
  return callers.recall(authorization, "agents", certificate) ?? callers.verify(authorization, "agents", certificate);
}

interface Amending {
  readonly request: CallRequest;
  readonly trail: CallRecord;
  readonly policy: Policy;
  readonly paced: WithinRate;
  readonly fresh: Fresh;
  readonly scope: CallScope;
}

/** Replaces the arguments of a running call with the approver's: they pass VALIDATION, PERMISSION and PLAN again. */
async function amend({ request, trail, policy, paced, fresh, scope }: Amending, args: unknown): Promise<Judged> {
  const parsed = trail.at("VALIDATION", () => parseInput(paced, args));
  const elevated = trail.keep(await trail.at("PERMISSION", () => policy.elevate(parsed)));
  const planned = trail.keep(await trail.at("PLAN", () => makePlan(amended(fresh, elevated), scope, request.session)));
  return trail.keep(await trail.at("APPROVAL", () => policy.judge(planned)));
}

interface Asked {
  readonly ending: Released | Refusal;
  readonly request: CallRequest;
}

/**
 * Waits for the approver's answer up to the caller's `waitMs`, then runs the whole pipeline again, token and permissions
 * included.
 */
async function afterAnswer(parts: ProxyParts, trail: CallRecord, asked: Asked): Promise<Released | Refusal> {
  const { ending, request } = asked;
  if (!(ending instanceof Refusal) || ending.code !== "APPROVAL_REQUIRED") return ending;
  await settle(parts.approvals, trail, ending);
  trail.stepAside();
  const claiming = await parts.waitingRoom.untilAnswered(ending, request);
  if (claiming === undefined) return ending;
  const answered = await decide(parts, claiming, trail).catch(asRefusal);
  // No capacity now: the caller must learn of its approval request, because it can claim the approval later.
  return answered instanceof Refusal && isCrowd(answered) && trail.used()?.approvalId === undefined ? ending : answered;
}

function isCrowd({ code }: Refusal): boolean {
  return code === "RATE_LIMITED" || code === "OVERLOADED" || code === "SHUTTING_DOWN";
}

/** Writes the audit entry and builds the answer. Without a receipt there is no result. */
async function conclude(parts: ProxyParts, trail: CallRecord, ending: Released | Refusal): Promise<Answer> {
  // This comes first: whatever happens next, files may have changed by now.
  const voiding = voidCommandGrants(trail, { ...parts.generations.current(), approvals: parts.approvals });
  if (voiding !== undefined) await voiding;
  let receipt: Receipt;
  try {
    receipt = await trail.close(ending);
  } catch (error) {
    await settle(parts.approvals, trail, "unrecorded");
    return unrecorded(trail, error);
  }
  const settling = settle(parts.approvals, trail, ending);
  if (settling !== undefined) await settling;
  return ending instanceof Refusal ? refused(receipt, ending, trail) : succeeded(receipt, ending, trail);
}

/** Turns an error that is not a refusal into INTERNAL: it is the service's own error, and the agent learns nothing about it. */
function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal("INTERNAL", "The call failed inside the service. Quote the trace id to its operators.", {
    cause: error,
  });
}

/** The approver that the journal names for revoked grants. */
const BY: Approver = { issuer: "safe-tool-call", subject: "a write to the workspace" };

/**
 * Revokes the grants for commands after a tool has written to the workspace. A session's approval of a command was given for the
 * workspace as it was: after a write, the command may do something else and must be approved again. All sessions share the
 * workspace, so it does not matter who wrote or in which session. Returns undefined for every other call.
 */
function voidCommandGrants(
  trail: CallRecord,
  { approvals, registry }: { readonly approvals: Approvals | undefined; readonly registry: Registry },
): Promise<void> | undefined {
  if (approvals === undefined || !trail.wroteFiles) return undefined;
  const commands = registry.list().flatMap(({ tool }) => (tool.category === "command" ? [tool.name] : []));
  return approvals.revokeGrantsFor(commands, BY).catch((error: unknown) => trail.logUnsettled(error));
}

/** The result of reading configuration, manifests and keys once. A reload replaces it as a whole. */
export interface Snapshot {
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly policy: Policy;
  readonly gate: ApprovalGate;
  /** Finds secrets and personal data by the rules of this configuration. */
  readonly detector: Detector;
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
