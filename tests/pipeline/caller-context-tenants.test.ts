import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { Refusal } from "../../src/core/errors.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import type { IssuerProfile } from "../../src/pipeline/identity/issuer-profile.ts";
import { TOKEN_LENGTH_MAX } from "../../src/pipeline/identity/reader.ts";
import { tenantChosenBy } from "../../src/pipeline/identity/tenants.ts";
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

const key = makeSigningKey("ES256", "k1");
const clock = () => NOW_SECONDS * 1000;
const PLATFORM = "https://platform.test";
const NAMES = ["acme", "globex"];
const OF_TENANTS: IssuerProfile = { ...agentsProfile([key]), tenants: { claim: "tenant", names: NAMES } };
const OF_SERVICE: IssuerProfile = { ...agentsProfile([key]), issuer: PLATFORM };
const CERTIFICATE = { thumbprint: "x", spiffeId: "spiffe://x/a", notBeforeMs: 0, notAfterMs: clock() * 2 };
const certificateCallers = [
  { spiffeId: CERTIFICATE.spiffeId, issuer: AGENTS_ISSUER, subject: "a", permissions: ["p:q"], tenant: "acme" },
];

function verifierFor(tenant: string | undefined, issuers: readonly IssuerProfile[] = [OF_TENANTS, OF_SERVICE]) {
  return createCallerVerifier({ issuers, clock, tenant, certificateCallers });
}

const token = (claims: Claims): Promise<string> => issueToken(key, goodClaims(claims));
const WRONG = "The token is not meant for this service: ask for one with the issuer and audience that it expects.";

async function refusalOf(answer: () => unknown): Promise<readonly unknown[]> {
  try {
    return ["no refusal", await answer()];
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return [error.code, error.message, error.cause instanceof Error ? error.cause.message : undefined];
  }
}

describe("a token that names its tenant", () => {
  test("is valid there, and its caller has the tenant", async () => {
    const callers = verifierFor("acme");
    const authorization = `Bearer ${await token({ tenant: "acme" })}`;
    expect((await callers.verify(authorization, "agents")).caller.tenant).toBe("acme");
    expect(callers.recall(authorization, "agents")?.caller.tenant).toBe("acme");
  });

  test("is refused elsewhere, at every check, and the other's cache knows nothing of it", async () => {
    const presented = await token({ tenant: "acme" });
    await verifierFor("acme").verifyToken(presented, "agents");
    for (const [tenant, here] of [
      ["globex", "this is globex"],
      [undefined, "this is the service itself"],
    ] as const) {
      const callers = verifierFor(tenant);
      const reason = `tenant: acme is named, and ${here}`;
      expect(callers.knows(`Bearer ${presented}`)).toBe(false);
      expect(await refusalOf(() => callers.verifyToken(presented, "agents"))).toEqual([
        "UNAUTHENTICATED",
        WRONG,
        reason,
      ]);
      expect(callers.recall(`Bearer ${presented}`, "agents")).toBeUndefined();
    }
  });

  test("is refused before an API server is asked about it", async () => {
    let reviews = 0;
    const review = async (): Promise<void> => {
      reviews += 1;
    };
    const callers = verifierFor("globex", [{ ...OF_TENANTS, review }]);
    await refusalOf(async () => callers.verifyToken(await token({ tenant: "acme" }), "agents"));
    expect(reviews).toBe(0);
  });
});

const FOREIGN = "tenant: the issuer may not speak for the one that is named";

test.each<readonly [string, Claims, string]>([
  ["none", {}, "tenant: the claim is missing"],
  ["an unknown one", { tenant: "initech" }, FOREIGN],
  ["a list", { tenant: ["acme"] }, "tenant: the claim is not a text"],
  ["a table", { tenant: { acme: true } }, "tenant: the claim is not a text"],
  ["nothing", { tenant: null }, "tenant: the claim is not a text"],
  ["a number", { tenant: 1 }, "tenant: the claim is not a text"],
  ["an empty text", { tenant: "" }, FOREIGN],
  ["other letters", { tenant: "Acme" }, FOREIGN],
  ["a space", { tenant: "acme " }, FOREIGN],
  ["a NUL", { tenant: "acme\u0000" }, FOREIGN],
  ["a Cyrillic letter", { tenant: "\u0430cme" }, FOREIGN],
  ["an invisible character", { tenant: "ac\u200bme" }, FOREIGN],
  ["a full-width letter", { tenant: "\uff41cme" }, FOREIGN],
  ["a member of every object", { tenant: "__proto__" }, FOREIGN],
  ["two names in one text", { tenant: "acme,globex" }, FOREIGN],
])("a token with %s as its tenant is refused everywhere with one text", async (_what, claims, reason) => {
  for (const tenant of ["acme", "globex", undefined]) {
    const callers = verifierFor(tenant);
    const presented = await token(claims);
    expect(await refusalOf(() => callers.verifyToken(presented, "agents"))).toEqual(["UNAUTHENTICATED", WRONG, reason]);
  }
});

