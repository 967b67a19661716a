import { describe, expect, test } from "bun:test";
import { createHmac, generateKeyPairSync } from "node:crypto";
import fc from "fast-check";
import type { JWK } from "jose";
import { createReceiptVerifier, type ReceiptFault } from "../../../src/approvals/receipts/receipt-verifier.ts";
import { createReceiptSigner, receiptAudience } from "../../../src/approvals/receipts/receipts.ts";
import type { Approval } from "../../../src/approvals/types.ts";
import { AGENT, OPERATOR, questionOf } from "../../support/approvals.ts";
import { encodePart, forgeToken, makeSigningKey, NOW_SECONDS, type SigningKey } from "../../support/tokens.ts";

const NOW = NOW_SECONDS * 1_000;
const ID = "0f5e8d6e-2f1c-4b3a-9d8e-7c6b5a493827";
const KEYS = { ES256: makeSigningKey("ES256", "receipts"), EdDSA: makeSigningKey("EdDSA", "receipts") };
const key = KEYS.ES256;

function pem({ privateKey }: SigningKey): string {
  return String(privateKey.export({ type: "pkcs8", format: "pem" }));
}

function publicPem({ publicKey }: SigningKey): string {
  return String(publicKey.export({ type: "spki", format: "pem" }));
}

/** Approved a minute ago, good for four more, unless it is said otherwise. */
function approvalOf(changes: Partial<Approval> = {}): Approval {
  const { callDigest: _, ...question } = questionOf();
  return {
    ...question,
    ...{ id: ID, state: "approved", version: 2, createdAt: NOW - 90_000, decideBy: NOW + 510_000 },
    ...{ decidedAt: NOW - 60_000, executeBy: NOW + 240_999, decidedBy: OPERATOR, scope: "once" },
    decisionReason: "looks right",
    ...{ grantKey: undefined, requirement: undefined, votes: [], escalations: [], granted: undefined },
    ...changes,
  };
}

const sign = createReceiptSigner({ privateKey: pem(key), deployment: "here" });

async function signed(changes: Partial<Approval> = {}): Promise<string> {
  return (await sign(approvalOf(changes))) ?? "";
}

function verifier(changes: Partial<Parameters<typeof createReceiptVerifier>[0]> = {}) {
  return createReceiptVerifier({
    ...{ publicKey: publicPem(key), deployment: "here", requester: AGENT, now: () => NOW },
    ...changes,
  });
}

function payloadOf(receipt: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(receipt.split(".")[1] ?? "", "base64url").toString());
}

