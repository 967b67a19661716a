import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ShellRule } from "../../src/approvals/risk/rule.ts";
import { MODULES, type Modules } from "../../src/runtime/modules.ts";
import { PROJECT } from "./documents.ts";

/** The tables of docs/shell-rules.md, made from the rules. Run as a program it writes the page; a test compares. */
export const PAGE = join(PROJECT, "docs/shell-rules.md");
const BEGIN = "<!-- made by `bun run docs:shell-rules`: do not write here -->";
const END = "<!-- end -->";
/** Examples of each kind that a row shows. */
const EXAMPLES_MAX = 3;

export function withShellRules(page: string, tables: Modules["shellRules"] = MODULES.shellRules): string {
  const from = page.indexOf(BEGIN);
  const to = page.indexOf(END);
  if (from < 0 || to < from) throw new Error("the page has no place for the tables");
  const sections = Object.entries(tables).map(([title, rules]) => `### ${title}\n\n${tableOf(rules)}`);
  return `${page.slice(0, from)}${BEGIN}\n\n${sections.join("\n\n")}\n\n${page.slice(to)}`;
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
