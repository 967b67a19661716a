import type { Decider } from "../approvals/identities.ts";
import type { Approvals } from "../approvals/types.ts";
import { Refusal } from "../core/errors.ts";
import type { Fresh, Planned, Receipt, Released, Verified, WithinRate } from "../core/evidence.ts";
import type { Admission } from "./admission.ts";
import { type Answer, refused, succeeded, unrecorded } from "./answer.ts";
import type { CallRecord, CallRecords } from "./call-record.ts";
import type { CallRequest } from "./call-request.ts";
import type { CallScope } from "./call-scope.ts";
import type { CallerContext } from "./caller-context.ts";
import type { Executor } from "./executor.ts";
import { release } from "./output-filter.ts";
import { authorize, elevate } from "./permission-engine.ts";
import { makePlan } from "./planner.ts";
import type { Registry } from "./registry.ts";
import { amended, firstOrAgain } from "./repeats.ts";
import { parseInput } from "./schema-validator.ts";
import { settle } from "./settlement.ts";
import type { Snapshots } from "./snapshots.ts";
import type { WaitingRoom } from "./waiting-room.ts";

interface ProxyParts {
  /** Tools, callers' keys and the rules of approval: what a reload exchanges. */
  readonly generations: Snapshots;
  readonly admission: Admission;
  readonly waitingRoom: WaitingRoom;
  /** Where people are asked and keys are remembered; not every deployment has one. */
  readonly approvals: Approvals | undefined;
  readonly executor: Executor;
  readonly trails: CallRecords;
}

export interface ToolProxy {
  call(request: CallRequest): Promise<Answer>;
  /** For a request that a door refuses before it could become a call: it leaves its line in the audit all the same. */
  turnAway(request: CallRequest, refusal: Refusal): Promise<Answer>;
}

/** Every call ends here: in an answer, and in one line of the audit that was on disk before the answer. */
export function createProxy(parts: ProxyParts): ToolProxy {
  return {
    async call(request) {
      const trail = parts.trails.start(request);
      const ending = await decide(parts, request, trail).catch(asRefusal);
      return conclude(parts, trail, request.waitMs ? await afterAnswer(parts, trail, { ending, request }) : ending);
    },
    async turnAway(request, refusal) {
      const trail = parts.trails.start(request);
      await trail.identify(() => whoCalls(parts.generations.current().callers, request));
      return conclude(parts, trail, refusal);
    },
  };
}

/** The road. Each step takes what the previous one earned; a step left out does not compile. */
async function decide(parts: ProxyParts, request: CallRequest, trail: CallRecord): Promise<Released> {
  const { admission, executor } = parts;
  const { registry, callers, gate, leave } = parts.generations.enter();
  trail.atEnd(leave);

  const found = trail.at("REGISTRY", () => registry.find(request.tool));
  const verified = trail.keep(await trail.at("AUTH", () => whoCalls(callers, request)));
  const admitted = trail.at("LIMIT", () => admission.admit(verified));
  trail.atEnd(() => admission.leave(admitted, request.departure?.gone === true));
  const known = trail.at("REGISTRY", () => registry.known(found, admitted));
  const authorized = trail.at("PERMISSION", () => authorize(known));
  const paced = trail.at("LIMIT", () => admission.pace(authorized));
  const parsed = trail.at("VALIDATION", () => parseInput(paced, request.args));
  const elevated = trail.at("PERMISSION", () => elevate(parsed));
  const fresh = await trail.at("VALIDATION", () => firstOrAgain(elevated, request, parts.approvals));
  if ("result" in fresh) return trail.keep(fresh);
  const scope = trail.openScope(elevated.tool.timeoutMs);
  const planned = trail.keep(await trail.at("PLAN", () => makePlan(fresh, scope, request.session)));
  const replan = (args: unknown): Promise<Planned> => amend({ request, trail, paced, fresh, scope }, args);
  const verifyAgain = async (): Promise<Verified> => whoCalls(callers, request);
  const asking = { request, traceId: trail.traceId, scope, replan, verifyAgain };
  const approved = trail.keep(await trail.at("APPROVAL", () => gate.approve(planned, asking)));
  const executed = await trail.at("EXECUTION", () => executor.execute(approved, trail.execution(scope)));
  return trail.at("OUTPUT", () => release(executed));
}

/** Most tokens were seen before. */
function whoCalls(callers: CallerContext, { authorization, certificate }: CallRequest): Verified | Promise<Verified> {
  return callers.recall(authorization, "agents", certificate) ?? callers.verify(authorization, "agents", certificate);
}

interface Amending {
  readonly request: CallRequest;
  readonly trail: CallRecord;
  readonly paced: WithinRate;
  readonly fresh: Fresh;
  readonly scope: CallScope;
}

/** Other arguments for a call under way, in an approver's words: they walk the same stretch again. */
async function amend({ request, trail, paced, fresh, scope }: Amending, args: unknown): Promise<Planned> {
  const parsed = trail.at("VALIDATION", () => parseInput(paced, args));
  const elevated = trail.at("PERMISSION", () => elevate(parsed));
  return trail.keep(await trail.at("PLAN", () => makePlan(amended(fresh, elevated), scope, request.session)));
}

interface Asked {
  readonly ending: Released | Refusal;
  readonly request: CallRequest;
}

/** Waits for the person's answer, as long as the caller would; then the whole road again, token and permissions included. */
async function afterAnswer(parts: ProxyParts, trail: CallRecord, asked: Asked): Promise<Released | Refusal> {
  const { ending, request } = asked;
  if (!(ending instanceof Refusal) || ending.code !== "APPROVAL_REQUIRED") return ending;
  await settle(parts.approvals, trail, ending);
  trail.stepAside();
  const claiming = await parts.waitingRoom.untilAnswered(ending, request);
  if (claiming === undefined) return ending;
  const answered = await decide(parts, claiming, trail).catch(asRefusal);
  // No room for it now: the caller has to learn of its question, whose yes can be claimed later.
  return answered instanceof Refusal && isCrowd(answered) && trail.used()?.approvalId === undefined ? ending : answered;
}

function isCrowd({ code }: Refusal): boolean {
  return code === "RATE_LIMITED" || code === "OVERLOADED" || code === "SHUTTING_DOWN";
}

/** No receipt, no reply. */
async function conclude(parts: ProxyParts, trail: CallRecord, ending: Released | Refusal): Promise<Answer> {
  // First: whatever comes of the rest, files may have changed by now.
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

/** Whatever is not a refusal is our own fault, and says nothing about itself to the agent. */
function asRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal("INTERNAL", "The call failed inside the service. Quote the trace id to its operators.", {
    cause: error,
  });
}

/** Who takes the grants back, in the journal. */
const BY: Decider = { issuer: "safe-tool-call", subject: "a write to the workspace" };

/**
 * A session's yes to a command was given for the workspace as it was: once a tool has written to it, the command may do something
 * else, and asks again. The workspace is one for all, so that it does not matter who wrote, or in which session. Undefined for
 * every other call.
 */
function voidCommandGrants(
  trail: CallRecord,
  { approvals, registry }: { readonly approvals: Approvals | undefined; readonly registry: Registry },
): Promise<void> | undefined {
  if (approvals === undefined || !trail.wroteFiles) return undefined;
  const commands = registry.list().flatMap(({ tool }) => (tool.category === "command" ? [tool.name] : []));
  return approvals.revokeGrantsFor(commands, BY).catch((error: unknown) => trail.logUnsettled(error));
}
