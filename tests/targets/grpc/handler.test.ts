import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { status } from "@grpc/grpc-js";
import { z } from "zod";
import { Refusal } from "../../../src/core/errors.ts";
import { PartialAnswer } from "../../../src/core/partial-answer.ts";
import type { Binding, RequestTracer, RunContext } from "../../../src/core/types.ts";
import { type GrpcHandler, grpcHandler } from "../../../src/targets/grpc/handler.ts";
import { keptOf } from "../../support/kept.ts";
import { call, refusal } from "./support/calls.ts";
import { type Lab, labSystem, startLab } from "./support/lab.ts";
import { labTool, runContext, type ToolOptions } from "./support/tool.ts";

let lab: Lab;
let handler: GrpcHandler;

beforeAll(async () => {
  lab = await startLab();
  handler = grpcHandler({
    systems: new Map([
      ["lab", labSystem(lab.port, { metadata: { region: "north" } })],
      ["small", labSystem(lab.port, { maxMessageBytes: 2_000 })],
    ]),
  });
});

afterAll(async () => {
  await handler.close();
  lab.close();
});

const Fail = z.object({ code: z.int(), text: z.string() });
const Blob = z.object({ payload: z.string().optional(), answerBytes: z.int().optional() });

const bind = (options: ToolOptions): Binding => handler.bind(labTool(options));

describe("plan", () => {
  const echo = (): Binding => bind({ method: "Echo", input: z.object({ text: z.string(), colors: z.array(z.int()) }) });

  test("says exactly what will be sent, and where", async () => {
    const before = lab.calls();
    const plan = await echo().plan({ colors: [1], text: "a" }, runContext());
    expect(plan).toEqual({
      kind: "grpc",
      system: "lab",
      endpoint: `127.0.0.1:${lab.port}`,
      path: "/lab.v1.Lab/Echo",
      tls: null,
      message: { text: "a", colors: ["RED"] },
    });
    expect(JSON.stringify(await echo().plan({ text: "a", colors: [1] }, runContext()))).toBe(JSON.stringify(plan));
    expect(lab.calls()).toBe(before);
  });

  test.each([
    ["an unknown enum name", { colors: ["PINK"] }, "colors[0]"],
    ["a number out of range", { small: 2_147_483_648 }, "small"],
    ["a text that is no integer", { big: "QQ000001C" }, "big"],
    ["a lone surrogate", { texts: ["fine", "QQ000001C\ud800"] }, "texts[1]"],
    ["base64 without its padding", { raw: "QQ000001CQQ" }, "raw"],
    ["a date that does not exist", { at: "2026-02-30T00:00:00Z" }, "at"],
    ["a date in a list's message", { node: { children: [{ kind: "NONE" }] } }, "node.children[0].kind"],
    ["two members of one choice", { phone: "QQ000001C", person: {} }, "phone"],
    ["a field that the contract lacks", { txet: "QQ000001C" }, "txet"],
    ["a key of a map is nobody's to tell", { labels: { QQ000001C: 1 } }, "labels.{entry}"],
  ])("refuses %s, which the schema accepted, and names the field", async (_title, input, path) => {
    const got = await refusal((async () => echo().plan(input, runContext()))());
    expect(got).toMatchObject({ code: "INVALID_INPUT", details: { issues: [{ path }] } });
    expect(got.message).toContain(path);
    expect(JSON.stringify([got.message, got.details, got.cause])).not.toMatch(/QQ000001C|lab\.v1\.Everything/);
  });

  test("refuses a message over the system's limit before anything is sent", async () => {
    const binding = bind({ method: "Blob", input: Blob, system: "small" });
    const before = lab.calls();
    expect((await refusal(call(binding, { payload: "x".repeat(2_001) }))).code).toBe("INVALID_INPUT");
    expect(lab.calls()).toBe(before);
  });

  test("the planned message is sent, whatever happens to the plan's object, and a copy of the plan sends the same", async () => {
    const binding = echo();
    const plan = await binding.plan({ text: "planned", colors: [1] }, runContext());
    const copied = structuredClone(plan);
    Object.assign(plan["message"] as object, { text: "changed" });
    const answers = [await binding.run(plan, runContext()), await binding.run(copied, runContext())];
    expect(answers).toMatchObject([{ text: "planned" }, { text: "planned" }]);
  });

  test("an answer's keys are in their order, at every level", async () => {
    const answer = await call(bind({ method: "Echo", input: z.object({ node: z.object({ label: z.string() }) }) }), {
      node: { label: "x" },
    });
    const unsorted = (value: unknown): unknown => {
      if (typeof value !== "object" || value === null) return undefined;
      const keys = Object.keys(value);
      return keys.join() !== keys.toSorted().join() ? keys : Object.values(value).find(unsorted);
    };
    expect(unsorted(answer)).toBeUndefined();
    expect(Object.keys(answer as object).length).toBeGreaterThan(10);
  });

  test("another target's plan does not run", async () => {
    const plan = { ...(await bind({ method: "Hang" }).plan({}, runContext())), path: "/lab.v1.Lab/Echo" };
    expect((await refusal(bind({ method: "Hang" }).run(plan, runContext()))).code).toBe("INTERNAL");
  });
});

