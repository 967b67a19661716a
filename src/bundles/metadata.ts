import type { KeyObject } from "node:crypto";
import { z } from "zod";
import { readPublicKey, signNote, verifierKeyOf, verifyNote } from "../audit/chain/signed-note.ts";
import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import { isTable } from "../core/json.ts";
import { parseStrictJson, whyUnusable } from "../core/strict-json.ts";
import { FILES_MAX } from "./archive.ts";
import { assertBundle, BundleError } from "./bundle-error.ts";

/**
 * The two signed files. `bundle.json` lists the content and is signed by keys that are kept offline; `timestamp.json` says which
 * bundle is the current one, until when, and is signed by an online key. Each holds what is signed and signature lines as the
 * audit's checkpoints have them (c2sp.org/signed-note). A file has exactly one spelling: canonical JSON (RFC 8785).
 */

/** Path of the signed list of files in an archive. */
export const MANIFEST_FILE = "bundle.json";

/** The version of the format that this build reads. A bundle whose `minReader` is higher is refused. */
export const READER = 1;

const FILE_BYTES_MAX = 1_048_576;
const SIGNATURES_MAX = 8;
const VERSION_MAX = Number.MAX_SAFE_INTEGER;
const JSON_LIMITS = { depthMax: 8, keysMax: 4 * FILES_MAX, elementsMax: 1_000 } as const;
const TEXT_LIMITS = { depthMax: 8, bytesMax: FILE_BYTES_MAX, nodesMax: 8 * FILES_MAX } as const;

const name = z
  .string()
  .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/, "must be a name of letters, digits, dot, dash, underscore");
const sha256 = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in hex");
const moment = z.iso.datetime({ error: "must be a time such as 2026-02-16T12:30:00Z" });
const version = z.int().min(1).max(VERSION_MAX);
const origin = { fleet: name, environment: name, createdAt: moment, version } as const;

export const rollout = z.strictObject({
  /** Labels that a member must have, all of them. */
  labels: z.record(name, z.string().min(1).max(128)).optional(),
  /** Share of the members, by a hash of their names. */
  percent: z.int().min(0).max(100).optional(),
});

const bundle = z.strictObject({
  type: z.literal("bundle"),
  ...origin,
  minReader: z.int().min(1),
  /** Digest of the bundle before it; null for the first one. */
  previous: sha256.nullable(),
  rollout: rollout.optional(),
  /** Every other file of the archive. */
  files: z.record(z.string(), z.strictObject({ sha256, size: z.int().min(0) })),
});

const timestamp = z.strictObject({
  type: z.literal("timestamp"),
  ...origin,
  /** Digest of the signed part of `bundle.json`. */
  digest: sha256,
  expires: moment,
});

const SCHEMAS = { bundle, timestamp } as const;

export type Kind = keyof typeof SCHEMAS;
export type Rollout = z.output<typeof rollout>;
export type BundleManifest = z.output<typeof bundle>;
export type Timestamp = z.output<typeof timestamp>;

/** A file as it was read: nothing in it is verified yet. */
export interface UnverifiedFile {
  readonly kind: Kind;
  /** Canonical text of the signed part. */
  readonly text: string;
  /** Hex SHA-256 of `text`: signatures that are added later do not change it. */
  readonly digest: string;
  readonly signatures: readonly string[];
  readonly signed: unknown;
}

/** Returns a file with these signatures, as text. */
export function fileOf(signed: unknown, signatures: readonly string[] = []): string {
  return `${canonicalJson({ signed, signatures: [...signatures].sort() }, TEXT_LIMITS)}\n`;
}

/** @throws {BundleError} when the bytes are not such a file in its only spelling */
export function readFile(bytes: Uint8Array, kind: Kind): UnverifiedFile {
  assertBundle(bytes.length <= FILE_BYTES_MAX, "malformed", `${kind}.json has more than ${FILE_BYTES_MAX} bytes`);
  const file = parsed(bytes, kind);
  const { signed, signatures, ...others } = isTable(file) ? file : {};
  const lines =
    Array.isArray(signatures) && signatures.every((line) => typeof line === "string") ? signatures : undefined;
  const isFile = isTable(signed) && lines !== undefined && Object.keys(others).length === 0;
  assertBundle(isFile, "malformed", `${kind}.json must hold signed and signatures`);
  assertBundle(lines.length <= SIGNATURES_MAX, "malformed", `${kind}.json has more than ${SIGNATURES_MAX} signatures`);
  assertBundle(isOnlySpelling(bytes, signed, lines), "malformed", `${kind}.json is not canonical JSON`);
  const text = canonicalJson(signed, TEXT_LIMITS);
  return { kind, text, digest: sha256Hex(text), signatures: lines, signed };
}

