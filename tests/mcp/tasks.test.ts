import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createTaskSessionFromClient, type RawClientDispatch } from "@modelcontextprotocol/ext-tasks/client";
import {
  CancelTaskResultV2Schema,
  CreateTaskResultV2Schema,
  GetTaskResultV2Schema,
  UpdateTaskResultV2Schema,
} from "@modelcontextprotocol/ext-tasks/core/v2";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { TASKS_EXTENSION } from "../../src/mcp/tasks.ts";
import type { Loose, Reply } from "../support/asking-service.ts";
import { until } from "../support/until.ts";
import { McpWorld, MODERN, TOOLS } from "./mcp-world.ts";

const gates = new Map<string, PromiseWithResolvers<void>>();

/** Runs of `notes_write` wait for the gate of their text. */
function gate(text: string): PromiseWithResolvers<void> {
  const made = gates.get(text) ?? Promise.withResolvers<void>();
  gates.set(text, made);
  return made;
}

const runs: string[] = [];
const note = {
  permissions: { required: ["orders:refund"] },
  input: z.strictObject({ text: z.string(), characters: z.int().default(2) }),
  output: z.object({ written: z.string() }),
  outputPolicy: { written: "allow" },
  inputPolicy: { text: "allow" },
} as const;
const GATED = [
  defineTool({
    ...note,
    ...{ name: "notes_write", description: "Writes a note", classification: "write", category: "write" },
    limits: { outputBytesMax: 4_000_000 },
    async handler({ text, characters }) {
      runs.push(text);
      await gates.get(text)?.promise;
      return { written: "x".repeat(characters) };
    },
  }),
  defineTool({
    ...note,
    ...{ name: "notes_read", description: "Reads a note", classification: "read" },
    async handler({ text }) {
      await gates.get(text)?.promise;
      return { written: text };
    },
  }),
];

class TaskWorld extends McpWorld {
  override start(sections: Readonly<Record<string, unknown>> = {}): Promise<this> {
    return super.start({ tools: [...TOOLS, ...GATED], ...sections });
  }

  task(method: string, taskId: string, { token, meta = DECLARED, params = {} }: Polled = {}): Promise<Reply> {
    const headers = { "mcp-name": taskId };
    return this.modern(`tasks/${method}`, { taskId, ...params, _meta: meta }, { ...(token && { token }), headers });
  }

  /** The state of the task: what `tasks/get` returns. */
  async get(taskId: string, polled: Polled = {}): Promise<Loose> {
    const { body } = await this.task("get", taskId, polled);
    if (body.error === undefined) expect(GetTaskResultV2Schema.safeParse(body.result).error).toBeUndefined();
    return body.error ?? body.result;
  }

  /** A call that has become a task. */
  async created({ token, ...call }: Created = {}): Promise<{ readonly taskId: string; readonly approvalId: string }> {
    const { name = "orders_refund", args = refund() } = call;
    const { body } = await this.call(name, args, { _meta: DECLARED, ...(token && { token }) });
    expect(CreateTaskResultV2Schema.safeParse(body.result).error).toBeUndefined();
    expect(body.result).toMatchObject({ resultType: "task", status: "working" });
    return { taskId: body.result.taskId, approvalId: body.result._meta["safe-tool-call/approval"].id };
  }

  /** Tells of the entries of calls that name the approval. */
  entriesOf(id: string) {
    return this.entries().filter(({ approval }) => approval?.id === id);
  }

  taskLines() {
    return this.journal().filter(({ type }) => type.startsWith("task."));
  }
}

interface Polled {
  readonly token?: string;
  readonly meta?: Loose;
  readonly params?: Loose;
}

interface Created {
  readonly token?: string;
  readonly name?: string;
  readonly args?: Loose;
}

const DECLARED = { "io.modelcontextprotocol/clientCapabilities": { extensions: { [TASKS_EXTENSION]: {} } } };
const UNKNOWN = { code: -32_602, message: "Invalid params: there is no such task." };
let cents = 100;

/** Arguments of a call that nobody has made. */
function refund() {
  cents += 1;
  return { order: "ord_1", cents };
}

let world: TaskWorld;
beforeAll(async () => {
  world = await new TaskWorld().start();
});
afterAll(() => world.end());

