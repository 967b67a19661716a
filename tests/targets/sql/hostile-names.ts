import { expect } from "bun:test";
import fc from "fast-check";
import { parse } from "yaml";
import { madeDraft } from "../../../src/cli/import/draft.ts";
import { loadedManifest } from "../../../src/cli/import/manifest-text.ts";
import type { ToolDraft } from "../../../src/core/target-kind.ts";
import type { Databases } from "../../../src/targets/sql/databases.ts";
import { draftsOf } from "./drafts.ts";
import { ask, faultsOf, loaded } from "./support.ts";

/** Names that mean something in SQL, YAML, JSON Schema, a policy or a terminal. */
export const NAMES: readonly string[] = [
  ...['"', '""; drop table victims; --', "'", "''", "\\", "$1", "$1::text", "$$", "{x}", "{id}", "{ x: y }", "{", "}"],
  ...[
    "a\nb",
    "\n- x: y",
    "\r\n",
    "\t",
    "a: b",
    "# comment",
    "- list",
    "| block",
    "&anchor",
    "*alias",
    "!tag",
    "%",
    "@",
    "`",
  ],
  ...[
    "null",
    "true",
    "~",
    "1",
    "1e5",
    "select",
    "user",
    "__proto__",
    "constructor",
    "toString",
    "rows",
    "after",
    "from",
  ],
  ...[
    "\u001b[2J\u001b[31m",
    "\u202e",
    "\u200b",
    "\u0007",
    "\ufffd",
    "\u{1f600}",
    "аdmin",
    "ｓｅｌｅｃｔ",
    "é",
    "e\u0301",
    "ORDERS",
    "orders",
  ],
  ...[
    "a.b",
    "a.*",
    "rows[].id",
    "*",
    "--",
    "/*",
    "*/",
    "/*! */",
    "``",
    "` = 1 or 1=1; --",
    "]",
    "union",
    "returning",
    ";",
    ")",
    "(",
    "?",
    ":x",
    "::",
    "<<",
    "---",
    "...",
    "x".repeat(63),
  ],
];

/** Returns any name that `fitting` makes one for the engine; an empty one is not used. */
export function anyName(fitting: (text: string) => string): fc.Arbitrary<string> {
  return fc
    .oneof(
      fc.string({ unit: "binary", minLength: 1, maxLength: 20 }),
      fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 3 }).map((parts) => parts.join("")),
    )
    .map((text) => fitting(text.replaceAll("\0", "0").toWellFormed()))
    .filter((name) => name.length > 0 && !name.includes("{{"));
}

/** Returns the drafts of a table. `path`: with its schema, where there are schemas. */
export async function draftsOfTable(databases: Databases, path: string): Promise<readonly ToolDraft[]> {
  return (await draftsOf(databases)).filter(({ partOf = [] }) => partOf.at(-1) === path);
}

interface Hostile {
  /** All names together. */
  readonly names: string;
  /** Another value of the second row, besides `plain`. */
  readonly second: string;
  /** Returns the values of the rows 1 and 2, sorted. */
  readonly values: () => Promise<readonly unknown[]>;
}

/**
 * Imports the drafts of a table with the rows (1, plain) and (2, plain), and checks that they read and change exactly row 2. Returns
 * the number of drafts of which a manifest was made.
 */
export async function holdExactly(
  databases: Databases,
  drafts: readonly ToolDraft[],
  { names, second, values }: Hostile,
): Promise<number> {
  let imported = 0;
  for (const draft of drafts) {
    const made = madeDraft(
      { name: "drafted", system: "shop", command: "stc import sql" },
      { ...draft, accepted: true },
    );
    if ("problem" in made) {
      // No manifest holds such characters, so no file is written.
      expect(made.problem).toContain("holds control or bidirectional characters");
      expect(names).toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
      continue;
    }
    imported += 1;
    // Characters that a terminal or an editor would act on are escaped.
    expect(made.text.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
    const manifest = parse(made.text);
    expect(Object.keys(manifest).sort()).toEqual(KEYS);
    expect(manifest.target).toEqual({ system: "shop", ...draft.target });
    expect(manifest.description).not.toMatch(/[\u0000-\u001f\u007f-\u009f]/);
    const tool = loadedManifest(made.text);
    expect(await faultsOf(databases, tool)).toEqual([]);
    const binding = await loaded(databases, tool);
    const [argument = ""] = manifest.input.required;
    if (draft.classification === "read") {
      expect(Object.values((await ask(binding, { [argument]: "2" })) as object).sort()).toEqual(["2", "plain"]);
    } else {
      const other = Object.keys(manifest.input.properties).find((name) => name !== argument) ?? "";
      expect(manifest.input.properties[other].enum?.[1] ?? second).toBe(second);
      expect(await ask(binding, { [argument]: "2", [other]: second })).toMatchObject({ changed: 1 });
      expect(await values()).toEqual(["plain", second].sort());
    }
  }
  return imported;
}

const KEYS = [
  "classification",
  "description",
  "input",
  "name",
  "output",
  "outputPolicy",
  "permissions",
  "scan",
  "target",
];