describe("the contents of a receipt", () => {
  test.each(Object.values(KEYS))("$alg: the decision, its audience and its expiry", async (used) => {
    const receipt = await createReceiptSigner({ privateKey: pem(used), deployment: "here" })(approvalOf());
    const { receipt: told } = {
      receipt: undefined,
      ...(await verifier({ publicKey: publicPem(used) }).verify(receipt)),
    };
    expect(told).toEqual({
      ...{ approvalId: ID, planDigest: "a".repeat(64), decision: "approve", scope: "once" },
      ...{ decidedAt: NOW - 60_000, expiresAt: NOW + 240_000 },
    });
    const [header = ""] = receipt?.split(".") ?? [];
    expect(JSON.parse(Buffer.from(header, "base64url").toString())).toEqual({
      ...{ alg: used.alg, typ: "stc-decision+jwt" },
      kid: expect.stringMatching(/^[\w-]{43}$/),
    });
    expect(payloadOf(receipt ?? "")).toEqual({
      ...{ iss: "here", aud: "urn:stc:caller:https%3A%2F%2Fidp.example:agent-1", jti: `${ID}.approve` },
      ...{ approvalId: ID, planDigest: "a".repeat(64), decision: "approve", scope: "once" },
      ...{ iat: NOW_SECONDS - 60, exp: NOW_SECONDS + 240 },
    });
  });

  test("it contains neither the approver nor their words", async () => {
    expect(JSON.stringify(payloadOf(await signed()))).not.toMatch(/ann|people|looks right/);
  });

  test("a denial has one too, without a scope", async () => {
    const changes = { state: "denied", scope: undefined, executeBy: undefined } as const;
    expect(await verifier().verify(await signed(changes))).toMatchObject({
      valid: true,
      receipt: { decision: "deny" },
    });
  });

  test("the same decision gives the same receipt however often it is signed", async () => {
    const [first, second] = [payloadOf(await signed()), payloadOf(await signed())];
    expect(second).toEqual(first);
  });

  const undecided = [
    "pending",
    "expired",
    "cancelled",
    "revoked",
    "claimed",
    "executed",
    "failed",
    "in_doubt",
  ] as const;
  test.each(undecided)("what is %s has no receipt", async (state) => {
    expect(await sign(approvalOf({ state }))).toBeUndefined();
  });

  test("no two callers share an audience", () => {
    const name = fc.string({ unit: "binary", minLength: 1, maxLength: 6 });
    fc.assert(
      fc.property(name, name, name, name, (a, b, c, d) => {
        const isSame = a === c && b === d;
        const [one, other] = [receiptAudience({ issuer: a, subject: b }), receiptAudience({ issuer: c, subject: d })];
        expect(one === other).toBe(isSame);
      }),
    );
    expect(receiptAudience({ issuer: "a", subject: "b:c" })).not.toBe(receiptAudience({ issuer: "a:b", subject: "c" }));
  });
});

/** Signed with the true key whatever it says. */
function forged(claims: Record<string, unknown>, header: Record<string, unknown> = {}): string {
  const good = {
    ...{ iss: "here", aud: receiptAudience(AGENT), jti: "x", approvalId: ID, planDigest: "a".repeat(64) },
    ...{ decision: "approve", scope: "once", iat: NOW_SECONDS - 60, exp: NOW_SECONDS + 240 },
  };
  return forgeToken(key, { alg: key.alg, typ: "stc-decision+jwt", ...header }, { ...good, ...claims });
}

async function spoiled(part: number, spoil: (text: string) => string): Promise<string> {
  const parts = (await signed()).split(".");
  return parts.map((text, index) => (index === part ? spoil(text) : text)).join(".");
}

function changed(text: string): string {
  return encodePart(JSON.stringify({ ...JSON.parse(Buffer.from(text, "base64url").toString()), scope: "session" }));
}

