import { afterAll, beforeAll, describe, expect, spyOn, test } from "bun:test";
import type { Client } from "@modelcontextprotocol/client";
import { TASKS_EXTENSION } from "../../src/mcp/tasks.ts";
import type { Loose, Reply } from "../support/asking-service.ts";
import { until } from "../support/until.ts";
import { McpWorld, MODERN } from "./mcp-world.ts";

const PAGE = "https://people.example/approvals/{id}/page";
const EARLIER = "2025-11-25";
const APPROVALS = {
  store: "sqlite://./approvals.sqlite",
  pageUrl: PAGE,
  pendingPerCallerMax: 100,
  pendingPerSessionMax: 100,
};
const OPENS_PAGES = { elicitation: { url: {} } };
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

let world: McpWorld;
/** A service that holds calls for one second. */
let hasty: McpWorld;
beforeAll(async () => {
  world = await new McpWorld().start({ approvals: APPROVALS });
  hasty = await new McpWorld().start({ approvals: APPROVALS, mcp: { holdSeconds: 1 } });
});
afterAll(() => Promise.all([world.end(), hasty.end()]));

let cents = 100;

function refund() {
  cents += 1;
  return { name: "orders_refund", arguments: { order: "ord_1", cents } };
}

async function pendingId(where = world): Promise<string | undefined> {
  const { body } = await where.send("GET", "/approvals?state=pending", { token: await where.person() });
  return body.approvals[0]?.id;
}

interface Shown {
  readonly mode?: string;
  readonly url?: string;
  readonly message?: string;
}

/** A client whose user answers as told when a page is to be opened. */
async function clientThat(answers: (shown: Shown) => Promise<"accept" | "decline" | "cancel">, where = world) {
  const client: Client = await where.client(MODERN, undefined, OPENS_PAGES);
  const shown: Shown[] = [];
  client.setRequestHandler("elicitation/create", async ({ params }) => {
    shown.push(params as Shown);
    return { action: await answers(params as Shown) };
  });
  return { client, shown };
}

/** A call by hand, of a client that opens pages. */
function callBy(
  where: McpWorld,
  { name, arguments: args }: ReturnType<typeof refund>,
  more: Loose = {},
): Promise<Reply> {
  const params = { name, arguments: args, ...more, _meta: { [CAPABILITIES]: OPENS_PAGES, ...more._meta } };
  return where.modern("tools/call", params);
}

describe("a client of 2026-07-28 that opens pages", () => {
  test("is asked to open the page of the request, and its call runs when an approver approved", async () => {
    const call = refund();
    const { client, shown } = await clientThat(async () => {
      await world.decide((await pendingId()) ?? "", "approve");
      return "accept";
    });
    const { structuredContent } = await client.callTool(call);
    expect(structuredContent).toEqual({ refunded: call.arguments.cents });
    const entry = world.last();
    const url = PAGE.replace("{id}", entry?.approval?.id ?? "");
    expect(shown).toMatchObject([{ mode: "url", url, message: expect.stringContaining("opening it decides nothing") }]);
    expect(world.entries().slice(-2)).toMatchObject([
      { decision: "PENDING", error: { code: "APPROVAL_REQUIRED" } },
      { decision: "ALLOWED", approval: { by: expect.stringContaining("human:") } },
    ]);
  });

  test("waits for the approver after its user has opened the page, which decides nothing", async () => {
    const call = refund();
    const { client, shown } = await clientThat(async () => "accept");
    const answer = client.callTool(call);
    const id = await until("the page", () => shown[0]?.url?.split("/").at(-2));
    expect(await pendingId()).toBe(id);
    await world.decide(id, "deny", { reason: "wrong order" });
    const { _meta, isError } = await answer;
    expect([isError, _meta?.["safe-tool-call/refusal"]]).toMatchObject([true, { code: "APPROVAL_DENIED" }]);
    expect(world.last()).toMatchObject({ decision: "DENIED", error: { code: "APPROVAL_DENIED" }, approval: { id } });
    expect(shown).toHaveLength(1);
  });

  test.each(["decline", "cancel"] as const)("gets the pending result when its user answers %s", async (action) => {
    const { client, shown } = await clientThat(async () => action);
    const { structuredContent } = await client.callTool(refund());
    expect(structuredContent).toMatchObject({ pendingApproval: { id: await pendingId() } });
    expect(shown).toHaveLength(1);
    await world.decide((await pendingId()) ?? "", "deny");
  });

  test("gets the pending result when nobody decides in time, and its user is asked once", async () => {
    const { client, shown } = await clientThat(async () => "accept", hasty);
    const { structuredContent } = await client.callTool(refund());
    expect(structuredContent).toMatchObject({ pendingApproval: { id: await pendingId(hasty) } });
    expect(shown).toHaveLength(1);
  });

  test("sends the call again after 50 s, without another page, until holdSeconds have passed", async () => {
    const setRealTimeout = globalThis.setTimeout;
    const timeouts = spyOn(globalThis, "setTimeout").mockImplementation(((run: () => void, ms: number) =>
      setRealTimeout(run, ms === 50_000 ? 20 : ms)) as typeof setTimeout);
    try {
      const call = refund();
      const first = await callBy(world, call);
      const { requestState, inputRequests } = first.body.result;
      expect(first.body.result).toMatchObject({ resultType: "input_required" });
      expect(Object.keys(inputRequests)).toEqual(["approval"]);
      const inputResponses = { approval: { action: "accept" } };
      const second = await callBy(world, call, { requestState, inputResponses });
      expect(second.body.result).toEqual({ ...first.body.result, inputRequests: undefined });
      const third = await callBy(world, call, { requestState });
      expect(third.body.result.resultType).toBe("input_required");
      await world.decide((await pendingId()) ?? "", "approve");
      const done = await callBy(world, call, { requestState });
      expect(done.body.result.structuredContent).toEqual({ refunded: call.arguments.cents });
    } finally {
      timeouts.mockRestore();
    }
  });

  test("cannot approve its own call: what it sends back grants nothing", async () => {
    const forged = [
      { requestState: "approved" },
      { requestState: { approved: true } },
      { inputResponses: { approval: { action: "accept", content: { approved: true, decision: "approve" } } } },
      {
        inputResponses: { approval: { action: "accept" }, decision: { action: "approve" } },
        requestState: "x".repeat(9_000),
      },
    ];
    for (const sent of forged) {
      const { body } = await callBy(hasty, refund(), sent);
      expect(body.result.structuredContent.pendingApproval.message).toStartWith("APPROVAL_REQUIRED");
      expect(hasty.last()).toMatchObject({ decision: "PENDING" });
    }
  });

  test("is answered at once when its caller holds too many calls, and does not spin", async () => {
    const controller = new AbortController();
    const token = await world.caller({ sub: "agent-9" });
    const send = (call: ReturnType<typeof refund>, signal?: AbortSignal) => {
      const params = { ...call, requestState: "pending", _meta: { [CAPABILITIES]: OPENS_PAGES } };
      return world.modern("tools/call", params, { token, ...(signal && { signal }) });
    };
    const held = Array.from({ length: 32 }, () => send(refund(), controller.signal).catch(() => undefined));
    await until("the requests", async () => {
      const { body } = await world.send("GET", "/approvals?state=pending&limit=200", { token: await world.person() });
      return body.approvals.filter(({ requester }: Loose) => requester.sub === "agent-9").length === 32
        ? true
        : undefined;
    });
    const { body } = await until("a full waiting room", async () => {
      const reply = await send(refund());
      return reply.body.result.resultType === "complete" ? reply : undefined;
    });
    expect(body.result.structuredContent.pendingApproval.message).toStartWith("APPROVAL_REQUIRED");
    controller.abort();
    await Promise.all(held);
  });

  test("that declares tasks too gets a task", async () => {
    const _meta = { [CAPABILITIES]: { ...OPENS_PAGES, extensions: { [TASKS_EXTENSION]: {} } } };
    const { body } = await callBy(world, refund(), { _meta });
    expect(body.result.resultType).toBe("task");
  });
});

