import type { Work } from "../../bounds.ts";
import type { Finding } from "../../finding.ts";
import { BLANK, endBefore, isA, isOneOf, LINE_END, QUOTE, runEnd } from "../../views/characters.ts";
import { isSecretValue, JUDGED_CHARS_MAX } from "../values.ts";
import type { SecretShape } from "./shape.ts";

/** Around what declares a value a secret. UTF-16 units. */
const OBJECT_CHARS_MAX = 512;
const MANIFEST_CHARS_MAX = 4_096;
const MANIFEST_STEPS = 2_000;
const STEPS_PER_CHAR = 6;
const PARTS_MAX = 3;
const VALUES_MAX = 256;

/** `"value": "…"`, `default = "…"`: the text between the quotation marks. */
const VALUE = /(?:^|[\s,{"])(?:value|default)"?\s{0,32}[:=]\s{0,8}"((?:[^"\\\r\n]|\\.){1,512})"/;

/** `"sensitive": true`: the string that is the value or the default of the same object. */
function matchSensitive(text: string, start: number, end: number): Finding | undefined {
  const before = text.slice(Math.max(0, start - OBJECT_CHARS_MAX), start);
  const opening = Math.max(before.lastIndexOf("{"), before.lastIndexOf("}")) + 1;
  if (opening === 0 || before[opening - 1] !== "{") return undefined;
  const after = text.slice(end, end + OBJECT_CHARS_MAX);
  const closing = /[{}]/.exec(after)?.index ?? after.length;
  const from = start - before.length + opening;
  const found = VALUE.exec(text.slice(from, end + closing));
  const value = found?.[1] ?? "";
  if (found === null || !isSecretValue(value.slice(0, JUDGED_CHARS_MAX), "password", "quoted")) return undefined;
  const at = from + found.index + found[0].length - value.length - 1;
  return { rule: "sensitive-value", start: at, end: at + value.length };
}

/** `kind: Secret`: all that stands below `data` and `stringData` of the same document, before it or behind it. */
function matchManifest(
  text: string,
  start: number,
  end: number,
  { work }: { readonly work: Work },
): readonly Finding[] | undefined {
  if (isA(text, end, KIND_GOES_ON) || text.slice(end - SECRET.length, end) !== SECRET) return undefined;
  work.spend(MANIFEST_STEPS);
  const before = text.slice(Math.max(0, start - MANIFEST_CHARS_MAX), start);
  const after = text.slice(end, end + MANIFEST_CHARS_MAX);
  const from = before.length - Math.min(before.length, distance(before));
  const to = BOUNDARY.exec(after)?.index ?? after.length;
  work.spend((before.length - from + to) * STEPS_PER_CHAR);
  const found = [...valuesIn(text, start - before.length + from, start), ...valuesIn(text, end, end + to)];
  return found.length === 0 ? undefined : found;
}

const SECRET = "Secret";
const KIND_GOES_ON = 0xffff & ~(BLANK | LINE_END | QUOTE);
/** Another document, or another object's kind: what follows belongs to that. */
const BOUNDARY = /apiVersion|^---|kind"?:/m;

/** From a manifest's end back to where it begins: at its version, which stands before its data, or behind another one's kind. */
function distance(before: string): number {
  const kind = before.lastIndexOf("kind");
  // Mostly the nearest kind is another's: then no more than what stands behind it is looked through.
  const from = KINDS.some((word) => before.startsWith(word, kind)) ? kind : 0;
  const own = before.slice(from);
  const found = Math.max(...BOUNDARIES.map((word) => own.lastIndexOf(word)));
  const at = found === -1 ? -1 : from + found;
  return at === -1 ? before.length : before.length - at;
}

const KINDS = ["kind:", 'kind":'];
const BOUNDARIES = ["apiVersion", "\n---", ...KINDS];

