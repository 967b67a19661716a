import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Command, loadCommands, usageOf } from "../../src/cli/command.ts";
import { MODULES } from "../../src/runtime/modules.ts";
import { PROJECT } from "../support/world.ts";

/** The README's table of commands, made from their declarations. Run as a program, this file writes it; a test compares. */
export const PAGE = join(PROJECT, "README.md");
const BEGIN = "<!-- made by `bun run docs:commands`: do not write here -->";
const END = "<!-- end -->";

export function commandTable(commands: readonly Command[]): string {
  const rows = commands
    .filter(({ run }) => run !== undefined)
    .map(({ name, summary, arguments: of }) => {
      const words = Object.entries(of).map(([key, one]) => usageOf(key, one));
      return `| \`${[name, ...words].join(" ")}\` | ${summary} |`;
    });
  return ["| command | does |", "|---|---|", ...rows].join("\n");
}

/** Returns the page with this table. */
export function withTable(page: string, commands: readonly Command[]): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error("the page has no place for the table");
  return `${page.slice(0, from)}${BEGIN}\n\n${commandTable(commands)}\n\n${page.slice(to)}`;
}

if (import.meta.main) {
  writeFileSync(PAGE, withTable(readFileSync(PAGE, "utf8"), await loadCommands(MODULES.commands)));
}
