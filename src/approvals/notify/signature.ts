import {
  createHmac,
  createPrivateKey,
  createPublicKey,
  type KeyObject,
  sign,
  timingSafeEqual,
  verify,
} from "node:crypto";
import { sha256Hex } from "../../core/digest.ts";
import { present } from "../../core/present.ts";

/** Accepted difference between a message's time and the local clock, in either direction. */
const TOLERANCE_SECONDS = 300;
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;
const ED25519_BYTES = 32;
const KEYS_MAX = 4;
/** Signatures checked per message: each key is tried on each signature. */
const SIGNATURES_MAX = 8;
const SIGNATURE_CHARACTERS_MAX = 2_048;
const SECOND_MS = 1_000;

/** Excludes dots, which separate the parts of the signed content. */
const ID = /^[A-Za-z0-9_-]{1,128}$/;
const TIMESTAMP = /^\d{1,12}$/;
const BASE64 = /^[A-Za-z0-9+/]{1,512}={0,2}$/;

/** A key that signs or verifies messages: a shared secret (`v1`), or one half of an Ed25519 key pair (`v1a`). */
export type WebhookKey = { readonly fingerprint: string } & (
  | { readonly scheme: "v1"; readonly secret: Uint8Array }
  | { readonly scheme: "v1a"; readonly key: KeyObject }
);

export interface SignatureHeaders {
  readonly "webhook-id": string;
  readonly "webhook-timestamp": string;
  readonly "webhook-signature": string;
}

/**
 * Reads keys, one per line: `whsec_…` for signing and verifying, `whsk_…` for signing, `whpk_…` for verifying. The first key is
 * the newest. All keys sign and any key verifies, so that keys can be rotated.
 *
 * @throws {Error} that names the line only, because the text is secret
 */
export function readKeys(text: string, use: "sign" | "verify"): readonly WebhookKey[] {
  const lines = text.split("\n").map((line) => line.trim());
  const keys: WebhookKey[] = [];
  for (const [index, line] of lines.entries()) {
    if (line === "" || line.startsWith("#")) continue;
    const key = readKey(line, use);
    if (typeof key === "string") throw new Error(`line ${index + 1} ${key}`);
    keys.push(key);
    if (keys.length > KEYS_MAX) throw new Error(`holds more than ${KEYS_MAX} keys`);
  }
  if (keys.length === 0) throw new Error("contains no key: write whsec_ and 24 to 64 random bytes in base64");
  return keys;
}

function readKey(line: string, use: "sign" | "verify"): WebhookKey | string {
  const [, prefix, encoded = ""] = /^(whsec|whsk|whpk)_(.+)$/.exec(line) ?? [];
  const bytes = bytesOf(encoded);
  if (prefix === undefined || bytes === undefined) return "is not whsec_, whsk_ or whpk_ and base64";
  const fingerprint = sha256Hex(bytes);
  if (prefix === "whsec") {
    const isLong = bytes.length >= SECRET_BYTES_MIN && bytes.length <= SECRET_BYTES_MAX;
    return isLong
      ? { scheme: "v1", secret: bytes, fingerprint }
      : `must hold ${SECRET_BYTES_MIN} to ${SECRET_BYTES_MAX} bytes`;
  }
  if ((prefix === "whsk") !== (use === "sign")) return `cannot ${use}: whsk_ signs, whpk_ verifies`;
  const key = prefix === "whsk" ? signingKey(bytes) : verifyingKey(bytes);
  return key === undefined ? "holds no Ed25519 key" : { scheme: "v1a", key, fingerprint: pairFingerprint(key) };
}

function bytesOf(encoded: string): Buffer | undefined {
  if (!BASE64.test(encoded)) return undefined;
  const bytes = Buffer.from(encoded, "base64");
  return bytes.toString("base64") === encoded ? bytes : undefined;
}