describe("the official client with tasks", () => {
  /** Sends the requests of the client's tasks as they are, as its documentation asks. */
  function dispatchTo(url: string, token: string): RawClientDispatch {
    let id = 100;
    return async (request, { context, signal } = {}) => {
      const { method, params } = request as Loose;
      id += 1;
      const response = await fetch(`${url}/mcp`, {
        method: "POST",
        headers: {
          ...{ authorization: `Bearer ${token}`, "content-type": "application/json" },
          ...{ "mcp-protocol-version": MODERN, "mcp-method": method, ...(params.name && { "mcp-name": params.name }) },
          ...context?.headers,
        },
        body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
        ...(signal && { signal }),
      });
      const { result, error }: Loose = await response.json();
      return error === undefined ? { kind: "result", result } : { kind: "error", error };
    };
  }

  async function session() {
    const token = await world.caller();
    const client = await world.client(MODERN, token);
    return createTaskSessionFromClient(client, {
      endpointId: "test",
      rawDispatch: dispatchTo(world.url, token),
      v2RequestFraming: {
        protocolVersion: MODERN,
        clientInfo: { name: "test-client", version: "1.2.3" },
        clientCapabilities: {},
      },
    });
  }

  async function pendingId(): Promise<string | undefined> {
    const { body } = await world.send("GET", "/approvals?state=pending", { token: await world.person() });
    return body.approvals[0]?.id;
  }

  test("gets the result once a person approved", async () => {
    const tasks = await session();
    const args = refund();
    const execution = await tasks.callTool("orders_refund", args);
    const id = (await pendingId()) ?? "";
    await world.decide(id, "approve");
    const { outcome }: Loose = await execution.settle();
    expect(outcome).toMatchObject({ status: "completed", result: { structuredContent: { refunded: args.cents } } });
    expect(world.entriesOf(id).map(({ decision }) => decision)).toEqual(["PENDING", "ALLOWED"]);
    await tasks.close();
  });

  test("gets the refusal of a call that was denied", async () => {
    const tasks = await session();
    const execution = await tasks.callTool("orders_refund", refund());
    const id = (await pendingId()) ?? "";
    await world.decide(id, "deny", { reason: "wrong order" });
    const { outcome }: Loose = await execution.settle();
    expect(outcome.result.isError).toBe(true);
    expect(outcome.result._meta["safe-tool-call/refusal"].code).toBe("APPROVAL_DENIED");
    expect(world.last()).toMatchObject({ decision: "DENIED", error: { code: "APPROVAL_DENIED" }, approval: { id } });
    await tasks.close();
  });
});