function isOnlySpelling(bytes: Uint8Array, signed: unknown, signatures: readonly string[]): boolean {
  try {
    return fileOf(signed, signatures) === Buffer.from(bytes).toString();
  } catch (error) {
    // Its canonical text is larger than a file may be.
    if (error instanceof NotJsonError) return false;
    throw error;
  }
}

function parsed(bytes: Uint8Array, kind: Kind): unknown {
  try {
    return parseStrictJson(bytes, JSON_LIMITS);
  } catch (error) {
    throw new BundleError("malformed", `${kind}.json: ${whyUnusable(error)}`);
  }
}

/** Returns the file's text with one more signature. A former one of the same key is replaced. */
export function withSignature(
  { kind, text, signed, signatures }: UnverifiedFile,
  key: KeyObject,
  publicKey: KeyObject,
): string {
  const note = signNote(messageOf(kind, text), nameOf(kind), key);
  const line = note.trimEnd().split("\n").at(-1) ?? "";
  const others = signatures.filter((one) => !isSignedBy({ kind, text, signatures: [one] }, publicKey));
  return fileOf(signed, [...others, line]);
}

/** @throws {BundleError} when fewer than `threshold` of the keys have signed the file, or one of the signatures is wrong */
export function assertSigned(file: UnverifiedFile, keys: readonly KeyObject[], threshold: number): void {
  const count = keys.filter((key) => isSignedBy(file, key)).length;
  const message =
    count === 0
      ? `${file.kind}.json is not signed by a configured key`
      : `${file.kind}.json is signed by ${count} of the configured keys, and needs ${threshold}`;
  assertBundle(count >= threshold, "signature", message);
}

/** @throws {BundleError} when a signature that claims to be of this key is wrong */
function isSignedBy(
  { kind, text, signatures }: Pick<UnverifiedFile, "kind" | "text" | "signatures">,
  key: KeyObject,
): boolean {
  if (signatures.length === 0) return false;
  const note = { text: messageOf(kind, text), signatures: signatures.join("\n") };
  const verdict = verifyNote(note, nameOf(kind), [key]);
  assertBundle(verdict !== "bad signature", "signature", `${kind}.json has a wrong signature`);
  return verdict === "valid";
}

/** Returns the signed part. Call it for a file whose signatures were verified. @throws {BundleError} */
export function contentOf<K extends Kind>(
  { kind, signed }: UnverifiedFile & { readonly kind: Kind },
  as: K,
): z.output<(typeof SCHEMAS)[K]> {
  const minReader = isTable(signed) ? signed["minReader"] : undefined;
  const isReadable = typeof minReader !== "number" || minReader <= READER;
  assertBundle(isReadable, "reader", `${kind}.json needs a newer version of this program: minReader is ${minReader}`);
  const read = SCHEMAS[as].safeParse(signed);
  if (read.success) return read.data as z.output<(typeof SCHEMAS)[K]>;
  const [issue] = read.error.issues;
  throw new BundleError("malformed", `${kind}.json: ${issue?.path.join(".")}: ${issue?.message}`);
}

/** Returns the signed text. It begins with the file's kind, so that no other signature of the key is valid for it. */
function messageOf(kind: Kind, text: string): string {
  return `${nameOf(kind)}/v1\n${text}\n`;
}

function nameOf(kind: Kind): string {
  return `safe-tool-call/${kind}`;
}

/** Returns a name of a key that two spellings of the key share. */
export function keyName(key: KeyObject): string {
  return verifierKeyOf("safe-tool-call/bundle", key);
}

const PEM = /-----BEGIN [A-Z ]+-----[^-]*-----END [A-Z ]+-----/g;
const KEYS_MAX = 8;

/** Reads the public keys of a file: in PEM, and verifier keys (`name+id+key`), one per line. @throws {Error} that says what is wrong */
export function readKeys(text: string): readonly KeyObject[] {
  const pems = text.match(PEM) ?? [];
  // The rest of a damaged PEM is not a verifier key: a key is never left out silently.
  const lines = text.replace(PEM, "").split("\n");
  const written = lines.filter((line) => line.trim() !== "" && !line.startsWith("#"));
  const keys = [...pems, ...written].map((one) => readPublicKey(one));
  const different = new Map(keys.map((key) => [keyName(key), key]));
  if (different.size === 0) throw new Error("holds no key");
  if (different.size > KEYS_MAX) throw new Error(`holds more than ${KEYS_MAX} keys`);
  return [...different.values()];
}
