import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { MODULES } from "../../src/modules.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { type ReviewResult, TokenReviewer } from "../../src/pipeline/identity/token-review.ts";
import { readIssuers } from "../../src/runtime/composition/identity.ts";
import { outcomeOf } from "../console/console-stand.ts";
import { auditEntries } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { CALL, emptyFolder, startIdentityService } from "../support/identity-service.ts";
import { issueToken, makeSigningKey } from "../support/tokens.ts";

/** A real HTTPS server that answers token reviews as the API server of Kubernetes does. */
const ISSUER = "https://kubernetes.default.svc.cluster.local";
const SUBJECT = "system:serviceaccount:agents:agent-7";
const AUDIENCE = "safe-tool-call";
const OWN_TOKEN = "the-token-of-the-pod-of-the-service";
const key = makeSigningKey("ES256", "cluster-1");
const folder = emptyFolder();

interface Review {
  readonly authorization: string | null;
  readonly path: string;
  readonly spec: { readonly token: string; readonly audiences: readonly string[] };
}

let server: ReturnType<typeof Bun.serve>;
let reviews: Review[] = [];
const GOOD = { authenticated: true, user: { username: SUBJECT, uid: "u-1" }, audiences: [AUDIENCE] };
let answer: () => Response | Promise<Response>;

const withStatus = (status: object) => () =>
  Response.json({ apiVersion: "authentication.k8s.io/v1", kind: "TokenReview", status }, { status: 201 });

