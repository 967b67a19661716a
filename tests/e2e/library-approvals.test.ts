import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import {
  ApprovalCache,
  type ApprovalCallback,
  ApprovalManager,
  ApprovalRequiredError,
  DeniedError,
  defineTool,
  MessageBus,
  type Pending,
  SafeToolCall,
  type ToolCallResult,
  type ToolUse,
  unwrap,
} from "../../src/index.ts";
import { auditEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { until } from "../support/until.ts";

const issuers = new LiveIssuers();
const folder = mkdtempSync(join(tmpdir(), "stc-callback-"));
const deeds: unknown[] = [];
const open: SafeToolCall[] = [];
let runs = 0;

const send = defineTool({
  name: "send",
  description: "Sends an amount",
  classification: "write",
  category: "network",
  permissions: {
    required: ["money:send"],
    elevatedIf: { when: ({ amount }) => amount > 100, required: ["money:send:large"] },
  },
  input: z.strictObject({ amount: z.int().min(1).max(1_000) }),
  output: z.object({ sent: z.number() }),
  outputPolicy: { sent: "allow" },
  handler: ({ amount }) => {
    deeds.push(amount);
    return { sent: amount };
  },
});

const login = defineTool({
  ...({ name: "login", description: "Logs in", classification: "write", category: "network" } as const),
  permissions: { required: ["money:send"] },
  input: z.strictObject({ user: z.string().max(20), password: z.string().max(20) }),
  output: z.object({}),
  outputPolicy: {},
  handler: () => ({}),
});

const question = defineTool({
  ...({ name: "question", description: "Asks a person", classification: "read", category: "ask" } as const),
  permissions: { required: ["money:send"] },
  input: z.strictObject({}),
  output: z.object({}),
  outputPolicy: {},
  handler: () => ({}),
});

interface World {
  readonly call: (tool: string, args: unknown, options?: Record<string, unknown>) => Promise<ToolCallResult>;
  readonly stc: SafeToolCall;
  readonly dir: string;
}

async function world(
  onToolApprove: ApprovalCallback | undefined,
  approvals: Record<string, unknown> = {},
): Promise<World> {
  runs += 1;
  const dir = join(folder, `audit-${runs}`);
  const stc = SafeToolCall.create({
    tools: [send, question, login],
    folder,
    audit: { dir },
    jwt: { issuers: issuers.profiles() as never },
    approvals,
    ...(onToolApprove !== undefined && { onToolApprove }),
  });
  open.push(stc);
  const token = await issuers.token({
    kind: "good",
    sub: "agent-7",
    permissions: ["money:send"],
    claims: { sid: "s" },
  });
  return { call: (tool, args, options) => stc.call(tool, args, token, options), stc, dir };
}

function codeOf(result: ToolCallResult): string {
  return "error" in result ? result.error.code : result.status;
}

beforeEach(() => {
  deeds.length = 0;
});

afterAll(async () => {
  for (const stc of open) await stc.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("onToolApprove", () => {
  const rows: readonly (readonly [string, () => unknown, string, readonly number[]])[] = [
    ["true is a yes", () => true, "success", [5]],
    ["an object may say yes", async () => ({ approved: true }), "success", [5]],
    ["false is a no", () => false, "APPROVAL_DENIED", []],
    ["an object may say no", () => ({ approved: false, denyReason: "no" }), "APPROVAL_DENIED", []],
    [
      "a throw is a no",
      () => {
        throw new Error("x");
      },
      "APPROVAL_DENIED",
      [],
    ],
    ["a rejection is a no", () => Promise.reject(new Error("x")), "APPROVAL_DENIED", []],
    ["silence is a no", () => new Promise(() => {}), "APPROVAL_DENIED", []],
    ["nothing is a no", () => undefined, "APPROVAL_DENIED", []],
    ["a word is a no", () => "yes", "APPROVAL_DENIED", []],
    ["1 is a no", () => 1, "APPROVAL_DENIED", []],
    ["a yes that is no boolean is a no", () => ({ approved: "true" }), "APPROVAL_DENIED", []],
    ["params that are no object are a no", () => ({ approved: true, params: [1] }), "APPROVAL_DENIED", []],
    ["other params run instead", () => ({ approved: true, params: { amount: 7 } }), "success", [7]],
    [
      "APR-14: params that break the schema run nothing",
      () => ({ approved: true, params: { amount: -1 } }),
      "INVALID_INPUT",
      [],
    ],
    ["APR-14: params are whole, not merged", () => ({ approved: true, params: {} }), "INVALID_INPUT", []],
    [
      "APR-14: params may need a permission more",
      () => ({ approved: true, params: { amount: 500 } }),
      "PERMISSION_DENIED",
      [],
    ],
  ];

  test.each(rows)("%s", async (_title, answer, code, done) => {
    const { call } = await world(answer as ApprovalCallback, { callbackTimeoutMs: 200 });
    expect(codeOf(await call("send", { amount: 5 }))).toBe(code);
    expect(deeds).toEqual([...done]);
  });

  test("sees what will run, and cannot change it afterwards", async () => {
    let seen: ToolUse | undefined;
    const { call, dir } = await world((use) => {
      seen = use;
      (use.params as Record<string, unknown>)["amount"] = 999;
      return true;
    });
    await call("send", { amount: 5 }, { callId: "c-1" });
    expect(seen).toMatchObject({ name: "send", callId: "c-1", category: "network", sessionId: "sid:s" });
    expect(deeds).toEqual([5]);
    expect(auditEntries(dir).at(-1)).toMatchObject({
      approval: { by: "callback" },
      plan: { digest: seen?.planDigest },
    });
  });

  test("is called for calls that need approval, and for no others", async () => {
    let asked = 0;
    const { call } = await world(
      () => {
        asked += 1;
        return true;
      },
      { mode: "yolo" },
    );
    await call("send", { amount: 5 });
    expect(asked).toBe(0);
    await call("question", {});
    expect(asked).toBe(1);
  });

  test("has its own time limit, next to the tool's", async () => {
    const { call } = await world(() => Bun.sleep(20).then(() => true));
    expect(codeOf(await call("send", { amount: 5 }))).toBe("success");
  });

  test("is aborted when the client disconnects, and nothing runs", async () => {
    const leaving = new AbortController();
    let aborted = false;
    const { call } = await world(({ signal }) => {
      signal.addEventListener("abort", () => {
        aborted = true;
      });
      leaving.abort();
      return new Promise(() => {});
    });
    const result = await call("send", { amount: 5 }, { signal: leaving.signal });
    expect(["APPROVAL_DENIED", "CANCELLED"]).toContain(codeOf(result));
    expect(aborted).toBe(true);
    expect(deeds).toEqual([]);
  });
});

describe("onToolApprove of one call", () => {
  test("decides instead of the callback of all calls, and sees risk, rules and what will run", async () => {
    const seen: ToolUse[] = [];
    const { call } = await world(() => false);
    const onToolApprove: ApprovalCallback = (use) => {
      seen.push(use);
      return { approved: true, denyReason: undefined, params: undefined };
    };
    expect(codeOf(await call("send", { amount: 5 }, { onToolApprove }))).toBe("success");
    expect(codeOf(await call("send", { amount: 5 }))).toBe("APPROVAL_DENIED");
    expect(deeds).toEqual([5]);
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({
      risk: "medium",
      rules: ["default"],
      plan: { kind: "inline", input: { amount: 5 } },
    });
  });

  test("cannot change what runs through the plan that it sees", async () => {
    const { call } = await world(undefined);
    const onToolApprove: ApprovalCallback = ({ plan }) => {
      Object.assign(plan, { input: { amount: 999 } });
      return true;
    };
    expect(codeOf(await call("send", { amount: 5 }, { onToolApprove }))).toBe("success");
    expect(deeds).toEqual([5]);
  });

  test("sees the operators' rules that ask, and their risk", async () => {
    const when = { tool: "send" };
    const examples = { matches: [{ amount: 5 }], misses: [] };
    let seen: ToolUse | undefined;
    const { call } = await world(undefined, {
      rules: [{ name: "money", when, verdict: "ask", risk: "high", examples }],
    });
    const onToolApprove: ApprovalCallback = (use) => {
      seen = use;
      return false;
    };
    await call("send", { amount: 5 }, { onToolApprove });
    expect(seen).toMatchObject({ risk: "high", rules: expect.arrayContaining(["operator:money"]) });
  });

  test("a denial has its reason", async () => {
    const { call, dir } = await world(() => true);
    const onToolApprove: ApprovalCallback = () => ({ approved: false, denyReason: "too much" });
    const result = await call("send", { amount: 5 }, { onToolApprove });
    expect(result).toMatchObject({ error: { code: "APPROVAL_DENIED", message: expect.stringContaining("too much") } });
    expect(auditEntries(dir).at(-1)).toMatchObject({ decision: "DENIED", denial: { stage: "APPROVAL" } });
  });

  test("is not called for a dry run, which says that somebody is asked", async () => {
    let asked = 0;
    const { call } = await world(undefined);
    const onToolApprove: ApprovalCallback = () => {
      asked += 1;
      return true;
    };
    const judged = await call("send", { amount: 5 }, { onToolApprove, dryRun: true });
    expect(judged as unknown).toMatchObject({ status: "dryRun", verdict: "ask" });
    expect([asked, deeds]).toEqual([0, []]);
  });

  test("that is not a function is refused", async () => {
    const { call } = await world(() => true);
    expect(codeOf(await call("send", { amount: 5 }, { onToolApprove: true }))).toBe("MALFORMED_REQUEST");
    expect(deeds).toEqual([]);
  });
});

describe("MessageBus", () => {
  test("passes requests on to the handler, with the session", async () => {
    const bus = new MessageBus();
    const seen: unknown[] = [];
    bus.registerHandler("toolApproval", async ({ toolUse, category, sessionId }) => {
      seen.push({ name: toolUse.name, params: toolUse.params, category, sessionId });
      return { approved: true, params: { amount: 7 }, denyReason: undefined };
    });
    const { call } = await world(bus.onToolApprove);
    expect(codeOf(await call("send", { amount: 5 }))).toBe("success");
    expect(seen).toEqual([{ name: "send", params: { amount: 5 }, category: "network", sessionId: "sid:s" }]);
    expect(deeds).toEqual([7]);
  });

  test("denies while no handler is registered, and when the handler throws", async () => {
    const bus = new MessageBus();
    const { call } = await world(bus.onToolApprove);
    expect(codeOf(await call("send", { amount: 5 }))).toBe("APPROVAL_DENIED");
    bus.registerHandler("toolApproval", () => {
      throw new Error("the window is closed");
    });
    expect(codeOf(await call("send", { amount: 5 }))).toBe("APPROVAL_DENIED");
    expect(deeds).toEqual([]);
  });

  test("answers requests of other parts of the program", async () => {
    const bus = new MessageBus();
    const toolUse = { name: "bash", params: { command: "ls" }, callId: "123" };
    const request = { toolUse, category: "command", sessionId: "session-abc" } as const;
    expect(await bus.request("toolApproval", request)).toMatchObject({ approved: false });
    bus.registerHandler("toolApproval", ({ sessionId }) => sessionId === "session-abc");
    expect(await bus.request("toolApproval", request)).toBe(true);
  });
});

describe("ApprovalCache", () => {
  const SESSION = "sid:s";
  const BY = { issuer: "https://people.test", subject: "alice" };

  async function cached(name: string): Promise<World & { readonly cache: ApprovalCache }> {
    const made = await world(undefined, { store: `sqlite://./${name}.sqlite` });
    return { ...made, cache: new ApprovalCache(made.stc, BY) };
  }

  async function asked({ call }: World, amount = 5): Promise<Pending> {
    const result = await call("send", { amount });
    if (result.status !== "pending") throw new Error(`expected a pending call, got ${codeOf(result)}`);
    return result;
  }

  test("remembers an approval for exactly this call, in its session", async () => {
    const made = await cached("cache-set");
    const { cache, call, dir } = made;
    const pending = await asked(made);
    expect([await cache.has(SESSION, pending), await cache.get(SESSION, pending)]).toEqual([false, undefined]);
    expect(await cache.set("sid:other", pending, true)).toBe(false);
    expect(await cache.set(SESSION, pending, true)).toBe(true);
    expect([await cache.has(SESSION, pending), await cache.get(SESSION, pending)]).toEqual([true, true]);
    expect(await cache.get("sid:other", pending)).toBeUndefined();
    const again = [
      await call("send", { amount: 5 }),
      await call("send", { amount: 5 }),
      await call("send", { amount: 6 }),
    ];
    expect(again.map(codeOf)).toEqual(["success", "success", "pending"]);
    expect(auditEntries(dir).at(-2)).toMatchObject({ approval: { by: expect.stringMatching(/^grant:/) } });
    expect(deeds).toEqual([5, 5]);
  });

  test.each(["clear", "clearAll"] as const)("%s makes the call ask again, also when it has not run", async (how) => {
    const made = await cached(`cache-${how}`);
    const { cache, call } = made;
    const [used, unused] = [await asked(made, 5), await asked(made, 6)];
    expect([await cache.set(SESSION, used, true), await cache.set(SESSION, unused, true)]).toEqual([true, true]);
    expect(codeOf(await call("send", { amount: 5 }))).toBe("success");
    if (how === "clear") await cache.clear("sid:other");
    expect(codeOf(await call("send", { amount: 5 }))).toBe("success");
    await (how === "clear" ? cache.clear(SESSION) : cache.clearAll());
    expect([await cache.get(SESSION, used), await cache.get(SESSION, unused)]).toEqual([undefined, undefined]);
    expect(codeOf(await call("send", { amount: 5 }))).toBe("pending");
    expect(codeOf(await call("send", { amount: 6 }))).toBe("pending");
    expect(deeds).toEqual([5, 5]);
  });

  test("remembers a denial", async () => {
    const made = await cached("cache-deny");
    const { cache, call } = made;
    const pending = await asked(made);
    expect(await cache.set(SESSION, pending, false)).toBe(true);
    expect([await cache.has(SESSION, pending), await cache.get(SESSION, pending)]).toEqual([true, false]);
    expect(codeOf(await call("send", { amount: 5 }))).toBe("APPROVAL_DENIED");
    expect(await cache.set(SESSION, pending, true)).toBe(false);
  });

  test("remembers nothing that may not be remembered", async () => {
    const { cache, call } = await cached("cache-grave");
    const result = await call("question", {});
    if (result.status !== "pending") throw new Error(codeOf(result));
    expect(await cache.set(SESSION, result, true)).toBe(false);
    expect(await cache.get(SESSION, result)).toBeUndefined();
    expect(codeOf(await call("question", {}))).toBe("pending");
  });
});

describe("ApprovalManager", () => {
  test("resolves, rejects, and lists pending requests", async () => {
    const manager = new ApprovalManager();
    const approvalId = crypto.randomUUID();
    const yes = manager.request({ approvalId, command: "ls" });
    expect(manager.hasPending(approvalId)).toBe(true);
    expect(manager.resolve(approvalId)).toBe(true);
    await yes;
    expect([manager.hasPending(approvalId), manager.resolve(approvalId), manager.reject(approvalId)]).toEqual([
      false,
      false,
      false,
    ]);
    const no = manager.request({ approvalId, command: "ls" });
    expect(manager.reject(approvalId, "too dangerous")).toBe(true);
    expect(await no.catch((error: unknown) => error)).toEqual(new DeniedError("too dangerous"));
  });

  test("accepts UUIDs, each once at a time", async () => {
    const manager = new ApprovalManager();
    await expect(manager.request({ approvalId: "__proto__", command: "ls" })).rejects.toThrow(TypeError);
    const approvalId = crypto.randomUUID();
    const first = manager.request({ approvalId, command: "ls" });
    await expect(manager.request({ approvalId, command: "rm" })).rejects.toThrow(TypeError);
    manager.resolve(approvalId);
    await first;
  });

  test("a request that nobody waits for any more is a denial", async () => {
    const leaving = new AbortController();
    const manager = new ApprovalManager();
    const asked = manager.request({ approvalId: crypto.randomUUID(), command: "ls" }, { signal: leaving.signal });
    leaving.abort();
    await expect(asked).rejects.toThrow(DeniedError);
  });

  test("is a callback", async () => {
    const manager = new ApprovalManager({ onRequest: ({ approvalId }) => void manager.reject(approvalId, "no") });
    const { call } = await world(manager.onToolApprove);
    const result = await call("send", { amount: 5 });
    expect("error" in result && result.error.message).toBe("Denied by user: no");
  });

  test("that throws while it notifies denies", async () => {
    const manager = new ApprovalManager({
      onRequest: () => {
        throw new Error("the window is gone");
      },
    });
    const { call } = await world(manager.onToolApprove);
    expect(codeOf(await call("send", { amount: 5 }))).toBe("APPROVAL_DENIED");
  });
});

describe("its own store", () => {
  test("asks, is decided through the library, and runs once", async () => {
    const { call, stc } = await world(undefined, { store: "sqlite://./one.sqlite" });
    const asked = await call("send", { amount: 5 });
    expect(asked.status).toBe("pending");
    expect(() => unwrap(asked)).toThrow(ApprovalRequiredError);
    expect(() => unwrap(asked)).toThrow(
      expect.objectContaining({
        ...{ toolName: "send", toolArgs: { amount: 5 }, options: ["cancel", "once", "session"] },
        message: expect.stringContaining("An approver is asked whether send may run."),
      }),
    );
    const [pending] = await stc.pendingApprovals();
    const by = { issuer: "https://people.test", subject: "alice" };
    expect((await stc.decide({ id: pending?.id ?? "", by, decision: "approve" })).outcome).toBe("decided");
    const approvalId = pending?.id ?? "";
    expect(codeOf(await call("send", { amount: 5 }, { approvalId }))).toBe("success");
    expect(codeOf(await call("send", { amount: 5 }, { approvalId }))).toBe("APPROVAL_CONSUMED");
    expect(deeds).toEqual([5]);
  });

  test("the same call again runs with its approval, and a call with approval: new asks again", async () => {
    const { call, stc } = await world(undefined, { store: "sqlite://./again.sqlite" });
    const by = { issuer: "https://people.test", subject: "alice" };
    const approve = async (): Promise<unknown> => {
      const [pending] = await stc.pendingApprovals();
      return stc.decide({ id: pending?.id ?? "", by, decision: "approve" });
    };
    await call("send", { amount: 7 });
    await approve();
    expect(codeOf(await call("send", { amount: 7 }, { approval: "new" }))).toBe("pending");
    await approve();
    const again = [
      await call("send", { amount: 7 }),
      await call("send", { amount: 7 }),
      await call("send", { amount: 7 }),
    ];
    expect(again.map(codeOf)).toEqual(["success", "success", "pending"]);
    expect(codeOf(await call("send", { amount: 7 }, { approval: "other" as "new" }))).toBe("MALFORMED_REQUEST");
    expect(deeds).toEqual([7, 7]);
  });

  test("the error for a missing approval shows no secret", async () => {
    const { call } = await world(undefined, { store: "sqlite://./shown.sqlite" });
    const asked = await call("login", { user: "ann", password: "hunter2" });
    const toolArgs = { user: "ann", password: "[REDACTED]" };
    expect(() => unwrap(asked)).toThrow(expect.objectContaining({ toolName: "login", toolArgs }));
    expect(JSON.stringify(asked)).not.toContain("hunter2");
  });

  test("waits for the answer on request", async () => {
    const { call, stc } = await world(undefined, { store: "sqlite://./two.sqlite" });
    const waiting = call("send", { amount: 6 }, { waitMs: 20_000 });
    const id = await until("the question", async () => (await stc.pendingApprovals())[0]?.id);
    await stc.decide({ id, by: { issuer: "https://people.test", subject: "alice" }, decision: "approve" });
    expect(codeOf(await waiting)).toBe("success");
  });

  test("the requester does not decide", async () => {
    const { call, stc } = await world(undefined, { store: "sqlite://./three.sqlite" });
    await call("send", { amount: 5 });
    const [pending] = await stc.pendingApprovals();
    const by = { issuer: "https://people.test", subject: "agent-7" };
    expect((await stc.decide({ id: pending?.id ?? "", by, decision: "approve" })).outcome).toBe("own_question");
  });

  test("a store that cannot be opened prevents the library's start and is named", async () => {
    const { stc } = await world(undefined, { store: "sqlite:///dev/null/x.sqlite" });
    await expect(stc.ready()).rejects.toThrow("approvals.store");
    open.pop();
  });
});
