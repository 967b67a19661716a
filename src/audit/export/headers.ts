import { readFileSync, statSync } from "node:fs";

const HEADERS_MAX = 32;
const NAME = /^[A-Za-z0-9-]{1,64}$/;
const VALUE = /^[\x20-\x7e]{1,8192}$/;
/** Headers that the service sets itself. */
const RESERVED = new Set(["content-type", "content-length", "host", "connection", "transfer-encoding"]);

/**
 * Reads headers from the text of a file, one `Name: value` per line. Ignores empty lines and lines that start with `#`.
 * Reports errors by line number only, because values are secrets.
 */
export function readHeaders(
  text: string,
): { readonly ok: Readonly<Record<string, string>> } | { readonly fault: string } {
  const headers: Record<string, string> = {};
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) continue;
    const colon = line.indexOf(":");
    const [name, value] = [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
    if (colon === -1 || !NAME.test(name) || !VALUE.test(value))
      return { fault: `line ${index + 1} is not Name: value` };
    if (RESERVED.has(name)) return { fault: `line ${index + 1}: ${name} is not to be set` };
    if (Object.hasOwn(headers, name)) return { fault: `line ${index + 1}: ${name} stands twice` };
    headers[name] = value;
    if (Object.keys(headers).length > HEADERS_MAX) return { fault: `more than ${HEADERS_MAX} headers` };
  }
  return { ok: headers };
}

export function readHeadersFile(path: string): ReturnType<typeof readHeaders> {
  try {
    // Reading a pipe would block the whole process.
    if (statSync(path).isFIFO()) return { fault: "is a pipe" };
    return readHeaders(readFileSync(path, "utf8"));
  } catch {
    return { fault: "cannot be read" };
  }
}
