import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Refusal } from "../../src/core/errors.ts";
import { isTable } from "../../src/core/json.ts";
import type { CallerContext } from "../../src/core/types.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { type RevocationList, readRevocations } from "../../src/pipeline/identity/revocations.ts";
import { type BoundCallers, type RoleBinding, RoleBindings } from "../../src/pipeline/identity/roles.ts";
import {
  AGENTS_ISSUER,
  agentsProfile,
  type Claims,
  forgeToken,
  goodClaims,
  issueToken,
  makeSigningKey,
  NOW_SECONDS,
} from "../support/tokens.ts";

const key = makeSigningKey("ES256", "k1");
const otherKey = makeSigningKey("ES256", "k2");
const OTHER_ISSUER = "https://other.test";
const profiles = [agentsProfile([key]), agentsProfile([otherKey], { issuer: OTHER_ISSUER })];

interface Given extends Partial<RoleBinding> {
  readonly callers: BoundCallers;
}

function bound({ role = "support", issuer = AGENTS_ISSUER, isForOperators = false, ...given }: Given): RoleBinding {
  const { untilMs, callers, permissions } = given;
  return { role, issuer, isForOperators, untilMs, callers, permissions: permissions ?? [`${role}:use`] };
}

const group = (value: string, path: readonly string[] = ["groups"]): BoundCallers => ({ claims: [{ path, value }] });

function contextOf(bindings: readonly RoleBinding[], clock = () => NOW_SECONDS * 1000) {
  return createCallerVerifier({ issuers: profiles, clock, bindings: new RoleBindings(bindings) });
}

async function callerOf(bindings: readonly RoleBinding[], claims: Claims): Promise<CallerContext> {
  const signer = claims["iss"] === OTHER_ISSUER ? otherKey : key;
  const token = await issueToken(signer, goodClaims(claims));
  return (await contextOf(bindings).verifyToken(token, "agents")).caller;
}

describe("a role bound to a group", () => {
  const bindings = [bound({ callers: group("support") })];

  test.each<[string, unknown]>([
    ["a list with the group", ["sales", "support"]],
    ["the group as a text", "support"],
    ["the group twice", ["support", "support"]],
  ])("is held with %s", async (_title, groups) => {
    const { permissions, roles } = await callerOf(bindings, { groups });
    expect([permissions, roles]).toEqual([["customer:read", "support:use"], ["support"]]);
  });

  test.each<[string, unknown]>([
    ["no such claim", undefined],
    ["another group", ["sales"]],
    ["groups separated by spaces", "sales support"],
    ["groups separated by commas", "support,sales"],
    ["the group in capitals", ["Support"]],
    ["a longer name", ["support-admin"]],
    ["a shorter name", ["suppor"]],
    ["a space at the end", ["support "]],
    ["a Cyrillic letter that looks the same", ["suрport"]],
    ["full-width letters", ["ｓｕｐｐｏｒｔ"]],
    ["a table with the group as a key", { support: true }],
    ["a table that looks like a list", { "0": "support", length: 1 }],
    ["a list in a list", [["support"]]],
    ["a list with something other than texts", ["support", 7]],
    ["null", null],
    ["true", true],
    ["a number", 7],
  ])("is not held with %s", async (_title, groups) => {
    const { permissions, roles } = await callerOf(bindings, { groups });
    expect([permissions, roles]).toEqual([["customer:read"], undefined]);
  });

  test("is not held by a caller of another issuer with the same group and subject", async () => {
    const claims = { iss: OTHER_ISSUER, groups: ["support"] };
    expect((await callerOf(bindings, claims)).roles).toBeUndefined();
    expect((await callerOf([bound({ issuer: OTHER_ISSUER, callers: group("support") })], claims)).roles).toEqual([
      "support",
    ]);
  });

  test("is found in a list of as many groups as a token can hold", async () => {
    const groups = [...Array.from({ length: 600 }, (_, at) => at.toString(36)), "support"];
    expect((await callerOf(bindings, { groups })).roles).toEqual(["support"]);
  });
});

