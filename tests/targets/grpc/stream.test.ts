import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { ManifestError } from "../../../src/core/errors.ts";
import type { Binding } from "../../../src/core/types.ts";
import { type GrpcHandler, grpcHandler } from "../../../src/targets/grpc/handler.ts";
import { keptOf } from "../../support/kept.ts";
import { type BrokenServer, startBrokenServer } from "./support/broken-server.ts";
import { call, refusal } from "./support/calls.ts";
import { type Lab, labSystem, startLab } from "./support/lab.ts";
import { labTool, runContext, type ToolOptions } from "./support/tool.ts";

let lab: Lab;
let broken: BrokenServer;
let handler: GrpcHandler;

beforeAll(async () => {
  [lab, broken] = await Promise.all([startLab(), startBrokenServer()]);
  handler = grpcHandler({
    systems: new Map([
      ["lab", labSystem(lab.port)],
      ["small", labSystem(lab.port, { maxMessageBytes: 1_000 })],
      ["broken", labSystem(broken.port)],
    ]),
  });
});

afterAll(async () => {
  await handler.close();
  lab.close();
  broken.close();
});

const input = z.object({ items: z.int().optional(), labelBytes: z.int().optional(), ending: z.string().optional() });
const output = z.object({ items: z.array(z.object({ label: z.string() })), truncated: z.boolean() });
const bounds = { itemsMax: 5, bytesMax: 1_000 } as const;

const bind = (options: Partial<ToolOptions> = {}): Binding =>
  handler.bind(labTool({ method: "List", input, output, stream: bounds, ...options }));

async function listed(sent: z.input<typeof input>, options: Partial<ToolOptions> = {}) {
  return output.parse(keptOf(await call(bind(options), sent)));
}

describe("a stream is a limited list", () => {
  test.each([
    ["none", { items: 0 }, 0, false],
    ["fewer than the bound", { items: 3 }, 3, false],
    ["as many as the bound", { items: 5 }, 5, false],
    ["one more than the bound", { items: 6 }, 5, true],
    ["very many", { items: 1_000_000 }, 5, true],
    ["over the bytes", { items: 4, labelBytes: 400 }, 2, true],
    ["one that alone is over the bytes", { items: 1, labelBytes: 2_000 }, 0, true],
  ] as const)("%s", async (_title, sent, count, truncated) => {
    const answer = await listed(sent);
    expect(answer.items.map(({ label }) => Number.parseInt(label, 10))).toEqual(
      Array.from({ length: count }, (_, index) => index + 1),
    );
    expect(answer.truncated).toBe(truncated);
  });

  test("is cancelled at the limit", async () => {
    expect((await listed({ items: 1_000_000, ending: "hang" })).truncated).toBe(true);
    await lab.hangCancelled();
  });

  test("has its own channel: frequent cancellations must not disturb the others", async () => {
    await listed({ items: 1 });
    expect(handler.channels()).toContainEqual({ system: "lab", toolClass: "stream", state: "READY" });
  });

  test("that fills its limit and never ends is cut off there", async () => {
    expect(await listed({ items: 5, ending: "hang" })).toMatchObject({ items: { length: 5 }, truncated: true });
    await lab.hangCancelled();
  });

  test("has the tool's time limit", async () => {
    const context = runContext({ deadline: Date.now() + 150 });
    expect((await refusal(call(bind(), { items: 2, ending: "hang" }, context))).code).toBe("DEADLINE_EXCEEDED");
    await lab.hangCancelled();
  });

  test("ends when the caller disconnects", async () => {
    const controller = new AbortController();
    const own = await startLab();
    const reading = grpcHandler({ systems: new Map([["lab", labSystem(own.port)]]) });
    const binding = reading.bind(labTool({ method: "List", input, output, stream: bounds }));
    const work = refusal(call(binding, { items: 2, ending: "hang" }, runContext({ signal: controller.signal })));
    await own.streamBegun();
    controller.abort(new DOMException("disconnected", "AbortError"));
    expect((await work).code).toBe("CANCELLED");
    await own.hangCancelled();
    await reading.close();
    own.close();
  });

  test.each([
    ["ABORTED", "TARGET_FAILED"],
    ["NOT_FOUND", "TARGET_REFUSED"],
    ["UNAVAILABLE", "TARGET_UNAVAILABLE"],
  ])("that ends in %s is not a list, whatever came before", async (ending, code) => {
    const got = await refusal(call(bind(), { items: 2, ending }));
    expect(got).toMatchObject({ code, details: { status: ending } });
  });

  test("a message over the system's limit", async () => {
    const stream = { itemsMax: 5, bytesMax: 100_000 };
    const work = call(bind({ system: "small", stream }), { items: 3, labelBytes: 5_000 });
    expect((await refusal(work)).code).toBe("OUTPUT_TOO_LARGE");
  });

  test("is retried only when nothing of it had arrived", async () => {
    broken.play("reset", "answer");
    expect(await call(bind({ system: "broken" }), {})).toMatchObject({ items: { length: 1 }, truncated: false });
    expect(broken.requests()).toBe(2);
    broken.play("half", "answer");
    expect((await refusal(call(bind({ system: "broken" }), {}))).code).toBe("TARGET_UNAVAILABLE");
    expect(broken.requests()).toBe(1);
  });
});

describe("does not load", () => {
  test.each([
    ["a streaming method without bounds", { stream: undefined }, /target\.grpc\.stream: .*streaming method.*itemsMax/],
    ["bounds for a method with one answer", { method: "Inspect", input: z.object({}) }, /gives one answer/],
    ["a changing tool", { classification: "write" }, /only a read tool/],
    ["bytes over the tool's own bound", { outputBytesMax: 10 }, /bytesMax: is over limits\.outputBytesMax/],
    [
      "an item with a field that the message lacks",
      { output: z.object({ items: z.array(z.object({ nonsense: z.string() })), truncated: z.boolean() }) },
      /output\.items\[\]\.nonsense: lab\.v1\.Node has no such field/,
    ],
    ["a stream of requests", { method: "Upload", input: z.object({}) }, /stream/],
  ] as const)("%s", (_title, options, text) => {
    expect(() => bind(options as Partial<ToolOptions>)).toThrow(ManifestError);
    expect(() => bind(options as Partial<ToolOptions>)).toThrow(text);
  });
});
