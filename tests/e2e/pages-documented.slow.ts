import { describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { anchorsOf, blocksOf, PAGES, textOf } from "../support/documented.ts";
import { runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

test.each(PAGES)("the links of %s have targets", (page) => {
  const links = [...textOf(page).matchAll(/\]\((?!https?:)([^)\s]*)\)/g)].map(([, link = ""]) => link);
  const dead = links.filter((link) => {
    const [path = "", anchor] = link.split("#");
    const file = path === "" ? join(PROJECT, page) : resolve(PROJECT, dirname(page), path);
    if (!existsSync(file)) return true;
    return anchor !== undefined && !anchorsOf(file.slice(PROJECT.length + 1)).has(anchor);
  });
  expect(dead).toEqual([]);
});

/** `stc audit keys --new FILE` is the command `audit keys` with the option `--new`. */
interface Usage {
  readonly command: string;
  readonly options: readonly string[];
}

const GROUPS: readonly string[] = [
  "access",
  "approvals",
  "audit",
  "bundle",
  "flow",
  "grants",
  "import",
  "mode",
  "quotas",
];

function usagesOf(page: string): readonly Usage[] {
  const lines = blocksOf(page).flatMap(({ language, text }) => (language === "sh" ? text.split("\n") : []));
  const inline = [...textOf(page).matchAll(/`([^`\n]*\bstc [a-z][^`\n]*)`/g)].map(([, code = ""]) => code);
  return [...lines, ...inline].flatMap((line) => {
    const [, said] = /^(?:[A-Z_]+=\S+ |npx -y bun@[\d.]+ run --silent )*stc ([a-z].*)$/.exec(line) ?? [];
    if (said === undefined) return [];
    const [words = ""] = said.split(/ {2}|[|>#]/);
    const [first = "", second = ""] = words.split(" ");
    const isGrouped = GROUPS.includes(first) && /^[a-z-]+$/.test(second);
    return [
      {
        command: isGrouped ? `${first} ${second}` : first,
        options: [...words.matchAll(/ (--?[a-z][a-z-]*)/g)].map(([, option = ""]) => option),
      },
    ];
  });
}

describe("every command that a page shows accepts the shown options", () => {
  const usages = PAGES.filter((page) => page !== "CHANGELOG.md").flatMap(usagesOf);
  const commands = [...new Set(usages.map(({ command }) => command))].sort();

  test("there are some", () => {
    expect(commands.length).toBeGreaterThan(15);
  });

  test.concurrent.each(commands)("stc %s", async (command) => {
    const { code, out } = await runStc([...command.split(" "), "--help"]);
    expect({ code, usage: out.startsWith(`Usage: stc ${command} `) }).toEqual({ code: 0, usage: true });
    const known = new Set([...out.matchAll(/^ {2}(?:(-\w), )?(--[a-z-]+)/gm)].flat());
    const used = usages.filter((usage) => usage.command === command).flatMap(({ options }) => options);
    expect(used.filter((option) => !known.has(option))).toEqual([]);
  });
});
