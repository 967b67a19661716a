import { sha256Hex } from "../../core/digest.ts";
import { openText, sealText } from "../../core/sealed.ts";
import type { Json } from "../../core/types.ts";
import type { Row } from "../../database/dialect.ts";
import { integer, optionalInteger, text } from "../../database/rows.ts";
import type { Requester } from "../identities.ts";
import type { ApprovalState, Approvals, NewTask, Task, TaskCall, TaskEnd, TaskState } from "../types.ts";
import type { ReadTransaction, WriteTransaction } from "./database.ts";
import { cancel } from "./decisions.ts";
import { toApproval } from "./rows.ts";
import { SECOND_MS, type Store } from "./store.ts";
import { isOwn, sessionOf } from "./transitions.ts";

/** Limits per caller, for the time that tasks are kept. */
const TASKS_PER_CALLER_MAX = 1_000;
const BYTES_PER_CALLER_MAX = 67_108_864;
/** Maximum size of a kept answer's JSON, in UTF-8 bytes. */
const ANSWER_BYTES_MAX = 1_048_576;
/** A run is lost when this time has passed since it began, or since its approval ended, and it has neither claimed nor answered. */
const LOST_AFTER_MS = 30_000;

/**
 * Tasks: calls of which the requester asks for the outcome later. A task runs when its requester reads it after the decision.
 * The store holds a hash of the id, and encrypts the call and its answer with keys that are derived from the id: only the
 * requester's client has it.
 */
export function tasks(store: Store): Pick<Approvals, "createTask" | "readTask" | "hasTask" | "endTask" | "cancelTask"> {
  const { database } = store;
  const hasTask = async (id: string, requester: Requester): Promise<boolean> =>
    (await database.read((view) => find(view, id, requester))) !== undefined;
  return {
    createTask: (task) => database.write((tx) => create(tx, task, store)),
    async readTask(id, requester) {
      const found = await database.read((view) => find(view, id, requester));
      if (found === undefined || (found.state !== "due" && isNoted(found))) return found && toTask(id, found);
      return database.write((tx) => read(tx, id, requester));
    },
    hasTask,
    endTask: (id, end) => database.write((tx) => finish(tx, id, end)),
    // Writes take turns with the approvals of all callers: none is spent on an unknown id.
    cancelTask: async (id, requester) =>
      (await hasTask(id, requester)) && database.write((tx) => cancelTask(tx, id, requester)),
  };
}

async function create(
  tx: WriteTransaction,
  { requester, approvalId, call }: NewTask,
  { limits, newToken, member }: Store,
): Promise<Task | undefined> {
  const id = newToken();
  const sealed = seal(id, "call", { ...call });
  const held = await heldBy(tx, requester);
  if (held.tasks >= TASKS_PER_CALLER_MAX || held.bytes + sealed.length > BYTES_PER_CALLER_MAX) return undefined;
  const [row] = await tx.sql`
    SELECT * FROM approvals
    WHERE id = ${approvalId} AND issuer = ${requester.issuer} AND subject = ${requester.subject} AND ${isOwn(tx, member)}`;
  if (row === undefined) return undefined;
  const { decideBy, executeBy = 0 } = toApproval(row, tx.now);
  const keepMs = (limits.executeBySeconds + limits.idempotencySeconds) * SECOND_MS;
  await tx.sql`
    INSERT INTO approval_tasks (id_hash, issuer, subject, actors, session, tool, approval_id, sealed_call, bytes, noted,
      created_at, updated_at, expires_at, member)
    VALUES (${sha256Hex(id)}, ${requester.issuer}, ${requester.subject}, ${JSON.stringify(requester.actors)},
      ${sessionOf(requester)}, ${call.tool}, ${approvalId}, ${sealed}, ${sealed.length}, '',
      ${tx.now}, ${tx.now}, ${Math.max(decideBy, executeBy) + keepMs}, ${member ?? null})`;
  const found = await find(tx, id, requester);
  if (found === undefined) throw new Error("a task was removed while it was created");
  note(tx, "task.created", found);
  return toTask(id, found);
}

