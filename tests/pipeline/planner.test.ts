import { describe, expect, test } from "bun:test";
import { canonicalJson, sha256Hex } from "../../src/core/digest.ts";
import type { Fresh } from "../../src/core/evidence.ts";
import { ARGUMENT_LIMITS } from "../../src/core/json.ts";
import { makePlan } from "../../src/pipeline/planner.ts";

const CALLER = { issuer: "https://id.example", subject: "agent-1", permissions: [], actors: [], expiresAt: 0 };
const inline = { planIsInput: true, plan: (input: unknown) => ({ input, kind: "inline" }), run: async () => ({}) };
const other = {
  plan: (input: unknown) => ({ kind: "cli", argv: Object.values(input as object) }),
  run: async () => ({}),
};

/** The digest of a call, with the arguments as sent and their canonical text. */
function digestOf(given: {
  binding?: object;
  caller?: object;
  input: unknown;
  args?: unknown;
  session?: string;
}): string {
  const { binding = inline, caller = CALLER, input, args, session } = given;
  const fresh = { tool: {}, identity: "0".repeat(64), binding, caller, input } as unknown as Fresh;
  const sent = {
    request: { session, args },
    ...(args !== undefined && { argsText: canonicalJson(args, ARGUMENT_LIMITS) }),
  };
  const planned = makePlan(fresh, undefined as never, sent);
  if (planned instanceof Promise) throw new Error("the plan is made at once");
  return planned.digest;
}

/** The digest as the format defines it: the hash of the canonical text of these members. */
function defined(members: object): string {
  return sha256Hex(canonicalJson({ t: "stc/plan/v1", tool: "0".repeat(64), session: "", ...members }, ARGUMENT_LIMITS));
}

const INPUTS: readonly (readonly [string, unknown, unknown])[] = [
  ["as they were sent", { text: "a", count: 3 }, { count: 3, text: "a" }],
  ["with a default", { text: "a", count: 3 }, { text: "a" }],
  ["without a key that the schema removed", { text: "a" }, { text: "a", more: 1 }],
  ["with a transformed value", { text: "A" }, { text: "a" }],
  [
    "with nested values and keys like numbers",
    { b: [{ "10": 1, "9": -0 }], a: null },
    { a: null, b: [{ "9": 0, "10": 1 }] },
  ],
  ["with characters outside ASCII", { text: "é\ud800😀" }, { text: "é\ud800😀" }],
];

describe("the digest is the one that the format defines, whether or not the arguments' text is known", () => {
  const caller = { iss: CALLER.issuer, sub: CALLER.subject };

  test.each(INPUTS)("arguments %s, to a function", (_title, input, args) => {
    const want = defined({ ...caller, args: null, plan: { input, kind: "inline" } });
    expect([digestOf({ input }), digestOf({ input, args })]).toEqual([want, want]);
  });

  test.each(INPUTS)("arguments %s, to another target", (_title, input, args) => {
    const want = defined({ ...caller, args: input, plan: other.plan(input) });
    expect([digestOf({ binding: other, input }), digestOf({ binding: other, input, args })]).toEqual([want, want]);
  });

  test("a plan of a function with more than the arguments", () => {
    const binding = { ...inline, plan: (input: unknown) => ({ input, kind: "inline", version: 2 }) };
    const want = defined({ ...caller, args: null, plan: { input: { a: 1 }, kind: "inline", version: 2 } });
    expect(digestOf({ binding, input: { a: 1 }, args: { a: 1 } })).toBe(want);
  });

  test.each([
    [undefined, "sid:9"],
    ["sid:9", "sid:9"],
    ["own", "sid:9 own"],
  ])("actors and session: the call names %p", (named, session) => {
    const acting = { ...CALLER, actors: ["agent-2"], session: "sid:9" };
    const plan = { input: {}, kind: "inline" };
    const want = defined({ ...caller, act: ["agent-2"], session, args: null, plan });
    expect(digestOf({ caller: acting, input: {}, args: {}, ...(named !== undefined && { session: named }) })).toBe(
      want,
    );
  });
});

test("a digest is the same as in earlier versions, so that their approvals still match", () => {
  const digest = digestOf({ input: { text: "hello", count: 3 }, args: { text: "hello", count: 3 }, session: "s-1" });
  expect(digest).toBe("0984b523ff5055aa9f6163ae0f02aa5f50087fc094ce883cdd17a286120e593a");
});

test("arguments that nest too deeply for a plan are refused, even if the schema passes on the same object", () => {
  const nested = JSON.parse(`${"[".repeat(80)}${"]".repeat(80)}`);
  expect(() => digestOf({ input: { nested } })).toThrow("could not be planned");
  expect(() => digestOf({ input: { nested }, args: { nested } })).toThrow("could not be planned");
});

test("arguments whose text is too long to be reused give the same digest", () => {
  const input = { list: Array.from({ length: 30_000 }, (_unused, index) => index) };
  expect(digestOf({ input, args: structuredClone(input) })).toBe(digestOf({ input }));
});
