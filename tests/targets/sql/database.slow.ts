import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import type { Json } from "../../../src/core/types.ts";
import { findPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";
import { ask, faultsOf, loaded, PostgresShop, refusal, sqlTool } from "./support.ts";

const native = findPostgres();
const text = z.string().nullable();

const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE owner LOGIN; GRANT CREATE ON SCHEMA public TO owner;
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE TABLE people (id bigint PRIMARY KEY, name text, email text, salary integer, mood mood);
INSERT INTO people VALUES (1, 'Ann', 'ann@canary.example', 10, 'sad'), (2, 'Bob', 'bob@canary.example', 20, 'glad');
CREATE TABLE secrets (token text); INSERT INTO secrets VALUES ('canary');
CREATE VIEW visible AS SELECT id, email FROM people;
CREATE FUNCTION writes() RETURNS integer LANGUAGE sql VOLATILE AS 'INSERT INTO people VALUES (99); SELECT 1';
CREATE FUNCTION harmless(integer) RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT $1 + 1';
CREATE FUNCTION sneaks(integer, integer) RETURNS integer LANGUAGE plpgsql VOLATILE AS 'BEGIN PERFORM set_config(''app.tenant'', ''x'', false); RETURN 1; END';
CREATE OPERATOR ### (LEFTARG = integer, RIGHTARG = integer, FUNCTION = sneaks);
CREATE VIEW sneaky AS SELECT id, writes() AS w FROM people;
GRANT SELECT ON people, visible, sneaky TO reader;`;

/** Opened as the user that reads. */
const shop = new PostgresShop({ read: { user: "reader" } });

const peopleNow = (): Promise<readonly unknown[]> => shop.server.send("SELECT count(*)::int AS n FROM people", "shop");

describe.skipIf(native === undefined)("a database", () => {
  beforeAll(() => shop.start(native, TABLES));
  afterAll(() => shop.end());

  describe("refuses a statement that", () => {
    const refused: readonly (readonly [what: string, statement: string])[] = [
      ["ends the transaction and goes on", "select id from people; commit; insert into people values (3)"],
      ["is followed by another", "select id from people; drop table people"],
      ["closes the query around it", "select id from people) as q(c0) limit 1; drop table people; --"],
      ["leaves the query around it", "select 1 as id) as x, (select 2 as id"],
      ["ends in a comment that is not closed", "select id from people /*"],
      ["changes rows", "update people set name = 'x' returning id"],
      ["changes rows within WITH", "with w as (delete from people returning id) select id from w"],
      ["adds rows", "insert into people values (3) returning id"],
      ["makes a table", "select id into copy from people"],
      ["locks rows", "select id from people for update"],
      ["copies", "copy people to stdout"],
      ["copies to a program", "copy people to program 'true'"],
      ["sets", "set role owner"],
      ["explains", "explain analyze select id from people"],
      ["calls a block", "do 'begin end'"],
      ["prepares", "prepare x as select 1"],
      ["has a `;` at its end", "select id from people;"],
      ["reads what its user may not", "select token as id from secrets"],
      ["does not exist", "select id from nobody"],
    ];
    test.each(refused)("%s", async (_, statement) => {
      const before = await peopleNow();
      const faults = await faultsOf(await shop.open(), sqlTool({ statement, columns: { id: text } }));
      expect(faults.length).toBeGreaterThan(0);
      expect(await peopleNow()).toEqual(before);
      expect(await shop.server.send("SELECT to_regclass('copy') AS copy", "shop")).toEqual([{ copy: null }]);
    });

    const calling: readonly (readonly [name: string, statement: string])[] = [
      ["pg_catalog.set_config", "select set_config('app.tenant', 'x', false) as id"],
      ["pg_catalog.pg_notify", "select pg_notify('a', 'b')::text as id"],
      ["pg_catalog.pg_sleep", "select pg_sleep(9)::text as id"],
      ["pg_catalog.pg_advisory_lock", "select pg_advisory_lock(1)::text as id"],
      ["public.writes", "select writes()::text as id"],
      ["public.harmless", "select harmless(1)::text as id"],
      ["public.sneaks", "select (1 ### 2)::text as id"],
      ["public.writes", "select w::text as id from sneaky"],
      ["pg_catalog.random", "select id::text from people order by random()"],
    ];
    test.each(calling)("calls %s, in %p", async (name, statement) => {
      const [fault = ""] = await faultsOf(await shop.open(), sqlTool({ statement, columns: { id: text } }));
      expect(fault).toStartWith(`target.sql.statement calls ${name}, which may change something`);
    });

    test("has a parameter of another number or of a type that names something", async () => {
      const more = sqlTool({
        statement: "select id from people where id = $1::int8 and name = $2::text",
        input: { id: text },
        columns: { id: text },
      });
      expect(await faultsOf(await shop.open(), more)).toEqual([
        "target.sql.parameters has 1 entries, but the statement has 2 parameters",
      ]);
      const names = sqlTool({
        statement: "select $1::regclass::text as id",
        input: { id: text },
        columns: { id: text },
      });
      expect(await faultsOf(await shop.open(), names)).toEqual([
        "target.sql.parameters {id} has the type regclass: give it a type for values, such as $1::text",
      ]);
    });
  });

  test("a superuser is refused as the user of tools; a user that may change a table is noted", async () => {
    const tool = sqlTool({ statement: "select name as x from people", columns: { x: text } });
    const [fault = ""] = await faultsOf(await shop.open({ read: { user: "tester" } }), tool);
    expect(fault).toStartWith("target.system its database user is a superuser");
    await shop.server.send("CREATE ROLE writer LOGIN; GRANT SELECT, UPDATE ON people TO writer", "shop");
    const databases = await shop.open({ read: { user: "writer" } });
    expect(await faultsOf(databases, tool)).toEqual([]);
    expect(databases.report([tool]).toolNotes?.map(({ message }) => message)).toEqual([
      "its database user may change people: revoke that, a tool that reads does not need it",
    ]);
  });

  const rights: readonly (readonly [given: string, says: string])[] = [
    ["ALTER ROLE mighty SUPERUSER", "is a superuser: "],
    ["ALTER ROLE mighty BYPASSRLS", "bypasses row-level security: "],
    ["ALTER ROLE mighty REPLICATION", "has rights over the whole server (REPLICATION): "],
    ["GRANT pg_write_server_files TO mighty", "has rights over the whole server (pg_write_server_files): "],
  ];
  test.each(rights)("a user with more rights than tools need is refused: %s", async (given, says) => {
    await shop.server.send(`CREATE ROLE mighty LOGIN; GRANT SELECT ON people TO mighty; ${given}`, "shop");
    try {
      const tool = sqlTool({ statement: "select name as x from people", columns: { x: text } });
      const [fault = ""] = await faultsOf(await shop.open({ read: { user: "mighty" } }), tool);
      expect(fault).toStartWith(`target.system its database user ${says}name a user with only the rights`);
    } finally {
      await shop.server.send("DROP OWNED BY mighty; DROP ROLE mighty", "shop");
    }
  });

  test("a function that the system lists may be called", async () => {
    const tool = sqlTool({ statement: "select harmless(1)::text as id", columns: { id: text } });
    expect(await ask(await loaded(await shop.open({ functions: ["public.harmless"] }), tool))).toEqual({
      rows: [{ id: "2" }],
    });
  });

  test("a query with every usual construct is loaded", async () => {
    const statement = `with latest as (select id, name, row_number() over (partition by mood order by id) as place from people)
select lower(l.name) as name, count(*) as n, max(p.salary) as most, coalesce(min(l.place), 0) as place, now()::date as day
from latest l join people p using (id) where p.name ilike $1::text group by 1 order by n desc, name -- the end`;
    const columns = { name: text, n: z.int(), most: z.int(), place: z.int(), day: text };
    const binding = await loaded(await shop.open(), sqlTool({ statement, input: { name: z.string() }, columns }));
    expect(await ask(binding, { name: "a%" })).toMatchObject({ rows: [{ name: "ann", n: 1, most: 10, place: 1 }] });
  });

  describe("columns", () => {
    const rules = { columns: { "people.email": "mask", "public.people.salary": "never" } };
    const faults = async (statement: string, more = {}): Promise<readonly string[]> =>
      faultsOf(await shop.open(rules), sqlTool({ statement, columns: { x: text }, ...more }));

    test("are protected under any name", async () => {
      expect(await faults("select p.email as x from people p")).toEqual([
        "outputPolicy.rows[].x must be mask, as the system's columns say of public.people.email",
      ]);
      expect(await faults("select p.email as x from people p", { outputPolicy: { "rows[].x": "mask" } })).toEqual([]);
      expect(
        await faults("with p as (select email as e from people) select (select e from p limit 1) as x from p"),
      ).not.toEqual([]);
      expect(await faults("select salary as x from people", { outputPolicy: { "rows[].x": "mask" } })).toEqual([
        "target.sql.statement returns public.people.salary, which the system's columns never release",
      ]);
      expect(await faults("select name as x from people")).toEqual([]);
    });

    test("that do not exist, but have a rule, are noted", async () => {
      const rules = ["people.emial", "peple.*", "other.people.email", "people.EMAIL", "public.people.*", "visible.id"];
      const columns = Object.fromEntries(rules.map((key) => [key, "never"]));
      const databases = await shop.open({ columns });
      const tool = sqlTool({ statement: "select id as x from secrets", columns: { x: text } });
      await databases.prepare([tool]);
      expect(databases.report([tool]).notes).toEqual(
        ["other.people.email", "people.emial", "peple.*"].map(
          (key) => `systems.shop.sql.columns: there is no column ${key}, so its rule protects nothing`,
        ),
      );
    });

    test("of a view, and computed ones, need their origin", async () => {
      for (const statement of [
        "select email as x from visible",
        "select upper(email) as x from people",
        "select email as x from people union select name from people",
      ]) {
        const [fault = ""] = await faults(statement);
        expect(fault).toStartWith("target.sql.origins does not say where the column x comes from");
        expect(await faults(statement, { origins: { x: "people.email" } })).toEqual([
          "outputPolicy.rows[].x must be mask, as the system's columns say of people.email",
        ]);
        expect(await faults(statement, { origins: { x: "computed" } })).toEqual([]);
      }
    });

    test("must be those of the output", async () => {
      expect(await faults("select name as y from people")).toEqual(
        [
          "output.rows[].x is not a column of the statement",
          "output.rows[] has no member y, which the statement returns",
          "target.sql.origins does not say where the column y comes from, and the database does not know: table.column, or computed",
        ].slice(0, 2),
      );
      expect(await faults("select name as x, mood as x from people")).toEqual([
        "target.sql.statement has two columns x: use AS",
      ]);
      expect(await faults("select name as x from people", { columns: { x: z.int() } })).toEqual([
        "output.rows[].x does not read the type text",
      ]);
    });
  });

  describe("values", () => {
    const echo = async (type: string, schema: z.ZodType): ReturnType<typeof loaded> =>
      loaded(
        await shop.open(),
        sqlTool({ statement: `select $1::${type} as x`, input: { x: schema.optional() }, columns: { x: text } }),
      );
    const hostile = [
      "'; drop table people; --",
      "\\",
      "$$",
      "E'\\''",
      "NULL",
      "null",
      "",
      '"',
      "{}",
      ",",
      "a\nb",
      "\u2028",
      "😀",
      "--",
      "/*",
      "' or 1=1",
    ];

    test("are never SQL", async () => {
      const binding = await echo("text", z.string());
      for (const x of hostile) expect(await ask(binding, { x })).toEqual({ rows: [{ x }] });
      expect(await ask(binding, {})).toEqual({ rows: [{ x: null }] });
      const lists = await loaded(
        await shop.open(),
        sqlTool({
          statement: "select $1::text[] as x",
          input: { x: z.array(z.string().nullable()) },
          columns: { x: z.array(text) },
        }),
      );
      expect(await ask(lists, { x: [...hostile, null] })).toEqual({ rows: [{ x: [...hostile, null] }] });
    });

    const refused: readonly (readonly [type: string, value: unknown])[] = [
      ...[" 5 ", "1.5", "1e3", "0x1", "", "1abc", "99999999999999999999"].map((x) => ["int8", x] as const),
      ...["yes", "on", "1", "TRUE"].map((x) => ["boolean", x] as const),
      ...["NaN", "infinity", "1e5"].map((x) => ["numeric", x] as const),
      ...["now", "infinity", "today", "2026-11-28"].map((x) => ["timestamptz", x] as const),
      ...["now", "tomorrow", "28.11.2026"].map((x) => ["date", x] as const),
      ["text", "a\0b"],
      ["text", "\ud800"],
      ["uuid", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"],
    ];
    test.each(refused)("of the type %s are refused before anything is sent: %p", async (type, x) => {
      const error = await refusal(ask(await echo(type, z.unknown()), { x }));
      expect([error.code, error.details]).toEqual([
        "INVALID_INPUT",
        { violations: [expect.objectContaining({ field: "x" })] },
      ]);
    });

    test("come back as they were sent", async () => {
      const exact: readonly (readonly [type: string, value: unknown, shown: string])[] = [
        ["int8", "9223372036854775807", "9223372036854775807"],
        ["numeric", "12345678901234567890.123456789", "12345678901234567890.123456789"],
        ["jsonb", { a: 1 }, '{"a": 1}'],
        ["timestamptz", "2026-11-28T15:02:11.123456+01:00", "2026-11-28 14:02:11.123456+00"],
        ["uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
        ["mood", "glad", "glad"],
        ["float8", "0.1", "0.1"],
      ];
      for (const [type, x, shown] of exact) {
        expect(await ask(await echo(type, z.unknown()), { x })).toEqual({ rows: [{ x: shown }] });
      }
    });

    test("within JSON are exact, or no answer; spaces at the end of characters are kept", async () => {
      const json = await loaded(
        await shop.open(),
        sqlTool({ statement: "select $1::text::jsonb as x", input: { x: z.string() }, columns: { x: z.unknown() } }),
      );
      for (const x of [
        '{"a": 0.1, "b": "0.1234567890123456789"}',
        "[1.10, -2.5e-7, 0.30000000000000004]",
        '"\\"0.12345678901234567"',
      ]) {
        expect(await ask(json, { x })).toEqual({ rows: [{ x: JSON.parse(x) }] });
      }
      for (const x of [
        '{"a": 0.12345678901234567}',
        "[1, [1.00000000000000000001]]",
        '{"a": 1e-400}',
        '{"a\\"": 12345678901.123456789}',
      ]) {
        expect((await refusal(ask(json, { x }))).code).toBe("INVALID_OUTPUT");
      }
      const padded = sqlTool({
        statement: "select 'a'::char(3) as x, array['b', null]::char(3)[] as y",
        columns: { x: text, y: z.array(text) },
      });
      expect(await ask(await loaded(await shop.open(), padded))).toEqual({ rows: [{ x: "a  ", y: ["b  ", null] }] });
    });

    test("of domains are those of their base types", async () => {
      const made = `CREATE DOMAIN code AS char(3); CREATE DOMAIN outer_code AS code; CREATE DOMAIN codes AS code[]; CREATE DOMAIN amount AS int`;
      await shop.server.send(made, "shop");
      const statement = `select 'a'::code as plain, 'b'::outer_code as nested, array['c', null]::code[] as list, array['d']::codes as lists, 7::amount as n`;
      const columns = { plain: text, nested: text, list: z.array(text), lists: z.array(text), n: z.int() };
      const binding = await loaded(await shop.open(), sqlTool({ statement, columns }));
      expect(await ask(binding)).toEqual({
        rows: [{ plain: "a  ", nested: "b  ", list: ["c  ", null], lists: ["d  "], n: 7 }],
      });
    });

    test("that the database refuses are in no answer", async () => {
      const tool = sqlTool({
        statement: "select email::int4 as x from people",
        columns: { x: text },
        origins: { x: "computed" },
      });
      const error = await refusal(ask(await loaded(await shop.open(), tool)));
      expect([error.code, error.details]).toEqual(["TARGET_REFUSED", { status: "INVALID_ARGUMENT" }]);
      expect(JSON.stringify([error.message, error.details, error.cause])).not.toContain("canary");
    });
  });

  describe("limits", () => {
    test("more rows than declared are cut and reported, or refused", async () => {
      const statement = "select n as x from generate_series(1, 10000000) as n";
      const tell = await loaded(
        await shop.open(),
        sqlTool({ statement, columns: { x: z.int() }, rows: { returns: 3 } }),
      );
      expect(await ask(tell)).toEqual({ rows: [{ x: 1 }, { x: 2 }, { x: 3 }], truncated: true });
      const refuse = await loaded(
        await shop.open(),
        sqlTool({ statement, columns: { x: z.int() }, rows: { returns: 3, more: "refuse" } }),
      );
      expect((await refusal(ask(refuse))).code).toBe("OUTPUT_TOO_LARGE");
    });

    test("a long text, and long rows together, stay on the server", async () => {
      const limits = { cellChars: 1_000, bytes: 2_500 };
      const tool = (size: number) =>
        sqlTool({ statement: `select repeat('a', ${size}) as x from generate_series(1, 50)`, columns: { x: text } });
      expect((await refusal(ask(await loaded(await shop.open({ limits }), tool(100_000_000))))).code).toBe(
        "OUTPUT_TOO_LARGE",
      );
      const { rows, truncated } = (await ask(await loaded(await shop.open({ limits }), tool(1_000)))) as {
        readonly rows: readonly unknown[];
        readonly truncated?: boolean;
      };
      expect([rows.length, truncated]).toEqual([2, true]);
    });

    test.each([5, 50])("the limit of all rows counts bytes of UTF-8, with %i rows at most", async (returns) => {
      const statement = "select repeat('é', 400) as x from generate_series(1, 5)";
      const limits = { cellChars: 1_000, bytes: 2_500 };
      const binding = await loaded(
        await shop.open({ limits }),
        sqlTool({ statement, columns: { x: text }, rows: { returns } }),
      );
      const { rows, truncated } = (await ask(binding)) as {
        readonly rows: readonly unknown[];
        readonly truncated?: boolean;
      };
      expect([rows.length, truncated]).toEqual([3, true]);
    });

    test("one row is the result itself; none is NOT_FOUND, two are INVALID_OUTPUT", async () => {
      const tool = sqlTool({
        statement: "select name as x from people where id <= $1::int8",
        input: { id: z.int() },
        columns: { x: text },
        one: true,
      });
      const binding = await loaded(await shop.open(), tool);
      expect(await ask(binding, { id: 1 })).toEqual({ x: "Ann" });
      const none = await refusal(ask(binding, { id: 0 }));
      expect([none.code, none.details]).toEqual(["TARGET_REFUSED", { status: "NOT_FOUND" }]);
      expect((await refusal(ask(binding, { id: 2 }))).code).toBe("INVALID_OUTPUT");
    });

    test("a statement that takes too long ends on the server", async () => {
      const statement = "select count(*) as x from generate_series(1, 1000000000)";
      const binding = await loaded(
        await shop.open({ limits: { statementMs: 1_000 } }),
        sqlTool({ statement, columns: { x: text } }),
      );
      expect((await refusal(ask(binding))).code).toBe("DEADLINE_EXCEEDED");
    });

    test("a caller that disconnects ends its statement on the server", async () => {
      const statement = "select count(*) as x from generate_series(1, 1000000000)";
      const binding = await loaded(
        await shop.open({ limits: { statementMs: 60_000 } }),
        sqlTool({ statement, columns: { x: text } }),
      );
      const running =
        "SELECT 1 FROM pg_stat_activity WHERE usename = 'reader' AND state = 'active' AND query LIKE 'SELECT always.%'";
      const leaving = new AbortController();
      const answer = refusal(ask(binding, {}, leaving.signal));
      await until("the statement", async () => (await shop.server.send(running)).length === 1 || undefined);
      leaving.abort();
      expect((await answer).code).toBe("CANCELLED");
      await until("its end", async () => (await shop.server.send(running)).length === 0 || undefined);
    });

    test("callers that leave while they wait for a connection do not make the database unavailable to others", async () => {
      const databases = await shop.open({ connections: 1, limits: { statementMs: 60_000 } });
      const statement = "select count(*) as x from generate_series(1, 1000000000)";
      const holding = await loaded(databases, sqlTool({ statement, columns: { x: text } }));
      const quick = await loaded(
        databases,
        sqlTool({ statement: "select name as x from people", columns: { x: text } }),
      );
      const leaving = new AbortController();
      const held = refusal(ask(holding, {}, leaving.signal));
      for (let call = 0; call < 12; call += 1) {
        expect((await refusal(ask(quick, {}, AbortSignal.timeout(20)))).code).toBe("DEADLINE_EXCEEDED");
      }
      leaving.abort();
      expect((await held).code).toBe("CANCELLED");
      expect(await ask(quick)).toMatchObject({ rows: [{ x: "Ann" }, { x: "Bob" }] });
    });
  });

  describe("changes", () => {
    const people = (): ReturnType<typeof sqlTool> =>
      sqlTool({ statement: "select a, b from moving", columns: { a: text, b: text } });
    const make = async (): Promise<void> => {
      await shop.server.send(
        "DROP TABLE IF EXISTS moving CASCADE; CREATE TABLE moving (a text, b text); INSERT INTO moving VALUES ('a', 'b'); GRANT SELECT ON moving TO reader",
        "shop",
      );
    };

    const breaking: readonly (readonly [what: string, statement: string])[] = [
      ["a column is gone", "ALTER TABLE moving DROP COLUMN b"],
      ["a column has another name", "ALTER TABLE moving RENAME b TO c"],
      ["the table is gone", "DROP TABLE moving"],
      ["the right is gone", "REVOKE SELECT ON moving FROM reader"],
    ];
    test.each(breaking)("%s: the tool is quarantined", async (_, statement) => {
      await make();
      const databases = await shop.open();
      const tool = people();
      const binding = await loaded(databases, tool);
      expect(await ask(binding)).toEqual({ rows: [{ a: "a", b: "b" }] });
      expect(databases.quarantineOf(tool)).toBeUndefined();
      await shop.server.send(statement, "shop");
      expect((await refusal(ask(binding))).code).toBe("TARGET_FAILED");
      expect(databases.quarantineOf(tool)?.changes).toHaveLength(1);
      expect((await refusal(ask(binding))).message).toContain("until an operator has checked it");
    });

    test("a protected column that appears under another column's name is noticed before its first answer", async () => {
      await make();
      const databases = await shop.open({ columns: { "moving.secret": "never" } });
      const tool = people();
      const binding = await loaded(databases, tool);
      await ask(binding);
      await shop.server.send(
        "ALTER TABLE moving RENAME b TO old; ALTER TABLE moving ADD b text DEFAULT 'canary'",
        "shop",
      );
      expect(await ask(binding)).toEqual({ rows: [{ a: "a", b: "canary" }] });
      await shop.server.send(
        "DROP TABLE moving; CREATE TABLE moving (a text, secret text); CREATE VIEW shown AS SELECT 1; GRANT SELECT ON moving TO reader",
        "shop",
      );
      expect((await refusal(ask(binding))).code).toBe("TARGET_FAILED");
    });

    test("a function that becomes volatile, and a view that gets one, are noticed", async () => {
      const databases = await shop.open({ functions: [] });
      await shop.server.send(
        "CREATE OR REPLACE VIEW turning AS SELECT id, lower(name) AS w FROM people; GRANT SELECT ON turning TO reader",
        "shop",
      );
      const tool = sqlTool({ statement: "select w from turning", columns: { w: text } });
      const binding = await loaded(databases, tool);
      await ask(binding);
      await shop.server.send(
        "CREATE OR REPLACE VIEW turning AS SELECT id, lower(name) || writes() AS w FROM people",
        "shop",
      );
      expect((await refusal(ask(binding))).code).toBe("TARGET_FAILED");
      expect(databases.quarantineOf(tool)?.changes[0]).toContain("calls public.writes");
    });

    test("a change that does not concern the tool is checked once, and the tool stays available", async () => {
      await make();
      const databases = await shop.open();
      const binding = await loaded(databases, people());
      await shop.server.send("ALTER TABLE moving ADD more text", "shop");
      expect(await ask(binding)).toEqual({ rows: [{ a: "a", b: "b" }] });
    });
  });

  test("nothing of one call is left for the next one", async () => {
    const databases = await shop.open({ connections: 1, functions: ["pg_catalog.set_config", "pg_catalog.pg_notify"] });
    const sets = await loaded(
      databases,
      sqlTool({
        statement: "select set_config('app.tenant', $1::text, false) as x",
        input: { x: z.string() },
        columns: { x: text },
      }),
    );
    const reads = await loaded(
      databases,
      sqlTool({ statement: "select current_setting('app.tenant', true) as x", columns: { x: text } }),
    );
    expect(await ask(sets, { x: "canary" })).toEqual({ rows: [{ x: "canary" }] });
    expect(JSON.stringify(await ask(reads))).not.toContain("canary");
  });

  describe("who asks", () => {
    const caller = (claims: Readonly<Record<string, Json>>) => ({
      caller: { issuer: "https://idp.test", subject: "agent-7", permissions: [], actors: [], expiresAt: 0, claims },
    });
    const rows = sqlTool({ statement: "select name as x from owned order by name", columns: { x: text } });
    beforeAll(() =>
      shop.server.send(
        `CREATE TABLE owned (tenant text, name text); INSERT INTO owned VALUES ('a', 'Ann'), ('b', 'Bob');
ALTER TABLE owned ENABLE ROW LEVEL SECURITY; CREATE POLICY own ON owned USING (tenant = current_setting('app.tenant'));
CREATE ROLE tenant_a; GRANT tenant_a TO reader; GRANT SELECT ON owned TO reader, tenant_a;`,
        "shop",
      ),
    );

    test("decides which rows there are, for each call on the same connection", async () => {
      const databases = await shop.open({ connections: 1, caller: { settings: { "app.tenant": "claims.tenant" } } });
      const binding = await loaded(databases, rows);
      for (const [tenant, x] of [
        ["a", "Ann"],
        ["b", "Bob"],
        ["a", "Ann"],
      ] as const) {
        expect(await ask(binding, {}, undefined, caller({ tenant }))).toEqual({ rows: [{ x }] });
      }
      expect(await ask(binding, {}, undefined, caller({ tenant: "' or true --" }))).toEqual({ rows: [] });
    });

    test("must be known: a token without the claim, or with a role that is not listed, is refused", async () => {
      const settings = { "app.tenant": "claims.tenant" };
      const databases = await shop.open({ caller: { settings, role: "claims.role", roles: ["tenant_a"] } });
      const binding = await loaded(databases, rows);
      expect(await ask(binding, {}, undefined, caller({ tenant: "a", role: "tenant_a" }))).toEqual({
        rows: [{ x: "Ann" }],
      });
      for (const claims of [
        {},
        { tenant: "a" },
        { role: "tenant_a" },
        { tenant: ["a"], role: "tenant_a" },
        { tenant: "a", role: "owner" },
      ]) {
        const error = await refusal(ask(binding, {}, undefined, caller(claims)));
        expect([error.code, error.details]).toEqual(["TARGET_REFUSED", { status: "PERMISSION_DENIED" }]);
      }
    });

    test("with a role that finds tables in another schema is refused: others were checked", async () => {
      await shop.server.send(
        `CREATE ROLE tenant_b; GRANT tenant_b TO reader; CREATE SCHEMA tenant_b AUTHORIZATION tenant_b;
CREATE TABLE tenant_b.owned AS SELECT 'a' AS tenant, 'canary' AS name; GRANT SELECT ON tenant_b.owned TO tenant_b`,
        "shop",
      );
      const databases = await shop.open({
        caller: { role: "claims.role", roles: ["tenant_a", "tenant_b"], settings: { "app.tenant": "claims.tenant" } },
      });
      const binding = await loaded(databases, rows);
      const as = (role: string) => ask(binding, {}, undefined, caller({ role, tenant: "a" }));
      expect((await refusal(as("tenant_b"))).code).toBe("TARGET_FAILED");
      expect(await as("tenant_a")).toEqual({ rows: [{ x: "Ann" }] });
    });
  });

  test("a database that is unavailable at the start is checked by the first call", async () => {
    const databases = await shop.open();
    const tool = sqlTool({ statement: "select name as x from people where id = 1", columns: { x: text } });
    await shop.server.stop();
    try {
      const binding = await loaded(databases, tool);
      expect(databases.quarantineOf(tool)?.reason).toContain("has not been reached yet");
      expect((await refusal(ask(binding))).code).toBe("TARGET_UNAVAILABLE");
      await shop.server.start();
      expect(await ask(binding)).toEqual({ rows: [{ x: "Ann" }] });
      expect(databases.quarantineOf(tool)).toBeUndefined();
    } finally {
      await shop.server.start();
    }
  });
});