beforeAll(async () => {
  const { rootCert, server: pair } = await makeCertificates({
    notBefore: new Date(946_684_800_000),
    notAfter: new Date(4_102_444_800_000),
  });
  server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls: pair,
    async fetch(request) {
      const { spec } = (await request.json()) as Review;
      reviews.push({ authorization: request.headers.get("authorization"), path: new URL(request.url).pathname, spec });
      return answer();
    },
  });
  writeFileSync(join(folder, "ca.crt"), rootCert);
  writeFileSync(join(folder, "token"), `${OWN_TOKEN}\n`);
});
beforeEach(() => {
  reviews = [];
  results = [];
  logged = [];
  answer = withStatus(GOOD);
});
afterAll(async () => {
  await server.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

const issuer = (review: Readonly<Record<string, unknown>> | undefined) => ({
  ...{ issuer: ISSUER, profile: "kubernetes", algorithms: ["ES256"], jwks: { keys: [key.jwk] } },
  subjectPermissions: { [SUBJECT]: ["self:read"] },
  ...(review && {
    tokenReview: { url: `https://localhost:${server.port}`, caFile: "./ca.crt", tokenFile: "./token", ...review },
  }),
});

function accountToken(nowMs: number, jti = "j-1"): Promise<string> {
  const seconds = Math.floor(nowMs / 1_000);
  const named = {
    namespace: "agents",
    serviceaccount: { name: "agent-7", uid: "u-1" },
    pod: { name: "p", uid: "p-1" },
  };
  return issueToken(
    key,
    {
      ...{ iss: ISSUER, sub: SUBJECT, aud: [AUDIENCE], jti, "kubernetes.io": named },
      ...{ iat: seconds, nbf: seconds, exp: seconds + 3_607 },
    },
    { typ: undefined },
  );
}

let now = Date.now();
let results: ReviewResult[] = [];
let logged: { readonly message: string; readonly cause: unknown }[] = [];
const observer = {
  now: () => now,
  onTokenReview: (result: ReviewResult) => void results.push(result),
  logError: (message: string, cause: unknown) => void logged.push({ message, cause }),
};

function verifier(review: Readonly<Record<string, unknown>> | "none" = {}) {
  const config = readConfig(
    {
      tools: ["*.yaml"],
      audit: { dir: "./unused" },
      jwt: { issuers: [issuer(review === "none" ? undefined : review)] },
    },
    { folder, environment: {}, origin: "test" },
  );
  const problems: string[] = [];
  const issuers = readIssuers(config, MODULES, problems, observer) ?? [];
  expect(problems).toEqual([]);
  return createCallerVerifier({ issuers, clock: () => now });
}

describe("a token of a service account", () => {
  test("is reviewed with the audience and the service's own token, at most every ten seconds", async () => {
    const callers = verifier();
    const token = await accountToken(now);
    for (const laterMs of [0, 5_000, 4_999]) {
      now += laterMs;
      expect((await callers.verifyToken(token, "agents")).caller.subject).toBe(SUBJECT);
    }
    expect(reviews).toEqual([
      {
        authorization: `Bearer ${OWN_TOKEN}`,
        path: "/apis/authentication.k8s.io/v1/tokenreviews",
        spec: { token, audiences: [AUDIENCE] },
      },
    ]);
    // The pod is deleted: within ten seconds its token is refused.
    answer = withStatus({
      authenticated: false,
      error: "[invalid bearer token, service account token has been invalidated]",
    });
    now += 1;
    await expect(callers.verifyToken(token, "agents")).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
  });

  test("is reviewed once for all calls of one moment", async () => {
    const callers = verifier();
    const token = await accountToken(now);
    await Promise.all([1, 2, 3, 4].map(() => callers.verifyToken(token, "agents")));
    expect(reviews).toHaveLength(1);
  });

  test("is not sent anywhere when its signature is wrong, or when no review is configured", async () => {
    const foreign = await issueToken(makeSigningKey("ES256", "cluster-1"), {
      iss: ISSUER,
      sub: SUBJECT,
      aud: AUDIENCE,
    });
    await expect(verifier().verifyToken(foreign, "agents")).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
    const { caller } = await verifier("none").verifyToken(await accountToken(now), "agents");
    expect(caller.subject).toBe(SUBJECT);
    expect(reviews).toEqual([]);
  });

  test.each([
    ["of another subject", { ...GOOD, user: { username: "system:serviceaccount:agents:other" } }],
    ["for another audience", { ...GOOD, audiences: ["https://kubernetes.default.svc"] }],
    ["of a server that knows no audiences", { authenticated: true, user: GOOD.user }],
    ["authenticated as a text", { ...GOOD, authenticated: "true" }],
    ["without a verdict", {}],
  ])("is refused by a review %s", async (_what, status) => {
    answer = withStatus(status);
    await expect(verifier().verifyToken(await accountToken(now), "agents")).rejects.toMatchObject({
      code: "UNAUTHENTICATED",
    });
  });

  const outages: readonly (readonly [string, () => Response])[] = [
    ["429", () => new Response("{}", { status: 429 })],
    ["500", () => new Response("{}", { status: 500 })],
  ];
  test.each(outages)(
    "the API server answers %s: refused by default, accepted where that is configured",
    async (_, reply) => {
      answer = reply;
      const token = await accountToken(now);
      await expect(verifier().verifyToken(token, "agents")).rejects.toMatchObject({ code: "AUTH_UNAVAILABLE" });
      const { caller } = await verifier({ whenUnavailable: "accept" }).verifyToken(token, "agents");
      expect(caller.subject).toBe(SUBJECT);
      // A verdict counts in any case.
      answer = withStatus({ authenticated: false });
      await expect(verifier({ whenUnavailable: "accept" }).verifyToken(token, "agents")).rejects.toMatchObject({
        code: "UNAUTHENTICATED",
      });
    },
  );

  const mistakes: readonly (readonly [string, () => Response])[] = [
    ["403, without the role", () => new Response("{}", { status: 403 })],
    ["404", () => new Response("{}", { status: 404 })],
    ["no JSON", () => new Response("<html>")],
    ["no status", () => Response.json({ kind: "Status" })],
  ];
  test.each(mistakes)("the API server answers %s: refused in any case, because it would last", async (_, reply) => {
    answer = reply;
    const token = await accountToken(now);
    await expect(verifier({ whenUnavailable: "accept" }).verifyToken(token, "agents")).rejects.toMatchObject({
      code: "AUTH_UNAVAILABLE",
    });
  });

  test("a token that expires during its review is refused", async () => {
    const token = await accountToken(now);
    answer = () => {
      now += 10 * 3_600_000;
      return withStatus(GOOD)();
    };
    await expect(verifier().verifyToken(token, "agents")).rejects.toMatchObject({ code: "UNAUTHENTICATED" });
  });
});

describe("many tokens at once", () => {
  const IN_FLIGHT_MAX = 32;
  const tokens = (count: number) => Promise.all(Array.from({ length: count }, (_, at) => accountToken(now, `j-${at}`)));

  /** Lets reviews wait until `open`; `full` resolves when the API server has as many requests as it may get at once. */
  function heldReviews(answered: () => Response) {
    const gate = Promise.withResolvers<void>();
    const full = Promise.withResolvers<void>();
    let inFlight = 0;
    const seen = { most: 0 };
    answer = async () => {
      inFlight += 1;
      seen.most = Math.max(seen.most, inFlight);
      if (inFlight === IN_FLIGHT_MAX) full.resolve();
      await gate.promise;
      inFlight -= 1;
      return answered();
    };
    return { open: () => gate.resolve(), full: full.promise, seen };
  }

  test("wait for their reviews, a bounded number of which is in flight, and all pass", async () => {
    const held = heldReviews(withStatus(GOOD));
    const callers = verifier();
    const verified = Promise.all((await tokens(100)).map((token) => callers.verifyToken(token, "agents")));
    await held.full;
    held.open();
    for (const { caller } of await verified) expect(caller.subject).toBe(SUBJECT);
    expect(held.seen.most).toBe(IN_FLIGHT_MAX);
    expect(reviews).toHaveLength(100);
    expect(new Set(results)).toEqual(new Set(["authenticated"]));
  });

  test("that wait too long are refused, also where an API server that is away is no obstacle", async () => {
    const held = heldReviews(withStatus({ authenticated: false }));
    const files = { ca: await Bun.file(join(folder, "ca.crt")).text(), token: OWN_TOKEN };
    const reviewer = new TokenReviewer(
      {
        ...{ issuer: ISSUER, url: `https://localhost:${server.port}`, audiences: [AUDIENCE] },
        ...{ whenUnavailable: "accept", credentials: () => files, waitMs: 1 },
      },
      observer,
    );
    const busy = (await tokens(IN_FLIGHT_MAX)).map((token) => reviewer.review(token, SUBJECT).catch(() => {}));
    await held.full;
    await expect(reviewer.review(await accountToken(now, "another"), SUBJECT)).rejects.toMatchObject({
      code: "AUTH_UNAVAILABLE",
    });
    expect(results).toEqual(["unavailable"]);
    held.open();
    await Promise.all(busy);
    answer = withStatus(GOOD);
    await reviewer.review(await accountToken(now, "another"), SUBJECT);
    expect(results.at(-1)).toBe("authenticated");
  });

  test.each([
    ["refuse", ["unavailable"]],
    ["accept", ["accepted"]],
  ] as const)("an API server that keeps failing is left alone (%s)", async (whenUnavailable, expected) => {
    answer = () => new Response("{}", { status: 503 });
    const callers = verifier({ whenUnavailable });
    for (const token of await tokens(20)) await callers.verifyToken(token, "agents").catch(() => {});
    expect(reviews).toHaveLength(5);
    expect(results).toHaveLength(20);
    expect([...new Set(results)]).toEqual([...expected]);
    // Refused calls are in the log and the audit anyhow.
    expect(logged.map(({ message }) => message)).toEqual(
      whenUnavailable === "refuse" ? [] : [`tokens of ${ISSUER} are accepted without a review: the API server is away`],
    );
  });

  test("an API server that refuses the service's own account is no outage: each token is refused", async () => {
    answer = () => new Response("{}", { status: 403 });
    const callers = verifier({ whenUnavailable: "accept" });
    for (const token of await tokens(12)) {
      await expect(callers.verifyToken(token, "agents")).rejects.toMatchObject({ code: "AUTH_UNAVAILABLE" });
    }
    answer = withStatus(GOOD);
    await callers.verifyToken(await accountToken(now, "after"), "agents");
    expect(results).toEqual([...Array.from({ length: 12 }, () => "unavailable" as const), "authenticated"]);
  });
});

test.each([
  ["/clusters/c-1", "/clusters/c-1"],
  ["/clusters/c-1/", "/clusters/c-1"],
  ["/", ""],
])("the path %s of the API server's URL precedes that of the review", async (path, before) => {
  const callers = verifier({ url: `https://localhost:${server.port}${path}` });
  await callers.verifyToken(await accountToken(now), "agents");
  expect(reviews.map((review) => review.path)).toEqual([`${before}/apis/authentication.k8s.io/v1/tokenreviews`]);
});

test.each(["https://localhost/?cluster=1", "https://localhost/#c", "https://user:word@localhost", "http://localhost"])(
  "%s is not accepted as the API server's URL",
  (url) => {
    expect(() => verifier({ url })).toThrow("jwt.issuers[0].tokenReview.url");
  },
);

test("a call with the token of a deleted pod is refused and recorded, and says nothing of the API server", async () => {
  const service = await startIdentityService({ folder, jwt: { issuers: [issuer({})] } });
  try {
    const headers = { authorization: `Bearer ${await accountToken(Date.now())}`, "content-type": "application/json" };
    const call = () => fetch(`${service.service.url}/call`, { method: "POST", headers, body: CALL });
    answer = withStatus({ authenticated: false });
    const refused = await call();
    const text = await refused.clone().text();
    expect(await outcomeOf(refused)).toBe("401 UNAUTHENTICATED");
    expect(text).not.toContain("API server");
    expect(auditEntries(join(folder, "audit")).at(-1)).toMatchObject({
      decision: "DENIED",
      error: { code: "UNAUTHENTICATED" },
    });
    answer = withStatus(GOOD);
    expect(await outcomeOf(await call())).toBe("200");
  } finally {
    await service.service.drain();
  }
});

test("the review is for the profile kubernetes only", () => {
  const written = {
    tools: ["*.yaml"],
    audit: { dir: "./unused" },
    jwt: { issuers: [{ ...issuer({}), profile: "generic" }] },
  };
  expect(() => readConfig(written, { folder, environment: {}, origin: "test" })).toThrow("tokenReview");
});
