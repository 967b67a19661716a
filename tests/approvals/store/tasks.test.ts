import { afterEach, beforeEach, expect, test } from "bun:test";
import type { OpenedApprovals } from "../../../src/approvals/approvals.ts";
import type { Requester } from "../../../src/approvals/identities.ts";
import type { Approval, Task } from "../../../src/approvals/types.ts";
import {
  AGENT,
  type ApprovalWorld,
  approvedBy,
  askFor,
  claimOf,
  createApprovalWorld,
  OPERATOR,
} from "../../support/approvals.ts";

let world: ApprovalWorld;
/** Two replicas. */
let one: OpenedApprovals;
let other: OpenedApprovals;
beforeEach(async () => {
  world = createApprovalWorld();
  one = await world.open();
  other = await world.open();
});
afterEach(() => world.end());

const CALL = { tool: "deploy", args: { note: "\ud800\u0000é", deep: [{ x: 1 }] }, idempotencyKey: "key-1" };
const END = { answer: { result: { done: true } }, short: { result: "short" }, mayRunLater: false };
const SECOND_MS = 1_000;

async function taskFor({ id: approvalId }: Approval, more: Partial<typeof CALL> = {}): Promise<Task> {
  const task = await one.createTask({ requester: AGENT, approvalId, call: { ...CALL, ...more } });
  if (task === undefined) throw new Error("no task was created");
  return task;
}

async function stateOf(store: OpenedApprovals, { id }: Pick<Task, "id">): Promise<Task["state"] | undefined> {
  return (await store.readTask(id, AGENT))?.state;
}

test("a task waits for its request, is due once, and every replica has its answer", async () => {
  const asked = await askFor(one);
  const task = await taskFor(asked);
  expect(await other.readTask(task.id, AGENT)).toEqual({
    ...task,
    state: "pending",
    decideBy: asked.decideBy,
  } as never);
  await one.decide({ id: asked.id, by: OPERATOR, decision: "approve" });
  const due = await other.readTask(task.id, AGENT);
  expect(due).toMatchObject({ state: "due", call: CALL });
  expect([await stateOf(one, task), await stateOf(other, task)]).toEqual(["running", "running"]);
  expect(await other.endTask(task.id, END)).toBe(true);
  expect(await one.readTask(task.id, AGENT)).toMatchObject({ state: "answered", answer: END.answer });
  expect(await one.endTask(task.id, { ...END, answer: "another" })).toBe(false);
  expect(await other.readTask(task.id, AGENT)).toMatchObject({ answer: END.answer });
});

test("of many concurrent readers, one gets the run", async () => {
  const task = await taskFor(await approvedBy(one));
  const states = await Promise.all(Array.from({ length: 30 }, (_, index) => stateOf(index % 2 ? one : other, task)));
  expect(states.filter((state) => state === "due")).toHaveLength(1);
  expect(states.filter((state) => state === "running")).toHaveLength(29);
});

const STRANGERS: readonly (readonly [title: string, more: Partial<Requester>])[] = [
  ["issuer", { issuer: "https://other.example" }],
  ["subject", { subject: "agent-2" }],
  ["session", { session: "sid-2" }],
  ["missing session", { session: undefined }],
  ["chain of actors", { actors: ["somebody"] }],
];

test.each(STRANGERS)("a requester with another %s finds no task, and neither runs nor cancels it", async (_, more) => {
  const task = await taskFor(await approvedBy(one));
  const requester = { ...AGENT, ...more };
  expect(await one.readTask(task.id, requester)).toBeUndefined();
  expect(await one.hasTask(task.id, requester)).toBe(false);
  expect(await one.cancelTask(task.id, requester)).toBe(false);
  expect(await stateOf(one, task)).toBe("due");
});

test("no task is created for the request of another caller", async () => {
  const { id: approvalId } = await askFor(one);
  const requester = { ...AGENT, subject: "agent-2" };
  expect(await one.createTask({ requester, approvalId, call: CALL })).toBeUndefined();
  expect(await one.createTask({ requester: AGENT, approvalId: "unknown", call: CALL })).toBeUndefined();
});

test("a run that was lost before its claim is due again after 30 s", async () => {
  const task = await taskFor(await approvedBy(one));
  expect(await stateOf(one, task)).toBe("due");
  world.now += 30 * SECOND_MS - 1;
  expect(await stateOf(other, task)).toBe("running");
  world.now += 1;
  expect(await stateOf(other, task)).toBe("due");
});

test("a run that was lost after its claim is due again when the claim's lease has ended", async () => {
  const approval = await approvedBy(one);
  const task = await taskFor(approval);
  expect(await stateOf(one, task)).toBe("due");
  await one.claim(claimOf(approval));
  world.now += 899 * SECOND_MS;
  await other.sweep();
  expect(await stateOf(other, task)).toBe("running");
  world.now += SECOND_MS;
  await other.sweep();
  expect(await stateOf(other, task)).toBe("running");
  world.now += 30 * SECOND_MS;
  expect(await stateOf(other, task)).toBe("due");
});

test("a run that takes long is not due again between its end and its answer", async () => {
  const approval = await approvedBy(one);
  const task = await taskFor(approval);
  expect(await stateOf(one, task)).toBe("due");
  await one.claim(claimOf(approval));
  world.now += 500 * SECOND_MS;
  await one.settle(approval.id, "executed");
  expect(await stateOf(other, task)).toBe("running");
  expect(await one.endTask(task.id, END)).toBe(true);
  expect(await stateOf(other, task)).toBe("answered");
});

