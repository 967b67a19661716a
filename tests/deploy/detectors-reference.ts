import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DetectorRule } from "../../src/detection/rules/rule.ts";
import { type BuildModules, MODULES } from "../../src/modules.ts";
import { withSection } from "../support/generated-section.ts";
import { PROJECT } from "./documents.ts";

/**
 * The table of the built-in detector rules in docs/detectors.md, made from the rules' rows. Run as a program it writes the page;
 * a test compares.
 */
export const PAGE = join(PROJECT, "docs/detectors.md");

const WORDS_SHOWN_MAX = 8;
const EXAMPLE_CHARACTERS_MAX = 64;

const TITLES: Readonly<Record<keyof BuildModules["detectorRules"], string>> = {
  matchers: "Forms of their own",
  commands: "Command lines",
  contexts: "Recognized by the text around them",
  tokens: "Tokens with a vendor's prefix",
  sql: "Columns of SQL",
  names: "Names of fields and variables",
  personalData: "Personal data that a word announces",
};

/** The page with the tables in their place. */
export function withDetectors(page: string): string {
  return withSection(page, "docs:detectors", tables());
}

function tables(): string {
  return Object.entries(MODULES.detectorRules)
    .map(([name, rules]: [string, readonly DetectorRule[]]) => {
      const title = TITLES[name as keyof typeof TITLES];
      return [`### ${title}`, "", "| rule | level | words | example |", "|---|---|---|---|", ...rules.map(row)].join(
        "\n",
      );
    })
    .join("\n\n");
}

function row(rule: DetectorRule): string {
  const { id, anchors, level = "secrets", matches = [] } = rule;
  const shown = anchors.slice(0, WORDS_SHOWN_MAX).map(code);
  const more = anchors.length > shown.length ? ` and ${anchors.length - shown.length} more` : "";
  const example =
    "token" in rule
      ? tokenShape(rule.token)
      : matches
          .slice(0, 1)
          .map((text) => code(cut(text)))
          .join("");
  return `| \`${id}\` | \`${level}\` | ${shown.join(" ")}${more} | ${example} |`;
}

function tokenShape({ min, exact }: { readonly min: number; readonly exact?: true }): string {
  return exact === true ? `and exactly ${min} characters` : `and at least ${min} characters`;
}

function cut(text: string): string {
  return text.length > EXAMPLE_CHARACTERS_MAX ? `${text.slice(0, EXAMPLE_CHARACTERS_MAX)}…` : text;
}

/** Writes a text as code in a cell: line ends and tabs as escapes. */
function code(text: string): string {
  const escaped = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"').replaceAll("|", "\\|");
  const mark = escaped.includes("`") ? "``" : "`";
  return `${mark}${mark === "``" ? ` ${escaped} ` : escaped}${mark}`;
}

if (import.meta.main) writeFileSync(PAGE, withDetectors(readFileSync(PAGE, "utf8")));
