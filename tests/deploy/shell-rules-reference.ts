import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import type { ShellRule } from "../../src/shell-rules/shell-rules.ts";
import { withSection } from "../support/generated-section.ts";
import { PROJECT } from "./documents.ts";

/** The tables of docs/shell-rules.md, made from the rules. Run as a program it writes the page; a test compares. */
export const PAGE = join(PROJECT, "docs/shell-rules.md");
/** Examples of each kind that a row shows. */
const EXAMPLES_MAX = 3;

export function withShellRules(page: string, tables: BuildModules["shellRules"] = MODULES.shellRules): string {
  const sections = Object.entries(tables).map(([title, rules]) => `### ${title}\n\n${tableOf(rules)}`);
  return withSection(page, "docs:shell-rules", sections.join("\n\n"));
}

function tableOf(rules: readonly ShellRule[]): string {
  const rows = rules.map(({ id, note, verdict, risk, rememberable, matches, misses }) =>
    [
      `\`${id}\``,
      note,
      `${verdict}, ${risk}${rememberable || verdict === "deny" ? "" : ", not remembered"}`,
      examplesOf(matches),
      examplesOf(misses),
    ].join(" | "),
  );
  return ["| rule | a matching script | verdict | matches | does not match |", "|---|---|---|---|---|"]
    .concat(rows.map((row) => `| ${row} |`))
    .join("\n");
}

function examplesOf(scripts: readonly string[]): string {
  return scripts
    .filter((script) => !/[`\n]/.test(script))
    .slice(0, EXAMPLES_MAX)
    .map((script) => `\`${script.replaceAll("|", "\\|")}\``)
    .join(", ");
}

if (import.meta.main) writeFileSync(PAGE, withShellRules(readFileSync(PAGE, "utf8")));
