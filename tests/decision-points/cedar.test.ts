import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { z } from "zod";
import type { Json } from "../../src/core/types.ts";
import { cedarValue, shapeOf } from "../../src/decision-points/cedar/values.ts";
import { ask, cedarPoint, PAY, toolOf } from "./cedar-point.ts";

const NOTHING_PERMITS = ["no policy permits the call"];

describe("policies decide by caller, tool, claims and arguments", () => {
  const rows: readonly (readonly [string, string, Parameters<typeof ask>[1], unknown])[] = [
    ["nothing is permitted by itself", "", {}, NOTHING_PERMITS],
    ["a caller", 'permit(principal == Client::"ann", action, resource);', {}, "allow"],
    ["another caller", 'permit(principal == Client::"bob", action, resource);', {}, NOTHING_PERMITS],
    ["an issuer", 'permit(principal in Issuer::"https://idp.test", action, resource);', {}, "allow"],
    ["the action", 'permit(principal, action == Action::"call_tool", resource);', {}, "allow"],
    ["another action", 'permit(principal, action == Action::"list_tools", resource);', {}, NOTHING_PERMITS],
    ["a tool", 'permit(principal, action, resource == Tool::"pay");', {}, "allow"],
    ["another tool", 'permit(principal, action, resource == Tool::"refund");', {}, NOTHING_PERMITS],
    ["a kind of entity", "permit(principal is Client, action, resource is Tool);", {}, "allow"],
    ["a system", 'permit(principal, action, resource in System::"inline");', {}, "allow"],
    [
      "facts about a tool",
      'permit(principal, action, resource) when { resource.classification == "write" };',
      {},
      "allow",
    ],
    [
      "an argument",
      "permit(principal, action, resource) when { context.arg_amount <= 100 };",
      { args: { amount: 100 } },
      "allow",
    ],
    [
      "a large argument",
      "permit(principal, action, resource) when { context.arg_amount <= 100 };",
      { args: { amount: 101 } },
      NOTHING_PERMITS,
    ],
    [
      "a claim",
      'permit(principal, action, resource) when { context.claim_groups.contains("ops") && principal.claim_groups.contains("ops") };',
      { caller: { claims: { groups: ["dev", "ops"] } } },
      "allow",
    ],
    [
      "a permission",
      'permit(principal, action, resource) when { context.claim_permissions.contains("money:send") };',
      {},
      "allow",
    ],
    [
      "an actor",
      'permit(principal, action, resource); @id("no-agents") forbid(principal, action, resource) unless { context.claim_act.isEmpty() };',
      { caller: { actors: ["agent-9"] } },
      ["forbidden by policy no-agents"],
    ],
    ["the time", 'permit(principal, action, resource) when { context.now.toTime() < duration("12h") };', {}, "allow"],
    [
      "forbid wins",
      'permit(principal, action, resource); forbid(principal, action, resource == Tool::"pay");',
      {},
      ["forbidden by policy policy1"],
    ],
  ];
  test.each(rows)("%s", async (_title, policies, question, expected) => {
    const { point, problems } = await cedarPoint(policies);
    expect(problems).toEqual([]);
    expect(ask(point, question)).toEqual(expected);
  });
});

describe("entities of a file", () => {
  const entities = [
    { uid: { type: "Client", id: "ann" }, attrs: { level: 3 }, parents: [{ type: "Team", id: "blue" }] },
    {
      uid: { type: "Team", id: "blue" },
      attrs: { lead: { __entity: { type: "Client", id: "eve" } } },
      parents: [{ type: "Org", id: "all" }],
    },
    { uid: { type: "Client", id: "eve" }, attrs: { city: "Bern" }, parents: [] },
    {
      uid: { type: "Tool", id: "pay" },
      attrs: { owner: { __entity: { type: "Team", id: "blue" } } },
      parents: [{ type: "Group", id: "money" }],
    },
    { uid: { type: "Limit", id: "day" }, attrs: { amount: 50 }, parents: [] },
  ];
  test.each([
    ['permit(principal in Team::"blue", action, resource);', "allow"],
    ['permit(principal in Org::"all", action, resource);', "allow"],
    ['permit(principal, action, resource in Group::"money");', "allow"],
    ["permit(principal, action, resource) when { principal.level >= 3 };", "allow"],
    ["permit(principal, action, resource) when { principal in resource.owner };", "allow"],
    ['permit(principal, action, resource) when { resource.owner.lead.city == "Bern" };', "allow"],
    ['permit(principal, action, resource) when { context.arg_amount < Limit::"day".amount };', "allow"],
    ['permit(principal, action, resource) when { Team::"blue" in Org::"all" };', "allow"],
    ['permit(principal in Team::"red", action, resource);', NOTHING_PERMITS],
  ])("%s", async (policies, expected) => {
    const { point, problems } = await cedarPoint({ policies, entities });
    expect(problems).toEqual([]);
    expect(ask(point, { args: { amount: 7 } })).toEqual(expected);
  });

  test("cannot replace what the service knows of a caller or a tool", async () => {
    const forged = [{ uid: { type: "Client", id: "ann" }, attrs: { claim_sub: "root" }, parents: [] }];
    const policies = 'permit(principal, action, resource) when { principal.claim_sub == "root" };';
    const { point } = await cedarPoint({ policies, entities: forged });
    expect(ask(point)).toEqual(NOTHING_PERMITS);
  });

  test("and groups of actions in the schema count", async () => {
    const schema =
      'entity Client; entity Tool; action tools; action "call_tool" in [tools] appliesTo { principal: Client, resource: Tool };';
    const policies =
      'permit(principal, action, resource); @id("off") forbid(principal, action in Action::"tools", resource);';
    const { point, problems } = await cedarPoint({ policies, schema });
    expect(problems).toEqual([]);
    expect(ask(point)).toEqual(["forbidden by policy off"]);
  });
});

