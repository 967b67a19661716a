import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import { type Audience, createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import type { IssuerProfile } from "../../src/pipeline/identity/issuer-profile.ts";
import { jwksUrl } from "../../src/pipeline/identity/remote-keys.ts";
import { type RoleBinding, RoleBindings } from "../../src/pipeline/identity/roles.ts";
import { type JwksServer, publish, startJwksServer } from "../support/jwks-server.ts";
import {
  AGENTS_AUDIENCE,
  AGENTS_ISSUER,
  agentsProfile,
  type Claims,
  goodClaims,
  issueToken,
  makeSigningKey,
  NOW_SECONDS,
} from "../support/tokens.ts";

const PEOPLE_AUDIENCE = "safe-tool-call-operators";
const key = makeSigningKey("ES256", "k1");
const clock = () => NOW_SECONDS * 1000;
const AGENTS = agentsProfile([key]);
const OPERATORS: IssuerProfile = { ...AGENTS, operators: true, audience: [PEOPLE_AUDIENCE, "people"] };

async function outcome(callers: ReturnType<typeof createCallerVerifier>, token: string, audience: Audience) {
  try {
    const { subject, permissions } = (await callers.verifyToken(token, audience)).caller;
    return `${subject} may ${permissions.join(" ")}`;
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

const GOOD = "agent-7 may customer:read";
const NO = "UNAUTHENTICATED";

describe.each([
  ["agents first", [AGENTS, OPERATORS]],
  ["operators first", [OPERATORS, AGENTS]],
] as const)("an issuer of agents and operators, %s,", (_title, issuers) => {
  test.each<readonly [string, Claims, string, string]>([
    ["for agents", {}, GOOD, NO],
    ["for operators", { aud: PEOPLE_AUDIENCE }, NO, GOOD],
    ["for the operators' other audience", { aud: ["people"] }, NO, GOOD],
    ["for agents and another service", { aud: ["other", AGENTS_AUDIENCE] }, GOOD, NO],
    ["for operators and another service", { aud: ["other", PEOPLE_AUDIENCE] }, NO, GOOD],
    ["for agents and operators", { aud: [AGENTS_AUDIENCE, PEOPLE_AUDIENCE] }, NO, NO],
    ["for operators and agents", { aud: ["people", "other", AGENTS_AUDIENCE] }, NO, NO],
    ["for two audiences of operators", { aud: [PEOPLE_AUDIENCE, "people"] }, NO, GOOD],
    ["for another service", { aud: "other" }, NO, NO],
    ["for nobody", { aud: undefined }, NO, NO],
    ["for a list within a list", { aud: [[AGENTS_AUDIENCE]] }, NO, NO],
    ["for both in one text", { aud: `${AGENTS_AUDIENCE} ${PEOPLE_AUDIENCE}` }, NO, NO],
  ])("has tokens %s", async (_for, claims, agents, operators) => {
    const callers = createCallerVerifier({ issuers, clock });
    const token = await issueToken(key, goodClaims(claims));
    // The second round finds in the cache what the first has left there.
    for (let round = 0; round < 2; round += 1) {
      expect([await outcome(callers, token, "agents"), await outcome(callers, token, "operators")]).toEqual([
        agents,
        operators,
      ]);
    }
  });

  test("has people who may operate, and agents who may be asked about", () => {
    const callers = createCallerVerifier({ issuers, clock });
    expect(() => callers.assertOperator({ issuer: AGENTS_ISSUER, subject: "ann" })).not.toThrow();
    expect(callers.configuredAgent({ subject: "agent-7" })).toMatchObject({ issuer: AGENTS_ISSUER, permissions: [] });
  });
});

test("each kind has its own rules: claim, table, algorithms and lifetime", async () => {
  const table = { ...OPERATORS, subjectPermissions: { ann: ["audit:read"] }, maxLifetimeSeconds: 900 };
  const callers = createCallerVerifier({ issuers: [{ ...AGENTS, permissionsClaim: "may" }, table], clock });
  const agent = await issueToken(key, goodClaims({ sub: "ann", may: ["a"], exp: NOW_SECONDS + 3_000 }));
  expect(await outcome(callers, agent, "agents")).toBe("ann may a");
  const person = goodClaims({ sub: "ann", may: ["a"], aud: PEOPLE_AUDIENCE });
  expect(await outcome(callers, await issueToken(key, person), "operators")).toBe("ann may audit:read");
  const long = await issueToken(key, { ...person, exp: NOW_SECONDS + 3_000 });
  expect(await outcome(callers, long, "operators")).toBe(NO);
});

test("a role is for the kind that its binding names", async () => {
  const bound = (role: string, isForOperators: boolean): RoleBinding => ({
    ...{ role, isForOperators, issuer: AGENTS_ISSUER, permissions: [`${role}:use`], untilMs: undefined },
    callers: { claims: [{ path: ["groups"], value: "staff" }] },
  });
  const bindings = new RoleBindings([bound("tools", false), bound("console", true)]);
  const callers = createCallerVerifier({ issuers: [AGENTS, OPERATORS], clock, bindings });
  const claims = { groups: ["staff"], permissions: [] };
  const tokenFor = (aud: string) => issueToken(key, goodClaims({ ...claims, aud }));
  expect(await outcome(callers, await tokenFor(AGENTS_AUDIENCE), "agents")).toBe("agent-7 may tools:use");
  expect(await outcome(callers, await tokenFor(PEOPLE_AUDIENCE), "operators")).toBe("agent-7 may console:use");
});

test.each([
  ["two profiles for agents", [AGENTS, { ...AGENTS, audience: "other" }], "appears twice"],
  ["two profiles for operators", [OPERATORS, { ...OPERATORS, audience: "other" }], "appears twice"],
  ["one audience for both", [AGENTS, { ...OPERATORS, audience: ["x", AGENTS_AUDIENCE] }], "issuer's operators"],
] as const)("%s do not start", (_title, issuers, says) => {
  expect(() => createCallerVerifier({ issuers, clock })).toThrow(says);
});

describe("keys at a URL", () => {
  let server: JwksServer;
  beforeAll(async () => {
    server = await startJwksServer(key);
  });
  afterAll(() => server.close());

  test("are those of both kinds, also after a rotation, and after a reload while the server is away", async () => {
    const keys = jwksUrl(server.url);
    const issuers = [AGENTS, OPERATORS].map((profile) => ({ ...profile, keys }));
    let now = clock();
    const callers = createCallerVerifier({ issuers, clock: () => now });
    const both = async (signer: typeof key) => {
      const changes = { iat: now / 1_000 - 1, exp: now / 1_000 + 600 };
      const agent = await issueToken(signer, goodClaims(changes));
      const person = await issueToken(signer, goodClaims({ ...changes, aud: PEOPLE_AUDIENCE }));
      return [await outcome(callers, agent, "agents"), await outcome(callers, person, "operators")];
    };
    expect(await both(key)).toEqual([GOOD, GOOD]);
    const next = makeSigningKey("ES256", "k2");
    server.answer = publish(key, next);
    now += 120_000;
    expect(await both(next)).toEqual([GOOD, GOOD]);
    server.answer = (response) => response.writeHead(500).end();
    callers.reload(issuers);
    expect(await both(next)).toEqual([GOOD, GOOD]);
  });
});
