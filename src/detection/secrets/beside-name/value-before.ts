import { BLANK, isOneOf, QUOTE, runStart } from "../../views/characters.ts";
import type { Name, Stated } from "./bare-word.ts";

/** Of a record before its name. UTF-16 units. */
const RECORD_CHARS_MAX = 640;
const KEY_CHARS_MAX = 24;
const GAP_CHARS_MAX = 10;

/** What stands right before the name. */
const KEY = /\b(?:name|key)["']?\s{0,8}[:=]\s{0,8}["']?$/i;
/** `"value": "…", "name": "`. */
const MEMBER =
  /["']?\bvalue["']?\s{0,8}[:=]\s{0,8}(["'])((?:[^"'\\\r\n{}]|\\.){3,512})\1\s{0,8},\s{0,32}["']?(?:name|key)["']?\s{0,8}[:=]\s{0,8}["']?$/i;
/** `value: …`, and `name: ` on the next line. */
const LINE =
  /(?:^|[\r\n])[ \t]{0,32}(?:- )?value:[ \t]{1,4}(["']?)([^\s"'#]{3,256})\1[ \t]{0,8}\r?\n[ \t]{1,32}(?:name|key):[ \t]{1,4}["']?$/;

/** `{"value": "…", "name": "DB_PASSWORD"}`: a value that stands before its name. */
export function valueBefore(text: string, { from }: Name): Stated | undefined {
  if (!isOneOf(text, runStart(text, from, BLANK | QUOTE, from - GAP_CHARS_MAX) - 1, ":=")) return undefined;
  if (!KEY.test(text.slice(Math.max(0, from - KEY_CHARS_MAX), from))) return undefined;
  const before = text.slice(Math.max(0, from - RECORD_CHARS_MAX), from);
  const found = MEMBER.exec(before) ?? LINE.exec(before);
  const value = found?.[2];
  if (found === null || value === undefined) return undefined;
  const start = from - before.length + found.index + found[0].indexOf(value, "value".length);
  return { start, end: start + value.length, style: found[1] === "" ? "line" : "quoted" };
}
