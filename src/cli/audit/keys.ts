import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { eachNote } from "../../audit/chain/checkpoint.ts";
import { verifierKeyOf } from "../../audit/chain/signed-note.ts";
import { errorText } from "../../core/error-text.ts";
import { print, tell } from "../output.ts";
import { auditPlace, EXIT, guarded } from "./directory.ts";

export interface AuditKeysOptions {
  /** File to create for a new private key. */
  readonly new?: string;
  /** File that contains a private or a public key. */
  readonly key?: string;
  /** Also prints the verifier keys of this log's streams. */
  readonly dir?: string;
}

const PRIVATE_FILE_MODE = 0o600;

/**
 * `stc audit keys`: creates a key for `audit.checkpointKeyFile`, or prints the parts of a key that auditors need. Exit code: 64
 * wrong usage; 66 no key; 73 the key cannot be created.
 */
export async function auditKeys({ new: fresh, key, dir }: AuditKeysOptions): Promise<void> {
  if ((fresh === undefined) === (key === undefined)) {
    print.error("give --new FILE to make a key, or --key FILE to see its public half");
    process.exitCode = EXIT.usage;
    return;
  }
  const publicKey = fresh === undefined ? publicHalfOf(key ?? "") : madeKey(fresh);
  if (publicKey === undefined) return;
  tell(() => print.line(String(publicKey.export({ type: "spki", format: "pem" })).trimEnd()));
  if (dir !== undefined) await guarded(() => printVerifierKeys(dir, publicKey));
}

function publicHalfOf(file: string): KeyObject | undefined {
  try {
    return publicHalf(file);
  } catch (error) {
    print.error(error instanceof Error && "syscall" in error ? error.message : `${file} holds no Ed25519 key in PEM`);
    process.exitCode = EXIT.noDirectory;
    return undefined;
  }
}

function madeKey(file: string): KeyObject | undefined {
  try {
    return makeKey(file);
  } catch (error) {
    print.error(`cannot make ${file}: ${errorText(error)}`);
    process.exitCode = EXIT.cannotWrite;
    return undefined;
  }
}

/** Never overwrites an existing key: a log that it signed could not be continued. */
function makeKey(file: string): KeyObject {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  writeFileSync(file, privateKey.export({ type: "pkcs8", format: "pem" }), { mode: PRIVATE_FILE_MODE, flag: "wx" });
  return publicKey;
}

function publicHalf(file: string): KeyObject {
  const pem = readFileSync(file, "utf8");
  const key = createPublicKey(pem.includes("PRIVATE KEY") ? createPrivateKey(pem) : pem);
  if (key.asymmetricKeyType !== "ed25519") throw new Error("another kind of key");
  return key;
}

/** Prints one verifier key for each stream, because a verifier key contains the name of its log. */
function printVerifierKeys(dir: string, publicKey: KeyObject): void {
  const place = auditPlace(dir);
  if (place === undefined) return;
  const origins = new Set<string>();
  for (const { checkpoint } of eachNote(place.dir)) if (checkpoint !== undefined) origins.add(checkpoint.origin);
  for (const origin of origins) print.line(verifierKeyOf(origin, publicKey));
}