describe("every status", () => {
  const refused = ["INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION", "OUT_OF_RANGE"];
  const lateOrLost: Record<string, string> = {
    UNAVAILABLE: "TARGET_UNAVAILABLE",
    DEADLINE_EXCEEDED: "DEADLINE_EXCEEDED",
  };
  const rows = Object.values(status)
    .filter((name): name is keyof typeof status => typeof name === "string" && name !== "OK")
    .map((name) => {
      const plain = refused.includes(name) ? "TARGET_REFUSED" : "TARGET_FAILED";
      const unsure = name in lateOrLost || name === "CANCELLED";
      return [name, lateOrLost[name] ?? plain, unsure ? "OUTCOME_UNKNOWN" : plain] as const;
    });

  test.each(rows)("%s: %s for a tool that reads, %s for one that changes", async (name, read, change) => {
    const text = "John Smith <john.smith@example.com>, QQ000001C";
    const want = [
      [{ method: "Fail", input: Fail }, read],
      [{ method: "Fail", input: Fail, classification: "write" }, change],
      [{ method: "Fail", input: Fail, classification: "write", idempotent: true }, read],
    ] as const;
    for (const [options, code] of want) {
      const got = await refusal(call(bind(options), { code: status[name], text }));
      expect(got).toMatchObject({ code, details: { status: name }, cause: { status: name, textLength: text.length } });
      expect(JSON.stringify([got.message, got.details, got.cause])).not.toMatch(/John|QQ0/);
    }
  });

  test("a status that does not exist is UNKNOWN", async () => {
    const got = await refusal(call(bind({ method: "Fail", input: Fail }), { code: 99, text: "" }));
    expect(got).toMatchObject({ code: "TARGET_FAILED", details: { status: "UNKNOWN" } });
  });
});

describe("sizes", () => {
  test.each([[0], [70_000], [1_000_000]])("%d bytes both ways", async (bytes) => {
    const answer = await call(bind({ method: "Blob", input: Blob }), {
      payload: "y".repeat(bytes),
      answerBytes: bytes,
    });
    expect(answer).toEqual({ payload: "x".repeat(bytes), receivedBytes: bytes });
  });

  test("an answer over the system's limit, reading", async () => {
    const binding = bind({ method: "Blob", input: Blob, system: "small" });
    expect((await refusal(call(binding, { answerBytes: 3_000 }))).code).toBe("OUTPUT_TOO_LARGE");
  });

  test.each([
    ["a change", { classification: "write" }],
    ["a change that may be repeated", { classification: "write", idempotent: true }],
  ] as const)(
    "an answer over the system's limit is not read, but the result of %s is known",
    async (_title, options) => {
      const binding = bind({ method: "Blob", input: Blob, system: "small", ...options });
      const answer = await call(binding, { answerBytes: 1_000_000 });
      expect(answer).toBeInstanceOf(PartialAnswer);
      expect(keptOf(answer)).toBeUndefined();
    },
  );

  test("an answer over the tool's limit is read whole: it is cut after redaction", async () => {
    const answer = await call(bind({ method: "Blob", input: Blob, outputBytesMax: 2_000 }), { answerBytes: 3_000 });
    expect(answer).toMatchObject({ payload: "x".repeat(3_000) });
  });
});

