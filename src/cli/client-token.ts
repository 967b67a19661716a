import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import { printable } from "./printable.ts";

/** More than any token, and than any service takes in a header. */
const TOKEN_BYTES_MAX = 65_536;
const VISIBLE = /^[\x21-\x7e]+$/;

export interface ShownToken {
  /** As the file stands now; as it stood before while it holds no token. */
  header(): Readonly<Record<string, string>>;
}

/**
 * What is shown to the service beside a certificate, read anew each time: tokens are short-lived, and whoever watches for hours
 * puts fresh ones into the file. A certificate may stand for its caller alone. A text says what is wrong.
 */
export function tokenIn(file: string | undefined, isOptional: boolean): ShownToken | string {
  if (!file) return isOptional ? { header: () => ({}) } : "no token: set STC_TOKEN_FILE or give --token-file";
  const first = read(() => readBounded(file));
  if (first === undefined || first === "") return `no token: nothing to be read in ${printable(file)}`;
  if (!isToken(first)) return `no token: what ${printable(file)} holds is none: one word, without "Bearer"`;
  let current = first;
  return {
    header() {
      // A pipe that a shell has made for this command was read to its end.
      const now = file === "-" ? undefined : read(() => readPlainFile(file));
      if (now !== undefined && isToken(now)) current = now;
      return { authorization: `Bearer ${current}` };
    },
  };
}

function isToken(text: string): boolean {
  return text.length < TOKEN_BYTES_MAX && VISIBLE.test(text);
}

function read(bytesOf: () => Buffer): string | undefined {
  try {
    return bytesOf().toString("utf8").trim();
  } catch {
    return undefined;
  }
}

/** Of a file that may be a pipe, and may have no end. */
function readBounded(file: string): Buffer {
  if (file === "-") return readFileSync(0);
  const descriptor = openSync(file, "r");
  try {
    const bytes = Buffer.alloc(TOKEN_BYTES_MAX);
    let length = 0;
    while (length < bytes.length) {
      const taken = readSync(descriptor, bytes, length, bytes.length - length, null);
      if (taken === 0) break;
      length += taken;
    }
    return bytes.subarray(0, length);
  } finally {
    closeSync(descriptor);
  }
}
