import { cutText, moreOf, quotedCommand, shownText, WHAT_CHARACTERS_MAX } from "../../core/headline.ts";
import { SHELL_ARGV } from "../../core/shell-script.ts";
import type { Headline, ShownPlan } from "../../core/types.ts";

/** A line end, as the view shows it. */
const LINE_END = "\\u{a}";
/** Lines at the start of a script that run nothing: empty ones, comments, and how the shell treats errors. */
const PREAMBLE = /^\s*(?:#.*|set(?: +[-+][Eeuox]+(?: +pipefail)?)+\s*)?$/;

/** Returns the start of a script, or the words of a command, whose program is named without its directory. */
export function commandHeadline({ argv }: ShownPlan): Headline {
  const [program = "", ...words] = Array.isArray(argv) ? argv.map(shownText) : [];
  const isScript = words.length === SHELL_ARGV.length + 1 && SHELL_ARGV.every((word, at) => words[at] === word);
  const all = isScript ? withoutPreamble(words.at(-1) ?? "") : quotedCommand([nameOf(program), ...words]);
  const { text, left } = cutText(all, WHAT_CHARACTERS_MAX);
  const lines = all.slice(all.length - left).split(LINE_END).length - 1;
  return { does: "Runs", what: text, ...(lines > 0 ? moreOf(lines, "line") : moreOf(left, "character")) };
}

/** A backslash before a line end does not continue a comment: the line after it runs, so it is shown. */
function withoutPreamble(script: string): string {
  const lines = script.split(LINE_END);
  const first = lines.findIndex((line) => !PREAMBLE.test(line));
  // What looks like a line end may be text after a backslash: it is kept.
  while (lines.at(-1)?.trim() === "" && lines.at(-2)?.endsWith("\\") === false) lines.pop();
  return lines.slice(Math.max(first, 0)).join(LINE_END).trim();
}

function nameOf(program: string): string {
  return program.slice(program.lastIndexOf("/") + 1);
}
