import { describe, expect, test } from "bun:test";
import { parse } from "yaml";
import { ISSUER, problemsOf, read } from "./reading.ts";

const PEOPLE = { issuer: "https://people.test", audience: "operators", operators: true, jwksUri: "https://p.test/j" };
const OTHER = { ...ISSUER, issuer: "https://other.test" };

const support = { tools: ["ticket_read"] };
const bind = (binding: object, sections: object = {}): object => ({
  roles: { support },
  bindings: [{ role: "support", ...binding }],
  ...sections,
});

test("a binding names who holds the role, and until when", () => {
  const { roles, bindings } = read({
    roles: { support: { permissions: ["a:b"] } },
    bindings: parse(`
- { role: support, group: agents }
- { role: support, subject: agent-7, until: 2030-12-24T18:00:00Z }
- { role: support, claim: { kubernetes.io: { namespace: agents }, sub: "x y" }, until: "2030-12-24T18:00:00+01:00" }
`),
  });
  expect(roles["support"]).toEqual({ permissions: ["a:b"], tools: [] });
  expect(bindings.map(({ until }) => until)).toEqual([undefined, "2030-12-24T18:00:00Z", "2030-12-24T18:00:00+01:00"]);
});

test.each<[string, object, readonly string[]]>([
  ["nothing", {}, ["bindings[0]: must name who holds the role by exactly one of subject, group, claim"]],
  [
    "two kinds of callers",
    { subject: "a", group: "b" },
    ["bindings[0]: must name who holds the role by exactly one of subject, group, claim"],
  ],
  [
    "an empty table of claims",
    { claim: {} },
    ["bindings[0].claim: must name at least one claim: it would bind every caller"],
  ],
  ["an empty table inside", { claim: { a: {} } }, ["bindings[0].claim.a: must hold at least one claim"]],
  [
    "a claim that is true",
    { claim: { a: true } },
    ["bindings[0].claim.a: must be the text that the claim has: put it in quotes"],
  ],
  [
    "a claim that is a list",
    { claim: { a: ["b"] } },
    ["bindings[0].claim.a: must be the text that the claim has: put it in quotes"],
  ],
  ["a list of claims", { claim: ["a"] }, ["bindings[0].claim: must be a table of claims and their values"]],
  ["claims as a text", { claim: "a=b" }, ["bindings[0].claim: must be a table of claims and their values"]],
  [
    "an end without a zone",
    { group: "a", until: "2030-12-24T18:00:00" },
    ["bindings[0].until: must be a time such as 2026-12-24T18:00:00Z"],
  ],
  [
    "a day as the end",
    { group: "a", until: "2030-12-24" },
    ["bindings[0].until: must be a time such as 2026-12-24T18:00:00Z"],
  ],
  [
    "an unknown role",
    { role: "suport", group: "a" },
    ["bindings[0].role: suport is not in roles; did you mean support?"],
  ],
  [
    "a role that every object inherits",
    { role: "constructor", group: "a" },
    ["bindings[0].role: constructor is not in roles"],
  ],
  [
    "an unknown issuer",
    { issuer: "https://idp.tes", group: "a" },
    ["bindings[0].issuer: https://idp.tes is not an issuer in jwt.issuers; did you mean https://idp.test?"],
  ],
  ["a misspelt key", { groups: "a", group: "a" }, ["bindings[0].groups: is not a known key; did you mean group?"]],
])("a binding with %s is refused", (_title, binding, want) => {
  expect(problemsOf(bind(binding))).toEqual([...want]);
});

test("a condition named __proto__ is refused, not dropped: the binding would hold for more callers", () => {
  const binding = JSON.parse('{"claim": {"a": "b", "__proto__": {"c": "d"}}}');
  expect(problemsOf(bind(binding))).toEqual(["bindings[0].claim.__proto__: cannot be the name of a claim"]);
  const nested = JSON.parse('{"claim": {"a": {"__proto__": "d"}}}');
  expect(problemsOf(bind(nested))).toEqual(["bindings[0].claim.a.__proto__: cannot be the name of a claim"]);
  const written = parse("claim: { a: b, __proto__: { c: d } }");
  expect(problemsOf(bind(written))).toEqual(["bindings[0].claim.__proto__: cannot be the name of a claim"]);
});

