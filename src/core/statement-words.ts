import type { Statement } from "./api/explain.ts";
import { approvingOf, missingPermissionsSentence, reasonMeanings, ruleMeanings } from "./decision-words.ts";
import { refusalSentence } from "./refusal-words.ts";

/** Points of an explanation whose reasons are sentences already. */
const IN_WORDS: ReadonlySet<string> = new Set(["schema", "session", "grants", "quotas"]);

/** Returns what a statement of an explanation says, in sentences for operators. The names in them come from others. */
export function statementSentences({ point, verdict, reasons, code }: Statement): readonly string[] {
  if (reasons.length === 0) return code === undefined ? [] : [refusalSentence(code) ?? code];
  if (verdict === "unknown" || IN_WORDS.has(point)) return reasons;
  if (point === "approval" && verdict === "ask") return ruleMeanings(reasons).map(({ text }) => text);
  if (verdict === "allow") return reasons.map((reason) => approvingOf(reason)?.text ?? reason);
  if (point === "permissions") return [missingPermissionsSentence({ missingPermissions: reasons }) ?? ""];
  return reasons.flatMap((reason) => reasonMeanings({ point, verdict, reason }).map(({ text }) => text));
}
