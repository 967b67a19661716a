import { expect, test } from "bun:test";
import fc from "fast-check";
import { CompactEncrypt } from "jose";
import { Refusal } from "../../src/core/errors.ts";
import { createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import {
  agentsProfile,
  encodePart,
  goodClaims,
  issueToken,
  makeSigningKey,
  NOW_SECONDS,
  signInput,
} from "../support/tokens.ts";

const es = makeSigningKey("ES256", "es-1");
const rs = makeSigningKey("RS256", "rs-1");
const stranger = makeSigningKey("ES256", "es-1");
const strangerRs = makeSigningKey("RS256", "rs-1");
const context = createCallerVerifier({ issuers: [agentsProfile([es, rs])], clock: () => NOW_SECONDS * 1000 });

const MALFORMED = "The token is malformed: send exactly one signed JWT, as Authorization: Bearer <token>.";
const INVALID = "The token is not valid: get a new one from your issuer.";
const ES_HEADER = { alg: "ES256", kid: "es-1", typ: "JWT" };

type Row = readonly [title: string, make: () => string | Promise<string>, message: string];

const split = async () => (await issueToken(es)).split(".") as [string, string, string];
const parts = (title: string, change: (h: string, p: string, s: string) => string, message: string): Row => [
  title,
  async () => change(...(await split())),
  message,
];
/** The next character of the alphabet: in the last path it changes bits that carry nothing. */
const bump = (text: string) => text.slice(0, -1) + String.fromCharCode(text.charCodeAt(text.length - 1) + 1);

const SHAPES: readonly Row[] = [
  parts("four parts", (h, p, s) => `${h}.${p}.${s}.x`, MALFORMED),
  parts("five parts", (h, p, s) => `${h}.${p}.${s}.x.y`, MALFORMED),
  parts("two parts", (h, p) => `${h}.${p}`, MALFORMED),
  parts("one part", (h) => h, MALFORMED),
  parts("dots alone", () => "..", MALFORMED),
  parts("empty header", (_h, p, s) => `.${p}.${s}`, MALFORMED),
  parts("empty payload", (h, _p, s) => `${h}..${s}`, MALFORMED),
  parts("empty signature", (h, p) => `${h}.${p}.`, MALFORMED),
  parts("a dot in front", (h, p, s) => `.${h}.${p}.${s}`, MALFORMED),
  parts("padding", (h, p, s) => `${h}.${p}.${s}==`, MALFORMED),
  parts("padded header", (h, p, s) => `${h}=.${p}.${s}`, MALFORMED),
  parts("white space inside", (h, p, s) => `${h}. ${p}.${s}`, MALFORMED),
  parts("a newline inside", (h, p, s) => `${h}.${p}\n.${s}`, MALFORMED),
  parts("a newline at the end", (h, p, s) => `${h}.${p}.${s}\n`, MALFORMED),
  parts("NUL at the end", (h, p, s) => `${h}.${p}.${s}\u0000`, MALFORMED),
  parts("plain base64 letters", (h, p, s) => `${h}.${p}.+/${s.slice(2)}`, MALFORMED),
  parts("a full-width letter", (h, p, s) => `${h}.${p}.\uff21${s.slice(1)}`, MALFORMED),
  parts("a zero width space", (h, p, s) => `${h}.${p}.${s}\u200b`, MALFORMED),
  parts("percent encoding", (h, p, s) => `${h}%2E${p}%2E${s}`, MALFORMED),
  parts("the JSON serialisation", (h, p, s) => JSON.stringify({ protected: h, payload: p, signature: s }), MALFORMED),
  parts("unused bits of the signature set", (h, p, s) => `${h}.${p}.${bump(s)}`, MALFORMED),
  parts("a letter behind the signature", (h, p, s) => `${h}.${p}.${s}AA`, INVALID),
  parts(
    "signature cut by a byte",
    (h, p, s) => `${h}.${p}.${encodePart(Buffer.from(s, "base64url").subarray(0, 63))}`,
    INVALID,
  ),
  parts(
    "signature cut by half",
    (h, p, s) => `${h}.${p}.${encodePart(Buffer.from(s, "base64url").subarray(0, 32))}`,
    INVALID,
  ),
  parts("signature of zeros", (h, p) => `${h}.${p}.${encodePart(new Uint8Array(64))}`, INVALID),
  parts("signature as DER", (h, p) => `${h}.${p}.${encodePart(Buffer.from("3006020101020101", "hex"))}`, INVALID),
  parts("payload and signature swapped", (h, p, s) => `${h}.${s}.${p}`, MALFORMED),
  parts(
    "payload exchanged",
    (h, _p, s) => `${h}.${encodePart(JSON.stringify(goodClaims({ sub: "admin" })))}.${s}`,
    INVALID,
  ),
  parts(
    "header exchanged",
    (_h, p, s) => `${encodePart(JSON.stringify({ alg: "ES256", kid: "es-1" }))}.${p}.${s}`,
    INVALID,
  ),
  parts("signed by another key with our kid", (h, p) => `${h}.${p}.${signInput(stranger, `${h}.${p}`)}`, INVALID),
  ["RSA: signed by another key with our kid", () => issueToken(strangerRs), INVALID],
  ["invalid UTF-8 in the payload", () => tokenOfBytes(Buffer.from('{"sub":"\xff"}', "latin1")), MALFORMED],
  ["UTF-16 payload", () => tokenOfBytes(Buffer.from(JSON.stringify(goodClaims()), "utf16le")), MALFORMED],
  [
    "a JWE",
    () =>
      new CompactEncrypt(Buffer.from(JSON.stringify(goodClaims())))
        .setProtectedHeader({ alg: "RSA-OAEP", enc: "A256GCM" })
        .encrypt(rs.publicKey),
    MALFORMED,
  ],
  [
    "a PBES2 JWE with a huge count",
    () =>
      `${encodePart('{"alg":"PBES2-HS256+A128KW","enc":"A128GCM","p2c":99999999,"p2s":"AAAAAAAAAAA"}')}.AA.AA.AA.AA`,
    MALFORMED,
  ],
  ["over 8 KiB", () => issueToken(es, goodClaims({ text: "x".repeat(8000) })), MALFORMED],
  ["a million dots", () => ".".repeat(1_000_000), MALFORMED],
];

function tokenOfBytes(payload: Uint8Array): string {
  const input = `${encodePart(JSON.stringify(ES_HEADER))}.${encodePart(payload)}`;
  return `${input}.${signInput(es, input)}`;
}

test.each(SHAPES.map((row) => [...row] as const))("hostile shape: %s", async (_title, make, message) => {
  const outcome = await context.verifyToken(await make(), "agents").then(
    (verified) => verified,
    (error: unknown) => error,
  );
  expect(outcome).toBeInstanceOf(Refusal);
  expect(outcome).toMatchObject({ code: "UNAUTHENTICATED", message, details: undefined });
});

test("no text other than the token itself is accepted, and nothing but a Refusal is thrown", async () => {
  const token = await issueToken(es);
  const letter = fc.constantFrom(..."AZaz09-_.=+/ \n\u0000\u00e9");
  const path = fc.nat({ max: token.length });
  const changed = fc.tuple(path, letter, fc.constantFrom(0, 1, 2)).map(([at, insert, drop]) => {
    return token.slice(0, at) + insert + token.slice(at + drop);
  });
  const cut = path.map((at) => token.slice(0, at));
  await fc.assert(
    fc.asyncProperty(fc.oneof(changed, cut, fc.string({ unit: "binary" })), async (text) => {
      const outcome: unknown = await context.verifyToken(text, "agents").catch((error: unknown) => error);
      if (text === token) return;
      expect(outcome).toBeInstanceOf(Refusal);
    }),
    { numRuns: 500 },
  );
});
