import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { findPostgres } from "../../support/postgres.ts";
import { ask, faultsOf, loaded, PostgresShop, refusal, sqlTool } from "./support.ts";

const native = findPostgres();
const text = z.string().nullable();
const classification = "write";

/** A database whose own settings would change how values are written. */
const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN;
ALTER DATABASE shop SET TimeZone = 'Asia/Tokyo'; ALTER DATABASE shop SET DateStyle = 'German, DMY';
ALTER DATABASE shop SET IntervalStyle = 'postgres_verbose'; ALTER DATABASE shop SET bytea_output = 'escape';
ALTER DATABASE shop SET extra_float_digits = -15; ALTER DATABASE shop SET standard_conforming_strings = off; ALTER DATABASE shop SET array_nulls = off;
ALTER DATABASE shop SET transform_null_equals = on;
CREATE TABLE people (id bigint PRIMARY KEY, email text, tags text[], doc jsonb, page xml);
INSERT INTO people VALUES (1, 'canary', '{canary}', '[{"email": "canary"}]', '<p><email>canary</email></p>');
CREATE FUNCTION leaks(text) RETURNS text LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN $1; END';
CREATE TABLE stock (id bigint PRIMARY KEY, n integer); INSERT INTO stock VALUES (1, 1), (2, 2);
GRANT SELECT ON people, stock TO reader; GRANT ALL ON people, stock TO writer;`;

const shop = new PostgresShop();

describe.skipIf(native === undefined)("a statement with", () => {
  beforeAll(() => shop.start(native, TABLES));
  afterAll(() => shop.end());

  const shown: readonly (readonly [construct: string, statement: string])[] = [
    ["TABLESAMPLE", "select email as x from people tablesample system (100)"],
    ["GROUPING SETS", "select email as x from people group by grouping sets ((email), ())"],
    ["ROLLUP", "select email as x from people group by rollup (email)"],
    ["LATERAL", "select l.x from people p, lateral (select p.email as x) as l"],
    ["WITH ORDINALITY", "select t.x from people, unnest(tags) with ordinality as t(x, n)"],
    ["JSON_TABLE", "select j.x from people, json_table(doc, '$[*]' columns (x text path '$.email')) as j"],
    ["XMLTABLE", "select t.x from people, xmltable('/p' passing page columns x text path 'email') as t"],
    [
      "a recursive WITH",
      "with recursive w(x) as (select email from people union all select x from w where false) select x from w",
    ],
    ["a window", "select first_value(email) over () as x from people"],
    ["VALUES", "select v.x from people, lateral (values (email)) as v(x)"],
    ["a whole row", "select p::text as x from people p"],
  ];
  test.each(shown)("%s shows no protected column without its rule", async (_, statement) => {
    const protectedAll = { columns: { "people.*": "never" } };
    const faults = await faultsOf(await shop.open(protectedAll), sqlTool({ statement, columns: { x: text } }));
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatch(/never release|does not say where the column x comes from/);
    const free = await loaded(await shop.open(), sqlTool({ statement, columns: { x: text } }));
    expect(JSON.stringify(await ask(free))).toContain("canary");
  });

  const calling: readonly (readonly [construct: string, statement: string])[] = [
    ["TABLESAMPLE", "select email as x from people tablesample system (length(leaks('x')))"],
    ["GROUPING SETS", "select leaks(email) as x from people group by grouping sets ((leaks(email)), ())"],
    ["LATERAL", "select l.x from people p, lateral (select leaks(p.email) as x) as l"],
    ["WITH ORDINALITY", "select t.x from leaks('x') with ordinality as t(x, n)"],
    [
      "JSON_TABLE",
      "select j.x from people, json_table(leaks(doc::text)::jsonb, '$[*]' columns (x text path '$.email')) as j",
    ],
    [
      "XMLTABLE",
      "select t.x from people, xmltable('/p' passing (leaks(page::text)::xml) columns x text path 'email') as t",
    ],
    [
      "a default of XMLTABLE",
      "select t.x from people, xmltable('/p' passing page columns x text path 'none' default leaks('x')) as t",
    ],
    ["a window's FILTER", "select max(email) filter (where leaks(email) = '') over () as x from people"],
    ["LIMIT", "select email as x from people limit length(leaks('x'))"],
    ["ORDER BY", "select email as x from people order by leaks(email)"],
  ];
  test.each(calling)("%s calls no function that is not listed", async (_, statement) => {
    const [fault] = await faultsOf(await shop.open(), sqlTool({ statement, columns: { x: text } }));
    expect(fault).toContain("calls public.leaks, which may change something");
  });

  test("ON CONFLICT and MERGE changes rows within its bound", async () => {
    const input = { id: z.int(), n: z.int() };
    const statements = [
      "insert into stock values ($1::int8, $2::int4) on conflict (id) do update set n = stock.n + excluded.n returning id, n",
      "merge into stock s using (select $1::int8 as id, $2::int4 as n) v on s.id = v.id when matched then update set n = s.n + v.n when not matched then insert values (v.id, v.n) returning s.id, s.n",
    ];
    for (const statement of statements) {
      const columns = { id: z.int(), n: z.int() };
      const binding = await loaded(await shop.open(), sqlTool({ classification, statement, input, columns }));
      await shop.server.send("DELETE FROM stock; INSERT INTO stock VALUES (1, 1), (2, 2)", "shop");
      expect(await ask(binding, { id: 1, n: 4 })).toEqual({ rows: [{ id: 1, n: 5 }], changed: 1 });
      expect(await ask(binding, { id: 3, n: 4 })).toEqual({ rows: [{ id: 3, n: 4 }], changed: 1 });
    }
    const all =
      "merge into stock s using (select $1::int8 as id) v on s.id >= v.id when matched then delete returning s.id";
    const tool = sqlTool({
      classification,
      statement: all,
      input: { id: z.int() },
      columns: { id: z.int() },
      rows: { changes: 2 },
    });
    expect((await refusal(ask(await loaded(await shop.open(), tool), { id: 0 }))).message).toContain(
      "would change 3 rows",
    );
    expect(await shop.server.send("SELECT count(*)::int AS n FROM stock", "shop")).toEqual([{ n: 3 }]);
  });

  test("values of a server with other forms has them in ours, and takes them back unchanged", async () => {
    const databases = await shop.open();
    const types: Readonly<Record<string, (n: number) => string>> = {
      timestamptz: (n) => `20${10 + n}-0${1 + (n % 9)}-0${1 + (n % 8)} 0${n % 10}:10:20.${100_001 + 10 * n}+00`,
      timestamp: (n) => `19${10 + n}-12-0${1 + (n % 9)} 23:59:59.${String(999_999 - n).replace(/0+$/, "")}`,
      date: (n) => `${1900 + n}-02-0${1 + (n % 9)}`,
      numeric: (n) => `-${n + 1}1234567890123456789.${"0".repeat(n % 20)}1`,
      int8: (n) => String(9_223_372_036_854_775_807n - BigInt(n)),
      float8: (n) => String(1 / (n + 3)),
      float4: (n) => String(Math.fround(n + 0.5)),
      text: (n) => `\\${"'".repeat(n % 5)}\\n${String.fromCodePoint(0x1f600 + n)}`,
    };
    for (const [type, made] of Object.entries(types)) {
      const statement = `select $1::${type} as x`;
      const binding = await loaded(databases, sqlTool({ statement, input: { x: z.string() }, columns: { x: text } }));
      for (let n = 0; n < 40; n += 1) {
        const x = made(n);
        expect(await ask(binding, { x })).toEqual({ rows: [{ x }] });
      }
    }
    const lists = sqlTool({
      statement: "select $1::text[] as x",
      input: { x: z.array(text) },
      columns: { x: z.array(text) },
    });
    const x = [null, "NULL", "\\n"];
    expect(await ask(await loaded(databases, lists), { x })).toEqual({ rows: [{ x }] });
    const fixed =
      "select '1 day 2 hours'::interval as i, '\\xff00'::bytea as b, 'infinity'::timestamptz as t, null = null as n";
    const forms = await loaded(
      databases,
      sqlTool({ statement: fixed, columns: { i: text, b: text, t: text, n: text } }),
    );
    expect(await ask(forms)).toEqual({ rows: [{ i: "P1DT2H", b: "\\xff00", t: "infinity", n: null }] });
  });
});
