import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { status } from "@grpc/grpc-js";
import { z } from "zod";
import type { ToolClassification } from "../../../../src/core/types.ts";
import type { ResilienceLimits } from "../../../../src/egress/resilience.ts";
import { type GrpcHandler, grpcHandler } from "../../../../src/targets/grpc/handler.ts";
import { until } from "../../../support/until.ts";
import { type Break, type BrokenServer, startBrokenServer } from "../support/broken-server.ts";
import { call, refusal } from "../support/calls.ts";
import { type Lab, labSystem, startLab } from "../support/lab.ts";
import { labTool, runContext } from "../support/tool.ts";

let broken: BrokenServer;
let lab: Lab;
const handlers: GrpcHandler[] = [];

beforeAll(async () => {
  [broken, lab] = await Promise.all([startBrokenServer(), startLab()]);
});
afterAll(() => {
  broken.close();
  lab.close();
});
afterEach(async () => {
  await Promise.all(handlers.splice(0).map((handler) => handler.close()));
});

function handlerOf(port: number, resilience: Partial<ResilienceLimits> = {}): GrpcHandler {
  const handler = grpcHandler({ systems: new Map([["lab", labSystem(port, { resilience })]]), random: () => 0 });
  handlers.push(handler);
  return handler;
}

const tool = (classification: ToolClassification, idempotent = false) =>
  labTool({ method: "Hang", classification, idempotent });

const BREAKS: readonly Break[] = ["reset", "refused", "calm", "drop", "http 503", "UNAVAILABLE"];

describe("a retry", () => {
  const rows = BREAKS.flatMap((how) => [
    [how, "read", false] as const,
    [how, "write", true] as const,
    [how, "destructive", true] as const,
  ]);

  test.each(rows)("after %s, for a tool that is %s (idempotent: %p)", async (how, classification, idempotent) => {
    broken.play(how, how, "answer");
    expect(await call(handlerOf(broken.port).bind(tool(classification, idempotent)), {})).toEqual({});
    expect(broken.requests()).toBe(3);
  });

  test.each(BREAKS)("never of a change: %s", async (how) => {
    broken.play(how, "answer");
    const got = await refusal(call(handlerOf(broken.port).bind(tool("write")), {}));
    expect(got.code).toBe("OUTCOME_UNKNOWN");
    expect(broken.requests()).toBe(1);
  });

  test("at most two, then it is unavailable", async () => {
    broken.play("reset");
    expect((await refusal(call(handlerOf(broken.port).bind(tool("read")), {}))).code).toBe("TARGET_UNAVAILABLE");
    expect(broken.requests()).toBe(3);
  });

  test("none once part of an answer has arrived", async () => {
    broken.play("half", "answer");
    expect((await refusal(call(handlerOf(broken.port).bind(tool("read")), {}))).code).toBe("TARGET_UNAVAILABLE");
    expect(broken.requests()).toBe(1);
  });

  test("none where the configuration disables it", async () => {
    broken.play("reset", "answer");
    const handler = handlerOf(broken.port, { retriesMax: 0 });
    expect((await refusal(call(handler.bind(tool("read")), {}))).code).toBe("TARGET_UNAVAILABLE");
    expect(broken.requests()).toBe(1);
  });

  test.each(["INTERNAL", "RESOURCE_EXHAUSTED", "ABORTED", "UNKNOWN", "NOT_FOUND"] as const)(
    "none of a service's own %s",
    async (name) => {
      const input = z.object({ code: z.int(), text: z.string() });
      const binding = handlerOf(lab.port).bind(labTool({ method: "Fail", input }));
      const before = lab.calls();
      await refusal(call(binding, { code: status[name], text: "Received RST_STREAM with code 2: Session closed" }));
      expect(lab.calls() - before).toBe(1);
    },
  );

  test("is abandoned when the caller disconnects", async () => {
    broken.play("reset");
    const controller = new AbortController();
    const work = call(handlerOf(broken.port).bind(tool("read")), {}, runContext({ signal: controller.signal }));
    await until("the first attempt", () => (broken.requests() > 0 ? true : undefined));
    controller.abort(new DOMException("disconnected", "AbortError"));
    expect((await refusal(work)).code).toBe("CANCELLED");
    expect(broken.requests()).toBeLessThan(3);
  });

  test("uses a budget: not every caller calls a dead service three times", async () => {
    broken.play("reset");
    const binding = handlerOf(broken.port, { circuitFailuresMax: 10_000 }).bind(tool("read"));
    const calls = Array.from({ length: 40 }, () => refusal(call(binding, {})));
    await Promise.all(calls);
    expect(broken.requests()).toBe(50);
  });
});