describe("a call that waits for an approver", () => {
  test("is a task: nothing runs before it is approved and polled, and then once, with the same answer at every poll", async () => {
    const args = { text: "once" };
    const { taskId, approvalId } = await world.created({ name: "notes_write", args });
    expect(await world.get(taskId)).toMatchObject({ taskId, status: "working", resultType: "complete" });
    await world.decide(approvalId, "approve");
    expect(runs).not.toContain("once");
    const done = await world.get(taskId);
    expect(done).toMatchObject({ status: "completed", result: { structuredContent: { written: "xx" } } });
    const [again, third] = [await world.get(taskId), await world.get(taskId)];
    expect([again.result, third.result]).toEqual([done.result, done.result]);
    expect(runs.filter((text) => text === "once")).toHaveLength(1);
    expect(world.entriesOf(approvalId)).toMatchObject([
      { decision: "PENDING", protocol: { name: "mcp", version: MODERN } },
      { decision: "ALLOWED", protocol: { name: "mcp", version: MODERN, client: { name: "hand" } } },
    ]);
  });

  test("tells how to poll, until when, and which approval it waits for", async () => {
    const { body } = await world.call("orders_refund", refund(), { _meta: DECLARED });
    const { taskId, ttlMs, pollIntervalMs, createdAt, statusMessage, _meta } = body.result;
    const { id, decideBy, state, message } = _meta["safe-tool-call/approval"];
    expect(Buffer.from(taskId, "base64url").length).toBeGreaterThanOrEqual(16);
    expect([ttlMs > 86_400_000, pollIntervalMs, Number.isNaN(Date.parse(createdAt))]).toEqual([true, 2_000, false]);
    expect([state, message]).toEqual(["pending", undefined]);
    expect(statusMessage).toBe(
      `A person is asked whether this call may run (approval ${id}, until ${new Date(decideBy).toISOString()}).`,
    );
    await world.task("cancel", taskId);
  });

  test("is polled by many at once, and one of them runs it", async () => {
    const { taskId, approvalId } = await world.created({ name: "notes_write", args: { text: "many" } });
    await world.decide(approvalId, "approve");
    const polls = await Promise.all(Array.from({ length: 12 }, () => world.get(taskId)));
    expect(new Set(polls.map(({ status }) => status))).toEqual(new Set(["completed", "working"]));
    expect(runs.filter((text) => text === "many")).toHaveLength(1);
    expect(world.entriesOf(approvalId).map(({ decision }) => decision)).toEqual(["PENDING", "ALLOWED"]);
  });

  test("goes on when the client of its poll disconnects, and a later poll gets the answer", async () => {
    const open = gate("slow");
    const { taskId, approvalId } = await world.created({ name: "notes_write", args: { text: "slow" } });
    await world.decide(approvalId, "approve");
    const controller = new AbortController();
    const headers = { "mcp-name": taskId };
    const polling = world
      .modern("tasks/get", { taskId, _meta: DECLARED }, { headers, signal: controller.signal })
      .catch(() => undefined);
    await until("the run", () => (runs.includes("slow") ? true : undefined));
    controller.abort();
    await polling;
    expect(await world.get(taskId)).toMatchObject({ status: "working", statusMessage: "The call is running." });
    open.resolve();
    const done = await until("the answer", async () => {
      const task = await world.get(taskId);
      return task.status === "completed" ? task : undefined;
    });
    expect(done.result.structuredContent).toEqual({ written: "xx" });
    expect(world.entriesOf(approvalId).at(-1)).toMatchObject({ decision: "ALLOWED" });
  });

  test("that takes long is answered as running, and later with its result", async () => {
    const open = gate("longer");
    const { taskId, approvalId } = await world.created({ name: "notes_write", args: { text: "longer" } });
    await world.decide(approvalId, "approve");
    expect(await world.get(taskId)).toMatchObject({ status: "working", statusMessage: "The call is running." });
    open.resolve();
    await until("the answer", async () => ((await world.get(taskId)).status === "completed" ? true : undefined));
  });

  test("whose result is too large to be kept returns it once, and later that it ran", async () => {
    const large = await new TaskWorld().start({ mcp: { resultBytesMax: 4_000_000 } });
    const { taskId, approvalId } = await large.created({
      name: "notes_write",
      args: { text: "l", characters: 2_000_000 },
    });
    await large.decide(approvalId, "approve");
    expect((await large.get(taskId)).result.structuredContent.written).toHaveLength(2_000_000);
    expect((await large.get(taskId)).result).toMatchObject({
      isError: true,
      content: [{ text: "The call has run. Its result was returned once, and is too large to be kept." }],
    });
    await large.end();
  });

  test("that is made again is another task for the same request; one approval is one run", async () => {
    const args = { text: "twice" };
    const [one, other] = [
      await world.created({ name: "notes_write", args }),
      await world.created({ name: "notes_write", args }),
    ];
    expect([one.approvalId === other.approvalId, one.taskId === other.taskId]).toEqual([true, false]);
    await world.decide(one.approvalId, "approve");
    expect((await world.get(one.taskId)).result.structuredContent).toEqual({ written: "xx" });
    const used = await world.get(other.taskId);
    expect(used.result._meta["safe-tool-call/refusal"].code).toBe("APPROVAL_CONSUMED");
    expect(world.last()).toMatchObject({ decision: "DENIED", error: { code: "APPROVAL_CONSUMED" } });
    expect(runs.filter((text) => text === "twice")).toHaveLength(1);
  });

  test("keeps its idempotency key: a later call with the key gets the task's answer", async () => {
    const key = { "safe-tool-call/idempotencyKey": "task-key" };
    const args = { text: "keyed" };
    const { body } = await world.call("notes_write", args, { _meta: { ...DECLARED, ...key } });
    await world.decide(body.result._meta["safe-tool-call/approval"].id, "approve");
    const done = await world.get(body.result.taskId);
    const again = await world.call("notes_write", args, { _meta: { ...DECLARED, ...key } });
    expect(again.body.result.structuredContent).toEqual(done.result.structuredContent);
    expect(world.last()).toMatchObject({ decision: "ALLOWED", approval: { by: "idempotency-key" } });
    expect(runs.filter((text) => text === "keyed")).toHaveLength(1);
  });

  test("stays a task when its approval expires, and says so", async () => {
    const short = await new TaskWorld().start({
      approvals: { store: "sqlite://./approvals.sqlite", decideBySeconds: 1 },
    });
    const { taskId, approvalId } = await short.created();
    const ended = await until("the end", async () => {
      const task = await short.get(taskId);
      return task.status === "working" ? undefined : task;
    });
    expect(ended.result._meta["safe-tool-call/refusal"].code).toBe("APPROVAL_EXPIRED");
    expect(short.last()).toMatchObject({ error: { code: "APPROVAL_EXPIRED" }, approval: { id: approvalId } });
    expect((await short.get(taskId)).result).toEqual(ended.result);
    await short.end();
  });

  test("survives a restart before and after the decision", async () => {
    const restarted = await new TaskWorld().start();
    const args = { text: "restart" };
    const { taskId, approvalId } = await restarted.created({ name: "notes_write", args });
    await restarted.stop();
    await restarted.start();
    expect((await restarted.get(taskId)).status).toBe("working");
    await restarted.decide(approvalId, "approve");
    await restarted.stop();
    await restarted.start();
    const done = await restarted.get(taskId);
    expect(done.result.structuredContent).toEqual({ written: "xx" });
    await restarted.stop();
    await restarted.start();
    expect((await restarted.get(taskId)).result).toEqual(done.result);
    expect(runs.filter((text) => text === "restart")).toHaveLength(1);
    await restarted.end();
  });

  test("is polled at any replica, and one of them runs it", async () => {
    const one = await new TaskWorld().start();
    const other = await new TaskWorld({ issuers: one.issuers, folder: one.folder, audit: "audit-2" }).start();
    const { taskId, approvalId } = await one.created({ name: "notes_write", args: { text: "replicas" } });
    expect((await other.get(taskId)).status).toBe("working");
    await other.decide(approvalId, "approve");
    const polls = await Promise.all(Array.from({ length: 10 }, (_, index) => (index % 2 ? one : other).get(taskId)));
    expect(polls.filter(({ status }) => status === "completed")).not.toEqual([]);
    const [seen, seenToo] = [await one.get(taskId), await other.get(taskId)];
    expect([seen.status, seenToo.result]).toEqual(["completed", seen.result]);
    expect(runs.filter((text) => text === "replicas")).toHaveLength(1);
    expect([...one.entries(), ...other.entries()].map(({ decision }) => decision).toSorted()).toEqual([
      "ALLOWED",
      "PENDING",
    ]);
    await other.stop();
    await one.end();
  });

  test("through call_tool is a task of the tool that it names", async () => {
    const searched = await new TaskWorld().start({ mcp: { searchAbove: 1 } });
    const args = refund();
    const { taskId, approvalId } = await searched.created({
      name: "call_tool",
      args: { name: "orders_refund", arguments: args },
    });
    await searched.decide(approvalId, "approve");
    expect((await searched.get(taskId)).result.structuredContent).toEqual({ refunded: args.cents });
    expect(searched.last()).toMatchObject({ tool: { name: "orders_refund" }, decision: "ALLOWED" });
    await searched.end();
  });

  test("that runs while the service drains is waited for", async () => {
    const draining = await new TaskWorld().start();
    const open = gate("drain");
    const { taskId, approvalId } = await draining.created({ name: "notes_write", args: { text: "drain" } });
    await draining.decide(approvalId, "approve");
    expect((await draining.get(taskId)).status).toBe("working");
    const stopped = draining.stop();
    open.resolve();
    await stopped;
    await draining.start();
    expect((await draining.get(taskId)).result.structuredContent).toEqual({ written: "xx" });
    await draining.end();
  });

  test("waits when the service has no capacity, and runs at a later poll", async () => {
    const small = await new TaskWorld().start({ limits: { concurrentCallsMax: 1 } });
    const { taskId, approvalId } = await small.created();
    await small.decide(approvalId, "approve");
    const open = gate("busy");
    const busy = small.call(
      "notes_read",
      { text: "busy" },
      { token: await small.caller({ permissions: ["orders:refund"] }) },
    );
    const waiting = await until("no capacity", async () => {
      const { body } = await small.call("orders_find", { order: "ord_1" });
      return body.result?._meta["safe-tool-call/refusal"]?.code === "OVERLOADED" ? small.get(taskId) : undefined;
    });
    expect(waiting).toMatchObject({ status: "working", statusMessage: "OVERLOADED: Too many calls are in progress." });
    expect(small.last()).toMatchObject({ error: { code: "OVERLOADED" } });
    open.resolve();
    await busy;
    expect((await small.get(taskId)).status).toBe("completed");
    await small.end();
  });

  test("that was denied says so at a later poll, when the service had no capacity at the first", async () => {
    const small = await new TaskWorld().start({ limits: { concurrentCallsMax: 1 } });
    const [denied, running] = [
      await small.created(),
      await small.created({ name: "notes_write", args: { text: "full" } }),
    ];
    await small.decide(denied.approvalId, "deny", { reason: "never" });
    await small.decide(running.approvalId, "approve");
    const open = gate("full");
    const polling = small.get(running.taskId);
    await until("the run", () => (runs.includes("full") ? true : undefined));
    const waiting = await small.get(denied.taskId);
    expect(waiting).toMatchObject({ status: "working", statusMessage: "OVERLOADED: Too many calls are in progress." });
    open.resolve();
    await polling;
    const ended = await until("the denial", async () => {
      const task = await small.get(denied.taskId);
      return task.status === "working" ? undefined : task;
    });
    expect(ended.result.content[0].text).toStartWith("APPROVAL_DENIED: Denied by user: never.");
    await small.end();
  });

  test("is not a task for a client that does not declare tasks, nor for one of 2025-11-25", async () => {
    const hasty = await new TaskWorld().start({ mcp: { holdSeconds: 0 } });
    const { body } = await hasty.call("orders_refund", refund());
    expect(body.result).toMatchObject({ resultType: "complete", structuredContent: { pendingApproval: {} } });
    const params = { name: "orders_refund", arguments: refund(), task: { ttl: 60_000 }, _meta: DECLARED };
    const headers = { "mcp-protocol-version": "2025-11-25" };
    const legacy = await hasty.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params }, { headers });
    expect(legacy.body.result.structuredContent.pendingApproval.message).toStartWith("APPROVAL_REQUIRED");
    await hasty.end();
  });

  test("is not a task when it needs no approver", async () => {
    const { body } = await world.call("orders_find", { order: "ord_1" }, { _meta: DECLARED });
    expect(body.result).toMatchObject({ resultType: "complete", structuredContent: { order: "ord_1" } });
    expect(body.result.taskId).toBeUndefined();
  });
});

