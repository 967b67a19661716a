import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import type { OutputFieldPolicy } from "../../../src/core/types.ts";
import type { Databases } from "../../../src/targets/sql/databases.ts";
import { findPostgres } from "../../support/postgres.ts";
import { faultsOf, openShop, PostgresShop, sqlTool } from "./support.ts";

const TABLES = `CREATE TABLE customers (id INTEGER PRIMARY KEY, email TEXT, nick TEXT, "set" TEXT);
CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT UNIQUE, other TEXT);`;

const columns = { "customers.email": "never" };
const outputPolicy: OutputFieldPolicy = { changed: "allow", "rows[].*": "allow" };
const UNKNOWN = "target.sql.origins does not say where the column x comes from";

const faults = async (databases: Databases, statement: string): Promise<readonly string[]> => {
  const input = Object.fromEntries(Array.from({ length: countOf(statement) }, (_, at) => [`p${at + 1}`, z.string()]));
  const tool = sqlTool({
    statement,
    ...{ classification: "write", outputPolicy, input, columns: { x: z.string().nullable() } },
  });
  return (await faultsOf(databases, tool)).map((fault) => fault.slice(0, UNKNOWN.length));
};

function countOf(statement: string): number {
  return Math.max(0, ...[...statement.matchAll(/\$(\d)/g)].map(([, number]) => Number(number)));
}

/** `$n` of PostgreSQL has a type. */
const COPIES: readonly (readonly [what: string, statement: string])[] = [
  ["of another table into a new row", "insert into notes (text) select email from customers returning text as x"],
  ["within VALUES", "insert into notes (text) values ((select email from customers)) returning text as x"],
  ["by a subquery", "update notes set text = (select email from customers) where id = 1 returning text as x"],
  ["of the same row", "update customers set nick = email where id = 1 returning nick as x"],
  ["by an expression", "update customers set nick = coalesce(nick, email) where id = 1 returning nick as x"],
  ["for several columns", "update customers set (id, nick) = (2, email) where id = 1 returning nick as x"],
  [
    "for several columns by one subquery",
    "update customers set (id, nick) = (select id, email from customers c where c.id = 2) where id = 1 returning nick as x",
  ],
  [
    "for several columns at a conflict",
    "insert into customers (id, nick) values (1, 'a') on conflict (id) do update set (id, nick) = (select c.id, c.email from customers c where c.id = 1) returning nick as x",
  ],
  ["from a joined table", "update notes set text = c.email from customers c where notes.id = c.id returning text as x"],
  [
    "by WITH",
    "with w as (select email from customers) update notes set text = (select email from w) where id = 1 returning text as x",
  ],
  [
    "at a conflict",
    "insert into customers (id, nick) values (1, 'a') on conflict (id) do update set nick = customers.email returning nick as x",
  ],
  ["behind a comment", "update customers /* where */ set nick = email -- where\n where id = 1 returning nick as x"],
  ["beside a quoted word", `update customers set "set" = 'where', nick = email where id = 1 returning nick as x`],
  ["into a quoted word", `update customers set "set" = email where id = 1 returning "set" as x`],
];

const OTHERS: readonly (readonly [what: string, statement: string])[] = [
  ["a new value", "insert into notes (id, text) values (1, $1) returning text as x"],
  ["a default", "insert into notes (other) values ($1) returning text as x"],
  ["a changed value", "update customers set nick = $1 where email = 'where set nick' returning nick as x"],
  ["a text", "update customers set nick = 'email, nick = email' where id = 1 returning nick as x"],
  ["its former value", "update customers set nick = coalesce($1, nick) where id = 1 returning nick as x"],
  ["a column that stays", "update notes set text = $1 where id = 1 returning other as x"],
  ["a deleted row", "delete from notes where text = (select email from customers) returning text as x"],
  ["the value of a conflict", "insert into notes (text) values ($1) on conflict (text) do nothing returning text as x"],
];

const native = findPostgres();
const shop = new PostgresShop();
const folder = mkdtempSync(join(tmpdir(), "stc-copies-"));
const opened: Databases[] = [];

afterAll(async () => {
  for (const databases of opened) await databases.close();
  await shop.end();
  rmSync(folder, { recursive: true });
});

/** Tests the rows with the databases that `open` opens. */
function testAll(open: () => Databases, prepared: (statement: string) => string): void {
  test.each(COPIES)("a copied value has no known origin: %s", async (_, statement) => {
    expect([statement, await faults(open(), prepared(statement))]).toEqual([statement, [UNKNOWN]]);
  });

  test.each(OTHERS)("has the origin of its column: %s", async (_, statement) => {
    expect([statement, await faults(open(), prepared(statement))]).toEqual([statement, []]);
  });
}

describe.skipIf(native === undefined)("what a change of PostgreSQL returns", () => {
  beforeAll(async () => {
    const rights = "GRANT SELECT, INSERT, UPDATE, DELETE ON customers, notes TO reader, writer";
    await shop.start(native, `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN; ${TABLES} ${rights}`);
    opened.push(await shop.open({ columns }));
  });
  const open = (): Databases => opened[0] as Databases;

  testAll(open, (statement) => statement.replaceAll(/\$(\d)/g, "$$$1::text"));

  test("a MERGE has none", async () => {
    const merge =
      "merge into notes using customers c on notes.id = c.id when matched then update set text = c.email returning notes.text as x";
    expect(await faults(open(), merge)).not.toEqual([]);
  });
});

describe("what a change of SQLite returns", () => {
  let databases: Databases;
  beforeAll(async () => {
    const file = join(folder, "shop.sqlite");
    const app = new Database(file);
    app.run(TABLES);
    app.close();
    databases = await openShop({ url: `sqlite:${file}`, writable: true, columns }, { confinement: "prefer" });
    opened.push(databases);
  });

  testAll(
    () => databases,
    (statement) => statement,
  );

  test.each(["rowid", "oid", "_rowid_", '"RowId"'])(
    "a copied value has no known origin: into the key by %s",
    async (rowid) => {
      const key = "update customers set ROWID = email where id = 1 returning id as x";
      expect(await faults(databases, key.replace("ROWID", rowid))).toEqual([UNKNOWN]);
    },
  );

  test("a copied value has no known origin: at the second conflict", async () => {
    const statement =
      "insert into notes (id, text) values (1, 'a') on conflict (id) do update set other = 'x' where id = 1 on conflict (text) do update set other = text returning other as x";
    expect(await faults(databases, statement)).toEqual([UNKNOWN]);
  });
});