describe("connection errors and service errors", () => {
  test.each(["reset", "refused", "calm", "drop", "http 503", "half"] as const)(
    "a connection's %s is unavailable, whatever grpc-js calls it",
    async (how) => {
      broken.play(how);
      const got = await refusal(call(handlerOf(broken.port, { retriesMax: 0 }).bind(tool("read")), {}));
      expect(got).toMatchObject({ code: "TARGET_UNAVAILABLE", cause: { origin: "transport" } });
    },
  );

  test.each([
    ["INTERNAL", "Received RST_STREAM with code 2 (Internal server error)"],
    ["RESOURCE_EXHAUSTED", "Bandwidth exhausted or memory limit exceeded"],
  ] as const)("a service that answers %s like a broken connection counts as available", async (name, text) => {
    const input = z.object({ code: z.int(), text: z.string() });
    const binding = handlerOf(lab.port, { circuitFailuresMax: 1 }).bind(labTool({ method: "Fail", input }));
    for (let round = 0; round < 3; round += 1) {
      const got = await refusal(call(binding, { code: status[name], text }));
      expect(got).toMatchObject({ code: "TARGET_FAILED", cause: { origin: "service" } });
    }
  });
});

describe("the circuit", () => {
  test("opens after consecutive connection failures, says when to retry, and closes by itself", async () => {
    broken.play("reset", "reset", "answer");
    const handler = handlerOf(broken.port, { retriesMax: 0, circuitFailuresMax: 2, circuitOpenMs: 1_000 });
    const binding = handler.bind(tool("read"));
    for (let fault = 0; fault < 2; fault += 1) await refusal(call(binding, {}));
    expect((await handler.status())["lab"]?.circuit).toBe("open");
    expect(await refusal(call(binding, {}))).toMatchObject({
      code: "TARGET_UNAVAILABLE",
      retryAfterMs: 1_000,
      details: { status: "UNAVAILABLE" },
    });
    expect(broken.requests()).toBe(2);
    const answer = await until("the circuit to close", () => call(binding, {}).catch(() => undefined));
    expect(answer).toEqual({});
    expect((await handler.status())["lab"]?.circuit).toBe("closed");
  });

  test("a change that it stops did not happen", async () => {
    broken.play("reset");
    const handler = handlerOf(broken.port, { retriesMax: 0, circuitFailuresMax: 1, circuitOpenMs: 60_000 });
    const binding = handler.bind(tool("write"));
    expect((await refusal(call(binding, {}))).code).toBe("OUTCOME_UNKNOWN");
    expect((await refusal(call(binding, {}))).code).toBe("TARGET_UNAVAILABLE");
    expect(broken.requests()).toBe(1);
  });

  test.each([
    ["a service's own no", status.NOT_FOUND],
    ["a service's own UNAVAILABLE", status.UNAVAILABLE],
    ["a service's own INTERNAL", status.INTERNAL],
  ] as const)("stays closed for %s", async (_title, code) => {
    const input = z.object({ code: z.int(), text: z.string() });
    const handler = handlerOf(lab.port, { retriesMax: 0, circuitFailuresMax: 2 });
    const binding = handler.bind(labTool({ method: "Fail", input }));
    for (let round = 0; round < 5; round += 1) await refusal(call(binding, { code, text: "" }));
    expect((await handler.status())["lab"]?.circuit).toBe("closed");
  });

  test("stays closed for callers that disconnect and deadlines that pass", async () => {
    const handler = handlerOf(lab.port, { circuitFailuresMax: 1 });
    const binding = handler.bind(tool("read"));
    for (const name of ["AbortError", "TimeoutError"]) {
      const controller = new AbortController();
      const work = refusal(call(binding, {}, runContext({ signal: controller.signal })));
      await lab.hangBegun();
      controller.abort(new DOMException("over", name));
      await work;
    }
    expect((await handler.status())["lab"]?.circuit).toBe("closed");
  });
});

test("concurrent calls to one system are limited, over all its tools", async () => {
  const handler = handlerOf(lab.port, { concurrentCallsMax: 2 });
  const controller = new AbortController();
  const context = runContext({ signal: controller.signal });
  const under = (["read", "write"] as const).map((kind) => refusal(call(handler.bind(tool(kind)), {}, context)));
  await Promise.all([lab.hangBegun(), lab.hangBegun()]);
  const inspect = handler.bind(labTool({ method: "Inspect" }));
  expect(await refusal(call(inspect, {}))).toMatchObject({ code: "OVERLOADED", retryAfterMs: 1_000 });
  controller.abort();
  await Promise.all(under);
  expect(await call(inspect, {})).toHaveProperty("headers");
});
