import { Database } from "bun:sqlite";
import { afterAll, afterEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { loadedManifest } from "../../../../src/cli/import/manifest-text.ts";
import type { Databases } from "../../../../src/targets/sql/databases.ts";
import { called, draftsOf, manifestOf, named } from "../drafts.ts";
import { anyName, draftsOfTable, holdExactly, NAMES } from "../hostile-names.ts";
import { faultsOf, openShop } from "../support.ts";

const TABLES = `CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email VARCHAR(40), born DATE, paid BOOLEAN, "Passwort" TEXT);
INSERT INTO customers VALUES (7, 'Ann Lee', 'ann@canary.example', '1990-01-02', 1, 'geheim'), (9007199254740993, 'Bob', NULL, NULL, NULL, NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INT NOT NULL REFERENCES customers, total DECIMAL(12,2), ratio REAL, raw BLOB, loose,
  placed_at DATETIME NOT NULL, doubled AS (total * 2));
CREATE INDEX by_customer ON orders (customer); CREATE INDEX by_time ON orders (placed_at);
CREATE INDEX some ON orders (ratio) WHERE total > 1; CREATE INDEX computed ON orders (abs(total));
INSERT INTO orders SELECT value, 7, value * 1.5, 0.25, x'00ff', 'x', '2026-11-' || printf('%02d', value) FROM json_each('[1,2,3]');
CREATE TABLE lines (order_id INTEGER, position INTEGER, note TEXT, PRIMARY KEY (order_id, position)) WITHOUT ROWID;
CREATE TABLE exact (name TEXT PRIMARY KEY, ratio REAL, anything ANY) STRICT;
CREATE VIEW contacts AS SELECT c.email AS mail, o.total AS total, o.total * 2 AS twice FROM customers c JOIN orders o ON o.customer = c.id;
CREATE VIEW broken AS SELECT x FROM nowhere;
CREATE VIRTUAL TABLE words USING fts5(word);
INSERT INTO exact VALUES ('a', 0.5, 1);`;

const folder = fs.mkdtempSync(join(tmpdir(), "stc-sqlite-drafts-"));
const closing: (() => Promise<void> | void)[] = [];
let made = 0;

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
afterAll(() => fs.rmSync(folder, { recursive: true }));

interface Opened {
  readonly databases: Databases;
  readonly app: Database;
}

async function opened(tables: string, settings: Readonly<Record<string, unknown>> = {}): Promise<Opened> {
  made += 1;
  const file = join(folder, `shop-${made}.sqlite`);
  const app = new Database(file);
  app.run(tables);
  const databases = await openShop({ url: `sqlite:${file}`, writable: true, ...settings }, { confinement: "prefer" });
  closing.push(
    () => databases.close(),
    () => app.close(),
  );
  return { databases, app };
}

describe("drafts of a SQLite database", () => {
  test("are for tables and views, without virtual tables, SQLite's own, and views that do not work", async () => {
    const { databases } = await opened(TABLES);
    expect((await draftsOf(databases)).map(({ name, classification }) => `${name}: ${classification}`)).toEqual([
      "contacts list: read",
      "customers get: read",
      "customers update: write",
      "exact get: read",
      "exact update: write",
      "lines get: read",
      "lines by order_id: read",
      "lines update: write",
      "orders get: read",
      "orders by customer: read",
      "orders by placed_at: read",
      "orders update: write",
    ]);
    const reading = await opened(TABLES, { writable: undefined });
    expect((await draftsOf(reading.databases)).filter(({ classification }) => classification !== "read")).toEqual([]);
  });

  test("have exact types: whole numbers are strings, and what SQLite does not hold columns to is said", async () => {
    const { databases } = await opened(TABLES);
    const found = await draftsOf(databases);
    const get = manifestOf(named(found, "customers get"));
    expect(get.input.properties.id).toEqual({ type: "string", pattern: "^-?(?:[0-9]{1,18}|[1-8][0-9]{18})$" });
    expect(get.output.properties).toEqual({
      id: { type: "string" },
      name: { type: "string" },
      ...Object.fromEntries(["email", "born", "Passwort"].map((name) => [name, { type: ["string", "null"] }])),
      paid: { type: ["boolean", "null"] },
    });
    expect(get.text).toContain("# SQLite does not enforce the types of this table's columns.");
    expect(get.target.sql.statement).toStartWith("select `id`, `name`");
    const exact = manifestOf(named(found, "exact get"));
    expect(exact.output.properties).toEqual({
      name: { type: "string" },
      ratio: { type: ["number", "null"] },
      anything: { type: ["string", "null"] },
    });
    expect(exact.text).not.toContain("does not enforce");
    expect(await called(databases, named(found, "customers get"), { id: "9007199254740993" })).toEqual({
      id: "9007199254740993",
      name: "Bob",
      ...{ email: null, born: null, paid: null, Passwort: null },
    });
    const page = { customer: "7", after: "2" };
    expect(await called(databases, named(found, "orders by customer"), page)).toEqual({
      rows: [
        {
          ...{ id: "3", customer: "7", total: "4.5", ratio: 0.25, raw: "\\x00ff", loose: "x" },
          ...{ placed_at: "2026-11-03", doubled: "9.0" },
        },
      ],
    });
    const span = { from: "2026-11-02", to: "2026-11-03" };
    expect(await called(databases, named(found, "orders by placed_at"), span)).toMatchObject({ rows: [{ id: "2" }] });
  });

  test("release nothing until they are accepted, and hide personal data and secrets by their names then", async () => {
    const { databases } = await opened(TABLES);
    const found = await draftsOf(databases);
    expect(manifestOf(named(found, "customers get"), false).outputPolicy).toBeNull();
    expect(manifestOf(named(found, "customers get")).outputPolicy).toEqual({
      ...{ id: "allow", name: "mask", email: "mask", born: "allow", paid: "allow", Passwort: "redact" },
    });
    // The column is found by its name in the table; the view renames it.
    expect(manifestOf(named(found, "contacts list")).outputPolicy["rows[].mail"]).toBe("mask");
  });

  test("change one row, with a stored type that stays as it is, and leave other columns alone", async () => {
    const { databases, app } = await opened(TABLES);
    const found = await draftsOf(databases);
    const update = manifestOf(named(found, "orders update"));
    expect(Object.keys(update.input.properties).sort()).toEqual(["customer", "id", "placed_at", "ratio", "total"]);
    const changed = { id: "2", total: 7.25, placed_at: "'; drop table orders; --" };
    expect(await called(databases, named(found, "orders update"), changed)).toEqual({
      changed: 1,
      rows: [{ id: "2" }],
    });
    expect(
      app.query("SELECT id, customer, typeof(customer), total, typeof(total), loose FROM orders").values(),
    ).toEqual([
      [1, 7, "integer", 1.5, "real", "x"],
      [2, 7, "integer", 7.25, "real", "x"],
      [3, 7, "integer", 4.5, "real", "x"],
    ]);
    const line = { order_id: "1", position: "2", note: "x" };
    const refused = called(databases, named(found, "lines update"), line);
    expect(await refused).toEqual({ changed: 0, rows: [] });
  });

  test("leave out what the system's rules forbid, also through a view, and columns of unknown origin", async () => {
    const columns = { "customers.email": "mask", "customers.Passwort": "never", "orders.total": "redact" };
    const { databases } = await opened(TABLES, { columns });
    const found = await draftsOf(databases);
    expect(named(found, "customers get").target).not.toHaveProperty("Passwort");
    expect(JSON.stringify(named(found, "customers get").target)).not.toContain("Passwort");
    const view = manifestOf(named(found, "contacts list"));
    expect(view.outputPolicy).toEqual({ truncated: "allow", "rows[].mail": "mask", "rows[].total": "redact" });
    expect(view.text).toContain("# Left out, because the database does not tell its origin: twice.");
    for (const draft of found) {
      expect(await faultsOf(databases, loadedManifest(manifestOf(draft).text))).toEqual([]);
    }
  });

  test("of statements have arguments with the types of their columns, and run nothing", async () => {
    const { databases, app } = await opened(TABLES);
    const texts = {
      newest:
        "select id, total, ratio from orders where customer = $1 and ($2 is null or placed_at >= $2) order by id;\n",
      cancel: "delete from orders where id = cast($1 as integer) returning id",
      replaces: "replace into lines values (1, 1, 'x') returning order_id",
      attaches: "attach '/etc/passwd' as x",
      stacked: "select id from orders; delete from orders",
      twice: "select id, id from orders",
    };
    const statements = Object.entries(texts).map(([name, text]) => ({ name, text }));
    const found = await draftsOf(databases, { statements });
    expect(app.query("SELECT count(*) FROM orders").values()).toEqual([[3]]);
    expect(found.map(({ name, classification, problem }) => [name, classification, problem])).toEqual([
      ["newest", "read", undefined],
      ["cancel", "write", undefined],
      ["replaces", "read", expect.stringContaining("must not REPLACE")],
      ["attaches", "read", expect.stringContaining("the database refuses it (SQLITE_ERROR)")],
      ["stacked", "read", "must be one query, without ; at its end"],
      ["twice", "read", "has a column without a plain name of its own: use AS"],
    ]);
    const newest = manifestOf(named(found, "newest"));
    expect(newest.input).toEqual({
      type: "object",
      additionalProperties: false,
      required: ["customer"],
      properties: {
        customer: { type: "string", pattern: "^-?(?:[0-9]{1,18}|[1-8][0-9]{18})$" },
        placed_at: { type: "string", maxLength: 1000 },
      },
    });
    expect(newest.output.properties.rows.items.properties).toEqual({
      id: { type: ["string", "null"] },
      total: { type: ["string", "null"] },
      ratio: { type: ["number", "null"] },
    });
    expect(await called(databases, named(found, "newest"), { customer: "7", placed_at: "2026-11-03" })).toEqual({
      rows: [{ id: "3", total: "4.5", ratio: 0.25 }],
    });
    expect(await called(databases, named(found, "cancel"), { id: "3" })).toEqual({ changed: 1, rows: [{ id: "3" }] });
  });
});

describe("a table of SQLite whose names mean something elsewhere", () => {
  const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;

  /** Makes a table with these names, and checks that its tools read and change exactly the row that is there. */
  async function holds({ databases, app }: Opened, table: string, column: string, label: string): Promise<number> {
    const key = column.toLowerCase() === "value" ? "key" : "value";
    app.run(`CREATE TABLE ${quoted(table)} (${quoted(column)} INTEGER PRIMARY KEY, ${key} TEXT NOT NULL)`);
    app.run(`INSERT INTO ${quoted(table)} VALUES (1, 'plain'), (2, 'plain')`);
    const found = await draftsOfTable(databases, table);
    expect(found.map(({ classification }) => classification)).toEqual(["read", "write"]);
    const count = await holdExactly(databases, found, {
      names: `${table}${column}${label}`,
      second: `x${label}`,
      values: async () =>
        app
          .query(`SELECT ${key} FROM ${quoted(table)}`)
          .values()
          .flat()
          .sort(),
    });
    app.run(`DROP TABLE ${quoted(table)}`);
    expect(app.query("SELECT id FROM victims").values()).toEqual([[1]]);
    return count;
  }

  const VICTIMS = "CREATE TABLE victims (id INTEGER); INSERT INTO victims VALUES (1)";
  const LONG = ["x".repeat(300), `${"`".repeat(200)}`, "y z ".repeat(100)];

  test("is read and changed by exactly its own names", async () => {
    const all = await opened(VICTIMS);
    let imported = 0;
    for (const name of [...NAMES, ...LONG]) imported += await holds(all, name, name, name);
    expect(imported).toBeGreaterThan(NAMES.length);
  });

  const NAME = anyName((text) =>
    text
      .replace(/^sqlite_/i, "")
      .slice(0, 60)
      .toWellFormed(),
  );

  test("is so whatever the names are", async () => {
    const seed = Number(process.env["STC_TEST_SEED"] ?? 1);
    const all = await opened(VICTIMS);
    const hold = async (...names: [string, string, string]): Promise<void> => void (await holds(all, ...names));
    await fc.assert(fc.asyncProperty(NAME, NAME, NAME, hold), { numRuns: 25, seed, endOnFailure: true });
  });
});