async function heldBy({ sql }: ReadTransaction, { issuer, subject }: Requester) {
  const [row = {}] = await sql`
    SELECT count(*) AS tasks, coalesce(sum(bytes), 0) AS bytes FROM approval_tasks
    WHERE issuer = ${issuer} AND subject = ${subject}`;
  return { tasks: integer(row, "tasks"), bytes: integer(row, "bytes") };
}

interface Found {
  readonly task: Row;
  /** Undefined when the approval has been deleted. */
  readonly approval: Row | undefined;
  readonly state: TaskState["state"];
  readonly now: number;
}

/** Finds a task that is not expired: of exactly this requester, its chain of actors and its session. */
async function find({ sql, now }: ReadTransaction, id: string, requester: Requester): Promise<Found | undefined> {
  const [task] = await sql`
    SELECT * FROM approval_tasks
    WHERE id_hash = ${sha256Hex(id)} AND issuer = ${requester.issuer} AND subject = ${requester.subject}
      AND actors = ${JSON.stringify(requester.actors)} AND session = ${sessionOf(requester)} AND expires_at > ${now}`;
  if (task === undefined) return undefined;
  const [approval] = await sql`SELECT * FROM approvals WHERE id = ${text(task, "approval_id")}`;
  return { task, approval, state: stateOf({ task, approval, now }), now };
}

function stateOf({ task, approval: row, now }: Omit<Found, "state">): Found["state"] {
  if (task["sealed_answer"] !== null) return "answered";
  const state = row && toApproval(row, now).state;
  if (task["cancelled_at"] !== null || state === "cancelled") return "cancelled";
  if (state === "pending") return "pending";
  if (state === "claimed") return "running";
  const startedAt = optionalInteger(task, "started_at");
  if (startedAt === undefined) return "due";
  const endedAt = row && optionalInteger(row, "ended_at");
  return Math.max(startedAt, endedAt ?? 0) + LOST_AFTER_MS > now ? "running" : "due";
}

/** Reads a task, and starts its run when it is due. Each state is journaled once; a run has the audit entry of its call. */
async function read(tx: WriteTransaction, id: string, requester: Requester): Promise<Task | undefined> {
  const found = await find(tx, id, requester);
  if (found === undefined) return undefined;
  const { state } = found;
  if (state === "due") {
    await tx.sql`
      UPDATE approval_tasks SET started_at = ${tx.now}, updated_at = ${tx.now} WHERE id_hash = ${sha256Hex(id)}`;
  } else if (!isNoted(found)) {
    await tx.sql`UPDATE approval_tasks SET noted = noted || ${mark(state)} WHERE id_hash = ${sha256Hex(id)}`;
    note(tx, "task.polled", found);
  }
  return toTask(id, found);
}

function isNoted({ task, state }: Found): boolean {
  return text(task, "noted").includes(mark(state));
}

function mark(state: Found["state"]): string {
  return `${state} `;
}

/** States of an approval whose call has run, or may have. */
const RAN: ReadonlySet<ApprovalState> = new Set(["executed", "failed", "in_doubt"]);