test("a token with a wrong signature says nothing about tenants", async () => {
  const other = makeSigningKey("ES256", "k1");
  const answers = await Promise.all(
    ["acme", "initech"].flatMap((tenant) =>
      ["acme", undefined].map(async (asked) => {
        const presented = await issueToken(other, goodClaims({ tenant }));
        return refusalOf(() => verifierFor(asked).verifyToken(presented, "agents"));
      }),
    ),
  );
  expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
});

test("an issuer without tenants has callers of the service alone, whatever its tokens say", async () => {
  const presented = await token({ iss: PLATFORM, tenant: "acme" });
  expect((await verifierFor(undefined).verifyToken(presented, "agents")).caller.tenant).toBeUndefined();
  const refused = await refusalOf(() => verifierFor("acme").verifyToken(presented, "agents"));
  expect(refused).toEqual(["UNAUTHENTICATED", WRONG, "tenant: the issuer speaks for no tenant, and this is acme"]);
});

test("claims that are kept for decisions leave the tenant as it was verified", async () => {
  const claimed = { ...OF_TENANTS, tenants: { claim: "org", names: NAMES }, claims: ["tenant", "org"] };
  const { caller } = await verifierFor("acme", [claimed]).verifyToken(
    await token({ org: "acme", tenant: "globex" }),
    "agents",
  );
  expect([caller.tenant, caller.claims]).toEqual(["acme", { org: "acme", tenant: "globex" }]);
});

test("a certificate is that of a caller in its own tenant alone", async () => {
  const { caller } = await verifierFor("acme").verify(undefined, "agents", CERTIFICATE);
  expect([caller.subject, caller.tenant]).toEqual(["a", "acme"]);
  for (const tenant of ["globex", undefined]) {
    const [code] = await refusalOf(() => verifierFor(tenant).verify(undefined, "agents", CERTIFICATE));
    expect(code).toBe("UNAUTHENTICATED");
  }
});

test("callers without a token at hand are those of the tenant", async () => {
  const agent = { issuer: AGENTS_ISSUER, subject: "x" };
  expect(verifierFor("acme").configuredAgent({ subject: "x" }).tenant).toBe("acme");
  expect(verifierFor(undefined).configuredAgent({ subject: "x" }).issuer).toBe(PLATFORM);
  expect((await refusalOf(() => verifierFor(undefined).configuredAgent(agent)))[0]).toBe("UNAUTHENTICATED");
  const operators = { ...OF_TENANTS, operators: true };
  expect(() => verifierFor("acme", [operators]).assertOperator(agent)).not.toThrow();
  expect(() => verifierFor(undefined, [operators]).assertOperator(agent)).toThrow(Refusal);
  expect(() => verifierFor("initech", [operators]).assertOperator(agent)).toThrow(Refusal);
});

test("callers without a token at hand are refused once the service's issuers no longer speak for the tenant", async () => {
  const operators = { ...OF_TENANTS, operators: true };
  let inUse = [OF_TENANTS, { ...operators, audience: "people" }];
  const choice = () => tenantChosenBy({ jwt: { issuers: inUse, clientCertificates: [] } });
  const issuers = inUse;
  const callers = createCallerVerifier({ issuers, clock, tenant: "acme", choice });
  const person = { issuer: AGENTS_ISSUER, subject: "x" };
  expect(callers.configuredAgent(person).tenant).toBe("acme");
  expect(() => callers.assertOperator(person)).not.toThrow();
  inUse = inUse.map((issuer) => ({ ...issuer, tenants: { claim: "tenant", names: ["globex"] } }));
  expect((await refusalOf(() => callers.configuredAgent(person)))[0]).toBe("UNAUTHENTICATED");
  expect((await refusalOf(() => callers.assertOperator(person)))[0]).toBe("UNAUTHENTICATED");
});