describe("the poll that sees the approval", () => {
  test("runs with its own token: with fewer permissions it ends the task, and uses no approval", async () => {
    const args = refund();
    const { taskId, approvalId } = await world.created({ args });
    await world.decide(approvalId, "approve");
    const weaker = await world.caller({ permissions: ["orders:read"] });
    const ended = await world.get(taskId, { token: weaker });
    expect(ended).toMatchObject({ status: "failed", error: { code: -32_602, message: "Unknown tool: orders_refund" } });
    expect(world.last()).toMatchObject({ decision: "DENIED", error: { code: "PERMISSION_DENIED" } });
    expect((await world.get(taskId)).error).toEqual(ended.error);
    const same = await world.call("orders_refund", args, { _meta: DECLARED });
    expect(same.body.result.structuredContent).toEqual({ refunded: args.cents });
  });

  test("needs the permissions that these arguments require", async () => {
    const large = { permissions: ["orders:refund", "orders:refund-large"] };
    const args = { order: "ord_1", cents: 50_000 };
    const { taskId, approvalId } = await world.created({ args, token: await world.caller(large) });
    await world.decide(approvalId, "approve");
    const ended = await world.get(taskId);
    expect(ended).toMatchObject({ status: "completed", result: { isError: true } });
    expect(ended.result._meta["safe-tool-call/refusal"]).toMatchObject({
      code: "PERMISSION_DENIED",
      details: { missingPermissions: ["orders:refund-large"] },
    });
    expect(world.last()).toMatchObject({ decision: "DENIED", error: { code: "PERMISSION_DENIED" } });
  });

  test("without a valid token is refused, and the task waits for one with it", async () => {
    const { taskId, approvalId } = await world.created();
    await world.decide(approvalId, "approve");
    const expired = await world.caller({ kind: "expired" });
    expect((await world.task("get", taskId, { token: expired })).http).toBe(401);
    expect((await world.get(taskId)).status).toBe("completed");
  });

  test("gets no result once the caller may not use the tool any more", async () => {
    const { taskId, approvalId } = await world.created();
    await world.decide(approvalId, "approve");
    expect((await world.get(taskId)).status).toBe("completed");
    const weaker = await world.caller({ permissions: ["orders:read"] });
    expect(await world.get(taskId, { token: weaker })).toEqual(UNKNOWN);
    expect((await world.get(taskId)).status).toBe("completed");
  });
});