test("after a temporary refusal the task is due again at once, but not when its approval was used", async () => {
  const approval = await approvedBy(one);
  const task = await taskFor(approval);
  expect(await stateOf(one, task)).toBe("due");
  expect(await one.endTask(task.id, { ...END, mayRunLater: true })).toBe(false);
  expect(await stateOf(other, task)).toBe("due");
  await one.claim(claimOf(approval));
  expect(await one.endTask(task.id, { ...END, mayRunLater: true })).toBe(false);
  expect(await stateOf(other, task)).toBe("running");
  await one.settle(approval.id, "failed");
  expect(await one.endTask(task.id, { ...END, mayRunLater: true })).toBe(true);
  expect(await stateOf(other, task)).toBe("answered");
});

test("after a temporary refusal the task of a request that was denied is due again", async () => {
  const approval = await askFor(one);
  const task = await taskFor(approval);
  await one.decide({ id: approval.id, by: OPERATOR, decision: "deny" });
  expect(await stateOf(one, task)).toBe("due");
  expect(await one.endTask(task.id, { ...END, mayRunLater: true })).toBe(false);
  expect(await stateOf(other, task)).toBe("due");
});

test("a cancelled task withdraws its request and is never due", async () => {
  const approval = await approvedBy(one);
  const task = await taskFor(approval);
  expect(await other.cancelTask(task.id, AGENT)).toBe(true);
  expect(await stateOf(one, task)).toBe("cancelled");
  expect((await one.get(approval.id))?.state).toBe("cancelled");
  expect(await one.endTask(task.id, END)).toBe(false);
  expect(await one.cancelTask(task.id, AGENT)).toBe(true);
  expect(await stateOf(one, task)).toBe("cancelled");
});

test("a task whose run has not used the approval yet is cancelled, and the run finds its request withdrawn", async () => {
  const approval = await approvedBy(one);
  const task = await taskFor(approval);
  expect(await stateOf(one, task)).toBe("due");
  expect(await other.cancelTask(task.id, AGENT)).toBe(true);
  expect(await one.claim(claimOf(approval))).toMatchObject({ approval: { state: "cancelled" } });
  expect(await one.endTask(task.id, END)).toBe(false);
  expect(await stateOf(one, task)).toBe("cancelled");
});

test("a task whose request another task waits for is not cancelled once its run has begun", async () => {
  const approval = await approvedBy(one);
  const [task, waiting] = [await taskFor(approval), await taskFor(approval)];
  expect(await stateOf(one, task)).toBe("due");
  expect(await other.cancelTask(task.id, AGENT)).toBe(true);
  expect(await one.claim(claimOf(approval))).toMatchObject({ outcome: "claimed" });
  expect(await one.endTask(task.id, END)).toBe(true);
  expect([await stateOf(one, task), await stateOf(one, waiting)]).toEqual(["answered", "running"]);
});

test.each(["executed", "failed", "in_doubt"] as const)(
  "a task is not cancelled while its call runs, nor when the run is %s",
  async (outcome) => {
    const approval = await approvedBy(one);
    const task = await taskFor(approval);
    await one.claim(claimOf(approval));
    expect(await other.cancelTask(task.id, AGENT)).toBe(true);
    expect(await stateOf(one, task)).toBe("running");
    await one.settle(approval.id, outcome);
    expect(await other.cancelTask(task.id, AGENT)).toBe(true);
    expect(await stateOf(one, task)).toBe("due");
  },
);

test("an answer over 1 MiB is replaced by the short one", async () => {
  const task = await taskFor(await approvedBy(one));
  await stateOf(one, task);
  await one.endTask(task.id, { ...END, answer: "x".repeat(1_048_576) });
  expect(await other.readTask(task.id, AGENT)).toMatchObject({ state: "answered", answer: END.short });
});

test("a task is kept for a day after its deadlines, and then deleted", async () => {
  const task = await taskFor(await askFor(one));
  expect(task.expiresAt - task.createdAt).toBe((600 + 300 + 86_400) * SECOND_MS);
  world.now = task.expiresAt - 1;
  await one.sweep();
  // Its request has expired: its requester learns of that by a call.
  expect(await stateOf(one, task)).toBe("due");
  world.now = task.expiresAt;
  expect(await stateOf(one, task)).toBeUndefined();
  await one.sweep();
  world.now = task.createdAt;
  expect(await stateOf(one, task)).toBeUndefined();
});

test("a caller has at most 1,000 tasks, and 64 MiB of them", async () => {
  const { id: approvalId } = await askFor(one);
  const create = (call = CALL) => one.createTask({ requester: AGENT, approvalId, call });
  const large = { ...CALL, args: { note: "x".repeat(12_000_000), deep: [] } };
  for (let count = 0; count < 4; count += 1) expect(await create(large)).toBeDefined();
  expect(await create(large)).toBeUndefined();
  for (let count = 4; count < 1_000; count += 1) await create();
  expect(await create()).toBeUndefined();
  const requester = { ...AGENT, subject: "agent-2" };
  const theirs = await askFor(one, { requester });
  expect(await one.createTask({ requester, approvalId: theirs.id, call: CALL })).toBeDefined();
});