describe("which tenant is asked", () => {
  const audience = AGENTS_AUDIENCE;
  const people = {
    ...{ issuer: AGENTS_ISSUER, audience: "people", operators: true },
    tenants: { claim: "org", names: ["globex"] },
  };
  const issuers = [
    { issuer: AGENTS_ISSUER, audience, operators: false, tenants: { claim: "tenant", names: NAMES } },
    ...[people, { issuer: PLATFORM, audience, operators: false }],
  ];
  const clientCertificates = [{ spiffeId: CERTIFICATE.spiffeId, tenant: "acme" }, { spiffeId: "spiffe://x/b" }];
  const chosen = tenantChosenBy({ jwt: { issuers, clientCertificates } });
  const unsigned = (claims: object): string =>
    `Bearer e30.${Buffer.from(JSON.stringify({ iss: AGENTS_ISSUER, aud: audience, ...claims })).toString("base64url")}.x`;

  test.each<readonly [object, string | undefined]>([
    [{ tenant: "acme" }, "acme"],
    [{ tenant: "globex" }, "globex"],
    [{ tenant: "Acme" }, undefined],
    [{ tenant: ["acme"] }, undefined],
    [{}, undefined],
    [{ iss: PLATFORM, tenant: "acme" }, undefined],
    [{ iss: "https://unknown.test", tenant: "acme" }, undefined],
    [{ iss: ["x"], tenant: "acme" }, undefined],
    [{ aud: "people", tenant: "acme", org: "globex" }, "globex"],
    [{ aud: ["people"], tenant: "acme" }, undefined],
    // Its issuer refuses it, as one of the tenant.
    [{ aud: "other", tenant: "acme" }, "acme"],
    [{ aud: [audience, "people"], tenant: "acme", org: "globex" }, undefined],
    [{ tenant: "acme", more: "x".repeat(TOKEN_LENGTH_MAX) }, undefined],
  ])("for a token with %j is %s", (claims, tenant) => {
    expect(chosen.of({ authorization: unsigned(claims) })).toBe(tenant);
  });

  test("is named by a token of three parts alone", () => {
    const whole = unsigned({ tenant: "acme" });
    expect(chosen.of({ authorization: whole })).toBe("acme");
    expect(chosen.of({ authorization: `${whole.split(".").slice(0, 2).join(".")}x` })).toBeUndefined();
  });

  test("is that of the certificate where there is no token", () => {
    expect(chosen.of({ certificate: CERTIFICATE })).toBe("acme");
    expect(chosen.of({ certificate: { ...CERTIFICATE, spiffeId: "spiffe://x/b" } })).toBeUndefined();
    expect(chosen.of({ certificate: CERTIFICATE, authorization: "" })).toBeUndefined();
    expect(chosen.of({ certificate: CERTIFICATE, authorization: unsigned({ tenant: "globex" }) })).toBe("globex");
    expect(chosen.of({})).toBeUndefined();
  });

  test.each([
    [AGENTS_ISSUER, false, ["acme", "globex"]],
    [AGENTS_ISSUER, true, ["globex"]],
    [PLATFORM, false, [undefined]],
    [PLATFORM, true, []],
    ["https://unknown.test", false, []],
  ])("can be, for somebody without a token whose issuer is %s (operators: %j), %j", (issuer, operators, tenants) => {
    const asked = [undefined, "acme", "globex", "initech"];
    expect(asked.filter((tenant) => chosen.hasIssuer({ issuer, operators }, tenant))).toEqual(tenants);
  });

  test("is never an error, and never a name that no issuer speaks for", () => {
    const claims = fc.oneof(
      fc.json(),
      fc.object().map((value) => JSON.stringify(value)),
      fc.constant(`{"iss":"${AGENTS_ISSUER}","tenant":"acme"}`),
    );
    const payload = claims.map((text) => Buffer.from(text).toString("base64url"));
    const hostile = fc.oneof(
      fc.string({ unit: "binary", maxLength: 200 }),
      fc
        .tuple(fc.string({ maxLength: 20 }), payload, fc.string({ maxLength: 20 }))
        .map((parts) => `Bearer ${parts.join(".")}`),
      fc.constantFrom(
        ".",
        "..",
        "Bearer .",
        `Bearer e30.${"[".repeat(7_000)}.x`,
        `Bearer a.${"W1tb".repeat(2_000)}.b`,
        "Bearer a.b.c".repeat(900),
      ),
    );
    fc.assert(
      fc.property(hostile, (authorization) => {
        expect([undefined, ...NAMES]).toContain(chosen.of({ authorization }));
      }),
    );
  });
});