describe("a role bound to claims", () => {
  const department = { path: ["department"], value: "support" };
  const nested = { path: ["realm_access", "roles"], value: "helper" };

  test("is held when every claim has its value", async () => {
    const bindings = [bound({ callers: { claims: [department, nested] } })];
    const both = { department: "support", realm_access: { roles: ["x", "helper"] } };
    expect((await callerOf(bindings, both)).roles).toEqual(["support"]);
    expect((await callerOf(bindings, { ...both, department: "sales" })).roles).toBeUndefined();
    expect((await callerOf(bindings, { department: "support" })).roles).toBeUndefined();
  });

  test.each<[string, unknown]>([
    ["a text in place of the table", "helper"],
    ["a list in place of the table", [{ roles: "helper" }]],
    ["the path in one key", { "realm_access.roles": "helper" }],
    ["a deeper table", { roles: { helper: true } }],
    ["null", null],
  ])("is not held with %s", async (_title, realm_access) => {
    const bindings = [bound({ callers: { claims: [nested] } })];
    expect((await callerOf(bindings, { realm_access })).roles).toBeUndefined();
  });

  test("finds nothing in what every object inherits", async () => {
    const inherited = [
      ["constructor", "name"],
      ["groups", "constructor"],
      ["realm_access", "__proto__", "roles"],
    ];
    const bindings = inherited.flatMap((path) =>
      ["Object", "Array", "Map", "helper"].map((value) => bound({ callers: { claims: [{ path, value }] } })),
    );
    const payload = `{"realm_access":{"__proto__x":{"roles":"helper"}},"groups":["a"],${JSON.stringify(goodClaims()).slice(1)}`;
    const token = forgeToken(key, { alg: "ES256", kid: "k1" }, payload);
    expect((await contextOf(bindings).verifyToken(token, "agents")).caller.roles).toBeUndefined();
  });

  test("does not read a claim from a key that sets a prototype", async () => {
    const bindings = [bound({ callers: { claims: [nested] } })];
    const payload = `{"realm_access":{"__proto__":{"roles":"helper"}},${JSON.stringify(goodClaims()).slice(1)}`;
    const token = forgeToken(key, { alg: "ES256", kid: "k1" }, payload);
    expect((await contextOf(bindings).verifyToken(token, "agents")).caller.roles).toBeUndefined();
  });

  test("cannot be bound to no claim at all", () => {
    expect(() => new RoleBindings([bound({ callers: { claims: [] } })])).toThrow("names no claim");
  });
});

describe("a role bound to a subject", () => {
  const bindings = [bound({ callers: { subject: "agent-7" } })];

  test("is held by that subject of that issuer, and by nobody else", async () => {
    expect((await callerOf(bindings, {})).roles).toEqual(["support"]);
    for (const sub of ["agent-77", "agent-", "Agent-7", "agent–7", "xagent-7"]) {
      expect((await callerOf(bindings, { sub })).roles).toBeUndefined();
    }
    expect((await callerOf(bindings, { iss: OTHER_ISSUER })).roles).toBeUndefined();
  });

  test("is not held by somebody for whom the subject acts", async () => {
    const delegated = await callerOf(bindings, { sub: "ann", act: { sub: "agent-7" } });
    expect([delegated.roles, delegated.actors]).toEqual([undefined, ["agent-7"]]);
    expect((await callerOf(bindings, { act: { sub: "gateway" } })).roles).toEqual(["support"]);
  });

  test("is held by the caller of a certificate that is mapped to it", async () => {
    const context = createCallerVerifier({
      ...{ issuers: profiles, clock: () => NOW_SECONDS * 1000, bindings: new RoleBindings(bindings) },
      certificateCallers: [
        { spiffeId: "spiffe://test/a", issuer: AGENTS_ISSUER, subject: "agent-7", permissions: ["own:use"] },
        { spiffeId: "spiffe://test/b", issuer: OTHER_ISSUER, subject: "agent-7", permissions: ["own:use"] },
      ],
    });
    const certificate = (spiffeId: string) => ({
      ...{ thumbprint: "x", spiffeId, notBeforeMs: 0, notAfterMs: NOW_SECONDS * 2_000 },
    });
    const of = async (spiffeId: string) => (await context.verify(undefined, "agents", certificate(spiffeId))).caller;
    expect((await of("spiffe://test/a")).permissions).toEqual(["own:use", "support:use"]);
    expect((await of("spiffe://test/b")).permissions).toEqual(["own:use"]);
  });
});

