import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { Databases } from "../../../src/targets/sql/databases.ts";
import { findPostgres } from "../../support/postgres.ts";
import { anyName, draftsOfTable, holdExactly, NAMES } from "./hostile-names.ts";
import { PostgresShop } from "./support.ts";

const native = findPostgres();

/** PostgreSQL cuts names at this many bytes. */
const NAME_BYTES_MAX = 63;

const NAME = anyName(cut);

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
    const drafts = await draftsOfTable(databases, `hostile.${table}`);
    expect(drafts.map(({ classification, problem }) => [classification, problem])).toEqual([
      ["read", undefined],
      ["write", undefined],
    ]);
    imported += await holdExactly(databases, drafts, {
      names: `${table}${column}${label}`,
      second: cut(`x${label}`),
      values: async () => {
        const rows = await shop.server.send(`SELECT ${key}::text AS v FROM hostile.${sql} ORDER BY 1`, "shop");
        return rows.map(({ v }) => v).sort();
      },
    });
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
