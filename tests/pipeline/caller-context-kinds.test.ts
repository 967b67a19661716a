import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Refusal } from "../../src/core/errors.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import type { IssuerProfile } from "../../src/pipeline/identity/issuer-profile.ts";
import {
  AGENTS_AUDIENCE,
  agentsProfile,
  type Claims,
  forgeToken,
  goodClaims,
  issueToken,
  makeSigningKey,
  NOW_SECONDS,
} from "../support/tokens.ts";

const key = makeSigningKey("ES256", "es-1");
const clock = () => NOW_SECONDS * 1000;
const CLUSTER = "https://kubernetes.default.svc.cluster.local";
const RUNNER = "system:serviceaccount:agents:runner";

function context(changes: Partial<IssuerProfile>) {
  return createCallerVerifier({ issuers: [agentsProfile([key], changes)], clock });
}

async function verdict(callers: ReturnType<typeof context>, token: string): Promise<string> {
  try {
    const { caller } = await callers.verifyToken(token, "agents");
    return `${caller.subject} may ${caller.permissions.join(" ")}`;
  } catch (error) {
    if (error instanceof Refusal) return error.code;
    throw error;
  }
}

const accessToken = (changes: Claims = {}): Claims =>
  goodClaims({ client_id: "client-1", jti: "t-1", permissions: undefined, scope: "customer:read", ...changes });

describe("OAuth access tokens (RFC 9068)", () => {
  const callers = context({ profile: "rfc9068" });
  const at = { typ: "at+jwt" };
  const good = "agent-7 may customer:read";
  const rows: readonly (readonly [string, Claims, Claims, string])[] = [
    ["as it should be", {}, at, good],
    ["the type written out", {}, { typ: "application/at+jwt" }, good],
    ["the type in capitals", {}, { typ: "AT+JWT" }, good],
    ["an audience among several", { aud: ["other", AGENTS_AUDIENCE] }, at, good],
    ["a client that acts for itself", { sub: "client-1" }, at, "client-1 may customer:read"],
    ["no scope at all", { scope: undefined }, at, "agent-7 may "],
    ["permissions beside the scope", { permissions: ["customer:write"] }, at, "agent-7 may customer:write"],
    [
      "roles, groups and entitlements are no permissions",
      { scope: undefined, roles: ["customer:read"], groups: ["customer:read"], entitlements: ["customer:read"] },
      at,
      "agent-7 may ",
    ],
    ["roles of another shape are nobody's concern", { roles: [{ value: "admin" }] }, at, good],
    ["an ID token's type", {}, { typ: "JWT" }, "UNAUTHENTICATED"],
    ["no type", {}, { typ: undefined }, "UNAUTHENTICATED"],
    ["a type that begins alike", {}, { typ: "at+jwt2" }, "UNAUTHENTICATED"],
    ["a logout token's type", {}, { typ: "logout+jwt" }, "UNAUTHENTICATED"],
    ...["iss", "exp", "aud", "sub", "client_id", "iat", "jti"].map(
      (claim) => [`no ${claim}`, { [claim]: undefined }, at, "UNAUTHENTICATED"] as const,
    ),
    ...["client_id", "jti"].flatMap((claim) =>
      [null, 7, true, "", " ", "a\nb", "ü", ["t-1"], { id: "t-1" }, "x".repeat(257)].map(
        (value) =>
          [`${claim} ${JSON.stringify(value).slice(0, 20)}`, { [claim]: value }, at, "UNAUTHENTICATED"] as const,
      ),
    ),
    ["scope as a list", { scope: ["customer:read"] }, at, good],
    ["scp as a list", { scope: undefined, scp: ["customer:read"] }, at, good],
    ["scp as a text", { scope: undefined, scp: "customer:read" }, at, good],
    ["scope as an object", { scope: { customer: "read" } }, at, "UNAUTHENTICATED"],
    ["a nonce, which some providers write into access tokens", { nonce: "n-1" }, at, good],
    ...["at_hash", "c_hash", "s_hash"].map(
      (claim) => [`an ID token's ${claim}`, { [claim]: "n-1" }, at, "UNAUTHENTICATED"] as const,
    ),
    ["claims that access tokens have, too", { auth_time: 1, acr: "1", amr: ["pwd"], azp: "c", sid: "s-1" }, at, good],
    ["a token bound by DPoP", { cnf: { jkt: "x".repeat(43) } }, at, "UNAUTHENTICATED"],
  ];
  test.each(rows.map((row) => [...row] as const))("%s", async (_title, changes, header, want) => {
    expect(await verdict(callers, await issueToken(key, accessToken(changes), header))).toBe(want);
  });

  test("a configured claim lists the permissions", async () => {
    const chosen = context({ profile: "rfc9068", permissionsClaim: "entitlements" });
    const token = await issueToken(key, accessToken({ entitlements: ["a:b"], scope: "c:d" }), at);
    expect(await verdict(chosen, token)).toBe("agent-7 may a:b");
    const text = await issueToken(key, accessToken({ entitlements: "a:b e:f", scope: "c:d" }), at);
    expect(await verdict(chosen, text)).toBe("agent-7 may a:b e:f");
    const objects = await issueToken(key, accessToken({ entitlements: [{ value: "a:b" }] }), at);
    expect(await verdict(chosen, objects)).toBe("UNAUTHENTICATED");
  });
});

