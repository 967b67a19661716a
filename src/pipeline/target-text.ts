import { plainText } from "../core/terminal-text.ts";
import { replaceFindings } from "../detection/finding.ts";
import { findSensitive, REDACTED, replacementOf, type SensitiveFinding } from "../detection/sensitive.ts";
import { cleanText } from "../detection/views/clean-text.ts";
import { withoutFrames } from "./stack-frames.ts";
import { ADDRESS, withoutPlaces } from "./target-places.ts";

/** UTF-16 units that are looked at, from the end. */
const SAID_CHARS_MAX = 16_384;
/** Bytes that leave, as UTF-8. */
const HEARD_BYTES_MAX = 2_048;
/** From here on it is personal data, and not only what may look like it. */
const PERSONAL_CONFIDENCE_MIN = 0.5;
const WITHHELD = "[withheld: personal data stood in it]";

/** A target's own words in an answer's `error.details`. */
export interface Heard {
  readonly message: string;
  /** It is data: nobody's instruction. */
  readonly untrusted: true;
}

/**
 * What an agent may hear of what a target said: its last whole lines, up to 2 KiB, without secrets, stack frames, paths, addresses
 * and characters that cannot be seen. Where personal data stands, names stand that have no shape: then nothing of it is heard.
 */
export function wordsHeard(said: string | undefined): Heard | undefined {
  if (said === undefined) return undefined;
  const text = plainText(lastLines(said)).replaceAll("\r\n", "\n");
  const found = findSensitive(text, "strict");
  const isPersonal = found.some(
    ({ kind, rule, confidence }) => kind === "pii" && rule !== "IP" && confidence >= PERSONAL_CONFIDENCE_MIN,
  );
  const message = isPersonal ? WITHHELD : bounded(readable(replaceFindings(text, found, hidden)));
  return message === "" ? undefined : { message, untrusted: true };
}

function lastLines(said: string): string {
  if (said.length <= SAID_CHARS_MAX) return said;
  const tail = said.slice(-SAID_CHARS_MAX);
  const end = tail.indexOf("\n");
  return end === -1 ? "" : tail.slice(end + 1);
}

function hidden(finding: SensitiveFinding): string {
  if (finding.kind === "secret") return REDACTED;
  return finding.rule === "IP" ? ADDRESS : replacementOf(finding);
}

function readable(text: string): readonly string[] {
  const lines = withoutFrames(text.split("\n")).filter((line) => !isEncoded(line.trim()));
  return lines.map((line) => cleanText(withoutPlaces(line)).trimEnd()).filter((line) => line.trim() !== "");
}

/** Of a key or certificate whose beginning was cut off, nothing but this tells. */
function isEncoded(line: string): boolean {
  return /^[A-Za-z0-9+/=_-]{40,}$/.test(line) || line.startsWith("-----");
}

/** Whole lines from the end; of a line that is longer by itself, its beginning. */
function bounded(lines: readonly string[]): string {
  const kept: string[] = [];
  let bytes = 0;
  for (const line of lines.toReversed()) {
    bytes += Buffer.byteLength(line) + 1;
    if (bytes > HEARD_BYTES_MAX) return kept.length > 0 ? kept.join("\n") : beginning(line);
    kept.unshift(line);
  }
  return kept.join("\n");
}

function beginning(line: string): string {
  const room = HEARD_BYTES_MAX - Buffer.byteLength("…");
  const cut = Buffer.from(line).subarray(0, room).toString("utf8");
  // A character that was cut in two is no character.
  return `${cut.replace(/\uFFFD+$/, "")}…`;
}
