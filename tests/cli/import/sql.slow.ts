import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import type { Json } from "../../../src/core/types.ts";
import type { Loose } from "../../support/asking-service.ts";
import { findPostgres } from "../../support/postgres.ts";
import { type Ended, runStc } from "../../support/stc.ts";
import { PostgresShop } from "../../targets/sql/support.ts";

const native = findPostgres();

const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN;
CREATE TYPE state AS ENUM ('open', 'it''s "sent"', '$1 {x}');
CREATE DOMAIN cents AS integer CHECK (VALUE >= 0);
CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL, email text, phone varchar(20), born date, "Passwort" text);
COMMENT ON TABLE customers IS 'Customers of the shop';
COMMENT ON COLUMN customers.name IS E'Full name \\x1b[31mred\\x1b[0m \\u202e: {x} # "y"';
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers,
  status state NOT NULL DEFAULT 'open', total numeric(12, 2) NOT NULL, fee cents, tags text[], ratio double precision, paid boolean,
  placed_at timestamptz NOT NULL DEFAULT '2026-11-28 14:02:11.123456+01', extra jsonb, number integer, doubled integer GENERATED ALWAYS AS (number * 2) STORED);
CREATE INDEX ON orders (customer_id); CREATE INDEX ON orders (placed_at); CREATE INDEX ON orders (abs(number));
CREATE TABLE lines (order_id bigint, position smallint, article uuid, note text, PRIMARY KEY (order_id, position));
CREATE TABLE staff (id bigint PRIMARY KEY, name text, salary integer);
CREATE TABLE nokey (note text); CREATE TABLE hidden (id integer PRIMARY KEY);
CREATE VIEW open_orders AS SELECT id, total FROM orders WHERE status = 'open';
CREATE TABLE events (id bigint, at date, email text, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);
CREATE TABLE events_2026 PARTITION OF events FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
CREATE TABLE articles (code char(5) PRIMARY KEY, label char(10), price numeric(8, 2)); INSERT INTO articles VALUES ('AB', 'old', 1);
CREATE SCHEMA other; CREATE TABLE other.orders (id uuid PRIMARY KEY, amount money);
INSERT INTO customers VALUES (7, 'Ann Lee', 'ann@canary.example', '+44 20 7946 0000', '1990-01-02', 'geheim'), (8, 'Bob', NULL, NULL, NULL, NULL);
INSERT INTO orders (customer_id, total, fee, tags, ratio, paid, extra, number)
  SELECT 7, n * 1.05, n, ARRAY['a', NULL], 0.5, true, '{"n": 9007199254740993}', n FROM generate_series(1, 120) AS n;
INSERT INTO lines VALUES (1, 1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', 'note');
GRANT USAGE ON SCHEMA other TO reader;
GRANT SELECT ON customers, orders, lines, staff, nokey, open_orders, events, articles, other.orders TO reader; GRANT SELECT, UPDATE ON articles TO writer;
GRANT SELECT ON orders, lines TO writer; GRANT UPDATE ON orders TO writer; GRANT UPDATE (note) ON lines TO writer;`;

const folder = mkdtempSync(join(tmpdir(), "stc import sql "));
const shop = new PostgresShop();
afterAll(async () => {
  rmSync(folder, { recursive: true });
  await shop.end();
});

/** Writes a configuration for the database and returns the words that name it. */
function configured(
  name: string,
  settings: object = {},
): { readonly words: readonly string[]; readonly tools: string } {
  const own = join(folder, name);
  mkdirSync(join(own, "tools"), { recursive: true });
  const issuer = { issuer: "https://issuer.test", audience: "stc", publicKeyFile: "key.pem", algorithms: ["EdDSA"] };
  const sql = {
    url: `postgres://127.0.0.1:${shop.server.port}/shop`,
    read: { user: "reader" },
    write: { user: "writer" },
    ...settings,
  };
  const config = {
    tools: ["tools"],
    audit: { dir: "audit" },
    approvals: { store: "sqlite://approvals.sqlite" },
    jwt: { issuers: [issuer] },
    systems: { shop: { sql } },
  };
  writeFileSync(join(own, "stc.yaml"), stringify(config));
  const { publicKey } = generateKeyPairSync("ed25519");
  writeFileSync(join(own, "key.pem"), publicKey.export({ type: "spki", format: "pem" }));
  return { words: ["--config", join(own, "stc.yaml")], tools: join(own, "tools") };
}

