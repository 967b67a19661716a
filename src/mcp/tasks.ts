import type { Requester } from "../approvals/identities.ts";
import type { Task, TaskCall } from "../approvals/types.ts";
import type { Pending } from "../core/call-result.ts";
import { Refusal } from "../core/errors.ts";
import { isTable } from "../core/json.ts";
import { ERROR } from "../core/mcp.ts";
import { REFUSALS } from "../core/refusals.ts";
import { endedWithin } from "../core/time-limits.ts";
import type { CallerContext, Json } from "../core/types.ts";
import { inStore } from "../http/approval-json.ts";
import { type EndpointAnswer, perListener } from "../http/endpoint.ts";
import type { McpServices } from "./part.ts";
import { invalid, type RequestId, RpcError, type RpcRequest, unknownMethod } from "./protocol.ts";
import { CALL_META, type JsonObject, rpcResult } from "./replies.ts";
import { APPROVAL_META } from "./tools.ts";

/**
 * Tasks: a client that declares this extension gets a task instead of a call that waits for an approver, and polls it with
 * `tasks/get`. Nothing runs while nobody polls: the poll that finds the request decided makes the call, with its own token. The
 * approvals store keeps the tasks.
 */
export const TASKS_EXTENSION = "io.modelcontextprotocol/tasks";

export const TASK_METHODS: ReadonlySet<string> = new Set(["tasks/get", "tasks/update", "tasks/cancel"]);

const POLL_MS = 2_000;
const TASK_ID = /^[A-Za-z0-9_-]{22,64}$/;

/** Returns whether the client declares tasks, as each request of 2026-07-28 does. The tasks of earlier versions differ. */
export function declaresTasks({
  era,
  capabilities: { extensions },
}: Pick<RpcRequest, "era" | "capabilities">): boolean {
  return era === "modern" && isTable(extensions) && isTable(extensions[TASKS_EXTENSION]);
}

/** @throws {RpcError} when the client does not declare tasks */
export function requireTasks(request: RpcRequest): void {
  if (declaresTasks(request)) return;
  const data = { requiredCapabilities: { extensions: { [TASKS_EXTENSION]: {} } } };
  const message = `Missing required client capability: ${TASKS_EXTENSION}`;
  throw new RpcError(ERROR.missingCapability, message, { id: request.id, data });
}

/** Returns whether a subscription names tasks. It gets no notifications about them: nothing runs while nobody polls. */
export function asksForTasks({ params: { notifications } }: RpcRequest): boolean {
  return isTable(notifications) && notifications["taskIds"] !== undefined;
}

interface Created {
  readonly caller: CallerContext;
  readonly call: TaskCall;
  readonly pending: Pending;
}

/**
 * Creates a task for a call that waits for an approver; it is durable before it is returned. Undefined when the caller has too many,
 * or the store fails: the pending result is then the answer.
 */
export async function createTask(
  { caller, call, pending }: Created,
  { approvals, logError }: McpServices,
): Promise<JsonObject | undefined> {
  const { message: _, ...approval } = pending.approval;
  const requester = requesterOf(caller);
  try {
    const task = await approvals?.createTask({ requester, approvalId: approval.id, call });
    if (task === undefined) return undefined;
    const meta = { [APPROVAL_META]: { ...approval, state: "pending" }, [CALL_META]: { traceId: pending.traceId } };
    return { resultType: "task", ...working(task, asked(approval.id, approval.decideBy)), _meta: meta };
  } catch (error) {
    logError(error);
    return undefined;
  }
}

function requesterOf({ issuer, subject, actors, session }: CallerContext): Requester {
  return { issuer, subject, actors, session };
}

/** The answer of a task's call: its result, or the protocol's error instead. */
type TaskAnswer = { readonly result: JsonObject } | { readonly error: JsonObject };

/** An answer as the store keeps it. */
interface KeptAnswer {
  readonly answer: TaskAnswer;
  /** Permissions that the call required. Undefined when it has not run: then the answer tells nothing about the target. */
  readonly required?: readonly string[] | undefined;
}

export interface TaskRun extends KeptAnswer {
  /** A temporary refusal: unless the approval was used, a later poll makes the call again. */
  readonly refusal?: Refusal | undefined;
}

interface TaskRequester {
  readonly caller: CallerContext;
  /** Returns whether the caller holds these permissions, and its list of tools has this one. */
  readonly mayUse: (tool: string, required: readonly string[]) => boolean;
  /**
   * Remembers what a kept answer of the tool tells the caller, as when it was released first.
   * @throws {Refusal} POLICY_STATE_UNAVAILABLE
   */
  readonly remember: (tool: string, answer: Json) => Promise<void>;
  /** Makes the call of a task whose approval request is decided. */
  readonly run: (task: DueTask) => Promise<TaskRun>;
}

/** A task whose approval request is decided. */
export type DueTask = Extract<Task, { readonly state: "due" }>;

/**
 * Answers `tasks/get`, `tasks/update` and `tasks/cancel`.
 *
 * @throws {RpcError} for an unknown task, such as a task of another caller, chain of actors or session
 * @throws {Refusal} APPROVAL_UNAVAILABLE, POLICY_STATE_UNAVAILABLE; UNAUTHENTICATED when the token is not valid any more when the call is made
 */