describe("the answer of a call that needs more permissions because of its arguments", () => {
  const args = { order: "ord_1", cents: 60_000 };
  const permissions = ["orders:refund", "orders:refund-large"];

  test("is read with these permissions only, as an idempotency key's answer", async () => {
    const token = await world.caller({ permissions });
    const { taskId, approvalId } = await world.created({ args, token });
    await world.decide(approvalId, "approve");
    const done = await world.get(taskId, { token });
    expect(done.result.structuredContent).toEqual({ refunded: 60_000 });
    expect(await world.get(taskId)).toEqual(UNKNOWN);
    expect((await world.get(taskId, { token })).result).toEqual(done.result);
  });

  test("is read without them when the arguments did not need them", async () => {
    const token = await world.caller({ permissions });
    const small = refund();
    const { taskId, approvalId } = await world.created({ args: small, token });
    await world.decide(approvalId, "approve");
    const done = await world.get(taskId, { token });
    expect((await world.get(taskId)).result).toEqual(done.result);
    expect(done.result.structuredContent).toEqual({ refunded: small.cents });
  });
});

describe("another caller", () => {
  const OTHERS = {
    "with another subject": { sub: "agent-8" },
    "with another session": { claims: { sid: "s-1" } },
    "with another chain of actors": { claims: { act: { sub: "somebody" } } },
  } as const;

  test.each(Object.entries(OTHERS))("%s gets the answer for a task that does not exist", async (_, order) => {
    const { taskId, approvalId } = await world.created();
    await world.decide(approvalId, "approve");
    const token = await world.caller(order);
    const before = world.entries().length;
    for (const id of [taskId, `${taskId.slice(1)}A`, "x", "", `${taskId}=`, "../x", "A".repeat(64)]) {
      for (const method of ["get", "update", "cancel"]) {
        const { http, body } = await world.task(method, id, { token, params: { inputResponses: {} } });
        expect([http, body.error]).toEqual([200, UNKNOWN]);
      }
    }
    expect(world.entries()).toHaveLength(before);
    expect((await world.get(taskId)).status).toBe("completed");
  });
});