describe("a client of 2025-11-25 that opens pages", () => {
  test("gets the page in an error; the same call waits for the approver and runs", async () => {
    const call = refund();
    const client = await world.client(EARLIER, undefined, OPENS_PAGES);
    const error: Loose = await client.callTool(call).catch((thrown: unknown) => thrown);
    const id = error.elicitations[0].elicitationId;
    expect([error.code, error.elicitations]).toMatchObject([
      -32_042,
      [{ mode: "url", elicitationId: id, url: PAGE.replace("{id}", id) }],
    ]);
    expect(error.message).toContain("APPROVAL_REQUIRED");
    expect(world.last()).toMatchObject({ decision: "PENDING", approval: { id }, protocol: { version: EARLIER } });
    const before = world.entries().length;
    const again = client.callTool(call);
    await world.decide(id, "approve");
    expect((await again).structuredContent).toEqual({ refunded: call.arguments.cents });
    expect(world.entries().slice(before)).toMatchObject([{ decision: "ALLOWED", approval: { id } }]);
  });

  test("is told again where the page is when nobody decided in time", async () => {
    const call = refund();
    const client = await hasty.client(EARLIER, undefined, OPENS_PAGES);
    const errors: Loose[] = [];
    for (let attempt = 0; attempt < 2; attempt += 1) {
      errors.push(await client.callTool(call).catch((thrown: unknown) => thrown));
    }
    const [one, other] = errors;
    expect([other.code, other.elicitations]).toEqual([-32_042, one.elicitations]);
  });
});

describe("a call is held, without a page,", () => {
  const CLIENTS: readonly (readonly [title: string, version: string, capabilities: Loose])[] = [
    ["for a client that fills in forms only", MODERN, { elicitation: {} }],
    ["for a client of 2025-11-25 that fills in forms only", EARLIER, { elicitation: { form: {} } }],
    ["for a client that says nothing", MODERN, {}],
    ["for a client of 2025-06-18", "2025-06-18", OPENS_PAGES],
  ];
  test.each(CLIENTS)("%s", async (_, version, capabilities) => {
    const client = await hasty.client(version, undefined, capabilities);
    const { structuredContent } = await client.callTool(refund());
    expect(structuredContent).toMatchObject({ pendingApproval: {} });
  });

  test("where the same call again does not use its approval; the pending result says how to name it", async () => {
    const separate = await new McpWorld().start({
      approvals: { ...APPROVALS, attach: "off" },
      mcp: { holdSeconds: 1 },
    });
    const call = refund();
    const { body } = await callBy(separate, call);
    const { id, message } = body.result.structuredContent.pendingApproval;
    expect(message).toContain(`and _meta["safe-tool-call/approval"] {"id": "${id}"}, to learn the decision`);
    await separate.decide(id, "approve");
    const named = await callBy(separate, call, { _meta: { "safe-tool-call/approval": { id } } });
    expect(named.body.result.structuredContent).toEqual({ refunded: call.arguments.cents });
    await separate.end();
  });

  test("where approvals.pageUrl is not set", async () => {
    const plain = await new McpWorld().start({ mcp: { holdSeconds: 1 } });
    const { body } = await callBy(plain, refund());
    expect(body.result).toMatchObject({ resultType: "complete", structuredContent: { pendingApproval: {} } });
    await plain.end();
  });
});
