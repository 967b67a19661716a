import { describe, expect, test } from "bun:test";
import { Refusal } from "../../src/core/errors.ts";
import { type Audience, createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { publicKey } from "../../src/pipeline/identity/issuer-keys.ts";
import {
  AGENTS_AUDIENCE,
  AGENTS_ISSUER,
  agentsProfile,
  type Claims,
  forgeToken,
  goodClaims,
  issueToken,
  makeSigningKey,
  NOW_SECONDS,
} from "../support/tokens.ts";

const es256 = makeSigningKey("ES256", "es-1");
const rs256 = makeSigningKey("RS256", "rs-1");
const ps256 = makeSigningKey("PS256", "ps-1");
const eddsa = makeSigningKey("EdDSA", "ed-1");
const people = makeSigningKey("ES256", "people-1");
const PEOPLE_ISSUER = "https://idp.test/people";
const PEOPLE_AUDIENCE = "safe-tool-call-operators";
const clock = () => NOW_SECONDS * 1000;

const peopleProfile = agentsProfile([people], { issuer: PEOPLE_ISSUER, audience: PEOPLE_AUDIENCE, operators: true });
const context = createCallerVerifier({ issuers: [agentsProfile([es256, rs256, ps256, eddsa]), peopleProfile], clock });

async function refusalOf(work: Promise<unknown>): Promise<Refusal> {
  const outcome = await work.then(
    () => "accepted",
    (error: unknown) => error,
  );
  if (outcome instanceof Refusal) return outcome;
  throw new Error(`not a Refusal: ${String(outcome)}`);
}

interface Benign {
  readonly title: string;
  readonly token: () => string | Promise<string>;
  readonly subject?: string;
  readonly permissions?: readonly string[];
  readonly actors?: readonly string[];
  readonly actorIssuers?: readonly (string | undefined)[];
}

const claims = (changes: Claims) => () => issueToken(es256, goodClaims(changes));
const header = (changes: Claims) => () => issueToken(es256, goodClaims(), changes);

const BENIGN: readonly Benign[] = [
  { title: "ES256", token: () => issueToken(es256) },
  { title: "RS256", token: () => issueToken(rs256) },
  { title: "PS256", token: () => issueToken(ps256) },
  { title: "EdDSA", token: () => issueToken(eddsa) },
  { title: "no typ", token: header({ typ: undefined }) },
  { title: "typ jwt", token: header({ typ: "jwt" }) },
  { title: "typ at+jwt", token: header({ typ: "at+jwt" }) },
  { title: "typ application/at+JWT", token: header({ typ: "application/at+JWT" }) },
  { title: "headers we do not know", token: header({ x5t: "abc", "x-trace": "1" }) },
  { title: "jku beside a true signature is ignored", token: header({ jku: "https://elsewhere.test/keys" }) },
  { title: "aud array", token: claims({ aud: ["other", AGENTS_AUDIENCE] }) },
  { title: "aud array of one", token: claims({ aud: [AGENTS_AUDIENCE] }) },
  {
    title: "extra claims",
    token: claims({ jti: "1", azp: "x", nested: { a: [{ b: 1 }] }, text: 'one quote " and : a {colon' }),
  },
  {
    title: "claims named like members of prototypes",
    token: claims({ constructor: "x", toString: 1, hasOwnProperty: null }),
  },
  { title: "exp within tolerance", token: claims({ exp: NOW_SECONDS - 4, iat: NOW_SECONDS - 600 }) },
  { title: "iat within tolerance", token: claims({ iat: NOW_SECONDS + 5 }) },
  { title: "nbf within tolerance", token: claims({ nbf: NOW_SECONDS + 5 }) },
  { title: "nbf in the past", token: claims({ nbf: NOW_SECONDS - 600 }) },
  { title: "fractional times", token: claims({ iat: NOW_SECONDS - 0.5, exp: NOW_SECONDS + 10.25 }) },
  { title: "a lifetime of exactly an hour", token: claims({ iat: NOW_SECONDS - 60, exp: NOW_SECONDS + 3540 }) },
  {
    title: "scope instead of permissions",
    token: claims({ permissions: undefined, scope: "a:read b:write" }),
    permissions: ["a:read", "b:write"],
  },
  ...["permissions", "scope", "scp"].flatMap((claim) => [
    {
      title: `${claim} as a text`,
      token: claims({ permissions: undefined, [claim]: "a:read  b:write " }),
      permissions: ["a:read", "b:write"],
    },
    {
      title: `${claim} as a list`,
      token: claims({ permissions: undefined, [claim]: ["a:read", "b:write"] }),
      permissions: ["a:read", "b:write"],
    },
    { title: `${claim} as an empty text`, token: claims({ permissions: undefined, [claim]: "" }), permissions: [] },
    { title: `${claim} as an empty list`, token: claims({ permissions: undefined, [claim]: [] }), permissions: [] },
  ]),
  {
    title: "scope wins over scp",
    token: claims({ permissions: undefined, scope: "a", scp: ["b"] }),
    permissions: ["a"],
  },
  {
    title: "an empty text of permissions does not fall back to scope",
    token: claims({ permissions: "", scope: "admin", scp: "admin" }),
    permissions: [],
  },
  { title: "permissions win over scope", token: claims({ scope: "admin" }), permissions: ["customer:read"] },
  {
    title: "empty permissions do not fall back to scope",
    token: claims({ permissions: [], scope: "admin" }),
    permissions: [],
  },
  { title: "neither permissions nor scope", token: claims({ permissions: undefined }), permissions: [] },
  { title: "empty scope", token: claims({ permissions: undefined, scope: "" }), permissions: [] },
  { title: "a star is a name like others", token: claims({ permissions: ["*"] }), permissions: ["*"] },
  { title: "256 permissions", token: claims({ permissions: Array(256).fill("p") }), permissions: Array(256).fill("p") },
  {
    title: "a permission of 128 characters",
    token: claims({ permissions: ["p".repeat(128)] }),
    permissions: ["p".repeat(128)],
  },
  {
    title: "sub like an e-mail address",
    token: claims({ sub: "jo.o'neil+x@example.org" }),
    subject: "jo.o'neil+x@example.org",
  },
  {
    title: "sub of a workload",
    token: claims({ sub: "system:serviceaccount:ns:agent|7" }),
    subject: "system:serviceaccount:ns:agent|7",
  },
  { title: "sub in another script", token: claims({ sub: "Jürgen Müller 山田" }), subject: "Jürgen Müller 山田" },
  { title: "sub with combining marks", token: claims({ sub: "e\u0301milie" }), subject: "e\u0301milie" },
  { title: "sub of 256 emoji", token: claims({ sub: "😀".repeat(256) }), subject: "😀".repeat(256) },
  { title: "sub that contains anonymous", token: claims({ sub: "anonymous-7" }), subject: "anonymous-7" },
  { title: "sub named __proto__", token: claims({ sub: "__proto__" }), subject: "__proto__" },
  { title: "an act chain", token: claims({ act: { sub: "b", act: { sub: "c" } } }), actors: ["b", "c"] },
  {
    title: "an act chain that names an issuer",
    token: claims({ act: { sub: "b", act: { sub: "c", iss: "https://other.test" } } }),
    actors: ["b", "c"],
    actorIssuers: [undefined, "https://other.test"],
  },
  {
    title: "an act chain of ten",
    token: claims({ act: chain(10) }),
    actors: Array.from({ length: 10 }, (_, i) => `a${10 - i}`),
  },
  {
    title: "a pretty printed payload",
    token: () => forgeToken(es256, { alg: "ES256", kid: "es-1" }, JSON.stringify(goodClaims(), null, 2)),
  },
];

function chain(depth: number): unknown {
  return depth === 1 ? { sub: "a1" } : { sub: `a${depth}`, act: chain(depth - 1) };
}

describe("tokens that are accepted", () => {
  test.each(BENIGN.map((row) => [row.title, row] as const))("%s", async (_title, row) => {
    const { caller } = await context.verify(`Bearer ${await row.token()}`, "agents");
    expect(caller.issuer).toBe(AGENTS_ISSUER);
    expect(caller.subject).toBe(row.subject ?? "agent-7");
    expect(caller.permissions).toEqual([...(row.permissions ?? ["customer:read"])]);
    expect(caller.actors).toEqual([...(row.actors ?? [])]);
    expect(caller.actorIssuers).toEqual(row.actorIssuers);
    expect(Object.isFrozen(caller) && Object.isFrozen(caller.permissions) && Object.isFrozen(caller.actors)).toBe(true);
  });

  test.each([
    [undefined, 5],
    [0, 0],
    [60, 60],
  ])("a clock that differs by clockToleranceSeconds: %p is accepted up to it, and no further", async (set, seconds) => {
    const profile = agentsProfile([es256], set === undefined ? {} : { clockToleranceSeconds: set });
    const issuers = [profile];
    const outcome = async (changes: Claims): Promise<string> => {
      const callers = createCallerVerifier({ issuers, clock });
      const token = await issueToken(es256, goodClaims({ iat: NOW_SECONDS - 600, ...changes }));
      return callers.verifyToken(token, "agents").then(
        () => "accepted",
        (error: Error) => error.message,
      );
    };
    expect(await outcome({ iat: NOW_SECONDS + seconds })).toBe("accepted");
    expect(await outcome({ iat: NOW_SECONDS + seconds + 1 })).toStartWith("The token is from the future: the clocks");
    expect(await outcome({ nbf: NOW_SECONDS + seconds })).toBe("accepted");
    expect(await outcome({ nbf: NOW_SECONDS + seconds + 1 })).toStartWith("The token is from the future: the clocks");
    expect(await outcome({ exp: NOW_SECONDS - seconds + 1 })).toBe("accepted");
    expect(await outcome({ exp: NOW_SECONDS - seconds })).toStartWith("The token has expired");
  });

  test("kid absent with a single key", async () => {
    const alone = createCallerVerifier({ issuers: [agentsProfile([es256])], clock });
    const verified = await alone.verifyToken(await issueToken(es256, goodClaims(), { kid: undefined }), "agents");
    expect(verified.caller.subject).toBe("agent-7");
  });

  test("kid absent while two keys of a kind are published", async () => {
    const rotating = createCallerVerifier({ issuers: [agentsProfile([people, es256])], clock });
    const verified = await rotating.verifyToken(await issueToken(es256, goodClaims(), { kid: undefined }), "agents");
    expect(verified.caller.subject).toBe("agent-7");
  });

  test.each([
    ["SPKI PEM", es256.publicKey.export({ type: "spki", format: "pem" }).toString()],
    ["KeyObject", es256.publicKey],
  ])("a configured public key (%s) verifies whatever kid a token names", async (_title, key) => {
    const profile = agentsProfile([], { algorithms: ["ES256"], keys: publicKey(key) });
    const pinned = createCallerVerifier({ issuers: [profile], clock });
    const verified = await pinned.verifyToken(await issueToken(es256, goodClaims(), { kid: "any" }), "agents");
    expect(verified.caller.subject).toBe("agent-7");
  });

  test("a configured permissions claim and typ", async () => {
    const profile = agentsProfile([es256], { permissionsClaim: "https://idp.test/roles", typ: "agent+jwt" });
    const own = createCallerVerifier({ issuers: [profile], clock });
    const roles = goodClaims({ "https://idp.test/roles": ["r"], permissions: ["admin"] });
    const good = await own.verifyToken(await issueToken(es256, roles, { typ: "application/agent+jwt" }), "agents");
    expect(good.caller.permissions).toEqual(["r"]);
    expect((await refusalOf(own.verifyToken(await issueToken(es256, roles), "agents"))).code).toBe("UNAUTHENTICATED");
    const untyped = await issueToken(es256, roles, { typ: undefined });
    expect((await refusalOf(own.verifyToken(untyped, "agents"))).code).toBe("UNAUTHENTICATED");
  });

  test("a configured lifetime", async () => {
    const day = createCallerVerifier({ issuers: [agentsProfile([es256], { maxLifetimeSeconds: 86_400 })], clock });
    const token = await issueToken(es256, goodClaims({ exp: NOW_SECONDS + 80_000 }));
    expect((await day.verifyToken(token, "agents")).caller.expiresAt).toBe(NOW_SECONDS + 80_000);
  });
});

const MISSING = "A token is missing: send the header Authorization: Bearer <token>.";
const MALFORMED = "The token is malformed: send exactly one signed JWT, as Authorization: Bearer <token>.";
const NOT_MEANT = "The token is not meant for this service: ask for one with the issuer and audience that it expects.";

describe("the Authorization header", () => {
  test.each([["Bearer"], ["bearer"], ["BEARER"], ["bEaReR"]])("scheme %s is accepted", async (scheme) => {
    const verified = await context.verify(`${scheme} ${await issueToken(es256)}`, "agents");
    expect(verified.caller.subject).toBe("agent-7");
  });

  const rows: readonly (readonly [string, (token: string) => string | undefined, string])[] = [
    ["absent", () => undefined, MISSING],
    ["empty", () => "", MISSING],
    ["scheme alone", () => "Bearer", MALFORMED],
    ["scheme and space", () => "Bearer ", MISSING],
    ["no scheme", (token) => token, MALFORMED],
    ["Basic", () => "Basic dXNlcjpwYXNz", MALFORMED],
    ["DPoP", (token) => `DPoP ${token}`, MALFORMED],
    ["Token", (token) => `Token ${token}`, MALFORMED],
    ["two spaces", (token) => `Bearer  ${token}`, MALFORMED],
    ["tab", (token) => `Bearer\t${token}`, MALFORMED],
    ["no-break space", (token) => `Bearer\u00a0${token}`, MALFORMED],
    ["leading space", (token) => ` Bearer ${token}`, MALFORMED],
    ["trailing space", (token) => `Bearer ${token} `, MALFORMED],
    ["trailing newline", (token) => `Bearer ${token}\n`, MALFORMED],
    ["two tokens", (token) => `Bearer ${token} ${token}`, MALFORMED],
    ["joined headers", (token) => `Bearer ${token}, Bearer ${token}`, MALFORMED],
    ["Bearer twice", (token) => `Bearer Bearer ${token}`, MALFORMED],
    ["quotes", (token) => `Bearer "${token}"`, MALFORMED],
    ["colon", (token) => `Bearer: ${token}`, MALFORMED],
    ["parameter", (token) => `Bearer token=${token}`, MALFORMED],
    ["over long", (token) => `Bearer ${token}${"A".repeat(8193)}`, MALFORMED],
  ];
  test.each(rows.map((row) => [...row] as const))("%s is refused", async (_title, value, message) => {
    const refusal = await refusalOf(context.verify(value(await issueToken(es256)), "agents"));
    expect([refusal.code, refusal.message]).toEqual(["UNAUTHENTICATED", message]);
  });

  test.each([
    ["empty text", ""],
    ["undefined", undefined],
    ["a number", 7],
  ])("verifyToken: %s", async (_title, token) => {
    const refusal = await refusalOf(context.verifyToken(token as string, "agents"));
    expect([refusal.code, refusal.message]).toEqual(["UNAUTHENTICATED", MISSING]);
  });
});

describe("audiences", () => {
  const peopleClaims = goodClaims({ iss: PEOPLE_ISSUER, aud: PEOPLE_AUDIENCE, sub: "ann" });
  test("an operator's token is valid for the operators' endpoints", async () => {
    const verified = await context.verifyToken(await issueToken(people, peopleClaims), "operators");
    expect(verified.caller).toMatchObject({ issuer: PEOPLE_ISSUER, subject: "ann" });
  });

  const wrong: readonly (readonly [string, () => Promise<string>, Audience])[] = [
    ["an operator's token at the agents' door", () => issueToken(people, peopleClaims), "agents"],
    ["an agent's token at the operators' door", () => issueToken(es256), "operators"],
    [
      "an operator's token that also names our audience",
      () => issueToken(people, { ...peopleClaims, aud: [PEOPLE_AUDIENCE, AGENTS_AUDIENCE] }),
      "agents",
    ],
    [
      "an agent's token with the operators' audience",
      () => issueToken(es256, goodClaims({ aud: [AGENTS_AUDIENCE, PEOPLE_AUDIENCE] })),
      "operators",
    ],
  ];
  test.each(wrong.map((row) => [...row] as const))("%s is refused, cached or not", async (_title, make, door) => {
    const token = await make();
    const other = door === "agents" ? "operators" : "agents";
    expect((await refusalOf(context.verifyToken(token, door))).message).toBe(NOT_MEANT);
    await context.verifyToken(token, other);
    expect((await refusalOf(context.verifyToken(token, door))).message).toBe(NOT_MEANT);
  });
});
