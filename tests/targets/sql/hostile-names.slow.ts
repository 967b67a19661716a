import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parse } from "yaml";
import { madeDraft } from "../../../src/cli/import/draft.ts";
import { loadedManifest } from "../../../src/cli/import/manifest-text.ts";
import type { ToolDraft } from "../../../src/core/target-kind.ts";
import type { Databases } from "../../../src/targets/sql/databases.ts";
import { findPostgres } from "../../support/postgres.ts";
import { ask, faultsOf, loaded, PostgresShop } from "./support.ts";

const native = findPostgres();

/** PostgreSQL cuts names at this many bytes. */
const NAME_BYTES_MAX = 63;

const NAMES: readonly string[] = [
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

const NAME = fc
  .oneof(
    fc.string({ unit: "binary", minLength: 1, maxLength: 20 }),
    fc.array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 3 }).map((parts) => parts.join("")),
  )
  .map((text) => cut(text.replaceAll("\0", "0").toWellFormed()))
  .filter((name) => name.length > 0 && !name.includes("{{"));

function cut(text: string): string {
  let name = text;
  while (Buffer.byteLength(name) > NAME_BYTES_MAX) name = name.slice(0, -1).toWellFormed();
  return name;
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

const shop = new PostgresShop();
let databases: Databases;
/** Drafts of which a manifest was made. */
let imported = 0;

describe.skipIf(native === undefined)("a table whose names mean something elsewhere", () => {
  beforeAll(async () => {
    await shop.start(
      native,
      "CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN; CREATE TABLE victims (id integer); INSERT INTO victims VALUES (1)",
    );
    databases = await shop.open();
  });
  afterAll(() => shop.end());

  async function draftsOf(table: string): Promise<readonly ToolDraft[]> {
    const drafts = await databases.drafts("shop", { statements: [], hasChanges: true });
    if (!Array.isArray(drafts)) throw new Error(String(drafts));
    return (drafts as readonly ToolDraft[]).filter(({ partOf = [] }) => partOf[0] === table);
  }

  /** Makes a table with these names, imports it, and checks that its tools read and change exactly the row that is there. */
  async function holds(table: string, column: string, label: string): Promise<void> {
    const key = column === "value" ? "key" : "value";
    const sql = quoted(table);
    const comment = `'${[table, column, label].join(" ").replaceAll("'", "''")}'`;
    await shop.server.send(
      "DROP SCHEMA IF EXISTS hostile CASCADE; CREATE SCHEMA hostile; GRANT USAGE ON SCHEMA hostile TO reader, writer",
      "shop",
    );
    await shop.server.send(
      `CREATE TYPE hostile.labels AS ENUM ('plain', '${cut(`x${label}`).replaceAll("'", "''")}')`,
      "shop",
    );
    await shop.server.send(
      `CREATE TABLE hostile.${sql} (${quoted(column)} bigint PRIMARY KEY, ${key} hostile.labels NOT NULL)`,
      "shop",
    );
    await shop.server.send(`COMMENT ON TABLE hostile.${sql} IS E${comment.replaceAll("\\", "\\\\")}`, "shop");
    await shop.server.send(
      `COMMENT ON COLUMN hostile.${sql}.${quoted(column)} IS E${comment.replaceAll("\\", "\\\\")}`,
      "shop",
    );
    await shop.server.send(`INSERT INTO hostile.${sql} VALUES (1, 'plain'), (2, 'plain')`, "shop");
    await shop.server.send(
      `GRANT SELECT ON hostile.${sql} TO reader; GRANT SELECT, UPDATE ON hostile.${sql} TO writer`,
      "shop",
    );
    const drafts = await draftsOf(table);
    expect(drafts.map(({ classification, problem }) => [classification, problem])).toEqual([
      ["read", undefined],
      ["write", undefined],
    ]);
    for (const draft of drafts) {
      const made = madeDraft(
        { name: "drafted", system: "shop", command: "stc import sql" },
        { ...draft, accepted: true },
      );
      if ("problem" in made) {
        // No manifest holds such characters, so no file is written.
        expect(made.problem).toContain("holds control or bidirectional characters");
        expect(`${table}${column}${label}`).toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        continue;
      }
      imported += 1;
      // Characters that a terminal or an editor would act on are escaped.
      expect(made.text.replaceAll("\n", "")).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u);
      const manifest = parse(made.text);
      expect(Object.keys(manifest).sort()).toEqual(
        [
          "classification",
          "description",
          "input",
          "name",
          "output",
          "outputPolicy",
          "permissions",
          "scan",
          "target",
        ].sort(),
      );
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
        const [, second] = manifest.input.properties[other].enum;
        expect(await ask(binding, { [argument]: "2", [other]: second })).toMatchObject({ changed: 1 });
        const rows = await shop.server.send(`SELECT ${key}::text AS v FROM hostile.${sql} ORDER BY 1`, "shop");
        expect(rows.map(({ v }) => v).sort()).toEqual(["plain", second].sort());
      }
    }
    expect(await shop.server.send("SELECT id FROM victims", "shop")).toEqual([{ id: 1 }]);
  }

  test("is read and changed by exactly its own names", async () => {
    imported = 0;
    for (const name of NAMES) await holds(cut(name), cut(name), name);
    expect(imported).toBeGreaterThan(NAMES.length);
  }, 300_000);

  test("is so whatever the names are", async () => {
    await fc.assert(fc.asyncProperty(NAME, NAME, NAME, holds), { numRuns: 60, seed: 42, endOnFailure: true });
  }, 300_000);
});
