import { createCipheriv, createDecipheriv, createHmac } from "node:crypto";

const ALGORITHM = "aes-256-gcm";
const TAG_BYTES = 16;
/** Each key encrypts one text. */
const NONCE = Buffer.alloc(12);

/**
 * Encrypts a text with a key that is derived from a secret for one use. The secret must be unguessable, and serve for one text of
 * each use.
 */
export function sealText(secret: string, use: string, text: string): string {
  const cipher = createCipheriv(ALGORITHM, keyOf(secret, use), NONCE);
  return Buffer.concat([cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]).toString("base64");
}

/** Returns undefined for a text that was sealed with another secret or for another use, or was changed. */
export function openText(secret: string, use: string, sealed: string): string | undefined {
  const bytes = Buffer.from(sealed, "base64");
  const decipher = createDecipheriv(ALGORITHM, keyOf(secret, use), NONCE, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
  const opened = decipher.update(bytes.subarray(0, -TAG_BYTES));
  try {
    return Buffer.concat([opened, decipher.final()]).toString("utf8");
  } catch {
    return undefined;
  }
}

function keyOf(secret: string, use: string): Buffer {
  return createHmac("sha256", secret).update(use).digest();
}
