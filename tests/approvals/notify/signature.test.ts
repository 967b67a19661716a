import { describe, expect, test } from "bun:test";
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import fc from "fast-check";
import { readKeys, signMessage, verifyMessage } from "../../../src/approvals/notify/signature.ts";

const NOW_MS = 1_614_265_330_000;
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OTHER = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const ID = "msg_p5jXN8AQM9LWM0D4loKWxJek";
const BODY = '{"test": 2432232314}';

function raw(key: KeyObject, member: "d" | "x"): Buffer {
  return Buffer.from(key.export({ format: "jwk" })[member] ?? "", "base64url");
}

/** As it arrives, with some of it exchanged. */
function received(changes: Record<string, unknown> = {}, secret = SECRET) {
  const headers = signMessage({ id: ID, body: BODY }, { keys: readKeys(secret, "sign"), nowMs: NOW_MS });
  const sent = {
    ...{ id: headers["webhook-id"], timestamp: headers["webhook-timestamp"], signature: headers["webhook-signature"] },
    body: Buffer.from(BODY),
  };
  return { ...sent, ...changes };
}

function verdict(
  changes: Record<string, unknown> = {},
  options: { secret?: string; nowMs?: number; by?: string } = {},
) {
  const { secret = SECRET, nowMs = NOW_MS, by = SECRET } = options;
  const verified = verifyMessage(received(changes, by), { keys: readKeys(secret, "verify"), nowMs });
  return "problem" in verified ? verified.problem : verified.id;
}

test("signs as in the specification's own example", () => {
  const headers = signMessage({ id: ID, body: BODY }, { keys: readKeys(SECRET, "sign"), nowMs: NOW_MS });
  expect(headers).toEqual({
    "webhook-id": ID,
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
  });
});

describe("APR-57: a message counts when a known key signed it within the time window", () => {
  const good = received().signature;
  test.each([
    ["as it was sent", {}, ID],
    ["another body", { body: Buffer.from('{"test": 2432232315}') }, "signature"],
    ["the body written anew", { body: Buffer.from('{"test":2432232314}') }, "signature"],
    ["another id", { id: "msg_other" }, "signature"],
    ["another time", { timestamp: "1614265331" }, "signature"],
    ["no id", { id: undefined }, "unsigned"],
    ["no time", { timestamp: undefined }, "unsigned"],
    ["no signature", { signature: undefined }, "unsigned"],
    ["a time that is none", { timestamp: "hello" }, "unsigned"],
    ["a time with a sign", { timestamp: "-1614265330" }, "unsigned"],
    ["an id with a dot", { id: "msg.1" }, "unsigned"],
    ["an empty signature", { signature: "v1," }, "signature"],
    ["half of it", { signature: good.slice(0, 20) }, "signature"],
    ["without its version", { signature: good.slice(3) }, "signature"],
    ["of another version", { signature: good.replace("v1,", "v2,") }, "signature"],
    ["as if it were Ed25519", { signature: good.replace("v1,", "v1a,") }, "signature"],
    ["among others", { signature: `v1,AAAA v2,xx ${good} v1,BBBB` }, ID],
    ["behind more than are looked at", { signature: `${"v1,AAAA ".repeat(8)}${good}` }, "signature"],
    ["a signature without end", { signature: `${good} ${"x".repeat(10_000)}` }, "unsigned"],
    ["headers as a list", { signature: [good] }, "unsigned"],
  ] as const)("%s", (_, changes, want) => {
    expect(verdict(changes)).toBe(want);
  });

  test.each([
    [-300, ID],
    [-301, "late"],
    [300, ID],
    [301, "late"],
  ])("%d seconds from then", (seconds, want) => {
    expect(verdict({}, { nowMs: NOW_MS + seconds * 1_000 })).toBe(want);
  });

  test("during a key change both keys sign and either verifies", () => {
    const both = `${OTHER}\n# the one before\n${SECRET}\n`;
    expect(verdict({}, { by: both })).toBe(ID);
    expect(verdict({}, { by: both, secret: OTHER })).toBe(ID);
    expect(verdict({}, { secret: OTHER })).toBe("signature");
    expect(verdict({}, { secret: both })).toBe(ID);
    expect(verifyMessage(received(), { keys: [], nowMs: NOW_MS })).toEqual({ problem: "signature" });
  });

  test("Ed25519: whsk_ signs, whpk_ verifies", () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const seed = raw(privateKey, "d");
    const open = `whpk_${raw(publicKey, "x").toString("base64")}`;
    for (const secret of [seed, Buffer.concat([seed, raw(publicKey, "x")])]) {
      const by = `whsk_${secret.toString("base64")}`;
      expect(received({}, by).signature).toStartWith("v1a,");
      expect(verdict({}, { by, secret: open })).toBe(ID);
      expect(verdict({ body: Buffer.from("{}") }, { by, secret: open })).toBe("signature");
      expect(verdict({}, { by, secret: SECRET })).toBe("signature");
    }
  });
});

test.each([
  ["", "verify", "contains no key"],
  ["\n# nothing\n", "verify", "contains no key"],
  ["secret", "verify", "line 1 is not whsec_"],
  ["whsec_", "verify", "line 1 is not whsec_"],
  ["whsec_@@@@", "verify", "line 1 is not whsec_"],
  ["whsec_AAAA", "verify", "line 1 must hold 24 to 64 bytes"],
  [`whsec_${Buffer.alloc(65).toString("base64")}`, "verify", "line 1 must hold 24 to 64 bytes"],
  [`${SECRET}\nwhsec_AAAA`, "verify", "line 2 must hold"],
  [`whpk_${Buffer.alloc(32).toString("base64")}`, "sign", "line 1 cannot sign"],
  [`whsk_${Buffer.alloc(32).toString("base64")}`, "verify", "line 1 cannot verify"],
  [`whpk_${Buffer.alloc(31).toString("base64")}`, "verify", "line 1 holds no Ed25519 key"],
  [Array.from({ length: 5 }, () => SECRET).join("\n"), "sign", "more than 4 keys"],
] as const)("keys: %s, to %s", (text, use, fault) => {
  expect(() => readKeys(text, use)).toThrow(fault);
});

test("no header makes it throw, and only the signed one passes", () => {
  const keys = readKeys(SECRET, "verify");
  const header = fc.oneof(fc.string({ maxLength: 300 }), fc.constant(undefined), fc.constant(received().signature));
  const part = fc.oneof(header, fc.string({ unit: fc.constantFrom("v", "1", "a", ",", " ", "=", "/"), maxLength: 60 }));
  fc.assert(
    fc.property(part, part, part, fc.uint8Array({ maxLength: 64 }), (id, timestamp, signature, body) => {
      const verified = verifyMessage({ id, timestamp, signature, body }, { keys, nowMs: NOW_MS });
      return "problem" in verified;
    }),
  );
  expect(verdict()).toBe(ID);
});
