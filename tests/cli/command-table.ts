import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Command, loadCommands, usageOf } from "../../src/cli/command.ts";
import { COMMANDS } from "../../src/cli/commands.ts";
import { withSection } from "../support/generated-section.ts";
import { PROJECT } from "../support/world.ts";

/** The table of commands in docs/commands.md, made from their declarations. Run as a program, this file writes it; a test compares. */
export const PAGE = join(PROJECT, "docs/commands.md");

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
  return withSection(page, "docs:commands", commandTable(commands));
}

if (import.meta.main) {
  writeFileSync(PAGE, withTable(readFileSync(PAGE, "utf8"), await loadCommands(COMMANDS)));
}