/** `data:`, `"stringData": `. */
const DATA = /(?:^|[\s,{"])(?:stringData|data)"?:[ \t]*/g;

function valuesIn(text: string, from: number, to: number): readonly Finding[] {
  const part = text.slice(from, to);
  return [...part.matchAll(DATA)].slice(0, PARTS_MAX).flatMap((data) => {
    const at = from + data.index + data[0].length;
    return isOneOf(text, at, "{") ? membersOf(text, at, to) : linesOf(text, at, to);
  });
}

/** `"name": "…"`: the text between the quotation marks. */
const MEMBER = /"[^"]{1,253}"\s{0,32}:\s{0,32}"((?:[^"\\]|\\.){1,4096}?)"/g;

function membersOf(text: string, at: number, to: number): readonly Finding[] {
  const inside = text.slice(at, to);
  const close = inside.indexOf("}");
  return [...inside.slice(0, close === -1 ? undefined : close).matchAll(MEMBER)]
    .slice(0, VALUES_MAX)
    .flatMap((member) => {
      const value = member[1] ?? "";
      const start = at + member.index + member[0].length - value.length - 1;
      return declared(text, start, start + value.length);
    });
}

/** `  name: value`: how far in it stands, and the value. */
const LINE = /^([ \t]+)[\w.-]{1,253}:[ \t]+(\S.*)$/;

/** Lines that stand farther in than the first that does not. */
function linesOf(text: string, at: number, to: number): readonly Finding[] {
  const found: Finding[] = [];
  let indent = -1;
  let from = runEnd(text, at, LINE_END, at + 2);
  while (from < to && found.length < VALUES_MAX && from > at) {
    const [line = ""] = text.slice(from, to).split(/[\r\n]/, 1);
    const own = runEnd(text, from, BLANK, from + line.length) - from;
    if (own === 0 || own < indent) break;
    const [, , value = ""] = LINE.exec(line) ?? [];
    if (indent === -1) indent = own;
    const isDeeper = own > indent;
    const start = isDeeper ? from + own : from + line.length - value.length;
    if (isDeeper || !"|>".includes(value[0] ?? "|")) found.push(...declared(text, start, from + line.length));
    from = runEnd(text, from + line.length, LINE_END, from + line.length + 2);
  }
  return found;
}

function declared(text: string, start: number, end: number): readonly Finding[] {
  const from = isA(text, start, QUOTE) ? start + 1 : start;
  const to = isA(text, end - 1, QUOTE) ? end - 1 : end;
  const value = text.slice(from, Math.min(to, from + JUDGED_CHARS_MAX));
  return to > from && isSecretValue(value, "password", "quoted") ? [{ rule: "secret-data", start: from, end: to }] : [];
}

const KEPT = /^["',}\s]{0,8}(?:["']?Value["']?)?\s{0,8}[:=,]?\s{0,8}(["'])([^"'\r\n]{3,4096})\1/;
const GOSSIP_KEY = /^(?:[A-Za-z\d+/]{22}==|[A-Za-z\d+/]{43}=)$/;

/** `"Type": "SecureString", "Value": "…"`; `"encrypt": "…"` of what talks among itself: a key of 16 or 32 bytes. */
function matchKept(text: string, start: number, end: number): Finding | undefined {
  const found = KEPT.exec(text.slice(end, end + MANIFEST_CHARS_MAX));
  const value = found?.[2] ?? "";
  const isGossip = text.slice(start, start + 2).includes("e");
  if (found === null || (isGossip ? !GOSSIP_KEY.test(value) : !found[0].includes("Value"))) return undefined;
  const at = end + found[0].length - value.length - 1;
  const isSecret = isSecretValue(value.slice(0, JUDGED_CHARS_MAX), "password", "quoted");
  return isSecret ? { rule: "sensitive-value", start: at, end: at + value.length } : undefined;
}

const SECRET_ID = /^["']?\s{0,32}[:=|]?\s{0,16}["']?([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?![\w-])/i;
const SECRET_ID_CHARS_MAX = 112;

/** `SecretID: …`: of what hands out access by two ids the one that is kept. */
function matchSecretId(text: string, _start: number, end: number): Finding | undefined {
  const [whole = "", value = ""] = SECRET_ID.exec(text.slice(end, end + SECRET_ID_CHARS_MAX)) ?? [];
  const to = end + whole.length;
  return value === "" ? undefined : { rule: "secret-id", start: to - value.length, end: to };
}

/** `the following password to proceed`, at a line's end. */
const ANNOUNCEMENT = /\b(?:password|passphrase|passcode)\b (?![^\r\n]*[:=.])[^\r\n]{1,80}$/i;
const LINE_CHARS_MAX = 128;
const WORD_CHARS_MIN = 12;
const ONE_PIECE = /^[a-z\d]{16,128}$/i;

/** A line that announces a password and ends in a colon, and one below that holds nothing but one. */
function matchBelow(text: string, start: number, end: number): Finding | undefined {
  const from = runEnd(text, end, BLANK | LINE_END, end + GAP_CHARS_MAX);
  const to = endBefore(text, from, BLANK | LINE_END | QUOTE, from + LINE_CHARS_MAX);
  if (to - from < WORD_CHARS_MIN || (to < text.length && !isA(text, to, LINE_END | BLANK))) return undefined;
  const word = text.slice(from, to);
  if (!ANNOUNCEMENT.test(text.slice(Math.max(0, start - LINE_CHARS_MAX), start))) return undefined;
  const isSecret = isSecretValue(word, "password", ONE_PIECE.test(word) ? "told" : "listed");
  return isSecret ? { rule: "password-below", start: from, end: to } : undefined;
}

const GAP_CHARS_MAX = 24;

export const DECLARED_SECRETS: readonly SecretShape[] = [
  { words: [":\n\n", ":\r\n\r\n", ":\n  "], steps: 150, match: matchBelow },
  {
    words: ['"sensitive": true', '"sensitive":true', "sensitive = true", "sensitive   = true"],
    steps: 2_000,
    match: matchSensitive,
  },
  { words: ['"securestring"', '"encrypt"', "encrypt = "], steps: 1_200, match: matchKept },
  { words: ["secret_id", "secretid", "secret id", "secret-id"], steps: 300, match: matchSecretId },
  { words: ["kind: secret", '"kind": "secret', '"kind":"secret'], steps: 40, match: matchManifest },
];
