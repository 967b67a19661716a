import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { loadedManifest } from "../../../../src/cli/import/manifest-text.ts";
import type { Databases } from "../../../../src/targets/sql/databases.ts";
import type { Loose } from "../../../support/asking-service.ts";
import { called, draftsOf, manifestOf, named } from "../drafts.ts";
import { anyName, draftsOfTable, holdExactly, NAMES } from "../hostile-names.ts";
import { faultsOf, MariaDbShop } from "../support.ts";

const TABLES = [
  "CREATE TABLE customers (id bigint unsigned PRIMARY KEY, name varchar(40) NOT NULL COMMENT 'Full name: {x} # \"y\"', email varchar(100), born date, `Passwort` text) COMMENT 'Customers of the shop'",
  "INSERT INTO customers VALUES (7, 'Ann Lee', 'ann@canary.example', '1990-01-02', 'geheim'), (18446744073709551615, 'Bob', NULL, NULL, NULL)",
  `CREATE TABLE orders (id bigint AUTO_INCREMENT PRIMARY KEY, customer bigint unsigned NOT NULL, status enum('open', 'it''s "sent"', 'a\\\\b') NOT NULL,
    mood enum('?', 'a'), total decimal(12, 2) NOT NULL, ratio double, small tinyint, many int unsigned, bits bit(3), made year, code uuid, tags set('a', 'b'),
    raw varbinary(10), at point, extra json, doubled int AS (small * 2), placed_at datetime(3) NOT NULL, opens time,
    touched timestamp(3) NOT NULL DEFAULT current_timestamp(3) ON UPDATE current_timestamp(3), KEY (customer), KEY (placed_at), KEY (small, many), FULLTEXT KEY (extra),
    FOREIGN KEY (customer) REFERENCES customers (id))`,
  `INSERT INTO orders (customer, status, total, ratio, small, many, bits, made, code, tags, raw, extra, placed_at, opens)
    SELECT 7, 'open', seq * 1.05, 0.1, seq, 4294967295, 5, 2026, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'a,b', x'00ff', '{"n": 9007199254740993}', '2026-11-28 14:02:11.123', '09:30' FROM seq_1_to_120`,
  "CREATE TABLE `lines` (order_id bigint, position smallint, note text, PRIMARY KEY (order_id, position))",
  "INSERT INTO `lines` VALUES (1, 1, 'note')",
  "CREATE TABLE old (id bigint PRIMARY KEY, note text) ENGINE=MyISAM",
  "CREATE TABLE hidden (id int PRIMARY KEY)",
  "CREATE TABLE partly (id int PRIMARY KEY, shown int, secret int)",
  "CREATE VIEW open_orders AS SELECT id, total FROM orders WHERE status = 'open'",
  "CREATE DATABASE other",
  "CREATE TABLE other.orders (id uuid PRIMARY KEY, amount decimal(5, 2))",
  "CREATE USER reader@'%'",
  ...["customers", "orders", "`lines`", "old", "open_orders"].map((table) => `GRANT SELECT ON ${table} TO reader@'%'`),
  "GRANT SELECT (id, shown) ON partly TO reader@'%'",
  "GRANT SELECT ON other.orders TO reader@'%'",
  "CREATE USER writer@'%'",
  ...["SELECT, UPDATE ON orders", "SELECT, UPDATE (note), DELETE ON `lines`", "SELECT, UPDATE ON old"].map(
    (right) => `GRANT ${right} TO writer@'%'`,
  ),
];

const shop = new MariaDbShop();

beforeAll(() => shop.start(TABLES));
afterAll(() => shop.end());

