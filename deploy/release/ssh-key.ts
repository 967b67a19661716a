import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";

const MAGIC = "openssh-key-v1\0";
const ALGORITHM = "ssh-ed25519";
const SEED_BYTES = 32;
const UNUSABLE = "needs an Ed25519 private key of OpenSSH without a passphrase, as `ssh-keygen -t ed25519` writes it";

/** Reads the fields of an SSH structure: each is a length in four bytes and that many bytes. */
class Fields {
  #rest: Buffer;

  constructor(bytes: Buffer) {
    this.#rest = bytes;
  }

  take(): Buffer {
    const length = this.number();
    return this.#cut(length);
  }

  number(): number {
    return this.#cut(4).readUInt32BE();
  }

  text(): string {
    return this.take().toString("latin1");
  }

  #cut(length: number): Buffer {
    if (length > this.#rest.length) throw new Error("the key is cut off");
    const cut = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return cut;
  }
}

/**
 * Reads a private key in OpenSSH's own format, which `node:crypto` does not read.
 * @throws {Error} when it has a passphrase or is of another kind
 */
export function privateKeyOf(file: string): KeyObject {
  const [, base64 = ""] = /-----BEGIN OPENSSH PRIVATE KEY-----([\s\S]+)-----END/.exec(file) ?? [];
  const bytes = Buffer.from(base64, "base64");
  if (bytes.subarray(0, MAGIC.length).toString("latin1") !== MAGIC) throw new Error(UNUSABLE);
  const outer = new Fields(bytes.subarray(MAGIC.length));
  const [cipher, kdf] = [outer.text(), outer.text()];
  outer.take();
  if (cipher !== "none" || kdf !== "none" || outer.number() !== 1) throw new Error(UNUSABLE);
  outer.take();
  const inner = new Fields(outer.take());
  // The same number twice, which shows a wrong passphrase.
  inner.number();
  inner.number();
  if (inner.text() !== ALGORITHM) throw new Error(UNUSABLE);
  const x = inner.take().toString("base64url");
  const d = inner.take().subarray(0, SEED_BYTES).toString("base64url");
  return createPrivateKey({ key: { kty: "OKP", crv: "Ed25519", x, d }, format: "jwk" });
}

/** Reads the public keys of a file `allowed_signers` or `.pub`. */
export function publicKeysOf(file: string): readonly KeyObject[] {
  return [...file.matchAll(/^[^#\n]*\bssh-ed25519 (\S+)/gm)].map(([, base64 = ""]) => {
    const fields = new Fields(Buffer.from(base64, "base64"));
    if (fields.text() !== ALGORITHM) throw new Error("expected a public key of type ssh-ed25519");
    const x = fields.take().toString("base64url");
    return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  });
}