describe("what cannot be evaluated denies, also a forbid that Cedar would skip", () => {
  const rows: readonly (readonly [string, string, { readonly [name: string]: Json }, RegExp])[] = [
    [
      "an argument that is missing",
      "forbid(principal, action, resource) when { context.arg_limit > 3 };",
      {},
      /policy policy1: record does not have/,
    ],
    [
      "a text instead of a number",
      "forbid(principal, action, resource) when { context.arg_to > 3 };",
      { to: "9" },
      /policy policy1: type error/,
    ],
    [
      "an overflow",
      "forbid(principal, action, resource) when { context.arg_amount * 9223372036854775807 > 0 };",
      { amount: 2 },
      /overflow/,
    ],
    [
      "a permit that errs next to one that permits",
      "permit(principal, action, resource) when { context.arg_nope };",
      {},
      /policy policy1/,
    ],
    [
      "a reference to an entity in the arguments",
      "",
      { to: { __entity: { type: "Client", id: "root" } } },
      /arguments\.to: the key __entity/,
    ],
    [
      "a function in the arguments",
      "",
      { to: [{ __extn: { fn: "ip", arg: "127.0.0.1" } }] },
      /arguments\.to\[\]: the key __extn/,
    ],
    ["an escape next to other keys", "", { to: { __extn: { fn: "decimal", arg: "1.0" }, more: 1 } }, /__extn/],
    ["null in a list", "", { to: [null] }, /null in a list/],
    ["half a character", "", { to: "\ud800" }, /lone surrogate/],
    ["deep nesting", "", { to: JSON.parse(`${"[".repeat(60)}${"]".repeat(60)}`) }, /deeper than 32/],
  ];
  test.each(rows)("%s", async (_title, policy, args, reason) => {
    const { point, problems } = await cedarPoint(`permit(principal, action, resource); ${policy}`);
    expect(problems).toEqual([]);
    expect(ask(point, { args })).toMatch(reason);
  });

  test("a point that is closed decides nothing", async () => {
    const { point } = await cedarPoint("permit(principal, action, resource);");
    expect(ask(point)).toBe("allow");
    await point?.close();
    expect(ask(point)).toMatch(/no longer in use/);
    const { point: next } = await cedarPoint("");
    expect([ask(next), ask(point)]).toEqual([NOTHING_PERMITS, expect.stringMatching(/no longer in use/)]);
  });
});