describe("several roles", () => {
  test("add up with the token's permissions, each once, and their names are sorted", async () => {
    const bindings = [
      bound({ role: "writer", callers: group("b"), permissions: ["customer:read", "customer:write"] }),
      bound({ role: "admin", callers: { subject: "agent-7" }, permissions: ["customer:delete", "customer:write"] }),
      bound({ role: "writer", callers: group("a"), permissions: ["customer:read", "customer:write"] }),
    ];
    const caller = await callerOf(bindings, { groups: ["a", "b"] });
    expect(caller.roles).toEqual(["admin", "writer"]);
    expect([...caller.permissions].sort()).toEqual(["customer:delete", "customer:read", "customer:write"]);
    expect([Object.isFrozen(caller), Object.isFrozen(caller.permissions), Object.isFrozen(caller.roles)]).toEqual([
      true,
      true,
      true,
    ]);
  });

  test("add up with the table, whose subjects get nothing from their tokens", async () => {
    const issuers = [agentsProfile([key], { subjectPermissions: { "agent-7": ["table:use"] } })];
    const bindings = new RoleBindings([bound({ callers: group("support") })]);
    const context = createCallerVerifier({ issuers, clock: () => NOW_SECONDS * 1000, bindings });
    const of = async (claims: Claims) =>
      (await context.verifyToken(await issueToken(key, goodClaims(claims)), "agents")).caller.permissions;
    expect(await of({ groups: "support" })).toEqual(["table:use", "support:use"]);
    expect(await of({ groups: "support", sub: "agent-8" })).toEqual(["support:use"]);
    expect(await of({ sub: "agent-8" })).toEqual([]);
  });

  test("are listed up to 32, while the permissions of all of them count", async () => {
    const bindings = Array.from({ length: 40 }, (_, at) => bound({ role: `r${at + 10}`, callers: group("a") }));
    const caller = await callerOf(bindings, { groups: "a" });
    expect([caller.roles?.length, caller.roles?.at(0), caller.permissions.length]).toEqual([32, "r10", 41]);
  });

  test("of 500 bindings, those that apply are found among 500 groups", async () => {
    const bindings = Array.from({ length: 500 }, (_, at) =>
      bound({
        role: `r${at}`,
        callers: {
          claims: [
            { path: ["groups"], value: `g${at}` },
            { path: ["x"], value: "y" },
          ],
        },
      }),
    );
    const groups = Array.from({ length: 500 }, (_, at) => `h${at}`);
    expect((await callerOf(bindings, { groups: [...groups, "g250"], x: "y" })).roles).toEqual(["r250"]);
  });
});

describe("a binding with an end", () => {
  test("ends for a cached token at that moment, and the roles that last stay", async () => {
    let seconds = 0;
    const clock = () => (NOW_SECONDS + seconds) * 1000;
    const until = (after: number) => (NOW_SECONDS + after) * 1000;
    const context = contextOf(
      [
        bound({ role: "emergency", callers: group("a"), untilMs: until(30) }),
        bound({ role: "shift", callers: group("a"), untilMs: until(60) }),
        bound({ role: "lasting", callers: group("a") }),
      ],
      clock,
    );
    const token = await issueToken(key, goodClaims({ groups: ["a"], permissions: [] }));
    const roles = async () => (await context.verify(`Bearer ${token}`, "agents")).caller.roles;
    const recalled = () => context.recall(`Bearer ${token}`, "agents")?.caller.roles;
    expect(await roles()).toEqual(["emergency", "lasting", "shift"]);
    seconds = 29.999;
    expect(recalled()).toEqual(["emergency", "lasting", "shift"]);
    seconds = 30;
    expect(recalled()).toBeUndefined();
    expect(await roles()).toEqual(["lasting", "shift"]);
    seconds = 60;
    expect(recalled()).toBeUndefined();
    expect(await roles()).toEqual(["lasting"]);
    expect(recalled()).toEqual(["lasting"]);
  });

  test("that has passed gives nothing", async () => {
    const past = bound({ callers: group("a"), untilMs: NOW_SECONDS * 1000 });
    expect((await callerOf([past], { groups: "a" })).roles).toBeUndefined();
  });
});