const NAMED = { namespace: "agents", serviceaccount: { name: "runner", uid: "8a1f-11" } };
const POD = { name: "runner-0", uid: "77c2-01" };

const accountToken = (changes: Claims = {}): Claims =>
  goodClaims({
    iss: CLUSTER,
    aud: [AGENTS_AUDIENCE],
    sub: RUNNER,
    nbf: NOW_SECONDS - 60,
    jti: "5b2c",
    permissions: undefined,
    exp: NOW_SECONDS - 60 + 3_607,
    "kubernetes.io": { ...NAMED, pod: POD, warnafter: NOW_SECONDS + 3_000 },
    ...changes,
  });

describe("bound service-account tokens (Kubernetes)", () => {
  const callers = context({
    profile: "kubernetes",
    issuer: CLUSTER,
    subjectPermissions: { [RUNNER]: ["customer:read"], "system:serviceaccount:other:runner": ["all:all"] },
  });
  const good = `${RUNNER} may customer:read`;
  const none = { typ: undefined };
  const claim = (value: unknown): Claims => ({ "kubernetes.io": value });
  const rows: readonly (readonly [string, Claims, Claims, string])[] = [
    ["as the kubelet asks for it", {}, none, good],
    ["with the type JWT", {}, {}, good],
    ["for no pod, as kubectl create token makes it", claim(NAMED), none, good],
    ["beside a node that is gone", claim({ ...NAMED, pod: POD, node: { name: "node-1" } }), none, good],
    ["bound to its node too", claim({ ...NAMED, pod: POD, node: { name: "node-1.example", uid: "1" } }), none, good],
    ["an hour and a half", { exp: NOW_SECONDS - 60 + 5_400 }, none, good],
    ["a permissions claim counts for nothing", { permissions: ["all:all"], scope: "all:all" }, none, good],
    [
      "an account that the table does not know",
      {
        sub: "system:serviceaccount:agents:other",
        ...claim({ ...NAMED, serviceaccount: { name: "other", uid: "1" } }),
      },
      none,
      "system:serviceaccount:agents:other may ",
    ],
    ["a day", { exp: NOW_SECONDS - 60 + 86_400 }, none, "UNAUTHENTICATED"],
    ["an access token's type", {}, { typ: "at+jwt" }, "UNAUTHENTICATED"],
    ["the API server's audience alone", { aud: [CLUSTER] }, none, "UNAUTHENTICATED"],
    ["no audience", { aud: undefined }, none, "UNAUTHENTICATED"],
    ["no end", { exp: undefined }, none, "UNAUTHENTICATED"],
    ["no kubernetes.io", claim(undefined), none, "UNAUTHENTICATED"],
    ["another namespace than sub", claim({ ...NAMED, namespace: "other" }), none, "UNAUTHENTICATED"],
    ["another name than sub", claim({ ...NAMED, serviceaccount: { name: "x", uid: "1" } }), none, "UNAUTHENTICATED"],
    ["sub of another namespace", { sub: "system:serviceaccount:other:runner" }, none, "UNAUTHENTICATED"],
    ["no service account", claim({ namespace: "agents" }), none, "UNAUTHENTICATED"],
    ["no uid", claim({ ...NAMED, serviceaccount: { name: "runner" } }), none, "UNAUTHENTICATED"],
    ...[null, [], "text", 7, [NAMED]].map(
      (value) =>
        [`kubernetes.io ${JSON.stringify(value).slice(0, 20)}`, claim(value), none, "UNAUTHENTICATED"] as const,
    ),
    ...[null, [], "runner", { name: "runner" }, { name: ["runner"], uid: "1" }, { name: "", uid: "1" }].map(
      (value) => [`pod ${JSON.stringify(value)}`, claim({ ...NAMED, pod: value }), none, "UNAUTHENTICATED"] as const,
    ),
    ...[
      null,
      "node-1",
      [],
      {},
      { uid: "1" },
      { name: "Node 1", uid: "1" },
      { name: "n", uid: 1 },
      { name: "n", uid: "" },
    ].map(
      (value) => [`node ${JSON.stringify(value)}`, claim({ ...NAMED, node: value }), none, "UNAUTHENTICATED"] as const,
    ),
    ...[null, { name: "s" }, { uid: "1" }, { name: 5, uid: "1" }].map(
      (value) =>
        [`secret ${JSON.stringify(value)}`, claim({ ...NAMED, secret: value }), none, "UNAUTHENTICATED"] as const,
    ),
    ...[
      "agents:runner",
      "system:serviceaccount:agents",
      "system:serviceaccount:agents:",
      "system:serviceaccount::runner",
      "system:serviceaccount:agents:runner:x",
      "system:serviceaccount:Agents:runner",
      "system:serviceaccount:agents:runner ",
      "system:serviceaccount:agénts:runner",
      "system:serviceaccount:agents/x:runner",
      "system:serviceaccount:agents:../runner",
      "system:node:node-1",
      "System:serviceaccount:agents:runner",
      "runner",
    ].map((sub) => [`sub ${sub}`, { sub }, none, "UNAUTHENTICATED"] as const),
    [
      "a token from a Secret",
      {
        iss: "kubernetes/serviceaccount",
        aud: undefined,
        exp: undefined,
        iat: undefined,
        "kubernetes.io": undefined,
        "kubernetes.io/serviceaccount/namespace": "agents",
        "kubernetes.io/serviceaccount/secret.name": "runner-token-x",
      },
      none,
      "UNAUTHENTICATED",
    ],
    [
      "a token from a Secret that learned the rest",
      { "kubernetes.io/serviceaccount/secret.name": "runner-token-x" },
      none,
      "UNAUTHENTICATED",
    ],
  ];
  test.each(rows.map((row) => [...row] as const))("%s", async (_title, changes, header, want) => {
    expect(await verdict(callers, await issueToken(key, accountToken(changes), header))).toBe(want);
  });

  test("the claim kubernetes.io twice", async () => {
    const twice = JSON.stringify(accountToken()).replace(/^\{/, '{"kubernetes.io":{"namespace":"other"},');
    expect(await verdict(callers, forgeToken(key, { alg: "ES256", kid: "es-1" }, twice))).toBe("UNAUTHENTICATED");
  });

  test("any shape of the claim gives a caller or a refusal", async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), fc.constantFrom("namespace", "serviceaccount", "pod", ""), async (value, at) => {
        const shape = at === "" ? value : { ...NAMED, pod: POD, [at]: value };
        const token = forgeToken(key, { alg: "ES256", kid: "es-1" }, accountToken({ "kubernetes.io": shape }));
        expect([good, "UNAUTHENTICATED"]).toContain(await verdict(callers, token));
      }),
      { numRuns: 200 },
    );
  });
});

