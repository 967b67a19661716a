import { cutText, membersHeadline, quotedText, shownText, WHAT_CHARACTERS_MAX } from "../../core/headline.ts";
import type { Headline, ShownPlan } from "../../core/types.ts";
import { DIFF_HEAD_LINES, DIFF_LINES_MAX } from "./write-plan.ts";

const READ_WORDS: ReadonlyMap<unknown, string> = new Map([
  ["list", "Lists"],
  ["read", "Reads"],
  ["search", "Searches"],
]);

/** Returns the file that a call changes and by how many lines, or what it reads. */
export function fsHeadline({ operation, order = null, path, currentSha256, diff }: ShownPlan): Headline {
  const reads = READ_WORDS.get(operation);
  if (reads !== undefined) return { does: reads, ...membersHeadline(order) };
  return {
    does: currentSha256 === null ? "Creates" : "Writes",
    what: pathInLine(shownText(path)),
    more: changeInWords(Array.isArray(diff) ? diff.map(shownText) : []),
  };
}

const PLAIN_PATH = /^[\w@%+=:,./~^-]+$/;
/** Number of characters shown of the end of a long path, where the file's name is. The start is shown as well. */
const END_CHARACTERS = 100;

/** The rest of a character or of a `\\u{…}` escape that was cut. */
const CUT_START = /^(?:[\udc00-\udfff]|u?\{?[0-9a-f]{1,6}\}|u\{)/;

/** Returns a path in quotes where it could look like what follows it. */
function pathInLine(path: string): string {
  const shown = PLAIN_PATH.test(path) ? path : quotedText(path);
  if (shown.length <= WHAT_CHARACTERS_MAX) return shown;
  const { text } = cutText(shown, WHAT_CHARACTERS_MAX - END_CHARACTERS - 1);
  return `${text}…${shown.slice(-END_CHARACTERS).replace(CUT_START, "")}`;
}

function changeInWords(diff: readonly string[]): string {
  if (diff.length < DIFF_HEAD_LINES) return "no difference is shown";
  if (diff.length > DIFF_LINES_MAX) return `more than ${DIFF_LINES_MAX} lines of difference`;
  const count = (mark: string): number => diff.slice(DIFF_HEAD_LINES).filter((line) => line.startsWith(mark)).length;
  const [added, removed] = [count("+"), count("-")];
  return added + removed === 0 ? "no difference" : `+${added} −${removed} lines`;
}