describe("deadline and cancellation", () => {
  const timeout = (): DOMException => new DOMException("too late", "TimeoutError");
  const disconnected = (): DOMException => new DOMException("disconnected", "AbortError");

  test.each([
    ["the deadline, reading", "read", timeout, "DEADLINE_EXCEEDED"],
    ["the deadline, changing", "write", timeout, "OUTCOME_UNKNOWN"],
    ["a disconnected caller, reading", "read", disconnected, "CANCELLED"],
    ["a disconnected caller, changing", "write", disconnected, "CANCELLED"],
  ] as const)("%s: the service is notified", async (_title, classification, reason, code) => {
    const controller = new AbortController();
    const work = refusal(call(bind({ method: "Hang", classification }), {}, runContext({ signal: controller.signal })));
    await lab.hangBegun();
    controller.abort(reason());
    expect((await work).code).toBe(code);
    await lab.hangCancelled();
  });

  test.each([
    ["read", "DEADLINE_EXCEEDED"],
    ["write", "OUTCOME_UNKNOWN"],
  ] as const)("the deadline is sent with the call (%s)", async (classification, code) => {
    const work = refusal(
      call(bind({ method: "Hang", classification }), {}, runContext({ deadline: Date.now() + 150 })),
    );
    await lab.hangBegun();
    expect((await work).code).toBe(code);
    await lab.hangCancelled();
  });

  test.each([
    ["a disconnected caller", "write", disconnected, "CANCELLED"],
    ["the deadline, reading", "read", timeout, "DEADLINE_EXCEEDED"],
    ["the deadline, changing", "write", timeout, "TARGET_UNAVAILABLE"],
  ] as const)("ended before the start by %s: nothing is sent", async (_title, classification, reason, code) => {
    const before = lab.calls();
    const context = runContext({ signal: AbortSignal.abort(reason()) });
    expect((await refusal(call(bind({ method: "Hang", classification }), {}, context))).code).toBe(code);
    expect(lab.calls()).toBe(before);
  });
});

test("a call that has ended before its connection is there sends nothing", async () => {
  const begin = () => {
    throw new Refusal("DEADLINE_EXCEEDED", "over");
  };
  const binding = bind({ method: "Echo", classification: "write" });
  const before = lab.calls();
  expect((await refusal(call(binding, {}, runContext({ begin })))).code).toBe("DEADLINE_EXCEEDED");
  expect([lab.calls(), binding.callsBegin]).toEqual([before, true]);
});