const NAMES = ["a", "b", "ab", "A", "а"] as const;
const nameOf = fc.constantFrom(...NAMES);
const claimValue = fc.oneof(
  nameOf,
  fc.array(nameOf, { maxLength: 3 }),
  fc.array(fc.oneof(nameOf, fc.integer(), fc.constant(null)), { maxLength: 3 }),
  fc.constantFrom<unknown>(undefined, null, 0, true, { a: "a" }, "a b", "a,b"),
);
const PATHS = [["groups"], ["team"], ["realm", "roles"]] as const;
const required = fc.record({ path: fc.constantFrom(...PATHS), value: nameOf });
const binding = fc.record({
  role: fc.constantFrom("r1", "r2", "r3"),
  issuer: fc.constantFrom(AGENTS_ISSUER, OTHER_ISSUER),
  callers: fc.oneof(
    fc.record({ subject: nameOf }),
    fc.record({ claims: fc.array(required, { minLength: 1, maxLength: 2 }) }),
  ),
  endsAfter: fc.option(fc.integer({ min: -5, max: 400 }), { nil: undefined }),
});
const agent = fc.record({
  issuer: fc.constantFrom(AGENTS_ISSUER, OTHER_ISSUER),
  sub: nameOf,
  groups: claimValue,
  team: claimValue,
  realm: fc.oneof(fc.record({ roles: claimValue }), claimValue),
});

type Sample<From> = From extends fc.Arbitrary<infer Value> ? Value : never;

/** The roles by the words of the documentation: exactly the text, or a member of a list of texts. */
function rolesByTheBook(written: Sample<typeof binding>, who: Sample<typeof agent>, after: number): boolean {
  const { issuer, callers, endsAfter } = written;
  if (issuer !== who.issuer || (endsAfter !== undefined && after >= endsAfter)) return false;
  if ("subject" in callers) return callers.subject === who.sub;
  return callers.claims.every(({ path: [first, second], value }) => {
    const claim: unknown = who[first];
    const table = isTable(claim) ? claim : {};
    const inner = second === undefined ? claim : table[second];
    if (!Array.isArray(inner)) return inner === value;
    return inner.includes(value) && inner.every((member) => typeof member === "string");
  });
}