describe("drafts of a MariaDB database", () => {
  test("are for what the users may read and change", async () => {
    const found = await draftsOf(await shop.open());
    expect(found.map(({ name, classification }) => `${name}: ${classification}`)).toEqual([
      "other orders get: read",
      "customers get: read",
      "lines get: read",
      "lines by order_id: read",
      "lines update: write",
      "old get: read",
      "open_orders list: read",
      "shop orders get: read",
      "shop orders by customer: read",
      "shop orders by small: read",
      "shop orders by placed_at: read",
      "shop orders update: write",
      "partly get: read",
    ]);
    const only = await draftsOf(await shop.open({ write: undefined }));
    expect(only.filter(({ classification }) => classification !== "read")).toEqual([]);
  });

  test("have exact types, keys and comments, and say what MariaDB cannot do", async () => {
    const databases = await shop.open();
    const found = await draftsOf(databases);
    const get = manifestOf(named(found, "customers get"));
    expect(get.description).toBe("Customers of the shop: one, by id.");
    expect(get.input.properties).toEqual({ id: { type: "string", pattern: "^[0-9]{1,20}$" } });
    expect(get.output.properties).toEqual({
      id: { type: "string" },
      name: { type: "string", description: 'Full name: {x} # "y"' },
      ...Object.fromEntries(["email", "born", "Passwort"].map((name) => [name, { type: ["string", "null"] }])),
    });
    expect(await called(databases, named(found, "customers get"), { id: "18446744073709551615" })).toMatchObject({
      id: "18446744073709551615",
      name: "Bob",
    });
    const order = manifestOf(named(found, "shop orders get"));
    const text = { type: ["string", "null"] };
    expect(order.output.properties).toEqual({
      ...{ id: { type: "string" }, customer: { type: "string" }, mood: text, total: { type: "string" } },
      status: { type: "string", enum: ["open", 'it\'s "sent"', "a\\b"] },
      ...{
        ratio: { type: ["number", "null"] },
        small: { type: ["integer", "null"] },
        many: { type: ["integer", "null"] },
      },
      ...{ bits: text, made: { type: ["integer", "null"] }, code: text, tags: text, raw: text, extra: text },
      ...{
        doubled: { type: ["integer", "null"] },
        placed_at: { type: "string" },
        opens: text,
        touched: { type: "string" },
      },
    });
    expect(order.text).toContain("# Left out, a geometry, which only ST_AsText returns: at.");
    expect(await called(databases, named(found, "shop orders get"), { id: "3" })).toEqual({
      ...{ id: "3", customer: "7", status: "open", mood: null, total: "3.15", ratio: 0.1, small: 3, many: 4294967295 },
      ...{ bits: "5", made: 2026, code: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", tags: "a,b", raw: "\\x00ff" },
      ...{ extra: '{"n": 9007199254740993}', doubled: 6, placed_at: "2026-11-28 14:02:11.123", opens: "09:30:00" },
      touched: expect.any(String),
    });
    const page = { customer: "7", after: "118" };
    expect(await called(databases, named(found, "shop orders by customer"), page)).toMatchObject({
      rows: [{ id: "119" }, { id: "120" }],
    });
    const span = { from: "2026-11-28T14:02:11.123", to: "2026-11-28T14:02:11.124", after: "100" };
    const spanned = (await called(databases, named(found, "shop orders by placed_at"), span)) as Loose;
    expect(spanned.rows).toHaveLength(20);
    expect(await called(databases, named(found, "partly get"), { id: 1 }).catch((error) => error.code)).toBe(
      "TARGET_REFUSED",
    );
  });

  test("release nothing until they are accepted, and hide personal data and secrets by their names then", async () => {
    const get = named(await draftsOf(await shop.open()), "customers get");
    expect(manifestOf(get, false).outputPolicy).toBeNull();
    expect(manifestOf(get).outputPolicy).toEqual({
      ...{ id: "allow", name: "mask", email: "mask", born: "allow", Passwort: "redact" },
    });
  });

  test("change one row, and return the number of rows", async () => {
    const databases = await shop.open();
    const update = named(await draftsOf(databases), "shop orders update");
    const manifest = manifestOf(update);
    expect(manifest.text).toContain("# The result is the number of rows alone: MariaDB returns no rows of an UPDATE.");
    const { properties } = manifest.input;
    const names = ["id", "customer", "status", "total", "ratio", "small", "many", "bits", "made", "code", "extra"];
    // Not written: a label or a member that may be a number, bytes, and the time of the last change.
    expect(Object.keys(properties).sort()).toEqual([...names, "placed_at", "opens"].sort());
    expect(properties.made).toEqual({ type: "integer", minimum: 1901, maximum: 2155 });
    const args = {
      ...{ id: "5", status: "a\\b", total: "9.99", ratio: 0.25, small: -128, many: 4000000000, bits: "7", made: 1999 },
      ...{
        code: "00000000-0000-0000-0000-000000000001",
        extra: "{}",
        placed_at: "2026-01-02T03:04:05.678",
        opens: "-01:00",
      },
    };
    expect(await called(databases, update, args)).toEqual({ changed: 1 });
    const [row] = await shop.server.send(
      "SELECT status, total, ratio, small, many, bits + 0 AS bits, made, code, CAST(extra AS CHAR) AS extra, CAST(placed_at AS CHAR) AS at, opens FROM orders WHERE id = 5",
      "shop",
    );
    expect(row).toEqual({
      ...{ status: "a\\b", total: "9.99", ratio: 0.25, small: -128, many: 4000000000, bits: 7, made: 1999 },
      ...{ code: args.code, extra: "{}", at: "2026-01-02 03:04:05.678", opens: "-01:00:00" },
    });
    const others = await shop.server.send("SELECT count(*) AS n FROM orders WHERE status <> 'open'", "shop");
    expect(others).toEqual([{ n: 1 }]);
  });

  test("leave out what the system's rules forbid; a view needs declared origins then", async () => {
    const columns = { "customers.email": "mask", "customers.Passwort": "never", "orders.total": "redact" };
    const databases = await shop.open({ columns });
    const found = await draftsOf(databases);
    const get = manifestOf(named(found, "customers get"));
    expect([get.target.sql.statement.includes("Passwort"), get.outputPolicy.email]).toEqual([false, "mask"]);
    expect(manifestOf(named(found, "shop orders get")).target.sql.statement).not.toContain("doubled");
    expect(named(found, "open_orders list").problem).toStartWith("is a view, of whose columns");
    for (const draft of found) {
      if (draft.problem !== undefined) continue;
      expect([draft.name, await faultsOf(databases, loadedManifest(manifestOf(draft).text))]).toEqual([draft.name, []]);
    }
  });

  test("of statements have one argument for both uses of a value, and run nothing", async () => {
    const databases = await shop.open();
    const texts = {
      newest:
        "-- why? because\nselect id, total from orders where customer = cast(? as unsigned) and (? is null or status = ?) and total > cast(? as decimal(5, 2)) order by id;",
      cancel: "update orders set status = ? where id = cast(? as signed) and status = 'open'",
      returns: "delete from `lines` where order_id = cast(? as signed) returning position, note",
      wrong: "replace into orders (id) values (1) returning id",
      old: "update old set note = ? where id = cast(? as signed)",
      waits: "select sleep(1) as slept",
      stacked: "select id from orders; delete from orders",
      unknown: "select id from nowhere",
    };
    const statements = Object.entries(texts).map(([name, text]) => ({ name, text }));
    const found = await draftsOf(databases, { statements });
    expect(await shop.server.send("SELECT count(*) AS n FROM orders", "shop")).toEqual([{ n: 120 }]);
    expect(found.map(({ name, classification, problem }) => [name, classification, problem])).toEqual([
      ["newest", "read", undefined],
      ["cancel", "write", undefined],
      ["returns", "write", undefined],
      ["wrong", "read", expect.stringContaining("has RETURNING")],
      ["old", "read", "names shop.old, a table of MyISAM, in which changes cannot be taken back"],
      ["waits", "read", undefined],
      ["stacked", "read", "has a `;`"],
      ["unknown", "read", "the database refuses it (error 1142, SQLSTATE 42000)"],
    ]);
    expect(await faultsOf(await shop.open(), loadedManifest(manifestOf(named(found, "waits")).text))).toEqual([
      "target.sql.statement calls shop.sleep, which may change something: list it in the system's functions if it may be called",
    ]);
    const newest = manifestOf(named(found, "newest"));
    expect(newest.target.sql.parameters).toEqual(["{customer}", "{status}", "{status}", "{total}"]);
    expect(newest.input).toMatchObject({
      required: ["customer", "total"],
      properties: {
        customer: { type: "string", pattern: "^[0-9]{1,20}$" },
        status: { type: "string", enum: ["open", 'it\'s "sent"', "a\\b"] },
      },
    });
    const args = { customer: "7", status: "a\\b", total: "0" };
    expect(await called(databases, named(found, "newest"), args)).toEqual({ rows: [{ id: "5", total: "9.99" }] });
    const cancelled = await called(databases, named(found, "cancel"), { status: 'it\'s "sent"', id: "6" });
    expect(cancelled).toEqual({ changed: 1 });
    const returned = await called(databases, named(found, "returns"), { order_id: "1" });
    expect(returned).toEqual({ changed: 1, rows: [{ position: 1, note: "note" }] });
  });
});

describe("a table of MariaDB whose names mean something elsewhere", () => {
  const quoted = (name: string): string => `\`${name.replaceAll("`", "``")}\``;
  const text = (value: string): string => `'${value.replaceAll("\\", "\\\\").replaceAll("'", "''")}'`;
  let databases: Databases;
  beforeAll(async () => {
    await shop.server.send(["CREATE TABLE victims (id int)", "INSERT INTO victims VALUES (1)"], "shop");
    databases = await shop.open();
  });

  /** Names have up to 64 characters of the basic plane, and no space at their end. */
  const fitting = (name: string): string =>
    name
      .replaceAll(/[\u{10000}-\u{10ffff}]/gu, "")
      .slice(0, 64)
      .replace(/\s+$/, "");

  /** Makes a table with these names, and checks that its tools read and change exactly the row that is there. */
  async function holds(table: string, column: string, label: string): Promise<number> {
    const key = "its_value";
    const second = `x${label}`.slice(0, 100).toWellFormed().replace(/\s+$/, "");
    const comment = text([table, column, label].join(" ").slice(0, 300).toWellFormed());
    const sql = quoted(table);
    await shop.server.send(
      [
        "DROP DATABASE IF EXISTS hostile",
        "CREATE DATABASE hostile CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        `CREATE TABLE hostile.${sql} (${quoted(column)} bigint PRIMARY KEY COMMENT ${comment}, ${key} enum('plain', ${text(second)}) NOT NULL) COMMENT ${comment}`,
        `INSERT INTO hostile.${sql} VALUES (1, 'plain'), (2, 'plain')`,
        "GRANT SELECT ON hostile.* TO reader@'%'",
        "GRANT SELECT, UPDATE ON hostile.* TO writer@'%'",
      ],
      "shop",
    );
    const found = await draftsOfTable(databases, `hostile.${table}`);
    // The server's catalog has `?` for other characters: whether it is the label cannot be known.
    const isKnown = !/[?\u{10000}-\u{10ffff}]/u.test(second);
    expect(found.map(({ classification }) => classification)).toEqual(isKnown ? ["read", "write"] : ["read"]);
    const count = await holdExactly(databases, found, {
      names: `${table}${column}${label}`,
      second,
      values: async () => {
        const rows = await shop.server.send(`SELECT ${key} AS v FROM hostile.${sql}`, "shop");
        return rows.map(({ v }) => v).sort();
      },
    });
    expect(await shop.server.send("SELECT id FROM victims", "shop")).toEqual([{ id: 1 }]);
    return count;
  }

  test("is read and changed by exactly its own names", async () => {
    let imported = 0;
    for (const name of NAMES) {
      const fits = fitting(name) || "x";
      imported += await holds(fits, fits, name);
    }
    expect(imported).toBeGreaterThan(NAMES.length);
  }, 300_000);

  test("is so whatever the names are", async () => {
    const NAME = anyName(fitting);
    const hold = async (...names: [string, string, string]): Promise<void> => void (await holds(...names));
    await fc.assert(fc.asyncProperty(NAME, NAME, NAME, hold), { numRuns: 40, seed: 42, endOnFailure: true });
  }, 300_000);
});