function written(tools: string): Readonly<Record<string, Loose>> {
  return Object.fromEntries(
    readdirSync(tools).map((file) => [file.replace(".tool.yaml", ""), parse(readFileSync(join(tools, file), "utf8"))]),
  );
}

function imported(words: readonly string[], ...args: readonly string[]): Promise<Ended> {
  return runStc(["import", "sql", "shop", ...args, ...words]);
}

/** Writes statements to files and returns the options that name them. */
function statements(texts: Readonly<Record<string, string>>): readonly string[] {
  return Object.entries(texts).flatMap(([name, text]) => {
    const file = join(folder, `${name}.sql`);
    writeFileSync(file, text);
    return ["--statement", file];
  });
}

async function tried(tool: string, args: Json, words: readonly string[]): Promise<Loose> {
  const { out } = await runStc(["try", tool, JSON.stringify(args), "--yes", "--json", ...words]);
  const { raw, released } = JSON.parse(out);
  return { raw, released: released?.result };
}

describe.skipIf(native === undefined)("stc import sql", () => {
  beforeAll(() => shop.start(native, TABLES));

  test("lists the tools for the tables that the user may read, and those that change a row only with --write", async () => {
    const { words } = configured("listing");
    const rows = async (...args: string[]): Promise<readonly string[]> => {
      const { code, out } = await imported(words, ...args);
      expect(code).toBe(0);
      return out
        .trim()
        .split("\n")
        .slice(1)
        .map((line) => line.split(/ {2,}/).slice(0, 3).join(" "));
    };
    const reading = await rows();
    expect(reading).toEqual([
      "other_orders_get other.orders read",
      "articles_get public.articles read",
      "customers_get public.customers read",
      "events_get public.events read",
      "events_by_id public.events read",
      "lines_get public.lines read",
      "lines_by_order_id public.lines read",
      "nokey_list public.nokey read",
      "open_orders_list public.open_orders read",
      "public_orders_get public.orders read",
      "public_orders_by_customer_id public.orders read",
      "public_orders_by_placed_at public.orders read",
      "staff_get public.staff read",
    ]);
    const changing = await rows("--write");
    expect(changing.filter((row) => !reading.includes(row))).toEqual([
      "articles_update public.articles write",
      "lines_update public.lines write",
      "public_orders_update public.orders write",
    ]);
  });

  test("drafts load, release nothing until they are accepted, and answer with exact values", async () => {
    const { words, tools } = configured("denied");
    const made = await imported(
      words,
      "--table",
      "customers",
      "--table",
      "public.orders",
      "--table",
      "lines",
      "--out",
      tools,
    );
    expect([made.code, made.err, made.out.trim().split("\n").at(-1)]).toEqual([0, "", "6 of 6 tools imported"]);
    const { customers_get: get, public_orders_by_customer_id: list } = written(tools);
    expect([get.outputPolicy, list.outputPolicy]).toEqual([null, null]);
    expect(get.output.properties).toEqual({
      id: { type: "string" },
      name: { type: "string", description: 'Full name \\u{1b}[31mred\\u{1b}[0m \\u{202e}: {x} # "y"' },
      ...Object.fromEntries(["email", "phone", "born", "Passwort"].map((name) => [name, { type: ["string", "null"] }])),
    });
    expect(list.input.properties).toEqual({
      customer_id: { type: "string", pattern: "^-?[0-9]{1,19}$" },
      after: { type: "string", pattern: "^-?[0-9]{1,19}$" },
    });
    expect(list.output.properties.rows.items.properties.status.enum).toEqual(["open", 'it\'s "sent"', "$1 {x}"]);
    expect(await runStc(["check", ...words])).toMatchObject({ code: 0, out: expect.stringContaining("ok: 6 tools") });
    const { raw, released } = await tried("customers_get", { id: "7" }, words);
    expect([raw.email, released]).toEqual(["ann@canary.example", {}]);
  });

  test("accepted drafts hide personal data and secrets by their names, page by their key, and change one row", async () => {
    const { words, tools } = configured("accepted");
    const args = ["--table", "customers", "--table", "public.orders", "--table", "lines", "--write", "--accept"];
    expect((await imported(words, ...args, "--out", tools)).code).toBe(0);
    const { customers_get: get, public_orders_update: update } = written(tools);
    expect(get.outputPolicy).toEqual({
      id: "allow",
      name: "mask",
      email: "mask",
      phone: "mask",
      born: "allow",
      Passwort: "redact",
    });
    expect(update.target.sql.rows).toEqual({ changes: 1 });
    expect(update.input.required).toEqual(["id"]);
    expect(Object.keys(written(tools)["lines_update"].input.properties)).toEqual(["note", "order_id", "position"]);
    expect(await runStc(["check", ...words])).toMatchObject({ code: 0, out: expect.stringContaining("ok: 8 tools") });
    const page = await tried("public_orders_by_customer_id", { customer_id: "7", after: "118" }, words);
    expect(page.released.rows.map(({ id }: Loose) => id)).toEqual(["119", "120"]);
    const span = { from: "2026-11-28T00:00Z", to: "2026-11-29T00:00Z", after: "100" };
    expect((await tried("public_orders_by_placed_at", span, words)).released.rows).toHaveLength(20);
    const note = await tried("lines_update", { order_id: "1", position: 1, note: "{x} $1 '; drop table lines" }, words);
    expect(note.released).toEqual({ changed: 1, rows: [{ order_id: "1", position: 1 }] });
    expect(await shop.server.send("SELECT note, article FROM lines", "shop")).toEqual([
      { note: "{x} $1 '; drop table lines", article: "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11" },
    ]);
    const plan = await runStc(["plan", "public_orders_get", '{"id":"3"}', ...words]);
    expect(JSON.parse(plan.out)).toMatchObject({ kind: "sql", user: "reader", parameters: ["3"] });
    const answer = { order_id: "1", position: 2, article: null, note: "secret" };
    const fixture = {
      tool: "lines_get",
      calls: [
        { name: "a line", args: { order_id: "1", position: 2 }, verdict: "allow", plan: { parameters: ["1", "2"] } },
        {
          name: "no number",
          args: { order_id: "1 or 1=1", position: 2 },
          refused: { code: "INVALID_INPUT", field: "order_id" },
        },
      ],
      answers: [{ name: "a line", answer, released: { ...answer } }],
    };
    writeFileSync(join(tools, "lines_get.test.yaml"), stringify(fixture));
    expect(await runStc(["test", ...words])).toMatchObject({
      code: 0,
      out: expect.stringContaining("3 passed, 0 failed"),
    });
  });

  test("texts of the type character are found and stored as a whole", async () => {
    const { words, tools } = configured("character");
    expect((await imported(words, "--table", "articles", "--write", "--accept", "--out", tools)).code).toBe(0);
    const found = await tried("articles_get", { code: "AB" }, words);
    expect(found.raw).toEqual({ code: "AB   ", label: "old       ", price: "1.00" });
    const changed = await tried("articles_update", { code: "AB", label: "new one", price: "19.90" }, words);
    expect(changed.raw.changed).toBe(1);
    expect(await shop.server.send("SELECT label, price FROM articles", "shop")).toEqual([
      { label: "new one   ", price: "19.90" },
    ]);
  });

  test("the system's rules for columns leave columns out or hide them, whatever they are called", async () => {
    const columns = {
      "customers.email": "mask",
      "customers.phone": "never",
      "customers.name": "redact",
      "staff.*": "never",
      "events_2026.email": "redact",
      "orders.fee": "mask",
    };
    const { words, tools } = configured("rules", { columns });
    const contact =
      "select o.id, c.email as contact, c.name as label, c.phone from orders o join customers c on c.id = o.customer_id where o.id = $1::bigint";
    const files = statements({
      contact: contact.replace(", c.phone", ""),
      phone: contact,
      view: "select id, total from open_orders",
    });
    const tables = ["customers", "staff", "events", "public.orders", "open_orders"].flatMap((name) => [
      "--table",
      name,
    ]);
    const made = await imported(words, ...tables, "--accept", "--out", tools);
    expect([made.code, made.err.trim().split("\n")]).toEqual([
      1,
      [
        "staff list: has no column that a tool may return",
        "open_orders list: is a view, of whose columns the database does not tell the origin: write its manifest with origins, as the system has rules for columns",
      ].map((line) => line.replace(/^(\w+) list/, "$1_list")),
    ]);
    const more = await imported(words, ...files, "--accept", "--out", tools);
    expect([more.code, more.err.trim().split("\n")]).toEqual([
      1,
      [
        "phone: returns public.customers.phone, which the system's columns never release",
        "view: needs origins for id, total, because the system has rules for columns: write its manifest by hand",
      ],
    ]);
    const manifests = written(tools);
    expect(manifests["customers_get"].outputPolicy).toEqual({
      id: "allow",
      name: "redact",
      email: "mask",
      born: "allow",
      Passwort: "redact",
    });
    expect(manifests["customers_get"].target.sql.statement).not.toContain("phone");
    expect(manifests["events_get"].outputPolicy).toMatchObject({ email: "redact" });
    expect(manifests["public_orders_get"].target.sql.statement).not.toContain("doubled");
    expect(manifests["contact"].outputPolicy).toEqual({
      truncated: "allow",
      "rows[].id": "allow",
      "rows[].contact": "mask",
      "rows[].label": "redact",
    });
    expect(await runStc(["check", ...words])).toMatchObject({ code: 0, out: expect.stringContaining("ok: ") });
  });

  test("statements are described and not run, and those that no tool can have are refused", async () => {
    const { words, tools } = configured("statements");
    const files = statements({
      newest_orders:
        "-- the newest\nselect id, status, total\nfrom orders\nwhere customer_id = $1::bigint and ($2::state[] is null or status = any($2::state[]))\norder by id desc;\n",
      cancel: "update orders set status = $2::state where id = $1::bigint and status <> 'open' returning id, status",
      stacked: "select id from orders; delete from orders",
      waits: "select pg_sleep(1)::text as slept",
      twice: "select id, id from orders",
      unknown: "select id from nowhere",
      settings: "set role writer",
    });
    const before = await shop.server.send("SELECT count(*)::int AS n, sum(total) AS s FROM orders", "shop");
    const made = await imported(words, ...files, "--accept", "--out", tools);
    expect(await shop.server.send("SELECT count(*)::int AS n, sum(total) AS s FROM orders", "shop")).toEqual(before);
    expect([made.code, made.out.trim().split("\n").at(-1)]).toEqual([1, "2 of 7 statements imported"]);
    expect(made.err.trim().split("\n")).toEqual([
      "stacked: the database refuses it (SQLSTATE 42601)",
      "waits: target.sql.statement calls pg_catalog.pg_sleep, which may change something: list it in the system's functions if it may be called",
      "twice: has a column without a plain name of its own: use AS",
      "unknown: the database refuses it (SQLSTATE 42P01)",
      "settings: the database refuses it (SQLSTATE 42601)",
    ]);
    const { newest_orders: newest, cancel } = written(tools);
    const state = { type: "string", enum: ["open", 'it\'s "sent"', "$1 {x}"] };
    expect(newest.input).toEqual({
      type: "object",
      additionalProperties: false,
      required: ["customer_id"],
      properties: {
        customer_id: { type: "string", pattern: "^-?[0-9]{1,19}$" },
        status: { type: "array", maxItems: 100, items: state },
      },
    });
    expect([cancel.classification, cancel.target.sql.parameters]).toEqual(["write", ["{id}", "{status}"]]);
    expect(await runStc(["check", ...words])).toMatchObject({ code: 0, out: expect.stringContaining("ok: 2 tools") });
    const { released } = await tried("newest_orders", { customer_id: "7", status: ["$1 {x}"] }, words);
    expect(released).toEqual({ rows: [] });
  });

  test("a name that no table or system has, two tables of one name, and a database that is away are refused", async () => {
    const { words } = configured("wrong");
    const refused: readonly (readonly [args: readonly string[], code: number, says: string])[] = [
      [["shop", "--table", "nowhere", "--out", folder], 64, "the database has no table nowhere that its user may read"],
      [["shop", "--table", "hidden", "--out", folder], 64, "the database has no table hidden that its user may read"],
      [
        ["shop", "--table", "orders", "--out", folder],
        64,
        "several tables are called orders: write other.orders or public.orders",
      ],
      [["nobody"], 64, "systems has no database nobody"],
      [["shop", "--statement", join(folder, "nowhere.sql"), "--out", folder], 64, "cannot be read (ENOENT)"],
      [["shop", "--table", "customers"], 64, "--out is missing"],
    ];
    for (const [args, code, says] of refused) {
      const ended = await runStc(["import", "sql", ...args, ...words]);
      expect([args, ended.code, ended.err.trim()]).toEqual([args, code, expect.stringContaining(says)]);
    }
    for (const scheme of ["postgres", "mariadb"]) {
      const away = configured(`away-${scheme}`, { url: `${scheme}://127.0.0.1:1/shop` });
      const ended = await imported(away.words);
      expect([ended.code, ended.err.trim()]).toEqual([
        2,
        expect.stringContaining("systems.shop: the database does not answer"),
      ]);
    }
  });
});
