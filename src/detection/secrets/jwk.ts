import type { Finding } from "../finding.ts";
import { BASE64URL, BLANK, isOneOf, LINE_END, runEnd } from "../views/characters.ts";

/** Members of a JSON Web Key that only its owner may know (RFC 7518, 6.2.2, 6.3.2 and 6.4.1). */
const PRIVATE_MEMBERS: ReadonlySet<string> = new Set(["d", "p", "q", "dp", "dq", "qi", "k"]);

/** A key stands in so many characters around its type. UTF-16 units. */
const KEY_CHARS_MAX = 4_096;
const VALUE_CHARS_MIN = 16;

/** Whether a member of this name holds a part of a private key when its object is a JSON Web Key. */
export function isPrivateMember(name: string): boolean {
  return PRIVATE_MEMBERS.has(name);
}

export function isJwk(fields: { readonly [key: string]: unknown }): boolean {
  return Object.hasOwn(fields, "kty") && typeof fields["kty"] === "string";
}

/** The private members of the key whose type stands at `start`, from the first to the last. */
export function matchJwk(text: string, start: number, end: number): Finding | number {
  const before = text.slice(Math.max(0, start - KEY_CHARS_MAX), start);
  const opening = start - before.length + before.lastIndexOf("{") + 1;
  const after = text.slice(end, end + KEY_CHARS_MAX);
  const closing = end + (after.includes("}") ? after.indexOf("}") : after.length);
  let first = -1;
  let last = -1;
  for (let at = opening; at < closing; at += 1) {
    const value = memberValue(text, at);
    if (value === -1) continue;
    const to = runEnd(text, value, BASE64URL, closing);
    if (to - value < VALUE_CHARS_MIN) continue;
    if (first === -1) first = value;
    last = to;
    at = to;
  }
  return first === -1 ? closing : { rule: "jwk-private-key", start: first, end: last };
}

/** Where the value of the private member begins whose name's quotation mark stands at `at`; -1 when none does. */
function memberValue(text: string, at: number): number {
  if (!isOneOf(text, at, QUOTES)) return -1;
  const close = isOneOf(text, at + 2, QUOTES) ? at + 2 : at + 3;
  if (!isOneOf(text, close, QUOTES) || !PRIVATE_MEMBERS.has(text.slice(at + 1, close))) return -1;
  const colon = runEnd(text, close + 1, BLANK | LINE_END, close + 32);
  if (!isOneOf(text, colon, ":")) return -1;
  const value = runEnd(text, colon + 1, BLANK | LINE_END, colon + 32);
  return isOneOf(text, value, QUOTES) ? value + 1 : -1;
}

const QUOTES = "\"'";