/** Returns the fingerprint of the public half, so that both halves of a key pair have the same one. */
function pairFingerprint(key: KeyObject): string {
  const half = key.type === "private" ? createPublicKey(key) : key;
  return sha256Hex(Buffer.from(present(half.export({ format: "jwk" }).x, "the public half of the key"), "base64url"));
}

/** PKCS #8 prefix of an Ed25519 seed (RFC 8410). */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

/** Reads a seed, or a seed followed by the public half. */
function signingKey(bytes: Buffer): KeyObject | undefined {
  if (bytes.length !== ED25519_BYTES && bytes.length !== 2 * ED25519_BYTES) return undefined;
  const der = Buffer.concat([PKCS8, bytes.subarray(0, ED25519_BYTES)]);
  return createPrivateKey({ key: der, format: "der", type: "pkcs8" });
}

function verifyingKey(bytes: Buffer): KeyObject | undefined {
  if (bytes.length !== ED25519_BYTES) return undefined;
  const key = { kty: "OKP", crv: "Ed25519", x: bytes.toString("base64url") };
  return createPublicKey({ key, format: "jwk" });
}

/** Returns the headers of one attempt made at `nowMs`. All attempts for a message have the same id. */
export function signMessage(
  { id, body }: { readonly id: string; readonly body: string },
  { keys, nowMs }: { readonly keys: readonly WebhookKey[]; readonly nowMs: number },
): SignatureHeaders {
  const timestamp = String(Math.floor(nowMs / SECOND_MS));
  const signed = signedContent(id, timestamp, Buffer.from(body));
  const signatures = keys.map((key) => `${key.scheme},${signatureOf(key, signed).toString("base64")}`);
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") };
}

export type Unverified = "unsigned" | "late" | "signature";

interface ReceivedMessage {
  readonly id: unknown;
  readonly timestamp: unknown;
  readonly signature: unknown;
  readonly body: Uint8Array;
}

/** Returns the id of a message that one of the keys signed within five minutes of `nowMs`; otherwise the reason for rejection. */
export function verifyMessage(
  { id, timestamp, signature, body }: ReceivedMessage,
  { keys, nowMs }: { readonly keys: readonly WebhookKey[]; readonly nowMs: number },
): { readonly id: string } | { readonly problem: Unverified } {
  if (typeof id !== "string" || typeof timestamp !== "string" || typeof signature !== "string")
    return { problem: "unsigned" };
  if (!ID.test(id) || !TIMESTAMP.test(timestamp) || signature.length > SIGNATURE_CHARACTERS_MAX)
    return { problem: "unsigned" };
  const signed = signedContent(id, timestamp, body);
  const candidates = signature.split(" ", SIGNATURES_MAX).flatMap(readSignature);
  if (!keys.some((key) => hasSigned(key, candidates, signed))) return { problem: "signature" };
  const isNow = Math.abs(Number(timestamp) - nowMs / SECOND_MS) <= TOLERANCE_SECONDS;
  return isNow ? { id } : { problem: "late" };
}

interface Candidate {
  readonly scheme: string;
  readonly bytes: Buffer;
}

function readSignature(text: string): readonly Candidate[] {
  const comma = text.indexOf(",");
  const bytes = bytesOf(text.slice(comma + 1));
  return comma < 1 || bytes === undefined ? [] : [{ scheme: text.slice(0, comma), bytes }];
}

function hasSigned(key: WebhookKey, candidates: readonly Candidate[], signed: Buffer): boolean {
  const own = candidates.filter(({ scheme }) => scheme === key.scheme);
  if (own.length === 0) return false;
  if (key.scheme === "v1a") return own.some(({ bytes }) => verify(null, signed, key.key, bytes));
  const expected = signatureOf(key, signed);
  return own.some(({ bytes }) => bytes.length === expected.length && timingSafeEqual(bytes, expected));
}

function signatureOf(key: WebhookKey, signed: Buffer): Buffer {
  return key.scheme === "v1a" ? sign(null, signed, key.key) : createHmac("sha256", key.secret).update(signed).digest();
}

function signedContent(id: string, timestamp: string, body: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
}
