import type { HereDocBody, Word } from "unbash";
import { readScript } from "./script.ts";
import { runsCode } from "./tests.ts";
import { fieldsOf, UNKNOWN } from "./words.ts";

/** Returns whether an argument or a here-document may be a script. */
export type MayRun = (text: Word | HereDocBody) => boolean;

/**
 * Recognizes the texts that programs of a script run as scripts, alone or joined with other words. When the script does not show
 * everything that it runs, as with a pipe to a shell or `python -c`, any text may be one.
 */
export function textsRunBy(script: string): MayRun {
  const { calls, scripts, unclear } = readScript(script, { cwd: undefined, home: undefined }, new Set());
  if (unclear.size > 0 || calls.some((call) => call.program !== "eval" && runsCode(call))) return () => true;
  const ran = [...scripts].filter((one) => one !== "");
  return (node) => {
    const texts = node.type === "Word" ? fieldsOf(node, () => UNKNOWN) : [node.text];
    return texts.some((text) => ran.some((one) => isJoinedIn(one, text) || isPartOf(text, one)));
  };
}

/** Returns whether a script contains a text as whole words. Of a text with expansions, only the parts between them are known. */
function isJoinedIn(script: string, text: string): boolean {
  if (text.includes(UNKNOWN)) return text.split(UNKNOWN).every((part) => script.includes(part));
  return ` ${script} `.replaceAll("\n", " ").includes(` ${text.replaceAll("\n", " ")} `);
}

/** Returns whether a script is all of a text or a part, such as the value of an option: `--command=script`. */
function isPartOf(text: string, script: string): boolean {
  const at = text.indexOf(script);
  return at !== -1 && !/\w/.test(text[at - 1] ?? "") && !/\w/.test(text[at + script.length] ?? "");
}