describe("a task that is cancelled", () => {
  test("never runs, and its request is withdrawn", async () => {
    const { taskId, approvalId } = await world.created({ name: "notes_write", args: { text: "cancelled" } });
    const { body } = await world.task("cancel", taskId);
    expect(CancelTaskResultV2Schema.safeParse(body.result).error).toBeUndefined();
    expect(await world.get(taskId)).toMatchObject({ status: "cancelled" });
    const decided = await world.decide(approvalId, "approve");
    expect([decided.http, decided.body.error.code]).toEqual([410, "APPROVAL_CANCELLED"]);
    expect((await world.get(taskId)).status).toBe("cancelled");
    expect((await world.task("cancel", taskId)).body.result.resultType).toBe("complete");
    expect(runs).not.toContain("cancelled");
  });

  test("after the approval uses none of it", async () => {
    const { taskId, approvalId } = await world.created({ name: "notes_write", args: { text: "too late" } });
    await world.decide(approvalId, "approve");
    await world.task("cancel", taskId);
    expect((await world.get(taskId)).status).toBe("cancelled");
    expect(runs).not.toContain("too late");
  });

  test("after its call has run is not: its next poll says that the approval was used", async () => {
    const args = refund();
    const { taskId, approvalId } = await world.created({ args });
    await world.decide(approvalId, "approve");
    const ran = await world.call("orders_refund", args, { _meta: DECLARED });
    expect(ran.body.result.structuredContent).toEqual({ refunded: args.cents });
    expect((await world.task("cancel", taskId)).body.result.resultType).toBe("complete");
    const ended = await world.get(taskId);
    expect(ended).toMatchObject({ status: "completed", result: { isError: true } });
    expect(ended.result.content[0].text).toBe(
      "APPROVAL_CONSUMED: This approval was already used: one approval is one run. " +
        "The same call without this approval asks a person again.",
    );
  });

  test("after a poll that was killed before it used the approval never runs", async () => {
    const killed = await new TaskWorld().start();
    const { taskId, approvalId } = await killed.created({ name: "notes_write", args: { text: "killed" } });
    await killed.decide(approvalId, "approve");
    const database = new Database(join(killed.folder, "approvals.sqlite"));
    database.run("UPDATE approval_tasks SET started_at = ?", [Date.now()]);
    expect((await killed.get(taskId)).statusMessage).toBe("The call is running.");
    await killed.task("cancel", taskId);
    expect((await killed.get(taskId)).status).toBe("cancelled");
    database.run("UPDATE approval_tasks SET started_at = 1");
    database.close();
    expect((await killed.get(taskId)).status).toBe("cancelled");
    const { body } = await killed.send("GET", `/approvals/${approvalId}`, { token: await killed.caller() });
    expect(body.approval.state).toBe("cancelled");
    expect(runs).not.toContain("killed");
    await killed.end();
  });

  test("leaves the request to another task that waits for it", async () => {
    const args = refund();
    const [one, other] = [await world.created({ args }), await world.created({ args })];
    await world.task("cancel", one.taskId);
    await world.decide(other.approvalId, "approve");
    expect((await world.get(other.taskId)).result.structuredContent).toEqual({ refunded: args.cents });
    expect((await world.get(one.taskId)).status).toBe("cancelled");
  });

  test("has the state of its request, which its caller can withdraw in other ways", async () => {
    const { taskId, approvalId } = await world.created();
    await world.send("DELETE", `/approvals/${approvalId}`, { token: await world.caller() });
    expect((await world.get(taskId)).status).toBe("cancelled");
  });

  test("keeps its answer when it has one", async () => {
    const { taskId, approvalId } = await world.created();
    await world.decide(approvalId, "approve");
    const done = await world.get(taskId);
    expect((await world.task("cancel", taskId)).body.result.resultType).toBe("complete");
    expect((await world.get(taskId)).result).toEqual(done.result);
  });
});

