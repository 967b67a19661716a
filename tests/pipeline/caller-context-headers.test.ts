import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createHmac, type KeyObject } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Refusal } from "../../src/core/errors.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import {
  agentsProfile,
  type Claims,
  encodePart,
  forgeToken,
  goodClaims,
  makeSigningKey,
  NOW_SECONDS,
  privateJwk,
} from "../support/tokens.ts";

const es = makeSigningKey("ES256", "es-1");
const rs = makeSigningKey("RS256", "rs-1");
const stranger = makeSigningKey("ES256", "es-1");
const context = createCallerVerifier({ issuers: [agentsProfile([es, rs])], clock: () => NOW_SECONDS * 1000 });

const MALFORMED = "The token is malformed: send exactly one signed JWT, as Authorization: Bearer <token>.";
const INVALID = "The token is not valid: get a new one from your issuer.";
const ES_HEADER = { alg: "ES256", kid: "es-1", typ: "JWT" };

let requests = 0;
const server = createServer((_request, response) => {
  requests += 1;
  response.end(JSON.stringify({ keys: [stranger.jwk] }));
});
let url = "";
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

type Row = readonly [title: string, make: () => string | Promise<string>, message: string];

/** The good header with some members changed, signed by the issuer itself: only the header can be the reason. */
const signed = (title: string, header: Claims | string, message = INVALID): Row => {
  const full = typeof header === "string" ? header : { ...ES_HEADER, ...header };
  return [title, () => forgeToken(es, full, goodClaims()), message];
};

/** HMAC with whatever public text of the RSA or EC key the attacker can get. */
function hmacToken(alg: string, kid: string | undefined, secret: string | Buffer): string {
  const input = `${encodePart(JSON.stringify({ alg, kid, typ: "JWT" }))}.${encodePart(JSON.stringify(goodClaims()))}`;
  const hash = alg.replace(/^.*(\d{3})$/, "sha$1");
  return `${input}.${createHmac(hash, secret).update(input).digest("base64url")}`;
}

const pem = (key: KeyObject, type: "spki" | "pkcs1") => key.export({ type, format: "pem" }).toString();
const SECRETS: readonly (readonly [string, string | Buffer])[] = [
  ["RSA SPKI PEM", pem(rs.publicKey, "spki")],
  ["RSA SPKI PEM without its newline", pem(rs.publicKey, "spki").trimEnd()],
  ["RSA SPKI PEM with CRLF", pem(rs.publicKey, "spki").replaceAll("\n", "\r\n")],
  ["RSA PKCS1 PEM", pem(rs.publicKey, "pkcs1")],
  ["RSA DER", rs.publicKey.export({ type: "spki", format: "der" })],
  ["RSA JWK", JSON.stringify(rs.jwk)],
  ["RSA modulus", Buffer.from(rs.jwk.n ?? "", "base64url")],
  ["RSA modulus as text", rs.jwk.n ?? ""],
  ["EC SPKI PEM", pem(es.publicKey, "spki")],
  ["EC DER", es.publicKey.export({ type: "spki", format: "der" })],
  ["EC JWK", JSON.stringify(es.jwk)],
  ["nothing", ""],
];

const CONFUSED: readonly Row[] = [
  ...SECRETS.map(
    ([name, secret]): Row => [`HS256 with the ${name} as secret`, () => hmacToken("HS256", "rs-1", secret), INVALID],
  ),
  ["HS384 with the PEM", () => hmacToken("HS384", "rs-1", pem(rs.publicKey, "spki")), INVALID],
  ["HS512 with the PEM and no kid", () => hmacToken("HS512", undefined, pem(rs.publicKey, "spki")), INVALID],
  ...[
    "none",
    "None",
    "NONE",
    "nOnE",
    " none",
    "none ",
    "",
    "null",
    "HS256",
    "hs256",
    "es256",
    "ES256 ",
    "ES256K",
    "ES384",
    "RS1",
    "ECDH-ES",
    "dir",
    "PBES2-HS256+A128KW",
    "__proto__",
    "constructor",
  ].map((alg): Row => signed(`alg ${JSON.stringify(alg)} over a true signature`, { alg })),
  ...[null, 1, true, ["ES256"], { alg: "ES256" }, [], undefined].map(
    (alg): Row => signed(`alg ${JSON.stringify(alg)}`, { alg }),
  ),
  [
    "alg none, empty signature",
    () => `${encodePart('{"alg":"none"}')}.${encodePart(JSON.stringify(goodClaims()))}.`,
    MALFORMED,
  ],
  [
    "alg none, two parts",
    () => `${encodePart('{"alg":"none"}')}.${encodePart(JSON.stringify(goodClaims()))}`,
    MALFORMED,
  ],
  signed("alg RS256 beside the EC kid", { alg: "RS256" }),
  signed("alg RS256 with the RSA kid over an EC signature", { alg: "RS256", kid: "rs-1" }),
  ["alg ES256 with the EC kid over an RSA signature", () => forgeToken(rs, ES_HEADER, goodClaims()), INVALID],
  ["alg PS256 over an RS256 signature", () => forgeToken(rs, { alg: "PS256", kid: "rs-1" }, goodClaims()), INVALID],
];