export async function answerTask(
  request: RpcRequest,
  requester: TaskRequester,
  services: McpServices,
): Promise<EndpointAnswer> {
  const { approvals } = services;
  const { id, method, params } = request;
  if (approvals === undefined) throw unknownMethod(request);
  requireTasks(request);
  const { taskId, inputResponses } = params;
  if (typeof taskId !== "string") throw invalid(id, "taskId must be the id of a task");
  if (!TASK_ID.test(taskId)) throw unknownTask(id);
  const owner = requesterOf(requester.caller);
  if (method === "tasks/cancel") {
    if (!(await inStore(services, () => approvals.cancelTask(taskId, owner)))) throw unknownTask(id);
    return rpcResult(request, {});
  }
  if (method === "tasks/update") {
    if (!isTable(inputResponses)) throw invalid(id, "inputResponses must be an object");
    // A task asks its client for nothing, so there is nothing that the responses could answer.
    if (!(await inStore(services, () => approvals.hasTask(taskId, owner)))) throw unknownTask(id);
    return rpcResult(request, {});
  }
  const task = await inStore(services, () => approvals.readTask(taskId, owner));
  if (task === undefined || !mayRead(task, requester)) throw unknownTask(id);
  if (task.state === "answered" && keptIn(task).required !== undefined)
    await requester.remember(task.tool, answerText(keptIn(task).answer));
  return rpcResult(request, task.state === "due" ? await runTask(task, requester, services) : detailsOf(task));
}

function unknownTask(id: RequestId): RpcError {
  return invalid(id, "there is no such task");
}

/** Returns whether a token may read the result of a run: only one with which the call could still be made. */
function mayRead(task: Task, { mayUse }: TaskRequester): boolean {
  if (task.state !== "answered") return true;
  const { required } = keptIn(task);
  return required === undefined || mayUse(task.tool, required);
}

/** Returns the target's words in an answer. */
function answerText(answer: TaskAnswer): Json {
  if ("error" in answer) return answer.error as Json;
  const { structuredContent, content } = answer.result;
  return (structuredContent ?? content ?? null) as Json;
}

function keptIn({ answer }: Extract<Task, { readonly state: "answered" }>): KeptAnswer {
  return answer as unknown as KeptAnswer;
}

/** A call that takes longer goes on, and a later poll gets its answer. */
const RUN_WAIT_MS = 2_000;

/** Runs whose poll may have been answered. A service that drains waits for them. */
const runsOf = perListener(({ onClose }) => {
  const runs = new Set<Promise<unknown>>();
  onClose(() => Promise.allSettled(runs));
  return runs;
});

async function runTask(task: DueTask, requester: TaskRequester, services: McpServices): Promise<JsonObject> {
  const runs = runsOf(services);
  const running = runToEnd(task, requester, services).finally(() => runs.delete(running));
  runs.add(running);
  // Its failure is logged here when nobody waits for it any more.
  running.catch((error: unknown) => error instanceof Refusal || services.logError(error));
  return (await endedWithin(running, RUN_WAIT_MS)) ? running : working(task, RUNNING);
}

async function runToEnd(
  task: DueTask,
  { run }: TaskRequester,
  { approvals, logError }: McpServices,
): Promise<JsonObject> {
  const { answer, required, refusal } = await run(task);
  const kept = { answer, ...(required !== undefined && { required }) } satisfies KeptAnswer;
  const end = { answer: kept as Json, short: { answer: { result: TOO_LARGE } }, mayRunLater: refusal !== undefined };
  const isKept = await approvals?.endTask(task.id, end).catch((error: unknown) => {
    logError(error);
    return refusal === undefined;
  });
  if (isKept === true) return answered(task, answer);
  if (refusal === undefined) return working(task, RUNNING);
  if (REFUSALS[refusal.code].stage === "AUTH") throw refusal;
  const { code, message, retryAfterMs = 0 } = refusal;
  return { ...working(task, `${code}: ${message}`), pollIntervalMs: pollAfterMs(retryAfterMs) };
}

/** Longest poll interval: what the call waits for, such as the end of a quota's window, may end earlier. */
const POLL_MS_MAX = 60_000;

function pollAfterMs(retryAfterMs: number): number {
  return Math.min(POLL_MS_MAX, Math.max(POLL_MS, Math.ceil(retryAfterMs)));
}

const RUNNING = "The call is running.";

const TOO_LARGE: JsonObject = {
  resultType: "complete",
  content: [{ type: "text", text: "The call has run. Its result was returned once, and is too large to be kept." }],
  isError: true,
};

function detailsOf(task: Task): JsonObject {
  if (task.state === "answered") return answered(task, keptIn(task).answer);
  if (task.state === "cancelled") {
    return { ...membersOf(task), status: "cancelled", statusMessage: "The call was withdrawn. It has not run." };
  }
  return working(task, task.state === "pending" ? asked(task.approvalId, isoTime(task.decideBy)) : RUNNING);
}

function working(task: Task, statusMessage: string): JsonObject {
  return { ...membersOf(task), status: "working", statusMessage };
}

function answered(task: Task, answer: TaskAnswer): JsonObject {
  if ("result" in answer) return { ...membersOf(task), status: "completed", ...answer };
  return { ...membersOf(task), status: "failed", statusMessage: String(answer.error["message"]), ...answer };
}

function membersOf({ id, createdAt, updatedAt, expiresAt }: Task): JsonObject {
  return {
    taskId: id,
    createdAt: isoTime(createdAt),
    lastUpdatedAt: isoTime(updatedAt),
    ttlMs: expiresAt - createdAt,
    pollIntervalMs: POLL_MS,
  };
}

function asked(approvalId: string, decideBy: string): string {
  return `A person is asked whether this call may run (approval ${approvalId}, until ${decideBy}).`;
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