test("at any moment, a caller holds exactly the roles that the documentation promises, cached or not", async () => {
  const step = fc.record({
    wait: fc.integer({ min: 0, max: 120 }),
    who: fc.nat({ max: 1 }),
    event: fc.constantFrom("nothing", "nothing", "revoked", "restored", "cleared", "reloaded"),
  });
  const steps = fc.array(step, { minLength: 1, maxLength: 8 });
  await fc.assert(
    fc.asyncProperty(
      fc.array(binding, { maxLength: 8 }),
      fc.tuple(agent, agent),
      steps,
      async (all, agents, moments) => {
        let after = 0;
        let revoked = revocationsOf([]);
        const context = createCallerVerifier({
          ...{ issuers: profiles, clock: () => (NOW_SECONDS + after) * 1000, revocations: () => revoked },
          bindings: new RoleBindings(
            all.map(({ endsAfter, ...rest }) =>
              bound({ ...rest, untilMs: endsAfter === undefined ? undefined : (NOW_SECONDS + endsAfter) * 1000 }),
            ),
          ),
        });
        const tokens = agents.map(({ issuer: iss, ...claims }) => {
          const full = goodClaims({ iss, permissions: ["own"], exp: NOW_SECONDS + 3_000, ...claims });
          return forgeToken(iss === OTHER_ISSUER ? otherKey : key, { alg: "ES256" }, full);
        });
        for (const { wait, who, event } of moments) {
          after += wait;
          const caller = agents[who];
          if (caller === undefined) throw new Error("no such agent");
          const isRevoked = event === "revoked";
          if (event === "revoked" || event === "restored") revoked = revocationsOf(isRevoked ? [caller] : []);
          if (event === "cleared") context.clear();
          if (event === "reloaded") context.reload(profiles);
          const verified = context.verifyToken(tokens[who] ?? "", "agents");
          if (isRevoked) {
            expect(await verified.catch((error: unknown) => error)).toBeInstanceOf(Refusal);
            revoked = revocationsOf([]);
            continue;
          }
          const held = all.filter((one) => rolesByTheBook(one, caller, after)).map(({ role }) => role);
          const expected = [...new Set(held)].sort();
          const got = (await verified).caller;
          expect(got.roles ?? []).toEqual(expected);
          expect([...got.permissions].sort()).toEqual(["own", ...expected.map((role) => `${role}:use`)].sort());
        }
      },
    ),
  );
});

function revocationsOf(agents: readonly { readonly issuer: string; readonly sub: string }[]): RevocationList {
  const revoked = agents.map(({ issuer, sub: subject }) => ({ issuer, subject }));
  const list = readRevocations(Buffer.from(JSON.stringify({ revoked })));
  if ("problem" in list) throw new Error(list.problem);
  return list;
}

describe("an agent whose token is not at hand", () => {
  const revoked = revocationsOf([{ issuer: AGENTS_ISSUER, sub: "agent-9" }]);
  const context = createCallerVerifier({
    clock: () => NOW_SECONDS * 1000,
    issuers: [
      agentsProfile([key], { subjectPermissions: { "agent-7": ["table:use"], "agent-9": ["table:use"] } }),
      agentsProfile([otherKey], { issuer: "https://people.test", audience: "operators", operators: true }),
    ],
    bindings: new RoleBindings([
      bound({ callers: { subject: "agent-7" } }),
      bound({ role: "grouped", callers: group("a") }),
      bound({ role: "boss", issuer: "https://people.test", callers: { subject: "ann" } }),
    ]),
    certificateCallers: [
      { spiffeId: "spiffe://test/x", issuer: "https://mesh.test", subject: "job", permissions: ["mesh:use"] },
    ],
    revocations: () => revoked,
  });
  const permissionsOf = (agent: Parameters<typeof context.configuredAgent>[0]) =>
    context.configuredAgent(agent).permissions;

  test("has the permissions of its table row and of roles bound to its subject", () => {
    expect(permissionsOf({ subject: "agent-7" })).toEqual(["table:use", "support:use"]);
    expect(permissionsOf({ subject: "agent-7", issuer: AGENTS_ISSUER })).toEqual(["table:use", "support:use"]);
    expect(permissionsOf({ subject: "job", issuer: "https://mesh.test" })).toEqual(["mesh:use"]);
    expect(permissionsOf({ subject: "stranger" })).toEqual([]);
  });

  test.each([
    ["an operator", { subject: "ann", issuer: "https://people.test" }],
    ["an unknown issuer", { subject: "agent-7", issuer: "https://elsewhere.test" }],
    ["a revoked subject", { subject: "agent-9" }],
    ["a subject that no token may name", { subject: "agent-7\u200b" }],
    ["another subject of the certificates' issuer", { subject: "agent-7", issuer: "https://mesh.test" }],
  ])("is refused when it is %s", (_title, agent) => {
    expect(() => context.configuredAgent(agent)).toThrow(Refusal);
  });

  test("needs an issuer when there are several", () => {
    expect(() => contextOf([]).configuredAgent({ subject: "agent-7" })).toThrow(Refusal);
  });
});
