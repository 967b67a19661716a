import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, timingSafeEqual } from "node:crypto";

const ALGORITHM = "aes-256-gcm";
const KEY_BYTES = 32;
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** A secret and its code, base64url. */
const AUTHENTICATED = /^([A-Za-z0-9_-]{43})([A-Za-z0-9_-]{43})$/;

/** Returns a random secret of 256 bits. */
export function newSecret(): string {
  return randomBytes(KEY_BYTES).toString("base64url");
}

/** Returns a secret with a code (HMAC-SHA-256) that nobody can make without the key. */
export function authenticated(key: Buffer, secret: string): string {
  return secret + createHmac("sha256", key).update(secret).digest("base64url");
}

/** Returns whether the text has the form of such a secret. */
export function isAuthenticated(text: string): boolean {
  return AUTHENTICATED.test(text);
}

/** Returns the secret; undefined for a text that was not made with this key. */
export function secretIn(key: Buffer, text: string): string | undefined {
  const [, secret] = AUTHENTICATED.exec(text) ?? [];
  if (secret === undefined) return undefined;
  return timingSafeEqual(Buffer.from(authenticated(key, secret)), Buffer.from(text)) ? secret : undefined;
}

/** Returns the key that a secret of 256 random bits gives for one use. */
export function keyFrom(secret: string, use: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", `safe-tool-call/console/${use}`, KEY_BYTES));
}

/** Encrypts a text. It opens only with the same key and the same `bound` text, which is not part of the result. */
export function seal(key: Buffer, text: string, bound = ""): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(ALGORITHM, key, iv).setAAD(Buffer.from(bound));
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString("base64url");
}

/** Returns undefined for a text that was not sealed with this key, or was changed. */
export function unseal(key: Buffer, sealed: string, bound = ""): string | undefined {
  const bytes = Buffer.from(sealed, "base64url");
  if (bytes.length <= IV_BYTES + TAG_BYTES) return undefined;
  try {
    const decipher = createDecipheriv(ALGORITHM, key, bytes.subarray(0, IV_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAAD(Buffer.from(bound)).setAuthTag(bytes.subarray(IV_BYTES, IV_BYTES + TAG_BYTES));
    const opened = Buffer.concat([decipher.update(bytes.subarray(IV_BYTES + TAG_BYTES)), decipher.final()]);
    return opened.toString("utf8");
  } catch {
    return undefined;
  }
}
