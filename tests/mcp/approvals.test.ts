import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { connect } from "node:net";
import type { Client } from "@modelcontextprotocol/client";
import { defineTool } from "safe-tool-call";
import { z } from "zod";
import { until } from "../support/until.ts";
import { McpWorld } from "./mcp-world.ts";

let world: McpWorld;
/** A service that holds no call. */
let hasty: McpWorld;
beforeAll(async () => {
  world = await new McpWorld().start();
  hasty = await new McpWorld().start({ mcp: { holdSeconds: 0 } });
});
afterAll(() => Promise.all([world.end(), hasty.end()]));

const VERSIONS = ["2026-07-28", "2025-11-25", "2025-06-18"];
let cents = 100;

/** Arguments of a call that nobody has made. */
function refund() {
  cents += 1;
  return { name: "orders_refund", arguments: { order: "ord_1", cents } };
}

async function pendingId(): Promise<string | undefined> {
  const { body } = await world.send("GET", "/approvals?state=pending", { token: await world.person() });
  return body.approvals[0]?.id;
}

function askedFor(): Promise<string> {
  return until("an approval request", pendingId);
}

/** Makes the call with progress, so that it is held. */
function heldCall(client: Client, call: ReturnType<typeof refund>, seen: unknown[] = []) {
  return client.callTool(call, { onprogress: (progress) => seen.push(progress) });
}

describe.each(VERSIONS)("protocol version %s", (version) => {
  test("a call is held with progress while a person is asked, and runs when approved", async () => {
    const client = await world.client(version);
    const call = refund();
    const seen: { readonly message?: string }[] = [];
    const answer = heldCall(client, call, seen);
    const id = await askedFor();
    expect((await world.decide(id, "approve")).http).toBe(200);
    const { structuredContent, isError } = await answer;
    expect([isError, structuredContent]).toEqual([undefined, { refunded: call.arguments.cents }]);
    expect(seen[0]?.message).toBe("A person is asked whether this call may run.");
    expect(world.last()).toMatchObject({ decision: "ALLOWED", approval: { id }, protocol: { name: "mcp", version } });
  });

  test("a held call that is denied says so, and the same call is not asked again", async () => {
    const client = await world.client(version);
    const call = refund();
    const answer = heldCall(client, call);
    await world.decide(await askedFor(), "deny", { reason: "wrong order" });
    const denied = await answer;
    expect([denied.isError, denied._meta?.["safe-tool-call/refusal"]]).toMatchObject([
      true,
      { code: "APPROVAL_DENIED" },
    ]);
    expect(JSON.stringify(denied.content)).toContain("APPROVAL_DENIED: Denied by user: wrong order.");
    expect(world.last()).toMatchObject({ decision: "DENIED", error: { code: "APPROVAL_DENIED" } });
    const again = await client.callTool(call);
    const refusal = again._meta?.["safe-tool-call/refusal"] as { details: { askAgainAt: string }; message: string };
    const { askAgainAt } = refusal.details;
    const decidedAt = new Date(Date.parse(askAgainAt) - 600_000).toISOString();
    expect(refusal).toMatchObject({
      code: "APPROVAL_DENIED",
      message: `Denied by user: wrong order (denied at ${decidedAt}; the same call can ask again from ${askAgainAt})`,
    });
    // Requesters learn nothing about who decides.
    expect(JSON.stringify(again)).not.toContain("alice");
    expect(world.last()?.denial?.reason).toBe(refusal.message);
    expect(await pendingId()).toBeUndefined();
  });
});