/** Keeps the answer of a run, unless the run did not use the approval and may be repeated. */
async function finish(tx: WriteTransaction, id: string, { answer, short, mayRunLater }: TaskEnd): Promise<boolean> {
  const idHash = sha256Hex(id);
  const [task] = await tx.sql`
    SELECT * FROM approval_tasks WHERE id_hash = ${idHash} AND sealed_answer IS NULL AND cancelled_at IS NULL`;
  if (task === undefined) return false;
  const [row] = await tx.sql`SELECT * FROM approvals WHERE id = ${text(task, "approval_id")}`;
  const state = row && toApproval(row, tx.now).state;
  if (state === "cancelled") return false;
  // Another call has claimed the approval: this task learns of it when that call has ended.
  if (mayRunLater && state === "claimed") return false;
  if (mayRunLater && !(state !== undefined && RAN.has(state))) {
    await tx.sql`UPDATE approval_tasks SET started_at = NULL WHERE id_hash = ${idHash}`;
    return false;
  }
  const owner = { issuer: text(task, "issuer"), subject: text(task, "subject"), actors: [], session: undefined };
  const bytesLeft = BYTES_PER_CALLER_MAX - (await heldBy(tx, owner)).bytes;
  const isKept = Buffer.byteLength(JSON.stringify(answer)) <= ANSWER_BYTES_MAX;
  const whole = isKept ? seal(id, "answer", answer) : undefined;
  const sealed = whole !== undefined && whole.length <= bytesLeft ? whole : seal(id, "short answer", short);
  await tx.sql`
    UPDATE approval_tasks SET sealed_answer = ${sealed}, sealed_call = '', bytes = ${sealed.length}, updated_at = ${tx.now}
    WHERE id_hash = ${idHash}`;
  return true;
}

/**
 * Cancels a task whose call has not run. Withdraws its approval request, unless another task waits for the same request. A run
 * that has not used the approval yet ends with the request.
 */
async function cancelTask(tx: WriteTransaction, id: string, requester: Requester): Promise<boolean> {
  const found = await find(tx, id, requester);
  if (found === undefined) return false;
  const { task, approval, state } = found;
  if (approval === undefined || state === "answered" || state === "cancelled") return true;
  const requestState = toApproval(approval, tx.now).state;
  if (requestState === "claimed" || RAN.has(requestState)) return true;
  const approvalId = text(task, "approval_id");
  const [other] = await tx.sql`
    SELECT id_hash FROM approval_tasks
    WHERE approval_id = ${approvalId} AND id_hash <> ${sha256Hex(id)} AND sealed_answer IS NULL AND cancelled_at IS NULL
      AND expires_at > ${tx.now} LIMIT 1`;
  if (other !== undefined && state === "running") return true;
  await tx.sql`
    UPDATE approval_tasks SET cancelled_at = ${tx.now}, updated_at = ${tx.now}, sealed_call = '', bytes = 0
    WHERE id_hash = ${sha256Hex(id)}`;
  note(tx, "task.cancelled", found);
  if (other === undefined) await cancel(tx, approvalId, requester);
  return true;
}

/** Notes a journal line without the task's id: the id is enough to read the answer. */
function note(tx: WriteTransaction, type: string, { task, state }: Found): void {
  const [approval, tool, issuer, subject] = ["approval_id", "tool", "issuer", "subject"].map((name) =>
    text(task, name),
  );
  tx.note({ event: undefined, journal: { type, approval, tool, issuer, subject, state } });
}

function toTask(id: string, { task, approval, state, now }: Found): Task {
  return {
    id,
    tool: text(task, "tool"),
    approvalId: text(task, "approval_id"),
    createdAt: integer(task, "created_at"),
    updatedAt: integer(task, "updated_at"),
    expiresAt: integer(task, "expires_at"),
    ...progressOf(id, { task, approval, state, now }),
  };
}

function progressOf(id: string, { task, approval, state, now }: Found): TaskState {
  if (state === "due") return { state, call: unseal(id, ["call"], text(task, "sealed_call")) as unknown as TaskCall };
  if (state === "answered")
    return { state, answer: unseal(id, ["answer", "short answer"], text(task, "sealed_answer")) };
  if (state !== "pending" || approval === undefined) return { state: state === "cancelled" ? state : "running" };
  return { state, decideBy: toApproval(approval, now).decideBy };
}

type Sealed = "call" | "answer" | "short answer";

function seal(id: string, use: Sealed, value: Json): string {
  return sealText(id, use, JSON.stringify(value));
}

/** @throws {Error} when the text was sealed with another id or was changed */
function unseal(id: string, uses: readonly Sealed[], sealed: string): Json {
  for (const use of uses) {
    const opened = openText(id, use, sealed);
    if (opened !== undefined) return JSON.parse(opened) as Json;
  }
  throw new Error("the approval store contains an unreadable task");
}
