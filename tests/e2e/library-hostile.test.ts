import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { SafeToolCall } from "../../src/index.ts";
import { echo } from "../cases/tools/answers.ts";
import { auditEntries } from "../support/audit-files.ts";
import { openWorld, type World } from "../support/world.ts";

let world: World;
let stc: SafeToolCall;
let token: string;
let auditDir: string;

beforeAll(async () => {
  world = await openWorld();
  auditDir = join(world.folder, "audit");
  token = await world.issuers.token({ kind: "good", sub: "agent-7", permissions: ["case:run"] });
  stc = SafeToolCall.create({
    tools: [echo],
    audit: { dir: auditDir },
    jwt: { issuers: world.issuers.profiles() as never },
  });
  await stc.ready();
});

afterAll(async () => {
  await stc.close();
  await world.close();
});

const cyclic: Record<string, unknown> = { text: "x" };
cyclic["self"] = cyclic;
const throwing = (): never => {
  throw new Error("hostile");
};
const deep = (): unknown => {
  let value: unknown = "x";
  for (let level = 0; level < 100_000; level += 1) value = { text: value };
  return value;
};

describe("hostile arguments", () => {
  test.each(
    [
      ["that hold themselves", cyclic],
      ["with a BigInt", { count: 1n }],
      ["with a getter that throws", Object.defineProperty({}, "text", { get: throwing, enumerable: true })],
      ["that are a Proxy which throws", new Proxy({}, { get: throwing, ownKeys: throwing, getPrototypeOf: throwing })],
      ["that are a revoked Proxy", revoked()],
      ["with a toJSON that throws", { toJSON: throwing }],
      ["a hundred thousand deep", deep()],
      ["with a __proto__ of their own", JSON.parse('{"__proto__":{"text":"x"}}')],
      ["that are a function", throwing],
      ["that are a symbol", Symbol("x")],
      ["that are nothing", undefined],
      ["that are null", null],
      ["that are a list", []],
      ["that are a date", new Date(0)],
      ["with half a surrogate", { text: "\ud800".repeat(100) }],
      ["of a megabyte", { text: "x".repeat(1_048_576) }],
      ["with not a number", { count: Number.NaN }],
    ].map(([title, args]) => ({ title, args })),
  )("$title are refused and recorded", async ({ args }) => {
    const before = auditEntries(auditDir).length;
    const result = await stc.call("case_echo", args, token);
    expect(result.status).not.toBe("success");
    expect(JSON.stringify(result)).not.toContain("hostile");
    const added = auditEntries(auditDir).slice(before);
    expect(added.map(({ traceId }) => traceId)).toEqual([result.traceId]);
    expect(added[0]?.request.args).toEqual({});
  });
});

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

describe("hostile names and tokens", () => {
  test.each(
    [
      ...["__proto__", "constructor", "hasOwnProperty", "", " ", "case_echo\0", "CASE_ECHO", "x".repeat(1_000_000)],
      ...[
        undefined,
        null,
        7,
        [],
        {},
        ["case_echo"],
        { name: "no_such_tool" },
        { toString: throwing },
        Symbol("x"),
        throwing,
      ],
      ...[{ name: { toString: throwing } }, Object.defineProperty({}, "name", { get: throwing })],
    ].map((name) => ({ name })),
  )("a name %# is not a tool", async ({ name }) => {
    const before = auditEntries(auditDir).length;
    const result = await stc.call(name as string, {}, token);
    expect(result).toMatchObject({ status: "denied", error: { code: "TOOL_NOT_FOUND", stage: "REGISTRY" } });
    const added = auditEntries(auditDir).slice(before);
    expect(added).toHaveLength(1);
    expect(added[0]?.tool.name.length).toBeLessThanOrEqual(128);
    expect(JSON.stringify(result).length).toBeLessThan(1_000);
  });

  const tokens: readonly unknown[] = [undefined, null, 7, {}, "", "x", "x".repeat(1_000_000), { toString: throwing }];
  test.each(tokens.map((jwt) => ({ jwt })))("a token %# is invalid", async ({ jwt }: { readonly jwt: unknown }) => {
    const result = await stc.call("case_echo", {}, jwt as string);
    expect(result).toMatchObject({ status: "denied", error: { code: "UNAUTHENTICATED" } });
  });

  test("a token with its scheme before it is not accepted twice", async () => {
    expect(await stc.call("case_echo", {}, `Bearer ${token}`)).toMatchObject({ error: { code: "UNAUTHENTICATED" } });
  });
});
