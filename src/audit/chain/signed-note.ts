import { createHash, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import { errorText } from "../../core/error-text.ts";
import { AuditLogError } from "../audit-log-error.ts";

/** Algorithm number of Ed25519 in signed notes (c2sp.org/signed-note). */
const ED25519 = 1;
const KEY_ID_BYTES = 4;
const KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;
const SIGNATURE_LINE = "— ";
const KEY_BEGIN = "-----BEGIN";
const NOTE_SIGNATURES_MAX = 16;

/** Returns the note: the text, an empty line, and the signature of `name` over the text. */
export function signNote(text: string, name: string, key: KeyObject): string {
  const id = keyId(name, createPublicKey(key));
  const signature = sign(null, Buffer.from(text), key);
  return `${text}\n${SIGNATURE_LINE}${name} ${Buffer.concat([id, signature]).toString("base64")}\n`;
}

type NoteVerdict = "valid" | "unknown key" | "bad signature";

/** Returns true when no signature line has this name: other signers, such as witnesses, sign under names of their own. */
export function isUnsigned({ signatures }: Note, name: string): boolean {
  return !signatures.split("\n").some((line) => line.startsWith(`${SIGNATURE_LINE}${name} `));
}

/**
 * Checks whether one of `keys` signed the note's text under `name`. A wrong signature that claims one of these keys
 * makes the note invalid.
 */
export function verifyNote(note: Note, name: string, keys: readonly KeyObject[]): NoteVerdict {
  const lines = note.signatures.split("\n").slice(0, NOTE_SIGNATURES_MAX);
  let verdict: NoteVerdict = "unknown key";
  for (const line of lines) {
    const [mark, signer, encoded = ""] = line.split(" ");
    const bytes = Buffer.from(encoded, "base64");
    if (mark !== SIGNATURE_LINE.trim() || bytes.toString("base64") !== encoded) return "bad signature";
    // Other signers, such as witnesses, may have signed too.
    const key =
      signer === name
        ? keys.find((candidate) => keyId(name, candidate).equals(bytes.subarray(0, KEY_ID_BYTES)))
        : undefined;
    if (key !== undefined) {
      if (
        bytes.length !== KEY_ID_BYTES + SIGNATURE_BYTES ||
        !verify(null, Buffer.from(note.text), key, bytes.subarray(KEY_ID_BYTES))
      ) {
        return "bad signature";
      }
      verdict = "valid";
    }
  }
  return verdict;
}

/** A note. `text` ends with a line end; `signatures` holds the signature lines without the last line end. */
export interface Note {
  readonly text: string;
  readonly signatures: string;
}

/** Name in a verifier key that is meant for every log of one signing key. */
export const ANY_LOG = "safe-tool-call/audit";

/**
 * Returns the verifier key in the form that other tools accept: `name+id+key`. They expect the origin of a log as its name, and
 * `stc` takes any name.
 */
export function verifierKeyOf(name: string, publicKey: KeyObject): string {
  const key = Buffer.concat([Buffer.of(ED25519), rawKey(publicKey)]).toString("base64");
  return `${name}+${keyId(name, publicKey).toString("hex")}+${key}`;
}

/**
 * Reads a public key from PEM or from a verifier key. The name of a verifier key is not checked against the stream,
 * because one key signs both streams.
 *
 * @throws AuditLogError when the text is not a public key.
 */
export function readPublicKey(text: string): KeyObject {
  try {
    return text.includes(KEY_BEGIN) ? fromPem(text) : fromVerifierKey(text.trim());
  } catch (error) {
    throw new AuditLogError(`not an Ed25519 public key (PEM, or a verifier key name+id+key): ${errorText(error)}`);
  }
}

function fromPem(text: string): KeyObject {
  if (text.includes("PRIVATE KEY")) {
    throw new Error("this is a private key; print its public half with: stc audit keys --key FILE");
  }
  const key = createPublicKey(text);
  if (key.asymmetricKeyType !== "ed25519") {
    throw new Error(`it is of type ${key.asymmetricKeyType}`);
  }
  return key;
}

function fromVerifierKey(text: string): KeyObject {
  // The last of the three parts is base64 and may contain a plus.
  const [name = "", id = "", ...rest] = text.split("+");
  const bytes = Buffer.from(rest.join("+"), "base64");
  if (bytes.length !== 1 + KEY_BYTES || bytes[0] !== ED25519) throw new Error("it contains no Ed25519 key");
  const x = bytes.subarray(1).toString("base64url");
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  if (keyId(name, key).toString("hex") !== id) throw new Error("its id does not match its name and key");
  return key;
}

function keyId(name: string, publicKey: KeyObject): Buffer {
  const digest = createHash("sha256").update(`${name}\n`).update(Buffer.of(ED25519)).update(rawKey(publicKey)).digest();
  return digest.subarray(0, KEY_ID_BYTES);
}

function rawKey(publicKey: KeyObject): Buffer {
  return publicKey.export({ format: "der", type: "spki" }).subarray(-KEY_BYTES);
}
