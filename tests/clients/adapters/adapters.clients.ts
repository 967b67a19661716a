import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import type { StrictOptions } from "../../../clients/typescript/src/adapters/core.ts";
import { type ClientOptions, type Fetch, SafeToolCallClient } from "../../../clients/typescript/src/client.ts";
import { ApprovalService } from "../../support/approval-service.ts";
import { type Heard, ModelServer, type Script } from "../../support/model-server.ts";
import { until } from "../../support/until.ts";
import { DRIVERS } from "./drivers.ts";

const service = new ApprovalService({ coolDownSeconds: 1 });
let model: ModelServer | undefined;
let agents = 0;

beforeAll(async () => {
  await service.start();
});
afterAll(() => service.end());

afterEach(async () => {
  const problems = model?.problems;
  await model?.end();
  model = undefined;
  expect(problems).toEqual([]);
});

const READS = { name: "do_read", args: { what: "a" } };
const WRITES = { name: "do_write", args: { what: "b" } };

/** A caller of its own for each test, so that approvals of one test are not those of another. */
async function newAgent() {
  agents += 1;
  const sub = `adapter-${agents}`;
  return { sub, token: await service.agent({ sub }) };
}

/** A `fetch` that loses answers to calls: the service has handled those requests. */
function losing(count: number): Fetch {
  let left = count;
  return async (url, init) => {
    const response = await fetch(url, init);
    if (init.method !== "POST" || left === 0) return response;
    left -= 1;
    await response.text();
    throw new TypeError("the connection was lost");
  };
}

function lastOf({ results }: Heard) {
  return results.at(-1);
}

async function openRequest(sub: string): Promise<string> {
  const token = await service.person();
  return until("the approval request", async () => {
    const { approvals } = (await service.send("GET", "/approvals?state=pending", { token })).body;
    return approvals.find((one: { requester: { sub: string } }) => one.requester.sub === sub)?.id as string | undefined;
  });
}