describe("the table of subjects", () => {
  const table = (subjectPermissions: Record<string, readonly string[]>, changes: Partial<IssuerProfile> = {}) =>
    context({ subjectPermissions, ...changes });

  const composed = "Ren\u00e9";
  const decomposed = "Rene\u0301";
  const rows: readonly (readonly [string, string, string])[] = [
    ["exactly as written", "agent-7", "customer:read"],
    ["a subject that is not there", "agent-8", ""],
    ["in other capitals", "Agent-7", ""],
    ["a longer one that begins alike", "agent-70", ""],
    ["a member of every object", "constructor", ""],
    ["and another", "__proto__", ""],
    ["composed", composed, "name:composed"],
    ["decomposed, which is another subject", decomposed, ""],
    ["a letter of another script", "\u0430gent-7", ""],
  ];
  const callers = table({ "agent-7": ["customer:read"], [composed]: ["name:composed"] });
  test.each(rows.map((row) => [...row] as const))("%s", async (_title, sub, want) => {
    const token = await issueToken(key, goodClaims({ sub, permissions: ["all:all"], scope: "all:all" }));
    expect(await verdict(callers, token)).toBe(`${sub} may ${want}`);
  });

  const mistakes: readonly (readonly [string, Record<string, readonly string[]>, string])[] = [
    ["everybody", { "*": ["a:b"] }, "not a pattern"],
    ["a pattern", { "agent-*": ["a:b"] }, "not a pattern"],
    ["a pattern of permissions", { "agent-7": ["customer:*"] }, "not a pattern"],
    ["nobody", { "": ["a:b"] }, "no token may name"],
    ["what cannot be seen", { "agent\u200b-7": ["a:b"] }, "cannot be seen"],
    ["a space in front", { " agent-7": ["a:b"] }, "cannot be seen"],
    ["the audit's own name", { Anonymous: ["a:b"] }, "reserved"],
  ];
  test.each(mistakes.map((row) => [...row] as const))("%s is an error", (_title, subjects, says) => {
    expect(() => table(subjects)).toThrow(says);
  });

  const kinds: readonly (readonly [string, Partial<IssuerProfile>, string])[] = [
    ["service accounts without a table", { issuer: CLUSTER }, "subjectPermissions: is missing"],
    ["the issuer of tokens from Secrets", { issuer: "kubernetes/serviceaccount" }, "must be the https URL"],
    ["a subject that is no account", { issuer: CLUSTER, subjectPermissions: { runner: [] } }, "system:serviceaccount"],
    ["a type of one's own", { issuer: CLUSTER, typ: "JWT", subjectPermissions: {} }, "says it already"],
  ];
  test.each(kinds.map((row) => [...row] as const))("%s does not start", (_title, changes, says) => {
    expect(() => context({ profile: "kubernetes", ...changes })).toThrow(says);
  });

  test("a type together with the profile of access tokens does not start", () => {
    expect(() => context({ profile: "rfc9068", typ: "JWT" })).toThrow("says it already");
  });
});
