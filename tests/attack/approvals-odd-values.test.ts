import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { AskingWorld, codeOf, recordingTool } from "../approvals/asking-world.ts";

const deeds: unknown[] = [];
const text = z.string().max(100);
const list = z.array(text).max(10);

/** What schemas make of JSON that JSON has no word for. */
const SHAPES = {
  set: z.strictObject({ of: list.transform((items) => new Set(items)) }),
  map: z.strictObject({ of: list.transform((items) => new Map(items.map((item, index) => [item, index]))) }),
  large: z.strictObject({
    of: z
      .string()
      .regex(/^\d{1,30}$/)
      .transform(BigInt),
  }),
  bytes: z.strictObject({ of: text.transform((base64) => new Uint8Array(Buffer.from(base64, "base64"))) }),
  date: z.strictObject({
    of: z.iso.datetime().transform((when) => new Date(when)),
    more: list.transform((items) => new Set(items)),
  }),
  mixed: z.strictObject({ of: z.union([list.transform((items) => new Set(items)), z.strictObject({ set: list })]) }),
  address: z.strictObject({ of: z.url().transform((url) => new URL(url)) }),
} as const;

const world = new AskingWorld({
  tools: Object.entries(SHAPES).map(([name, input]) => recordingTool(`deed_${name}`, deeds, input as never)),
  approvals: { pendingPerCallerMax: 1_000 },
});

beforeAll(async () => {
  await world.start();
});
afterAll(() => world.end());

let subjects = 0;
async function approved(tool: string, args: unknown) {
  subjects += 1;
  const token = await world.agent({ sub: `odd-${subjects}` });
  const id = await world.ask(tool, args, { token });
  await world.decide(id, "approve");
  return { token, approval: { id } };
}

describe("functions may be called with values that JSON cannot express", () => {
  test.each([
    ["deed_set", { of: ["a", "b"] }, { of: new Set(["a", "b"]) }],
    ["deed_map", { of: ["a"] }, { of: new Map([["a", 0]]) }],
    ["deed_large", { of: "18446744073709551616" }, { of: 2n ** 64n }],
    ["deed_bytes", { of: "aGk=" }, { of: new Uint8Array([0x68, 0x69]) }],
    ["deed_date", { of: "2026-01-01T00:00:00Z", more: [] }, { of: new Date("2026-01-01T00:00:00Z"), more: new Set() }],
  ])("%s", async (tool, args, given) => {
    const before = deeds.length;
    expect(codeOf(await world.call(tool, args, await approved(tool, args)))).toBe("HTTP 200");
    expect(deeds.slice(before)).toEqual([given]);
  });

  test("but not with values that hide what they are", async () => {
    const refused = await world.call("deed_address", { of: "https://example.org/" });
    expect(codeOf(refused)).toBe("INTERNAL");
    expect(world.entry(refused.body.traceId)?.error).toEqual({ code: "INTERNAL" });
  });
});

describe("and an approval of one of them does not cover another", () => {
  test.each([
    ["deed_set", { of: ["a", "b"] }, { of: ["a"] }],
    ["deed_set", { of: ["a", "b"] }, { of: ["b", "a"] }],
    ["deed_map", { of: ["a"] }, { of: ["b"] }],
    ["deed_large", { of: "18446744073709551616" }, { of: "18446744073709551617" }],
    ["deed_bytes", { of: "aGk=" }, { of: "aGo=" }],
    ["deed_date", { of: "2026-01-01T00:00:00Z", more: [] }, { of: "2026-01-02T00:00:00Z", more: [] }],
    ["deed_mixed", { of: ["a"] }, { of: { set: ["a"] } }],
    ["deed_mixed", { of: { set: ["a"] } }, { of: ["a"] }],
  ])("%s: %j, %j", async (tool, asked, then) => {
    const before = deeds.length;
    expect(codeOf(await world.call(tool, then, await approved(tool, asked)))).toBe("APPROVAL_MISMATCH");
    expect(deeds).toHaveLength(before);
  });
});
