import { cutText, membersHeadline, shownText, WHAT_CHARACTERS_MAX } from "../../core/headline.ts";
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
  const { text, left } = cutText(shownText(path), WHAT_CHARACTERS_MAX);
  return {
    does: currentSha256 === null ? "Creates" : "Writes",
    what: `${text}${left > 0 ? "…" : ""}`,
    more: changeInWords(Array.isArray(diff) ? diff.map(shownText) : []),
  };
}

function changeInWords(diff: readonly string[]): string {
  if (diff.length < DIFF_HEAD_LINES) return "no difference is shown";
  if (diff.length > DIFF_LINES_MAX) return `more than ${DIFF_LINES_MAX} lines of difference`;
  const count = (mark: string): number => diff.slice(DIFF_HEAD_LINES).filter((line) => line.startsWith(mark)).length;
  const [added, removed] = [count("+"), count("-")];
  return added + removed === 0 ? "no difference" : `+${added} −${removed} lines`;
}