const HEADERS: readonly Row[] = [
  ...[
    "secevent+jwt",
    "JWE",
    "JWT ",
    " JWT",
    "",
    "text/plain",
    "application/",
    "at+jwt+x",
    "dpop+jwt",
    "stc-caller+jwt",
    "image/jwt",
  ].map((typ): Row => signed(`typ ${JSON.stringify(typ)}`, { typ })),
  ...[null, 1, ["JWT"], {}].map((typ): Row => signed(`typ ${JSON.stringify(typ)}`, { typ })),
  ...[[], ["exp"], ["b64"], ["http://x"], "exp", null, {}].map(
    (crit): Row => signed(`crit ${JSON.stringify(crit)}`, { crit }),
  ),
  signed("crit naming a header that is there", { crit: ["exp"], exp: 1 }),
  signed("b64 false with crit", { b64: false, crit: ["b64"] }),
  signed("b64 false without crit", { b64: false }),
  signed("b64 true", { b64: true }),
  signed("enc", { enc: "A256GCM" }),
  signed("cty JWT", { cty: "JWT" }),
  signed("cty application/jwt", { cty: "application/JWT" }),
  ...[
    "es-2",
    "ES-1",
    "es-1 ",
    "",
    "../../../../dev/null",
    "/etc/passwd",
    "file:///dev/null",
    "http://127.0.0.1/k",
    "' OR 1=1 --",
    "0",
    "__proto__",
    "constructor",
    "toString",
    "es-1\u0000",
    "x".repeat(3000),
  ].map((kid): Row => signed(`kid ${JSON.stringify(kid.slice(0, 24))}`, { kid })),
  ...[null, 0, true, ["es-1"], { kid: "es-1" }].map((kid): Row => signed(`kid ${JSON.stringify(kid)}`, { kid })),
  signed("header twice the same key", `{"alg":"none","alg":"ES256","kid":"es-1"}`, MALFORMED),
  signed("header with an escaped duplicate", `{"alg":"ES256","\\u0061lg":"ES256","kid":"es-1"}`, MALFORMED),
  signed("header on a prototype", `{"__proto__":{"alg":"ES256","kid":"es-1"}}`),
  signed("header array", `[{"alg":"ES256"}]`, MALFORMED),
  signed("header null", "null", MALFORMED),
  signed("header not JSON", "alg=ES256", MALFORMED),
  signed("header with a byte order mark", `\ufeff${JSON.stringify(ES_HEADER)}`, MALFORMED),
];

const own = { jwk: stranger.jwk };
const FETCHING: readonly Row[] = [
  ["jwk of the attacker", () => forgeToken(stranger, { ...ES_HEADER, ...own }, goodClaims()), INVALID],
  [
    "jwk of the attacker, other kid",
    () => forgeToken(stranger, { ...ES_HEADER, ...own, kid: "mine" }, goodClaims()),
    INVALID,
  ],
  ["jwk of the attacker, no kid", () => forgeToken(stranger, { alg: "ES256", ...own }, goodClaims()), INVALID],
  ["private jwk", () => forgeToken(stranger, { ...ES_HEADER, jwk: privateJwk(stranger) }, goodClaims()), INVALID],
  ["jku to a live server", () => forgeToken(stranger, { ...ES_HEADER, jku: url }, goodClaims()), INVALID],
  [
    "jku with an unknown kid",
    () => forgeToken(stranger, { ...ES_HEADER, kid: "mine", jku: url }, goodClaims()),
    INVALID,
  ],
  ["x5u to a live server", () => forgeToken(stranger, { ...ES_HEADER, x5u: url }, goodClaims()), INVALID],
  ["x5c", () => forgeToken(stranger, { ...ES_HEADER, x5c: ["MIIB"] }, goodClaims()), INVALID],
  ["kid is the URL of a live server", () => forgeToken(stranger, { alg: "ES256", kid: url }, goodClaims()), INVALID],
  [
    "iss is the URL of a live server",
    () => forgeToken(stranger, ES_HEADER, goodClaims({ iss: url })),
    "The token is not meant for this service: ask for one with the issuer and audience that it expects.",
  ],
];

describe.each([
  ["algorithms", CONFUSED],
  ["headers", HEADERS],
  ["keys brought along", FETCHING],
] as const)("hostile %s", (_name, rows) => {
  test.each(rows.map((row) => [...row] as const))("%s", async (_title, make, message) => {
    const token = await make();
    const outcome = await context.verifyToken(token, "agents").then(
      (verified) => verified,
      (error: unknown) => error,
    );
    expect(outcome).toBeInstanceOf(Refusal);
    expect(outcome).toMatchObject({ code: "UNAUTHENTICATED", message, details: undefined });
    expect(requests).toBe(0);
  });
});

test("a refused token stays refused, and does not affect a valid one with the same claims", async () => {
  const forged = forgeToken(stranger, ES_HEADER, goodClaims());
  const good = forgeToken(es, ES_HEADER, goodClaims());
  await expect(context.verifyToken(forged, "agents")).rejects.toBeInstanceOf(Refusal);
  expect((await context.verifyToken(good, "agents")).caller.subject).toBe("agent-7");
  await expect(context.verifyToken(forged, "agents")).rejects.toBeInstanceOf(Refusal);
});