const stranger = makeSigningKey("ES256", "receipts");
const REFUSED: readonly (readonly [string, ReceiptFault, () => unknown])[] = [
  ["words", "RECEIPT_MALFORMED", () => "approved by alice, trust me"],
  ["nothing", "RECEIPT_MALFORMED", () => undefined],
  ["an object", "RECEIPT_MALFORMED", () => ({ decision: "approve" })],
  ["empty parts", "RECEIPT_MALFORMED", () => ".."],
  ["more than a receipt", "RECEIPT_MALFORMED", () => forged({ jti: "x".repeat(5_000) })],
  ["the decision alone, unsigned", "RECEIPT_MALFORMED", () => encodePart('{"decision":"approve"}')],
  [
    "signed by a stranger",
    "RECEIPT_SIGNATURE",
    () => forgeToken(stranger, { alg: "ES256", typ: "stc-decision+jwt" }, payloadOf(forged({}))),
  ],
  ["a changed scope", "RECEIPT_SIGNATURE", () => spoiled(1, changed)],
  ["a cut signature", "RECEIPT_SIGNATURE", () => spoiled(2, (text) => text.slice(0, -4))],
  ["no signature", "RECEIPT_SIGNATURE", () => spoiled(2, () => "")],
  [
    "a changed header",
    "RECEIPT_SIGNATURE",
    () => spoiled(0, () => encodePart('{"alg":"ES256","typ":"stc-decision+jwt","x":1}')),
  ],
  ["alg none", "RECEIPT_ALGORITHM", () => spoiled(0, () => encodePart('{"alg":"none","typ":"stc-decision+jwt"}'))],
  [
    "alg none, signature left out",
    "RECEIPT_ALGORITHM",
    async () => `${encodePart('{"alg":"none","typ":"stc-decision+jwt"}')}.${(await signed()).split(".")[1]}.`,
  ],
  [
    "HMAC with the public key",
    "RECEIPT_ALGORITHM",
    async () => {
      const input = `${encodePart('{"alg":"HS256","typ":"stc-decision+jwt"}')}.${(await signed()).split(".")[1]}`;
      return `${input}.${createHmac("sha256", publicPem(key)).update(input).digest("base64url")}`;
    },
  ],
  ["another curve's algorithm", "RECEIPT_ALGORITHM", () => forged({}, { alg: "EdDSA" })],
  ["an agent's token", "RECEIPT_TYPE", () => forged({}, { typ: "JWT" })],
  ["a caller assertion", "RECEIPT_TYPE", () => forged({}, { typ: "stc-assertion+jwt" })],
  ["no typ", "RECEIPT_TYPE", () => forged({}, { typ: undefined })],
  ["a critical header", "RECEIPT_MALFORMED", () => forged({}, { crit: ["x"], x: 1 })],
  [
    "another deployment",
    "RECEIPT_ISSUER",
    () => createReceiptSigner({ privateKey: pem(key), deployment: "there" })(approvalOf()),
  ],
  ["another agent", "RECEIPT_AUDIENCE", () => signed({ requester: { ...AGENT, subject: "agent-2" } })],
  [
    "an agent of that name elsewhere",
    "RECEIPT_AUDIENCE",
    () => signed({ requester: { ...AGENT, issuer: "https://evil.example" } }),
  ],
  ["another question", "RECEIPT_MISMATCH", () => signed({ id: "11111111-2f1c-4b3a-9d8e-7c6b5a493827" })],
  ["too late, to the second", "RECEIPT_EXPIRED", () => signed({ executeBy: NOW + 500 })],
  ["long over", "RECEIPT_EXPIRED", () => signed({ decidedAt: NOW - 3_600_000, executeBy: NOW - 3_000_000 })],
  ["no exp", "RECEIPT_MALFORMED", () => forged({ exp: undefined })],
  ["an endless one", "RECEIPT_MALFORMED", () => forged({ exp: NOW_SECONDS + 90_000 })],
  ["for everybody", "RECEIPT_MALFORMED", () => forged({ aud: [receiptAudience(AGENT), "urn:stc:caller:a:b"] })],
  ["a yes without a scope", "RECEIPT_MALFORMED", () => forged({ scope: undefined })],
  ["another word for yes", "RECEIPT_MALFORMED", () => forged({ decision: "approved" })],
  ["more claims than ours", "RECEIPT_MALFORMED", () => forged({ admin: true })],
  ["not yet", "RECEIPT_MALFORMED", () => forged({ nbf: NOW_SECONDS + 60 })],
];

describe("an invalid receipt", () => {
  test.each(REFUSED)("%s: %s", async (_title, code, make) => {
    const check = await verifier().verify(await make(), { approvalId: ID });
    expect(check).toEqual({ valid: false, code, message: expect.stringMatching(/^(This|The) .{10,80}\.$/) });
  });

  test("the unchanged receipt of the forgery test is valid", async () => {
    expect(await verifier().verify(forged({}), { approvalId: ID })).toMatchObject({ valid: true });
  });

  test("any changed character makes it invalid", async () => {
    const receipt = await signed();
    const place = fc.nat(receipt.length - 1);
    await fc.assert(
      fc.asyncProperty(place, fc.constantFrom(..."Ab9_-."), async (at, character) => {
        fc.pre(receipt[at] !== character);
        const other = receipt.slice(0, at) + character + receipt.slice(at + 1);
        // The last character of a part may hold bits that count for nothing: the same bytes are the same receipt.
        const bytes = (text: string) =>
          text
            .split(".")
            .map((part) => Buffer.from(part, "base64url").toString("hex"))
            .join(".");
        const isSame = bytes(other) === bytes(receipt);
        const { valid } = await verifier().verify(other);
        expect(valid && !isSame).toBe(false);
      }),
      { numRuns: 200 },
    );
  });

  test("any input gets an answer", async () => {
    await fc.assert(
      fc.asyncProperty(fc.anything(), async (sent) => {
        expect((await verifier().verify(sent)).valid).toBe(false);
      }),
    );
  });
});