describe.each(DRIVERS)("%s", (name, drive) => {
  async function run(
    script: Script,
    { options, ...settings }: { options?: StrictOptions } & Partial<ClientOptions> = {},
  ) {
    const { token: own, sub } = await newAgent();
    model = new ModelServer(script, [own]);
    const client = new SafeToolCallClient({ url: service.url, token: own, ...settings });
    const before = service.deeds.length;
    const running = drive({ client, model, ...(options && { options }) });
    return { sub, running, heard: model.heard, deeds: () => service.deeds.slice(before) };
  }

  test("offers the caller's tools with their constraints, and returns results as untrusted data", async () => {
    const { running, heard, deeds } = await run([{ calls: [READS] }, { text: "done" }]);
    expect(await running).toBe("done");
    const names = heard[0]?.tools.map(({ name }) => name).sort();
    expect(names).toEqual(["do_destroy", "do_network", "do_once", "do_read", "do_write"]);
    expect(heard[0]?.tools.find(({ name }) => name === "do_read")).toMatchObject({
      description: "Reads",
      schema: { type: "object", properties: { what: { enum: ["a", "b", "c", "fails"] } }, required: ["what"] },
    });
    expect(heard[1]?.results).toEqual([{ untrusted: true, output: { done: "a" } }]);
    expect(deeds()).toEqual(["a"]);
  });

  test("offers and makes only the chosen calls", async () => {
    const options = { only: ["do_read"] };
    const { running, heard, deeds } = await run([{ calls: [WRITES] }, { text: "done" }], { options });
    expect(await running).toBe("done");
    expect(heard[0]?.tools.map(({ name }) => name)).toEqual(["do_read"]);
    expect(deeds()).toEqual([]);
    expect(heard[1]?.results).toHaveLength(1);
  });

  test("a refusal names the field and the allowed values, and the model corrects its call", async () => {
    const correct = (heard: Heard) => {
      const { error } = lastOf(heard);
      expect(error).toMatchObject({ code: "INVALID_INPUT" });
      const [, value] = /what.*?"(a)"/s.exec(JSON.stringify(error).replaceAll("\\", "")) ?? [];
      return { calls: [{ name: "do_read", args: { what: value ?? "" } }] };
    };
    const script = [{ calls: [{ name: "do_read", args: { what: "z" } }] }, correct, { text: "corrected" }];
    const { running, heard, deeds } = await run(script);
    expect(await running).toBe("corrected");
    expect(heard.at(-1)?.results.at(-1)).toEqual({ untrusted: true, output: { done: "a" } });
    expect(deeds()).toEqual(["a"]);
  });

  test("a lost permission and a halt are for the model, not exceptions", async () => {
    let weak = false;
    const [strong, other] = [await service.agent(), await service.agent({ permissions: ["other:do"] })];
    const token = () => (weak ? other : strong);
    const start = () => {
      weak = true;
      return { calls: [READS] };
    };
    const { running, heard } = await run([start, { text: "refused" }], { token });
    expect(await running).toBe("refused");
    expect(heard[1]?.results).toMatchObject([{ error: { code: "PERMISSION_DENIED" } }]);
    await model?.end();

    const operator = await service.person({ permissions: ["halts:write"] });
    const halt = async (method: string, path: string, body?: object) =>
      (await service.send(method, path, { token: operator, ...(body && { body }) })).body;
    const { halt: made } = await halt("POST", "/halts", { kind: "tool", tool: "do_read", reason: "under repair" });
    try {
      const halted = await run([{ calls: [READS] }, { text: "halted" }]);
      expect(await halted.running).toBe("halted");
      expect(halted.heard[1]?.results).toMatchObject([{ error: { code: "HALTED" } }]);
    } finally {
      await halt("DELETE", `/halts/${made.id}`);
    }
  });

  test("a failing target is reported", async () => {
    const { running, heard } = await run([
      { calls: [{ name: "do_read", args: { what: "fails" } }] },
      { text: "failed" },
    ]);
    expect(await running).toBe("failed");
    expect(heard[1]?.results).toMatchObject([{ error: { code: "TARGET_FAILED" } }]);
  });

  test("waits for an approver, and runs the call once", async () => {
    const asked: string[] = [];
    const options: StrictOptions = {
      onPending: ({ tool, approval }) => {
        asked.push(`${tool} ${approval.id}`);
      },
    };
    const { sub, running, heard, deeds } = await run([{ calls: [WRITES] }, { text: "written" }], { options });
    const id = await openRequest(sub);
    expect(deeds()).toEqual([]);
    await service.decide(id, "approve");
    expect(await running).toBe("written");
    expect(asked).toEqual([`do_write ${id}`]);
    expect(heard[1]?.results).toEqual([{ untrusted: true, output: { done: "b" } }]);
    expect(deeds()).toEqual(["b"]);
  });

  test("tells the model a denial with its reason", async () => {
    const { sub, running, heard, deeds } = await run([{ calls: [WRITES] }, { text: "denied" }]);
    await service.decide(await openRequest(sub), "deny", { reason: "not today" });
    expect(await running).toBe("denied");
    expect(heard[1]?.results).toMatchObject([
      { error: { code: "APPROVAL_DENIED", message: "Denied by user: not today" } },
    ]);
    expect(deeds()).toEqual([]);
  });

  test("a call without a decision in time can be made again, and uses its approval", async () => {
    const options = { approvalTimeoutMs: 1 };
    const again = async (heard: Heard) => {
      const { error } = lastOf(heard);
      expect(error.code).toBe("APPROVAL_REQUIRED");
      await service.decide(error.details.approval.id, "approve");
      return { calls: [WRITES] };
    };
    const { running, heard, deeds } = await run([{ calls: [WRITES] }, again, { text: "written" }], { options });
    expect(await running).toBe("written");
    expect(heard.at(-1)?.results.at(-1)).toEqual({ untrusted: true, output: { done: "b" } });
    expect(deeds()).toEqual(["b"]);
  });

  test("a call that fits no tool comes back to the model", async () => {
    const script = [{ calls: [{ name: "do_reed", args: { what: "a" } }] }, { calls: [READS] }, { text: "found" }];
    const { running, heard, deeds } = await run(script);
    expect(await running).toBe("found");
    expect(heard).toHaveLength(3);
    expect(JSON.stringify(heard[1]?.results[0])).toMatch(/do_reed|TOOL_NOT_FOUND/);
    expect(deeds()).toEqual(["a"]);
  });

  // LangChain completes such arguments itself when it streams, and otherwise ends the run.
  test.skipIf(name.startsWith("LangChain"))("arguments that are not JSON come back to the model", async () => {
    const script = [{ calls: [{ name: "do_read", args: '{"what": "a' }] }, { calls: [READS] }, { text: "read" }];
    const { running, heard, deeds } = await run(script);
    expect(await running).toBe("read");
    expect(heard).toHaveLength(3);
    expect(deeds()).toEqual(["a"]);
  });

  test("calls in parallel are each answered, whatever becomes of the others", async () => {
    const calls = [
      READS,
      { name: "do_read", args: { what: "fails" } },
      WRITES,
      { name: "do_read", args: { what: "c" } },
    ];
    const { sub, running, heard, deeds } = await run([{ calls }, { text: "all" }]);
    await service.decide(await openRequest(sub), "approve");
    expect(await running).toBe("all");
    expect(heard[1]?.results).toMatchObject([
      { output: { done: "a" } },
      { error: { code: "TARGET_FAILED" } },
      { output: { done: "b" } },
      { output: { done: "c" } },
    ]);
    expect([...deeds()].sort()).toEqual(["a", "b", "c", "fails"]);
  });

  test("a call whose answer is lost runs once, and the model gets the answer", async () => {
    const { running, heard, deeds } = await run([{ calls: [READS] }, { text: "done" }], { fetch: losing(1) });
    expect(await running).toBe("done");
    expect(heard[1]?.results).toEqual([{ untrusted: true, output: { done: "a" } }]);
    expect(deeds()).toEqual(["a"]);
  });

  test("a call whose answers are all lost ran once, and the model is told that it may have run", async () => {
    const settings = { fetch: losing(Number.POSITIVE_INFINITY), retries: 1 };
    const { running, heard, deeds } = await run([{ calls: [READS] }, { text: "lost" }], settings);
    expect(await running).toBe("lost");
    expect(heard[1]?.results).toMatchObject([
      { error: { code: "SERVICE_UNREACHABLE", message: expect.stringContaining("The call may have run") } },
    ]);
    expect(deeds()).toEqual(["a"]);
  });

  test("an unreachable service is reported", async () => {
    const start = async () => {
      await service.stop();
      return { calls: [READS] };
    };
    const { running, heard } = await run([start, { text: "away" }], { retries: 1 });
    try {
      expect(await running).toBe("away");
    } finally {
      await service.start();
    }
    expect(heard[1]?.results).toMatchObject([{ error: { code: "SERVICE_UNREACHABLE" } }]);
  });
});