describe("requests about tasks", () => {
  test("an update answers nothing, because a task asks for nothing", async () => {
    const { taskId } = await world.created();
    const params = { inputResponses: { approval: { action: "accept" } } };
    const { body } = await world.task("update", taskId, { params });
    expect(UpdateTaskResultV2Schema.safeParse(body.result).error).toBeUndefined();
    expect((await world.get(taskId)).status).toBe("working");
    const malformed = await world.task("update", taskId, { params: { inputResponses: null } });
    expect(malformed.body.error.code).toBe(-32_602);
  });

  test.each(["get", "update", "cancel"])("tasks/%s needs a client that declares tasks", async (method) => {
    const { http, body } = await world.task(method, "A".repeat(32), { meta: {}, params: { inputResponses: {} } });
    expect([http, body.error]).toEqual([
      400,
      {
        code: -32_021,
        message: "Missing required client capability: io.modelcontextprotocol/tasks",
        data: { requiredCapabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } } },
      },
    ]);
  });

  test("a subscription to tasks needs a client that declares them", async () => {
    const params = { notifications: { taskIds: ["A".repeat(32)] } };
    const { body } = await world.modern("subscriptions/listen", params);
    expect(body.error.code).toBe(-32_021);
  });

  test.each(["tasks/list", "tasks/result"])("there is no %s", async (method) => {
    const { http, body } = await world.modern(method, { taskId: "A".repeat(32), _meta: DECLARED });
    expect([http, body.error.code]).toEqual([404, -32_601]);
  });

  test("a header that names another task than the body, or none, is refused", async () => {
    const { taskId } = await world.created();
    for (const headers of [{ "mcp-name": "another" }, {}]) {
      const { http, body } = await world.modern("tasks/get", { taskId, _meta: DECLARED }, { headers });
      expect([http, body.error.code]).toEqual([400, -32_020]);
    }
    const missing = await world.modern("tasks/get", { _meta: DECLARED });
    expect(missing.body.error.message).toBe("Invalid params: taskId must be the id of a task.");
  });

  test("are announced and answered only with approvals", async () => {
    const announced = await world.modern("server/discover");
    expect(announced.body.result.capabilities.extensions).toEqual({ [TASKS_EXTENSION]: {} });
    const none = await new TaskWorld().start({ approvals: {} });
    const { body } = await none.modern("server/discover");
    expect(body.result.capabilities.extensions).toBeUndefined();
    const { http } = await none.task("get", "A".repeat(32));
    expect(http).toBe(404);
    await none.end();
  });

  test("leave one journal line for each state, without the task's id", async () => {
    const kept = await new TaskWorld().start();
    const { taskId, approvalId } = await kept.created();
    for (let poll = 0; poll < 3; poll += 1) await kept.get(taskId);
    await kept.decide(approvalId, "approve");
    for (let poll = 0; poll < 3; poll += 1) await kept.get(taskId);
    const cancelled = await kept.created();
    await kept.task("cancel", cancelled.taskId);
    for (let poll = 0; poll < 2; poll += 1) await kept.get(cancelled.taskId);
    const about = { approval: approvalId, tool: "orders_refund", subject: "agent-7" };
    expect(kept.taskLines()).toMatchObject([
      { type: "task.created", state: "pending", ...about },
      { type: "task.polled", state: "pending", ...about },
      { type: "task.polled", state: "answered", ...about },
      { type: "task.created", approval: cancelled.approvalId },
      { type: "task.cancelled", approval: cancelled.approvalId },
      { type: "task.polled", state: "cancelled", approval: cancelled.approvalId },
    ]);
    expect(kept.entries()).toHaveLength(3);
    await kept.end();
  });
});