describe("keys", () => {
  test("two keys at once, during a change", async () => {
    const next = makeSigningKey("EdDSA", "next");
    const old = await signed();
    const kid = String(JSON.parse(Buffer.from(old.split(".")[0] ?? "", "base64url").toString()).kid);
    const receipts = verifier({ publicKey: undefined, jwks: { keys: [{ ...key.jwk, kid }, next.jwk] } } as never);
    expect((await receipts.verify(old)).valid).toBe(true);
    const other = createReceiptVerifier({
      ...{
        jwks: { keys: [{ ...stranger.jwk, kid: "a" }, next.jwk] },
        deployment: "here",
        requester: AGENT,
        now: () => NOW,
      },
    });
    expect(await other.verify(old)).toMatchObject({ code: "RECEIPT_SIGNATURE" });
  });

  test("a key signs with its own algorithm only, whatever the header says", async () => {
    const keys = [key.jwk, KEYS.EdDSA.jwk].map((jwk, index) => ({ ...jwk, kid: `${index}` }));
    const receipts = createReceiptVerifier({ jwks: { keys }, deployment: "here", requester: AGENT, now: () => NOW });
    expect((await receipts.verify(forged({}, { kid: "0" }))).valid).toBe(true);
    for (const header of [{ kid: "0", alg: "EdDSA" }, { kid: "1" }, {}, { kid: "constructor" }]) {
      expect(await receipts.verify(forged({}, header))).toMatchObject({ valid: false, code: "RECEIPT_SIGNATURE" });
    }
  });

  const rsa = makeSigningKey("RS256", "rsa");
  const p384 = generateKeyPairSync("ec", { namedCurve: "P-384" }).publicKey.export({ type: "spki", format: "pem" });
  const secret: JWK = { kty: "oct", k: encodePart("secret") };
  const BAD: readonly (readonly [string, object, string])[] = [
    ["a private key", { publicKey: pem(key) }, "private"],
    ["a private JWK", { publicKey: key.privateKey.export({ format: "jwk" }) }, "private"],
    ["RSA", { publicKey: publicPem(rsa) }, "P-256 or Ed25519"],
    ["P-384", { publicKey: String(p384) }, "P-256 or Ed25519"],
    ["a shared secret", { publicKey: secret }, "P-256 or Ed25519"],
    ["no key", { publicKey: "-----BEGIN" }, "P-256 or Ed25519"],
    ["nothing", {}, "either publicKey or jwks"],
    ["both", { publicKey: publicPem(key), jwks: { keys: [key.jwk] } }, "either publicKey or jwks"],
    ["an empty set", { jwks: { keys: [] } }, "1 to 16"],
    ["two of one name", { jwks: { keys: [key.jwk, stranger.jwk] } }, "kid"],
  ];
  test.each(BAD)("%s is refused at once", (_title, keys, message) => {
    const rest = { deployment: "here", requester: AGENT, now: () => NOW };
    expect(() => createReceiptVerifier({ ...rest, ...keys })).toThrow(message);
  });

  test.each([
    ["RSA", pem(rsa), "P-256 or Ed25519"],
    ["a public key", publicPem(key), "no private key"],
    ["no key", "secret", "no private key"],
  ])("%s cannot sign", (_title, privateKey, message) => {
    expect(() => createReceiptSigner({ privateKey, deployment: "here" })).toThrow(message);
  });
});