describe.each(DRIVERS.filter(([name]) => /Agents SDK|AI SDK/.test(name)))("%s, interrupting", (_, drive) => {
  test("a call that is allowed after the question, before its request, runs once and is not asked again", async () => {
    const { sub, token } = await newAgent();
    const { session } = (await service.send("POST", "/sessions", { token, body: {} })).body;
    const allowing: Fetch = async (url, init) => {
      const response = await fetch(url, init);
      if (String(init.body).includes('"dryRun":true')) {
        const body = { mode: "yolo", expiresInSeconds: 60 };
        const set = await service.send("PUT", `/sessions/${session.id}/mode`, { token: await service.person(), body });
        expect(set.http).toBe(200);
      }
      return response;
    };
    model = new ModelServer([{ calls: [WRITES] }, { text: "done" }], [token]);
    const client = new SafeToolCallClient({ url: service.url, token, session: session.id, fetch: allowing });
    const before = service.deeds.length;
    expect(await drive({ client, model, options: { onPending: "return" } })).toBe("done");
    expect(model.results).toEqual([{ untrusted: true, output: { done: "b" } }]);
    expect(service.deeds.slice(before)).toEqual(["b"]);
    const { approvals } = (await service.send("GET", "/approvals", { token: await service.person() })).body;
    expect(approvals.filter((one: { requester: { sub: string } }) => one.requester.sub === sub)).toEqual([]);
  });
});

describe.each(DRIVERS.filter(([name]) => /chat completions|Responses|Anthropic/.test(name)))(
  "%s, strict",
  (_, drive) => {
    test("tools are offered in the strict mode of the API", async () => {
      const { token } = await newAgent();
      model = new ModelServer([{ calls: [READS] }, { text: "done" }], [token]);
      const client = new SafeToolCallClient({ url: service.url, token });
      expect(await drive({ client, model, options: { strict: true } })).toBe("done");
      const [{ body, tools } = {}] = model.heard;
      expect(
        body.tools.map((tool: { strict?: boolean; function?: object }) => ({ ...tool, ...tool.function }).strict),
      ).toEqual([true, true, true, true, true]);
      expect(tools?.[0]?.schema.additionalProperties).toBe(false);
    });
  },
);