describe("numbers", () => {
  const tool = toolOf("measure", {
    whole: z.int(),
    any: z.number(),
    list: z.array(z.number()).optional(),
    free: z.unknown(),
  });
  const shape = shapeOf(tool);
  const decimal = (arg: string) => ({ __extn: { fn: "decimal", arg } });
  test.each<readonly [{ readonly [name: string]: Json }, unknown]>([
    [{ whole: 5 }, { whole: 5 }],
    [{ any: 5 }, { any: decimal("5.0") }],
    [{ any: -0 }, { any: decimal("0.0") }],
    [{ any: 0.1 }, { any: decimal("0.1") }],
    [{ any: -12.3456 }, { any: decimal("-12.3456") }],
    [{ any: 0.12345 }, { any: "0.12345" }],
    [{ any: 1e21 }, { any: "1e+21" }],
    [{ any: 922_337_203_685_478 }, { any: "922337203685478" }],
    [{ list: [1, 2.5] }, { list: [decimal("1.0"), decimal("2.5")] }],
    [{ free: { a: 1, b: 1.5 } }, { free: { a: 1, b: decimal("1.5") } }],
    [{ free: null }, {}],
  ])("%j becomes %j", (args, expected) => {
    expect(cedarValue(args, shape, "arguments") as unknown).toEqual(expected);
  });

  test("an amount that may have a fraction is compared as a decimal, and one with too many digits denies", async () => {
    const spend = toolOf("spend", { amount: z.number() });
    const { point } = await cedarPoint(
      'permit(principal, action, resource); forbid(principal, action, resource) when { context.arg_amount.greaterThan(decimal("100.0")) };',
    );
    const verdicts = [100, 100.5, 100.00001].map((amount) => ask(point, { tool: spend, args: { amount } }));
    expect(verdicts).toEqual(["allow", ["forbidden by policy policy1"], expect.stringMatching(/type error/)]);
  });

  test("no JSON value becomes an entity or a call of a function, and none is lost without a sign", async () => {
    const { point } = await cedarPoint("permit(principal, action, resource) when { context has arg_value };");
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const verdict = ask(point, { tool, args: { value: value as Json } });
        if (value === null) expect(verdict).toEqual(NOTHING_PERMITS);
        else if (verdict !== "allow") expect(verdict).toMatch(/^arguments/);
      }),
      { numRuns: 300 },
    );
  });
});

describe("a configuration with problems does not load: each names field, file and place", () => {
  const SCHEMA =
    'entity Client; entity Tool; action "call_tool" appliesTo { principal: Client, resource: Tool, context: { arg_amount?: Long } };';
  test("a policy that cannot be parsed", async () => {
    const { problems } = await cedarPoint("// é\npermit(principal, action, resource);\n  permit(principal action);");
    expect(problems).toEqual([
      expect.stringMatching(
        /^decisionPoints\[0\]\.cedar\.policiesFile: p\.cedar: line 3, column 20: .*unexpected token/,
      ),
    ]);
  });

  test("all policies that the schema contradicts", async () => {
    const policies = `@id("typo")
permit(principal, action == Action::"call_tool", resource) when { context.arg_amuont == 1 };
permit(principal, action == Action::"call_tool", resource) when { context.arg_amount == 1 };`;
    const { problems } = await cedarPoint({ policies, schema: SCHEMA });
    expect(problems).toEqual([
      expect.stringMatching(/line 2, column 67: for policy `typo`, attribute `arg_amuont`.*did you mean `arg_amount`/),
      expect.stringMatching(/line 3, column 67: for policy `policy1`, unable to guarantee safety/),
    ]);
  });

  test.each<readonly [string, Parameters<typeof cedarPoint>[0], RegExp]>([
    ["a schema", { policies: "", schema: "entity Client\nentity" }, /schemaFile: s\.cedarschema: line 2, column 1: /],
    ["templates", "permit(principal == ?principal, action, resource);", /policiesFile: p\.cedar holds templates/],
    [
      "one id twice",
      '@id("a") permit(principal, action, resource); @id("a") forbid(principal, action, resource);',
      /two policies have the id "a"/,
    ],
    ["entities that are not JSON", { policies: "", entities: "[" }, /entitiesFile: e\.json is not JSON/],
    ["entities that are no list", { policies: "", entities: {} }, /entitiesFile: e\.json: .*expected a sequence/],
    [
      "entities with a fraction",
      { policies: "", entities: [{ uid: { type: "A", id: "a" }, attrs: { x: 1.5 }, parents: [] }] },
      /entitiesFile/,
    ],
    [
      "entities that the schema does not know",
      { policies: "", schema: SCHEMA, entities: [{ uid: { type: "Client", id: "a" }, attrs: { x: 1 }, parents: [] }] },
      /should not exist according to the schema/,
    ],
  ])("%s", async (_title, files, expected) => {
    const { point, problems } = await cedarPoint(files);
    expect([point, problems.length]).toEqual([undefined, 1]);
    expect(problems[0]).toMatch(expected);
  });

  test("and a policy that names a caller is noted where several issuers have agents", async () => {
    const policies = '@id("x") permit(principal == Client::"ann", action, resource);';
    const issuers = ["https://idp.test", "https://other.test"];
    const { point } = await cedarPoint({ policies, issuers });
    expect(point?.notes).toEqual([
      expect.stringMatching(/^decisionPoints\[0\]\.cedar: policy x: several issuers have agents/),
    ]);
    const { point: alone } = await cedarPoint({ policies });
    expect(alone?.notes).toEqual([]);
  });

  test("and a policy about a tool that there is not is noted", async () => {
    const { point } = await cedarPoint('@id("x") forbid(principal, action, resource == Tool::"pya");');
    expect(point?.prepare?.([PAY])).toEqual(["policy x: no tool is called pya; did you mean pay?"]);
  });
});
