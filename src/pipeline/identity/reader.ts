import { unauthenticated } from "./refusal.ts";

/** Maximum length of a compact token in characters. */
export const TOKEN_LENGTH_MAX = 8192;

const SCHEME = "bearer ";
const USUAL_SCHEME = "Bearer ";
const COMPACT_JWS = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/;
/** `crit` and `b64` change what is verified; `enc` means a JWE. */
const REFUSED_HEADERS = ["crit", "b64", "enc"];
const NESTED_CONTENT_TYPES = ["jwt", "application/jwt"];

/** A parsed token. Nothing in it is trusted before its signature is checked. */
export interface ReadToken {
  readonly alg: string;
  readonly kid: string | undefined;
  readonly typ: string | undefined;
  /** A Map, so that a claim named like a member of Object.prototype is an ordinary name. */
  readonly claims: ReadonlyMap<string, unknown>;
}

/** Returns the token of an `Authorization` header: the scheme in upper or lower case, one space, the token. */
export function bearerToken(authorization: string | undefined): string {
  if (typeof authorization !== "string" || authorization === "")
    throw unauthenticated("missing", "no Authorization header");
  if (authorization.length > TOKEN_LENGTH_MAX + SCHEME.length) throw tooLong();
  if (!authorization.startsWith(USUAL_SCHEME) && authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) {
    throw unauthenticated("malformed", "the Authorization header has another scheme than Bearer");
  }
  return authorization.slice(SCHEME.length);
}

export function assertTokenLength(token: string): void {
  if (typeof token !== "string" || token === "") throw unauthenticated("missing", "the token is empty");
  if (token.length > TOKEN_LENGTH_MAX) throw tooLong();
}

function tooLong() {
  return unauthenticated("malformed", `the token is longer than ${TOKEN_LENGTH_MAX} characters`);
}

/** Reads a compact JWS: strict base64url, strict UTF-8, JSON objects without duplicate keys, no forbidden header. */
export function readToken(token: string): ReadToken {
  const parts = COMPACT_JWS.exec(token);
  if (parts === null) throw unauthenticated("malformed", "not a compact JWS of three base64url parts");
  const [, encodedHeader = "", encodedPayload = "", signature = ""] = parts;
  if (decodeBase64url(signature) === undefined)
    throw unauthenticated("malformed", "signature: not canonical base64url");
  const header = readObject("header", encodedHeader);
  const refused = REFUSED_HEADERS.find((name) => header.has(name));
  if (refused !== undefined) throw unauthenticated("invalid", `header: ${refused} is refused`);
  const contentType = textMember(header, "cty");
  if (contentType !== undefined && NESTED_CONTENT_TYPES.includes(contentType.toLowerCase())) {
    throw unauthenticated("invalid", "header: nested tokens are refused");
  }
  const alg = textMember(header, "alg");
  if (alg === undefined) throw unauthenticated("invalid", "header: alg is missing");
  const claims = readObject("payload", encodedPayload);
  return { alg, kid: textMember(header, "kid"), typ: textMember(header, "typ"), claims };
}

function textMember(header: ReadonlyMap<string, unknown>, name: string): string | undefined {
  const value = header.get(name);
  if (!header.has(name)) return undefined;
  if (typeof value !== "string") throw unauthenticated("invalid", `header: ${name} is not a string`);
  return value;
}

/**
 * Returns the bytes; `undefined` when the text is not their canonical spelling: otherwise one token would have many spellings.
 */
function decodeBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64url");
  return bytes.toString("base64url") === text ? bytes : undefined;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function readObject(part: string, encoded: string): ReadonlyMap<string, unknown> {
  const bytes = decodeBase64url(encoded);
  if (bytes === undefined) throw unauthenticated("malformed", `${part}: not canonical base64url`);
  const { text, value } = readJson(part, bytes);
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw unauthenticated("malformed", `${part}: not a JSON object`);
  }
  if (hasDuplicateKeys(text, value)) throw unauthenticated("malformed", `${part}: duplicate keys`);
  return new Map(Object.entries(value));
}

function readJson(part: string, bytes: Uint8Array): { text: string; value: unknown } {
  try {
    const text = utf8.decode(bytes);
    return { text, value: JSON.parse(text) };
  } catch {
    throw unauthenticated("malformed", `${part}: not JSON in UTF-8`);
  }
}

/** Returns whether the JSON text has duplicate keys. `value` is what JSON.parse returned for `text`. */
function hasDuplicateKeys(text: string, value: unknown): boolean {
  return keysWritten(text) !== keysKept(value);
}

/** Counts the members in the text of a valid JSON value: its colons outside strings. */
function keysWritten(text: string): number {
  let count = 0;
  let inString = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (inString && character === "\\") at += 1;
    else if (character === '"') inString = !inString;
    else if (character === ":" && !inString) count += 1;
  }
  return count;
}

/** Counts the members in the parsed value: fewer than written when JSON.parse dropped an earlier duplicate. */
function keysKept(value: unknown): number {
  let count = 0;
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next !== "object" || next === null) continue;
    const members = Object.values(next);
    if (!Array.isArray(next)) count += members.length;
    for (const member of members) open.push(member);
  }
  return count;
}