describe("metadata", () => {
  async function headers(changes: Partial<RunContext>): Promise<Record<string, string>> {
    const answer = (await call(bind({ method: "Inspect" }), {}, runContext(changes))) as {
      headers: Record<string, string>;
    };
    return answer.headers;
  }

  const caller = runContext().caller;
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

  test("trace, caller, tool and the system's own", async () => {
    expect(await headers({ traceparent })).toMatchObject({
      traceparent,
      region: "north",
      "x-trace-id": runContext().traceId,
      "x-caller-sub": "agent-7",
      "x-caller-iss": "https://idp.test",
      "x-tool": "lab_tool",
    });
  });

  test.each([
    ["a line break", "a\r\nx-caller-sub: root"],
    ["NUL", "a\u0000b"],
    ["letters beyond ASCII", "Zoë"],
    ["spaces at the ends", " root "],
  ])("a subject with %s is sent as bytes", async (_title, subject) => {
    const got = await headers({ caller: { ...caller, subject } });
    expect(got["x-caller-sub-bin"]).toBe(subject);
    expect(got).not.toHaveProperty("x-caller-sub");
  });

  test.each([["x"], ["00-0-0-00\r\nx-tool: y"]])("a malformed traceparent is left out", async (traceparent) => {
    expect(await headers({ traceparent })).not.toHaveProperty("traceparent");
  });

  test.each([
    ["goes along with its traceparent", { traceparent, tracestate: "a=1" }, "a=1"],
    ["goes nowhere without one", { tracestate: "a=1" }, undefined],
    ["is left out when it is malformed", { traceparent, tracestate: "a=1\r\nx-tool: y" }, undefined],
  ])("tracestate %s", async (_title, changes, want) => {
    expect((await headers(changes))["tracestate"]).toBe(want as string);
  });

  test("the call's tracer is notified of each request, and supplies its headers", async () => {
    const events: string[] = [];
    const own = "00-0af7651916cd43dd8448eb211c80319c-00000000000000ab-01";
    const requests: RequestTracer = {
      begin: ({ path, server }) => {
        events.push(`${path} to ${server}`);
        return { traceparent: own, end: (status) => void events.push(status) };
      },
    };
    expect((await headers({ traceparent, requests }))["traceparent"]).toBe(own);
    const failing = bind({ method: "Fail", input: Fail });
    await refusal(call(failing, { code: status.NOT_FOUND, text: "" }, runContext({ requests })));
    const server = `127.0.0.1:${lab.port}`;
    expect(events).toEqual([`/lab.v1.Lab/Inspect to ${server}`, "OK", `/lab.v1.Lab/Fail to ${server}`, "NOT_FOUND"]);
  });
});

describe("channels", () => {
  test("one per system and tool class, reused", async () => {
    const own = grpcHandler({ systems: new Map([["lab", labSystem(lab.port)]]) });
    expect(own.channels()).toEqual([]);
    for (const classification of ["read", "write", "destructive", "read"] as const) {
      await call(own.bind(labTool({ method: "Inspect", classification })), {});
    }
    expect(own.channels()).toEqual([
      { system: "lab", toolClass: "read", state: "READY" },
      { system: "lab", toolClass: "change", state: "READY" },
    ]);
    const late = own.bind(labTool({ method: "Inspect" }));
    await own.close();
    expect((await refusal(call(late, {}))).code).toBe("SHUTTING_DOWN");
  });

  test("200 calls at once", async () => {
    const binding = bind({ method: "Blob", input: Blob });
    const sizes = Array.from({ length: 200 }, (_, index) => index);
    const answers = await Promise.all(sizes.map((answerBytes) => call(binding, { answerBytes })));
    expect(answers).toEqual(sizes.map((size) => ({ payload: "x".repeat(size), receivedBytes: 0 })));
  });

  test.each([["read"], ["write"]] as const)("no listener: nothing was sent (%s)", async (classification) => {
    const closed = await startLab();
    closed.close();
    const own = grpcHandler({ systems: new Map([["lab", labSystem(closed.port)]]) });
    const got = await refusal(call(own.bind(labTool({ method: "Hang", classification })), {}));
    expect(got).toMatchObject({ code: "TARGET_UNAVAILABLE", details: { status: "UNAVAILABLE" } });
    await own.close();
  });

  test("a service that dies during a call, and comes back", async () => {
    const first = await startLab();
    const own = grpcHandler({ systems: new Map([["lab", labSystem(first.port)]]) });
    const endings = (["read", "write"] as const).map((classification) =>
      refusal(call(own.bind(labTool({ method: "Hang", classification })), {})),
    );
    await Promise.all([first.hangBegun(), first.hangBegun()]);
    first.close();
    expect((await Promise.all(endings)).map((ending) => ending.code)).toEqual([
      "TARGET_UNAVAILABLE",
      "OUTCOME_UNKNOWN",
    ]);
    const inspect = own.bind(labTool({ method: "Inspect", classification: "write" }));
    expect((await refusal(call(inspect, {}))).code).toBe("TARGET_UNAVAILABLE");
    const second = await startLab({ port: first.port });
    let answer: unknown;
    while (answer === undefined) answer = await call(inspect, {}).catch(() => Bun.sleep(10));
    expect(answer).toHaveProperty("headers");
    await own.close();
    second.close();
  });
});