describe("the store", () => {
  test("has neither the task's id nor the secrets of its arguments nor its result", async () => {
    const kept = await new TaskWorld().start();
    const secret = "postgres://app:Vr7kQ2mZx9@db.internal/orders";
    const { taskId, approvalId } = await kept.created({ name: "notes_write", args: { text: secret, characters: 31 } });
    const content = (): string =>
      ["approvals.sqlite", "approvals.sqlite-wal"]
        .map((name) => readFileSync(join(kept.folder, name), "latin1"))
        .join("");
    expect(content()).toContain(approvalId);
    expect(content()).not.toContain(taskId);
    expect(content()).not.toContain("Vr7kQ2mZx9");
    await kept.decide(approvalId, "approve");
    expect((await kept.get(taskId)).result.structuredContent.written).toHaveLength(31);
    expect(runs).toContain(secret);
    expect(content()).not.toContain("x".repeat(31));
    await kept.stop();
    const written = JSON.stringify([kept.entries(), kept.journal()]);
    expect(written).toContain(approvalId);
    expect(written).not.toContain(taskId);
    await kept.end();
  });

  test("that fails refuses polls, and a call is answered as pending", async () => {
    const broken = await new TaskWorld().start();
    const { taskId } = await broken.created();
    const database = new Database(join(broken.folder, "approvals.sqlite"));
    database.run("ALTER TABLE approval_tasks RENAME TO lost");
    for (const method of ["get", "update", "cancel"]) {
      const { http, body } = await broken.task(method, taskId, { params: { inputResponses: {} } });
      expect([http, body.error.data]).toEqual([503, { code: "APPROVAL_UNAVAILABLE" }]);
    }
    const { body } = await broken.call("orders_refund", refund(), { _meta: DECLARED });
    expect(body.result).toMatchObject({ resultType: "complete", structuredContent: { pendingApproval: {} } });
    database.run("ALTER TABLE lost RENAME TO approval_tasks");
    database.close();
    expect((await broken.get(taskId)).status).toBe("working");
    await broken.end();
  });

  test("keeps a limited number of tasks for each caller: beyond it, a call is answered as pending", async () => {
    const full = await new TaskWorld().start();
    const { approvalId } = await full.created();
    const database = new Database(join(full.folder, "approvals.sqlite"));
    database.run(`
      WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 999)
      INSERT INTO approval_tasks SELECT 'copy ' || n, issuer, subject, actors, session, tool, approval_id, sealed_call, sealed_answer,
        bytes, noted, started_at, cancelled_at, created_at, updated_at, expires_at, member FROM approval_tasks, numbers`);
    database.close();
    const { body } = await full.call("orders_refund", refund(), { _meta: DECLARED });
    expect(body.result).toMatchObject({ resultType: "complete", structuredContent: { pendingApproval: {} } });
    await full.created({ token: await full.caller({ sub: "agent-8" }) });
    expect((await full.decide(approvalId, "approve")).http).toBe(200);
    await full.end();
  });
});
