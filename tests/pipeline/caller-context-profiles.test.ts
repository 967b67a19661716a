import { describe, expect, test } from "bun:test";
import { StartupError } from "../../src/core/errors.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { jwksKeys, publicKey } from "../../src/pipeline/identity/issuer-keys.ts";
import type { IssuerProfile } from "../../src/pipeline/identity/issuer-profile.ts";
import { jwksUrl } from "../../src/pipeline/identity/remote-keys.ts";
import { agentsProfile, makeSigningKey, NOW_SECONDS, privateJwk } from "../support/tokens.ts";

const es256 = makeSigningKey("ES256", "es-1");
const rs256 = makeSigningKey("RS256", "rs-1");
const people = makeSigningKey("ES256", "people-1");
const clock = () => NOW_SECONDS * 1000;

describe("profiles that contradict themselves", () => {
  const weak = makeSigningKey("RS256", "weak", 1024);
  const rows: readonly (readonly [string, Partial<IssuerProfile>, string])[] = [
    ["HS256", { algorithms: ["HS256"] }, "algorithms"],
    ["none", { algorithms: ["none"] }, "algorithms"],
    ["a prototype's name as algorithm", { algorithms: ["constructor"] }, "algorithms"],
    ["no algorithms", { algorithms: [] }, "algorithms"],
    ["no issuer", { issuer: "" }, "issuer"],
    ["no audience", { audience: "" }, "audience"],
    ["a lifetime of 0", { maxLifetimeSeconds: 0 }, "maxLifetimeSeconds"],
    ["an endless lifetime", { maxLifetimeSeconds: Number.POSITIVE_INFINITY }, "maxLifetimeSeconds"],
    ["a file URL", { keys: jwksUrl("file:///etc/passwd") }, "https"],
    ["plain http to another machine", { keys: jwksUrl("http://idp.test/keys") }, "https"],
    ["a password in the URL", { keys: jwksUrl("https://u:p@idp.test/keys") }, "password"],
    ["no URL", { keys: jwksUrl("keys.json") }, "must be a URL"],
    ["a private JWK", { keys: jwksKeys({ keys: [privateJwk(es256)] }) }, "private"],
    ["a symmetric JWK", { keys: jwksKeys({ keys: [es256.jwk, { kty: "oct", k: "c2VjcmV0" }] }) }, "symmetric"],
    ["a weak RSA key", { keys: jwksKeys({ keys: [weak.jwk] }) }, "2048"],
    ["a weak RSA key in PEM", { keys: publicKey(weak.publicKey) }, "2048"],
    ["an RSA key with the exponent 1", { keys: jwksKeys({ keys: [{ ...rs256.jwk, e: "AQ" }] }) }, "exponent"],
    ["a point off the curve", { keys: jwksKeys({ keys: [{ ...es256.jwk, x: es256.jwk.y }] }) }, "malformed"],
    ["not a JWKS", { keys: jwksKeys([es256.jwk]) }, "not a JSON Web Key Set"],
    ["null in a JWKS", { keys: jwksKeys({ keys: [null] }) }, "not a key"],
    ["an empty JWKS", { keys: jwksKeys({ keys: [] }) }, "no key fits"],
    ["a key for encryption", { keys: jwksKeys({ keys: [{ ...es256.jwk, use: "enc" }] }) }, "no key fits"],
    ["a key of another kind", { algorithms: ["RS256"], keys: publicKey(es256.publicKey) }, "no key fits"],
    [
      "a private PEM",
      { keys: publicKey(es256.privateKey.export({ type: "pkcs8", format: "pem" }).toString()) },
      "private",
    ],
    ["a private KeyObject", { keys: publicKey(es256.privateKey) }, "private"],
    ["PEM garbage", { keys: publicKey("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----") }, "PEM"],
  ];
  test.each(rows.map((row) => [...row] as const))("%s does not start", (_title, changes, says) => {
    const attempt = () => createCallerVerifier({ issuers: [agentsProfile([es256], changes)], clock });
    expect(attempt).toThrow(StartupError);
    expect(attempt).toThrow(says);
  });

  test("an issuer that is configured twice", () => {
    const twice = [agentsProfile([es256]), agentsProfile([people], { audience: "other" })];
    expect(() => createCallerVerifier({ issuers: twice, clock })).toThrow("appears twice");
  });
});