describe("a call that is not held", () => {
  test("has a result that says what is pending; once approved, the same call runs, and one approval is one run", async () => {
    const call = refund();
    const pending = await hasty.call(call.name, call.arguments);
    const { id } = pending.body.result._meta["safe-tool-call/approval"];
    expect(pending.body.result).toMatchObject({
      resultType: "complete",
      structuredContent: { pendingApproval: { id } },
      _meta: { "safe-tool-call/approval": { state: "pending" } },
    });
    expect(pending.body.result.isError).toBeUndefined();
    expect(pending.body.result.content[0].text).toStartWith(
      "APPROVAL_REQUIRED: A person is asked whether this call may run",
    );
    expect(hasty.last()).toMatchObject({ decision: "PENDING", approval: { id } });
    const still = await hasty.call(call.name, call.arguments);
    expect(still.body.result._meta["safe-tool-call/approval"].id).toBe(id);
    await hasty.decide(id, "approve");
    const done = await hasty.call(call.name, call.arguments);
    expect(done.body.result.structuredContent).toEqual({ refunded: call.arguments.cents });
    expect(hasty.last()).toMatchObject({ decision: "ALLOWED", approval: { id } });
    const again = await hasty.call(call.name, call.arguments);
    const other = again.body.result._meta["safe-tool-call/approval"].id;
    expect(other).not.toBe(id);
    const shown = await hasty.send("GET", `/approvals/${other}`, { token: await hasty.person() });
    expect(JSON.stringify(shown.body)).toMatch(/The same call was approved at [^"]* and has run\./);
  });

  test("with another caller, another token's session or `new`, does not use the approval", async () => {
    const call = refund();
    const first = await hasty.call(call.name, call.arguments);
    const { id } = first.body.result._meta["safe-tool-call/approval"];
    await hasty.decide(id, "approve");
    const others = [
      { token: await hasty.caller({ sub: "agent-8" }) },
      { token: await hasty.caller({ claims: { sid: "s-1" } }) },
      { token: await hasty.caller({ claims: { act: { sub: "somebody" } } }) },
      { _meta: { "safe-tool-call/approval": "new" } },
      { _meta: { "safe-tool-call/idempotencyKey": "another" } },
    ];
    for (const other of others) {
      const { body } = await hasty.call(call.name, call.arguments, other);
      expect(body.result._meta["safe-tool-call/approval"].state).toBe("pending");
      expect(body.result._meta["safe-tool-call/approval"].id).not.toBe(id);
    }
    const named = { _meta: { "safe-tool-call/approval": { id } } };
    const { body } = await hasty.call(call.name, call.arguments, named);
    expect(body.result.structuredContent).toEqual({ refunded: call.arguments.cents });
  });

  test("does not use an approval that is older than a denial of the same call", async () => {
    const call = refund();
    const first = await hasty.call(call.name, call.arguments);
    const { id } = first.body.result._meta["safe-tool-call/approval"];
    await hasty.decide(id, "approve");
    const second = await hasty.call(call.name, call.arguments, { _meta: { "safe-tool-call/approval": "new" } });
    await hasty.decide(second.body.result._meta["safe-tool-call/approval"].id, "deny");
    const again = await hasty.call(call.name, call.arguments);
    expect(again.body.result._meta["safe-tool-call/refusal"]).toMatchObject({ code: "APPROVAL_DENIED" });
    const named = await hasty.call(call.name, call.arguments, { _meta: { "safe-tool-call/approval": { id } } });
    expect(named.body.result.structuredContent).toEqual({ refunded: call.arguments.cents });
  });

  test("is claimed once by many identical calls at the same time", async () => {
    const call = refund();
    const { body } = await hasty.call(call.name, call.arguments);
    await hasty.decide(body.result._meta["safe-tool-call/approval"].id, "approve");
    const answers = await Promise.all(Array.from({ length: 12 }, () => hasty.call(call.name, call.arguments)));
    const runs = answers.filter(({ body }) => body.result.structuredContent?.refunded !== undefined);
    expect(runs.length).toBe(1);
  });

  test("repeats the first answer for the same idempotency key", async () => {
    const call = refund();
    const key = { _meta: { "safe-tool-call/idempotencyKey": `key-${call.arguments.cents}` } };
    const { body } = await hasty.call(call.name, call.arguments, key);
    const { id } = body.result._meta["safe-tool-call/approval"];
    await hasty.decide(id, "approve");
    const claimed = { _meta: { ...key._meta, "safe-tool-call/approval": { id } } };
    const first = await hasty.call(call.name, call.arguments, claimed);
    const second = await hasty.call(call.name, call.arguments, {
      headers: { "idempotency-key": `key-${call.arguments.cents}` },
    });
    expect(second.body.result.structuredContent).toEqual(first.body.result.structuredContent);
    expect(hasty.last()).toMatchObject({ decision: "ALLOWED", approval: { by: "idempotency-key" } });
  });
});

describe("a held call", () => {
  const EVENTS = { accept: "application/json, text/event-stream" };

  /** The state of an approval request, as operators see it. */
  async function stateOf(id: string): Promise<string> {
    return (await world.send("GET", `/approvals/${id}`, { token: await world.person() })).body.approval.state;
  }

  test("whose client closes its stream is cancelled: its request leaves the inbox, and the same call asks again", async () => {
    const call = refund();
    const controller = new AbortController();
    const sent = world
      .call(call.name, call.arguments, { headers: EVENTS, signal: controller.signal })
      .catch(() => undefined);
    const id = await askedFor();
    controller.abort();
    await sent;
    const entry = await until("the audit entry", () => world.entries().find(({ approval }) => approval?.id === id));
    expect(entry).toMatchObject({
      decision: "DENIED",
      error: { code: "APPROVAL_CANCELLED" },
      denial: { reason: "This approval was cancelled. Make the call again without it to request another." },
    });
    expect(await stateOf(id)).toBe("cancelled");
    expect(await pendingId()).toBeUndefined();
    expect((await world.decide(id, "approve")).http).toBe(410);
    const again = world.call(call.name, call.arguments);
    await world.decide(await askedFor(), "approve");
    expect((await again).body.result.structuredContent).toEqual({ refunded: call.arguments.cents });
  });

  test("keeps its request while another call waits for it", async () => {
    const call = refund();
    const controller = new AbortController();
    const sent = world
      .call(call.name, call.arguments, { headers: EVENTS, signal: controller.signal })
      .catch(() => undefined);
    const id = await askedFor();
    const seen: unknown[] = [];
    const other = heldCall(await world.client("2026-07-28"), call, seen);
    await until("the progress of the other call", () => seen[0]);
    controller.abort();
    await sent;
    const entry = await until("the audit entry", () => world.entries().find(({ approval }) => approval?.id === id));
    expect(entry).toMatchObject({ decision: "PENDING", error: { code: "APPROVAL_REQUIRED" } });
    expect(await stateOf(id)).toBe("pending");
    await world.decide(id, "approve");
    expect((await other).structuredContent).toEqual({ refunded: call.arguments.cents });
  });

  test("whose client of the legacy era disconnects runs nothing, and keeps its request", async () => {
    const call = refund();
    const controller = new AbortController();
    const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: call };
    const sent = world
      .post(body, { headers: { ...EVENTS, "mcp-protocol-version": "2025-11-25" }, signal: controller.signal })
      .catch(() => undefined);
    const id = await askedFor();
    controller.abort();
    await sent;
    const entry = await until("the audit entry", () => world.entries().find(({ approval }) => approval?.id === id));
    expect(entry).toMatchObject({ decision: "PENDING", error: { code: "APPROVAL_REQUIRED" } });
    await world.decide(id, "approve");
    expect(world.entries().filter(({ approval }) => approval?.id === id).length).toBe(1);
    // The approval stays for the same call.
    const later = await world.call(call.name, call.arguments);
    expect(later.body.result.structuredContent).toEqual({ refunded: call.arguments.cents });
  });

  test("gets its current answer when the service drains", async () => {
    const closing = await new McpWorld().start();
    const call = refund();
    const answer = closing.call(call.name, call.arguments);
    await until("the request", async () => {
      const { body } = await closing.send("GET", "/approvals?state=pending", { token: await closing.person() });
      return body.approvals[0];
    });
    const stopped = closing.stop();
    const { body } = await answer;
    expect(body.result.structuredContent.pendingApproval.message).toStartWith("APPROVAL_REQUIRED");
    await stopped;
    expect(closing.last()).toMatchObject({ decision: "PENDING" });
    await closing.end();
  });

  test("whose request expires says that the same call asks again", async () => {
    const short = await new McpWorld().start({
      approvals: { store: "sqlite://./approvals.sqlite", decideBySeconds: 1 },
    });
    const { name, arguments: args } = refund();
    const { body } = await short.call(name, args);
    expect(body.result.content[0].text).toBe(
      "APPROVAL_EXPIRED: This approval has expired. Make the call again without it to request another. " +
        "The same call without this approval asks a person again.",
    );
    expect(short.last()).toMatchObject({ error: { code: "APPROVAL_EXPIRED" } });
    await short.end();
  });

  test("ends with its caller's token", async () => {
    const call = refund();
    const token = await world.caller({ lifetime: "3 seconds" });
    const { body } = await world.call(call.name, call.arguments, { token });
    expect(body.result._meta["safe-tool-call/approval"].state).toBe("pending");
  });

  test.each(["MCP", "POST /call"])("over %s does not count as a running request", async (protocol) => {
    const small = await new McpWorld().start({ limits: { concurrentCallsMax: 2 } });
    const token = await small.caller();
    const controller = new AbortController();
    const { signal } = controller;
    const hold = (call: ReturnType<typeof refund>): Promise<unknown> =>
      protocol === "MCP"
        ? small.call(call.name, call.arguments, { token, signal })
        : small.send("POST", "/call", {
            ...{ token, signal, headers: { prefer: "wait=50" } },
            body: { tool: call.name, args: call.arguments },
          });
    const sent: Promise<unknown>[] = [];
    for (const held of [1, 2, 3, 4]) {
      sent.push(hold(refund()).catch(() => undefined));
      await until("the request", async () => {
        const { body } = await small.send("GET", "/approvals?state=pending", { token: await small.person() });
        return body.approvals.length === held ? true : undefined;
      });
    }
    const read = await small.call("orders_find", { order: "ord_1" }, { token });
    expect(read.body.result?.structuredContent).toBeDefined();
    controller.abort();
    await Promise.all(sent);
    await small.end();
  });

  test("is one of 32 of its caller over both protocols together; another is told at once that it is pending", async () => {
    const call = refund();
    const token = await world.caller({ sub: "agent-32" });
    let answered = 0;
    const sent = Array.from({ length: 33 }, async (_, turn) => {
      const reply =
        turn % 2 === 0
          ? await world.call(call.name, call.arguments, { token })
          : await world.send("POST", "/call", {
              ...{ token, headers: { prefer: "wait=50" } },
              body: { tool: call.name, args: call.arguments },
            });
      answered += 1;
      return JSON.stringify(reply.body);
    });
    await until("the answer of one", () => answered > 0 || undefined);
    await world.decide(await askedFor(), "deny");
    const replies = await Promise.all(sent);
    expect(replies.filter((text) => text.includes("APPROVAL_DENIED"))).toHaveLength(32);
  });

  test("whose client does not read its answer is disconnected", async () => {
    const large = defineTool({
      name: "reports_make",
      description: "Makes a report",
      classification: "write",
      category: "write",
      permissions: { required: ["orders:refund"] },
      input: z.strictObject({}),
      output: z.object({ text: z.string() }),
      outputPolicy: { text: "allow" },
      limits: { outputBytesMax: 8_000_000 },
      handler: () => ({ text: "x ".repeat(3_000_000) }),
    });
    const slow = await new McpWorld().start({
      tools: [large],
      mcp: { resultBytesMax: 8_000_000 },
      limits: { answerTimeoutMs: 1 },
    });
    const { port, hostname, host } = new URL(slow.url);
    const params = { name: "reports_make", arguments: {} };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
    const head = [
      "POST /mcp HTTP/1.1",
      `Host: ${host}`,
      `Authorization: Bearer ${await slow.caller()}`,
      "Content-Type: application/json",
      "Accept: text/event-stream",
      `Content-Length: ${body.length}`,
    ];
    const socket = connect(Number(port), hostname);
    socket.on("error", () => {});
    socket.pause();
    socket.write(`${head.join("\r\n")}\r\n\r\n${body}`);
    const id = await until("an approval request", async () => {
      const asked = await slow.send("GET", "/approvals?state=pending", { token: await slow.person() });
      return asked.body.approvals[0]?.id;
    });
    await slow.decide(id, "approve");
    const authorization = `Bearer ${await slow.person({ permissions: ["metrics:read"] })}`;
    await until("the end of the connection", async () => {
      const text = await (await fetch(`${slow.url}/metrics`, { headers: { authorization } })).text();
      return text.includes('stc_connections_ended_total{reason="slow_reader"} 1') ? true : undefined;
    });
    socket.destroy();
    await slow.end();
  });

  test("takes one of a limited number of slots: beyond it, calls are answered at once and others are unaffected", async () => {
    const crowd = await new McpWorld().start({
      approvals: { store: "sqlite://./approvals.sqlite", pendingPerCallerMax: 100, pendingPerSessionMax: 100 },
    });
    const token = await crowd.caller();
    const controller = new AbortController();
    const calls = Array.from({ length: 40 }, refund);
    let answered = 0;
    const sent = calls.map((call) =>
      crowd.call(call.name, call.arguments, { token, signal: controller.signal }).then(
        () => (answered += 1),
        () => undefined,
      ),
    );
    await until("the calls beyond the limit", () => (answered >= 8 ? answered : undefined));
    expect(answered).toBe(8);
    const read = await crowd.call("orders_find", { order: "ord_1" }, { token });
    expect(read.body.result.isError).toBeUndefined();
    controller.abort();
    await Promise.all(sent);
    await crowd.end();
  });
});