test("claims are bounded in depth, number and length", () => {
  const deep = Array.from({ length: 9 }).reduce<object>((inner) => ({ a: inner }), { b: "c" });
  expect(problemsOf(bind({ claim: deep }))[0]).toEndWith("is nested deeper than 8 levels");
  const many = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`c${at}`, "x"]));
  expect(problemsOf(bind({ claim: many }))).toEqual(["bindings[0].claim: names more than 8 claims"]);
  expect(problemsOf(bind({ claim: { a: "x".repeat(513) } }))).toEqual([
    "bindings[0].claim.a: must have at most 512 characters",
  ]);
});

describe("the issuer of a binding", () => {
  test("may be left out where only one is for agents", () => {
    expect(problemsOf(bind({ group: "a" }, { jwt: { issuers: [ISSUER, PEOPLE] } }))).toEqual([]);
  });

  test("must be named where several are, and where none is", () => {
    expect(problemsOf(bind({ group: "a" }, { jwt: { issuers: [ISSUER, OTHER] } }))).toEqual([
      "bindings[0].issuer: is missing, and jwt.issuers does not have exactly one issuer of agents: name one of https://idp.test, https://other.test",
    ]);
    expect(problemsOf(bind({ group: "a" }, { jwt: { issuers: [PEOPLE] } }))[0]).toStartWith(
      "bindings[0].issuer: is missing",
    );
  });

  test("may serve agents and operators: the binding is for agents, unless it names operators", () => {
    const both = { issuers: [ISSUER, { ...PEOPLE, issuer: ISSUER.issuer }] };
    const roles = { support: { permissions: ["approvals:decide"] } };
    for (const kind of [{}, { operators: false }, { operators: true }]) {
      for (const named of [{}, { issuer: ISSUER.issuer }]) {
        expect(problemsOf(bind({ group: "a", ...named, ...kind }, { jwt: both, roles }))).toEqual([]);
      }
    }
    expect(problemsOf(bind({ group: "a" }, { jwt: both }))).toEqual([]);
    expect(problemsOf(bind({ group: "a", operators: true }, { jwt: both }))).toEqual([
      "bindings[0].issuer: is for operators, who call no tools, and the role support names tools",
    ]);
    expect(problemsOf(bind({ group: "a", issuer: ISSUER.issuer, operators: true }))).toEqual([
      `bindings[0].issuer: ${ISSUER.issuer} is not an issuer of operators`,
    ]);
  });

  test("may be an operators', for a role without tools", () => {
    const jwt = { issuers: [ISSUER, PEOPLE] };
    const binding = { group: "a", issuer: PEOPLE.issuer };
    expect(problemsOf(bind(binding, { jwt, roles: { support: { permissions: ["approvals:decide"] } } }))).toEqual([]);
    expect(problemsOf(bind(binding, { jwt }))).toEqual([
      "bindings[0].issuer: is for operators, who call no tools, and the role support names tools",
    ]);
  });
});

test.each<[string, object, string]>([
  ["without anything", { a: {} }, "roles.a: must give something: permissions or tools"],
  [
    "with a name of spaces",
    { "a b": support },
    "roles.a b: is not a usable key: it must be a name of letters, digits, dot, dash, underscore",
  ],
  [
    "with a tool's pattern of another form",
    { a: { tools: ["ticket_?"] } },
    "roles.a.tools[0]: must be a tool's name; * stands for any letters",
  ],
  [
    "with a permission with a space",
    { a: { permissions: ["a b"] } },
    "roles.a.permissions[0]: must be a permission's name: visible ASCII, at most 128",
  ],
])("a role %s is refused", (_title, roles, want) => {
  expect(problemsOf({ roles })).toEqual([want]);
});

test("all problems are reported at once", () => {
  const bindings = [
    { role: "x", group: "a" },
    { role: "support", group: "a", issuer: "https://nobody.test" },
  ];
  expect(problemsOf({ roles: { support }, bindings })).toHaveLength(2);
});
