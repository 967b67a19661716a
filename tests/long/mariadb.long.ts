import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { z } from "zod";
import { MariaDbConnection } from "../../src/targets/sql/mariadb/connection.ts";
import { readStatement } from "../../src/targets/sql/mariadb/statement.ts";
import { blocksOf } from "../support/documented.ts";
import { peakMbOf } from "../support/peak-memory.ts";
import { until } from "../support/until.ts";
import { ask, faultsOf, loaded, MariaDbShop, refusal, sqlTool } from "../targets/sql/support.ts";

const text = z.string().nullable();

const TABLES = [
  "CREATE TABLE people (id bigint PRIMARY KEY, name varchar(100), email varchar(100), status varchar(10), salary int, shown varchar(100) AS (lower(email)))",
  "INSERT INTO people (id, name, email, status, salary) VALUES (1, 'Ann', 'ann@canary.example', 'open', 10), (2, 'Bob', 'bob@canary.example', '0', 20)",
  "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint)",
  "INSERT INTO orders VALUES (1, 1), (2, 1)",
  "CREATE VIEW visible AS SELECT id, email, email AS other, email AS name FROM people",
  // Named like functions that the server has itself, and with digits only.
  ...["count", "path", "123"].map((name) => `CREATE FUNCTION \`${name}\`(a int) RETURNS int NO SQL RETURN a`),
  "CREATE TABLE big (id bigint PRIMARY KEY, x varchar(100))",
  "INSERT INTO big SELECT seq, repeat('x', 100) FROM seq_1_to_200000",
  "CREATE FUNCTION writes() RETURNS int MODIFIES SQL DATA BEGIN INSERT INTO people (id) VALUES (99); RETURN 1; END",
  "CREATE FUNCTION counted() RETURNS int READS SQL DATA RETURN (SELECT count(*) FROM people)",
  "CREATE SEQUENCE numbers",
  "CREATE USER reader@'%'",
  "GRANT SELECT ON shop.* TO reader@'%'",
  "GRANT EXECUTE ON FUNCTION shop.writes TO reader@'%'",
  "CREATE USER executor@'%'",
  "GRANT SELECT, EXECUTE ON shop.* TO executor@'%'",
];

/** Opened as the user that reads. */
const shop = new MariaDbShop({ read: { user: "reader" } });

function passwordFile(password: string): string {
  const path = join(shop.server.dir, "password");
  writeFileSync(path, `${password}\n`);
  return path;
}

const people = (): Promise<readonly unknown[]> => shop.server.send("SELECT count(*) AS n FROM people", "shop");
/** Statements that run, besides this one. */
const running = async (): Promise<readonly unknown[]> =>
  (await shop.server.send("SHOW FULL PROCESSLIST")).flatMap(({ User, Info }) =>
    User === "root" || Info === null ? [] : [Info],
  );
const nothingRuns = (): Promise<unknown> =>
  until("the end", async () => ((await running()).length === 0 ? true : undefined));

describe("a MariaDB database", () => {
  beforeAll(() => shop.start(TABLES));
  afterAll(() => shop.end());

  describe("refuses a statement that", () => {
    const refused: readonly (readonly [what: string, statement: string])[] = [
      ["is followed by another", "select id from people; drop table people"],
      ["ends the transaction and goes on", "select id from people; commit; insert into people (id) values (3)"],
      ["has a `;` at its end", "select id from people;"],
      ["closes the query around it", "select id from people) as q limit 1 -- "],
      ["leaves the query around it", "select 1 as id) as x, (select 2 as id"],
      ["ends in a comment that is not closed", "select id from people /*"],
      ["has a comment that the server runs", "select id from people /*! where id = 1 */"],
      ["has a comment that MariaDB runs", "select id from people /*M!100100 for update */"],
      ["has a hint", "select /*+ MAX_EXECUTION_TIME(0) */ id from people"],
      ["hides a comment behind a text", "select id from people where name = '\\' /*' /*! or 1 */ "],
      ["hides a comment behind a name", "select id as `a` /*! , 1 */ from people"],
      ["changes rows", "update people set name = 'x'"],
      ["adds rows", "insert into people (id) values (3) returning id"],
      ["deletes rows", "delete from people returning id"],
      ["replaces rows", "replace into people (id) values (1)"],
      ["loads a file", "load data local infile '/etc/passwd' into table people"],
      ["writes a file", "select id from people into outfile '/tmp/stc-canary'"],
      ["writes a file first", "select id into dumpfile '/tmp/stc-canary' from people limit 1"],
      ["makes a variable", "select id into @x from people limit 1"],
      ["makes a variable within", "select @x := 7 as id"],
      ["reads a setting", "select @@datadir as id"],
      ["locks rows", "select id from people for update"],
      ["locks rows for readers", "select id from people lock in share mode"],
      ["opens a handler", "handler people open"],
      ["reads by a handler", "handler people read first"],
      ["sets", "set @x = 1"],
      ["sets for one statement", "set statement max_statement_time = 0 for select id from people"],
      ["calls", "call writes()"],
      ["calls a function that writes", "select writes() as id"],
      ["calls a function without the right to do so", "select counted() as id"],
      ["does", "do sleep(1)"],
      ["shows", "show tables"],
      ["explains", "explain select id from people"],
      ["analyzes", "analyze select id from people"],
      ["analyzes a table", "analyze table people"],
      ["is a block", "begin not atomic select 1; end"],
      ["executes a text", "execute immediate 'drop table people'"],
      ["commits", "commit"],
      ["kills", "kill 1"],
      ["defines", "create table copy (id int)"],
      ["has a procedure", "select id from people procedure analyse()"],
      ["takes a number of a sequence", "select nextval(numbers) as id"],
      ["takes the next value of a sequence", "select next value for numbers as id"],
      ["reads what its user may not", "select user as id from mysql.user"],
      ["does not exist", "select id from nobody"],
      ["has two columns of one name", "select id, name as id from people"],
    ];
    test.each(refused)("%s", async (_, statement) => {
      const before = await people();
      expect(await faultsOf(await shop.open(), sqlTool({ statement, columns: { id: text } }))).not.toEqual([]);
      expect(await people()).toEqual(before);
    });

    const calling: readonly (readonly [name: string, statement: string])[] = [
      ["shop.get_lock", "select get_lock('a', 0) as id"],
      ["shop.get_lock", "select GET_LOCK /* */ ('a', 0) as id"],
      ["shop.get_lock", "select `get_lock`('a', 0) as id"],
      ["shop.release_all_locks", "select release_all_locks() as id"],
      ["shop.sleep", "select id from people where sleep(9)"],
      ["shop.benchmark", "select benchmark(1000000000, md5('a')) as id"],
      ["shop.load_file", "select load_file('/etc/passwd') as id"],
      ["shop.last_insert_id", "select last_insert_id(5) as id"],
      ["shop.counted", "select counted() as id"],
      ["shop.counted", "select shop.counted() as id"],
      ["shop.counted", "select `shop` . `counted` () as id"],
      ["shop.count", "select count (1) as id"],
      ["shop.count", "select count/**/(1) as id"],
      ["shop.path", "select path(1) as id"],
      ["shop.123", "select shop.123(1) as id"],
      ["shop.sleep", "with w (id) as (select sleep(9)) select id from w"],
      ["shop.sleep", "select id from people -- '\n where sleep(9) -- '"],
    ];
    test.each(calling)("calls %s, in %p", async (name, statement) => {
      const databases = await shop.open({ read: { user: "executor" } });
      const [fault = ""] = await faultsOf(databases, sqlTool({ statement, columns: { id: text } }));
      expect(fault).toStartWith(`target.sql.statement calls ${name}, which may change something`);
    });

    test("has parameters of another number, or of a type that is not known", async () => {
      const statement = "select id from people where id = cast(? as signed) and name = ?";
      const more = sqlTool({ statement, input: { id: text }, columns: { id: text } });
      expect(await faultsOf(await shop.open(), more)).toEqual([
        "target.sql.parameters has 1 entries, but the statement has 2 parameters",
      ]);
      const odd = sqlTool({ statement: "select cast(? as binary) as id", input: { id: text }, columns: { id: text } });
      expect(await faultsOf(await shop.open(), odd)).toEqual([
        "target.sql.statement has a parameter of the type binary: use CAST(? AS CHAR)",
      ]);
    });
  });

  describe("users", () => {
    const tool = sqlTool({ statement: "select name as x from people", columns: { x: text } });

    test("with rights over the server are refused", async () => {
      const [fault = ""] = await faultsOf(await shop.open({ read: { user: "root" } }), tool);
      expect(fault).toStartWith("target.system its database user is a superuser");
      await shop.server.send([
        "CREATE ROLE boss",
        "GRANT FILE ON *.* TO boss",
        "CREATE USER hidden@'%'",
        "GRANT SELECT ON shop.* TO hidden@'%'",
        "GRANT boss TO hidden@'%'",
        "SET DEFAULT ROLE boss FOR hidden@'%'",
      ]);
      const [by = ""] = await faultsOf(await shop.open({ read: { user: "hidden" } }), tool);
      expect(by).toStartWith("target.system its database user is a superuser");
    });

    test("that may change something are noted", async () => {
      await shop.server.send([
        "CREATE USER much@'%'",
        "GRANT SELECT ON shop.* TO much@'%'",
        "GRANT UPDATE (name) ON shop.people TO much@'%'",
      ]);
      const databases = await shop.open({ read: { user: "much" } });
      expect(await faultsOf(databases, tool)).toEqual([]);
      expect(databases.report([tool]).toolNotes?.map(({ message }) => message)).toEqual([
        "its database user may change something, by UPDATE: revoke that, a tool that reads does not need it",
      ]);
    });
  });

  test("a query with every usual construct is loaded", async () => {
    const statement = `with latest as (select id, name, row_number() over (partition by status order by id) as place from people)
select lower(l.name) as name, count(*) as n, max(p.salary) as most, coalesce(min(l.place), 0) as place, date(now()) as day,
group_concat(distinct p.status order by p.status separator ';') as states, sum(p.salary) as total
from latest l join people p using (id) where p.name like concat(?, '%') and exists (select 1 from people x where x.id = p.id)
group by 1 order by n desc, name # the end`;
    const columns = {
      name: text,
      n: z.int(),
      most: z.int(),
      place: z.int(),
      day: text,
      states: text,
      total: z.number(),
    };
    const binding = await loaded(await shop.open(), sqlTool({ statement, input: { name: z.string() }, columns }));
    expect(await ask(binding, { name: "a" })).toMatchObject({
      rows: [{ name: "ann", n: 1, most: 10, place: 1, states: "open", total: 10 }],
    });
  });

  test("a function that the system lists may be called, with the right to do so", async () => {
    const tool = sqlTool({ statement: "select counted() as id", columns: { id: z.int() } });
    const databases = await shop.open({ read: { user: "executor" }, functions: ["shop.counted"] });
    expect(await ask(await loaded(databases, tool))).toEqual({ rows: [{ id: 2 }] });
  });

  test("a listed function that writes is refused by the server", async () => {
    const tool = sqlTool({ statement: "select writes() as id", columns: { id: z.int() } });
    const databases = await shop.open({ read: { user: "executor" }, functions: ["shop.writes"] });
    const before = await people();
    expect(await faultsOf(databases, tool)).toEqual([
      "target.sql.statement the database refuses it (error 1792, SQLSTATE 25006)",
    ]);
    expect(await people()).toEqual(before);
  });

  describe("columns", () => {
    const rules = { columns: { "people.email": "mask", "shop.people.salary": "never" } };
    const faults = async (statement: string, more = {}): Promise<readonly string[]> =>
      faultsOf(await shop.open(rules), sqlTool({ statement, columns: { x: text }, ...more }));

    test("are protected under any name", async () => {
      const masked = ["outputPolicy.rows[].x must be mask, as the system's columns say of shop.people.email"];
      expect(await faults("select p.email as x from people p")).toEqual(masked);
      expect(await faults("select p.EMAIL as x from shop.people as orders")).toHaveLength(1);
      expect(await faults("select distinct email as x from people order by id")).toEqual(masked);
      expect(await faults("select p.email as x from people p", { outputPolicy: { "rows[].x": "mask" } })).toEqual([]);
      expect(await faults("select salary as x from people", { outputPolicy: { "rows[].x": "mask" } })).toEqual([
        "target.sql.statement returns shop.people.salary, which the system's columns never release",
      ]);
      expect(await faults("select name as x from people")).toEqual([]);
    });

    const unknown = [
      "select email as x from visible",
      "select other as x from visible",
      "select people.name as x from visible as people",
      "select people.name as x from visible as people group by people.name",
      "select upper(email) as x from people",
      "select shown as x from people",
      "select email as x from people union select name from people",
      "select x from (select email as x from people) q",
      "select orders.id as x from (select email as id from people) orders",
      "with orders as (select email as id from people) select id as x from orders",
      "with orders as (select email as id from people limit 5) select id as x from orders",
      "select (select email from people limit 1) as x",
      "select orders.id as x from people, json_table(json_array(email), '$[*]' columns (id text path '$')) orders",
    ];
    test.each(unknown)("without a known origin need origins in the manifest: %s", async (statement) => {
      const [fault = ""] = await faults(statement);
      expect(fault).toStartWith("target.sql.origins does not say where the column x comes from");
      expect(await faults(statement, { origins: { x: "People.Email" } })).toEqual([
        "outputPolicy.rows[].x must be mask, as the system's columns say of People.Email",
      ]);
      expect(await faults(statement, { origins: { x: "computed" } })).toEqual([]);
    });

    test("of a view are answered, also where the server tells another place of them with the result", async () => {
      const statement = "select people.other as x from visible as people group by people.other";
      const tool = sqlTool({ statement, origins: { x: "computed" }, columns: { x: text } });
      const rows = [{ x: "ann@canary.example" }, { x: "bob@canary.example" }];
      expect(await ask(await loaded(await shop.open(rules), tool))).toEqual({ rows });
    });

    test("must be those of the output", async () => {
      expect(await faults("select name as y from people")).toEqual([
        "output.rows[].x is not a column of the statement",
        "output.rows[] has no member y, which the statement returns",
      ]);
      expect(await faults("select name as x from people", { columns: { x: z.int() } })).toEqual([
        "output.rows[].x does not read the type text",
      ]);
    });
  });

  describe("values", () => {
    const hostile = [
      "'; drop table people; -- ",
      "\\",
      "\\'",
      '"',
      "`",
      "?",
      ":x",
      "/*! drop */",
      "--",
      "#",
      "' or 1=1",
      "NULL",
      "",
      "a\nb",
      "\u2028",
      "😀",
      "\u0001",
      "x".repeat(60_000),
    ];

    test("are never SQL, and arrive as they were sent", async () => {
      const tool = sqlTool({ statement: "select ? as x", input: { x: z.string().optional() }, columns: { x: text } });
      const binding = await loaded(await shop.open(), tool);
      for (const x of hostile) expect(await ask(binding, { x })).toEqual({ rows: [{ x }] });
      expect(await ask(binding, {})).toEqual({ rows: [{ x: null }] });
      for (const x of ["a\0b", "\ud800"]) expect((await refusal(ask(binding, { x }))).code).toBe("INVALID_INPUT");
    });

    test("are the same on a server whose settings are others", async () => {
      const settings = [
        ["max_error_count", "0"],
        ["init_connect", "'SET NAMES gbk'"],
        ["sql_mode", "'ORACLE,NO_BACKSLASH_ESCAPES'"],
        ["sql_quote_show_create", "0"],
      ];
      const before = await shop.server.send("SELECT @@sql_mode AS mode");
      for (const [name, value] of settings) await shop.server.send(`SET GLOBAL ${name} = ${value}`);
      try {
        const databases = await shop.open({ connections: 1 });
        const echo = sqlTool({
          statement: `select concat(?, "'", '\\'', 'é😀') as x`,
          input: { x: z.string() },
          columns: { x: text },
        });
        const cut = sqlTool({ statement: "select cast(name as signed) as x from people", columns: { x: text } });
        const [echoing, cutting] = [await loaded(databases, echo), await loaded(databases, cut)];
        for (let turn = 0; turn < 3; turn += 1) {
          expect(await ask(echoing, { x: "\u5c5c\\é😀" })).toEqual({ rows: [{ x: "\u5c5c\\é😀''é😀" }] });
          expect((await refusal(ask(cutting))).details).toEqual({ status: "INVALID_ARGUMENT" });
        }
      } finally {
        const mode = String(before[0]?.["mode"]);
        await shop.server.send([
          "SET GLOBAL max_error_count = 64",
          "SET GLOBAL init_connect = ''",
          `SET GLOBAL sql_mode = '${mode}'`,
          "SET GLOBAL sql_quote_show_create = 1",
        ]);
      }
    });

    test("are texts unless the statement casts them: 0 does not match every text", async () => {
      const statement = "select id from people where status = ? order by id";
      const binding = await loaded(
        await shop.open(),
        sqlTool({ statement, input: { status: z.int() }, columns: { id: z.int() } }),
      );
      expect(await ask(binding, { status: 0 })).toEqual({ rows: [{ id: 2 }] });
    });

    const coerced: readonly (readonly [what: string, statement: string, x: string])[] = [
      ["a number with texts", "select id from people where status = cast(? as signed)", "0"],
      ["a number with a part of a text", "select id from people where id = ?", "1abc"],
      ["a text with dates", "select id from people where date(now()) = ?", "never"],
      ["a text that is cut", "select id from people where name = cast(? as char(2))", "Ann"],
    ];
    test.each(coerced)("that the server would compare as others are refused: %s", async (_, statement, x) => {
      const binding = await loaded(
        await shop.open(),
        sqlTool({ statement, input: { x: z.string() }, columns: { id: text } }),
      );
      const { code, details, cause } = await refusal(ask(binding, { x }));
      expect([code, details]).toEqual(["TARGET_REFUSED", { status: "INVALID_ARGUMENT" }]);
      expect(JSON.stringify(cause)).not.toContain("open");
    });

    const typed: readonly (readonly [type: string, accepted: readonly string[], refused: readonly string[]])[] = [
      [
        "signed",
        ["-9223372036854775808", "9223372036854775807"],
        ["9223372036854775808", "1.5", " 5 ", "1abc", "", "0x10"],
      ],
      ["unsigned", ["0", "18446744073709551615"], ["-1", "18446744073709551616"]],
      ["decimal(5,2)", ["-999.99", "1.5"], ["1000", "1.239", "NaN", "1e3"]],
      ["double", ["0.1", "-1e308"], ["1e999", "infinity", "nan"]],
      ["date", ["2026-02-28"], ["now", "2026-2-8", "2026-02-28 10:00"]],
      ["datetime(3)", ["2026-02-28 10:00:00.123"], ["2026-02-28 10:00:00.1234", "2026-02-28T10:00Z", "now"]],
      ["time(6)", ["-838:59:59.000001"], ["10", "noon"]],
    ];
    test.each(typed)("of CAST(? AS %s) are checked before they are sent", async (type, accepted, refused) => {
      const statement = `select cast(? as ${type}) as x`;
      const binding = await loaded(
        await shop.open(),
        sqlTool({ statement, input: { x: z.string() }, columns: { x: text } }),
      );
      for (const x of accepted) {
        const { rows } = (await ask(binding, { x })) as { readonly rows: readonly { readonly x: string }[] };
        expect(rows[0]?.x === x || Number(rows[0]?.x) === Number(x)).toBe(true);
      }
      for (const x of refused) expect((await refusal(ask(binding, { x }))).code).toBe("INVALID_INPUT");
    });

    test("that do not exist are refused by the server", async () => {
      const tool = sqlTool({
        statement: "select cast(? as date) as x",
        input: { x: z.string() },
        columns: { x: text },
      });
      expect((await refusal(ask(await loaded(await shop.open(), tool), { x: "2026-02-30" }))).code).toBe(
        "TARGET_REFUSED",
      );
    });

    test("of every type are exact", async () => {
      const made = [
        "CREATE TABLE kinds (big bigint, ubig bigint unsigned, d decimal(38,10), dt datetime(6), ts timestamp(6) NULL, f float, db double, j json, b bit(10), bin binary(4), bl blob, y year, t time(6), e enum('a','b'), st set('x','y'), u uuid, flag boolean, da date, l varchar(10) CHARACTER SET latin1)",
        `INSERT INTO kinds VALUES (-9223372036854775808, 18446744073709551615, 1234567890123456789012345678.0123456789, '2026-01-02 03:04:05.000001', '2026-01-02 03:04:05.123456', 0.1, 1e308, '{"a": 9007199254740993}', b'1000000001', x'00ff0102', x'', 2026, '-100:00:00.000005', 'a', 'x,y', '123e4567-e89b-12d3-a456-426614174000', true, '0001-01-01', 'é')`,
      ];
      await shop.server.send(["SET time_zone = '+00:00'", ...made], "shop");
      const names = "big ubig d dt ts f db j b bin bl y t e st u flag da l".split(" ");
      const columns = Object.fromEntries(names.map((name) => [name, text]));
      const binding = await loaded(await shop.open(), sqlTool({ statement: "select * from kinds", columns }));
      expect(await ask(binding)).toEqual({
        rows: [
          {
            ...{
              big: "-9223372036854775808",
              ubig: "18446744073709551615",
              d: "1234567890123456789012345678.0123456789",
            },
            ...{ dt: "2026-01-02 03:04:05.000001", ts: "2026-01-02 03:04:05.123456", f: "0.1", db: "1e+308" },
            ...{
              j: '{"a": 9007199254740993}',
              b: "513",
              bin: "\\x00ff0102",
              bl: "\\x",
              y: "2026",
              t: "-100:00:00.000005",
            },
            ...{ e: "a", st: "x,y", u: "123e4567-e89b-12d3-a456-426614174000", flag: "1", da: "0001-01-01", l: "é" },
          },
        ],
      });
      const read = { flag: z.boolean(), f: z.number(), b: z.int() };
      const exact = await loaded(
        await shop.open(),
        sqlTool({ statement: "select flag, f, b from kinds", columns: read }),
      );
      expect(await ask(exact)).toEqual({ rows: [{ flag: true, f: 0.1, b: 513 }] });
      const large = await loaded(
        await shop.open(),
        sqlTool({ statement: "select big from kinds", columns: { big: z.int() } }),
      );
      expect((await refusal(ask(large))).code).toBe("INVALID_OUTPUT");
    });
  });

  describe("results", () => {
    const wide = { id: z.int() };
    const rowsOf = async (statement: string, more = {}, settings = {}): Promise<unknown> =>
      ask(await loaded(await shop.open(settings), sqlTool({ statement, columns: wide, ...more })));

    test("keep the statement's order, and are cut where the tool says", async () => {
      const newest = { rows: [{ id: 200000 }, { id: 199999 }], truncated: true };
      const rows = { returns: 2 };
      for (const statement of [
        "select id from big order by id desc",
        "select id from big order by id desc limit 1000",
        "select id from big order by id desc limit 100000",
        "with w as (select id from big) select id from w order by id desc",
        "select id from big union select id from big order by id desc",
      ]) {
        expect(await rowsOf(statement, { rows })).toEqual(newest);
      }
      const whole = { rows: [{ id: 200000 }, { id: 199999 }] };
      expect(await rowsOf("select id from big order by id desc limit 2", { rows })).toEqual(whole);
    });

    test("that are cut leave nothing running, and the connection for the next call", async () => {
      const databases = await shop.open({ connections: 1 });
      const many = sqlTool({
        statement: "select a.id from big a, big b limit 1000000000",
        columns: wide,
        rows: { returns: 5 },
      });
      const few = sqlTool({ statement: "select id from orders order by id", columns: wide });
      const [cut, next] = [await loaded(databases, many), await loaded(databases, few)];
      for (let turn = 0; turn < 20; turn += 1) {
        expect(await ask(cut)).toMatchObject({ truncated: true });
        expect(await ask(next)).toEqual({ rows: [{ id: 1 }, { id: 2 }] });
      }
      await nothingRuns();
    });

    test("with more bytes of UTF-8 than the limit are cut", async () => {
      const databases = await shop.open({ limits: { cellChars: 1_000, bytes: 2_500 } });
      const tool = sqlTool({ statement: "select repeat('é', 400) as x from big", columns: { x: text } });
      const { rows, truncated } = (await ask(await loaded(databases, tool))) as {
        readonly rows: readonly unknown[];
        readonly truncated: boolean;
      };
      expect([rows.length, truncated]).toEqual([3, true]);
    });

    test("with more characters than the limit are cut, or refused", async () => {
      const databases = await shop.open({ limits: { cellChars: 1_000, bytes: 2_500 } });
      const statement = "select id, repeat('x', 900) as x from big order by id";
      const columns = { id: z.int(), x: text };
      const cut = (await ask(await loaded(databases, sqlTool({ statement, columns })))) as {
        readonly rows: readonly unknown[];
      };
      expect([cut.rows.length, Object.hasOwn(cut, "truncated")]).toEqual([2, true]);
      const whole = await loaded(databases, sqlTool({ statement, columns, rows: { more: "refuse" } }));
      expect((await refusal(ask(whole))).code).toBe("OUTPUT_TOO_LARGE");
      const cell = sqlTool({ statement: "select 1 as id, repeat('x', 1001) as x", columns });
      expect((await refusal(ask(await loaded(databases, cell)))).code).toBe("OUTPUT_TOO_LARGE");
    });

    test("with one cell above the memory limit close the connection", async () => {
      const statement = "select repeat('x', 16000000) as x";
      const binding = await loaded(
        await shop.open({ limits: { cellChars: 1_000, bytes: 2_500 } }),
        sqlTool({ statement, columns: { x: text } }),
      );
      expect((await refusal(ask(binding))).code).toBe("OUTPUT_TOO_LARGE");
      await nothingRuns();
    });

    const many = ["select a.id, a.x from big a, big b", "select a.id, a.x from big a, big b limit 10000000"];
    test.each(many)("of millions of rows cost less than 20 MB at their peak: %s", async (statement) => {
      const columns = { id: z.int(), x: text };
      const binding = await loaded(await shop.open(), sqlTool({ statement, columns, rows: { returns: 1_000 } }));
      const peak = await peakMbOf(async () => {
        const { rows, truncated } = (await ask(binding)) as {
          readonly rows: readonly unknown[];
          readonly truncated: true;
        };
        expect([rows.length, truncated]).toEqual([1_000, true]);
      });
      expect(peak).toBeLessThan(20);
    });

    test("of one row are the row itself", async () => {
      const one = { input: { id: z.int() }, one: true, columns: { name: text } } as const;
      const binding = await loaded(
        await shop.open(),
        sqlTool({ statement: "select name from people where id = cast(? as signed)", ...one }),
      );
      expect(await ask(binding, { id: 1 })).toEqual({ name: "Ann" });
      expect((await refusal(ask(binding, { id: 9 }))).details).toEqual({ status: "NOT_FOUND" });
      const two = await loaded(
        await shop.open(),
        sqlTool({ statement: "select name from people where id >= ?", ...one }),
      );
      expect((await refusal(ask(two, { id: 1 }))).code).toBe("INVALID_OUTPUT");
    });

    test("with a value that the server has cut are refused", async () => {
      const tool = sqlTool({
        statement: "select 1 / salary as x from people where salary - 10 in (0, 1 / 0)",
        columns: { x: text },
      });
      expect((await refusal(ask(await loaded(await shop.open(), tool)))).details).toEqual({
        status: "INVALID_ARGUMENT",
      });
    });
  });

  test("errors reveal nothing about rows", async () => {
    const statement =
      "select json_extract(json_value(concat(email, '{'), '$'), '$') as x, cast(email as date) as y from people where id = cast(? as signed) and 1 / (id - 1) is null";
    const tool = sqlTool({ statement, input: { id: z.int() }, columns: { x: text, y: text } });
    const error = await refusal(ask(await loaded(await shop.open(), tool), { id: 1 }));
    expect(JSON.stringify([error.message, error.details, error.cause])).not.toContain("canary");
  });

  describe("between callers", () => {
    test("nothing of a call stays on its connection", async () => {
      const databases = await shop.open({
        connections: 1,
        read: { user: "executor" },
        functions: ["shop.get_lock", "shop.is_used_lock"],
      });
      const locks = sqlTool({ statement: "select get_lock('shop', 0) as x", columns: { x: z.int() } });
      const binding = await loaded(databases, locks);
      expect(await ask(binding)).toEqual({ rows: [{ x: 1 }] });
      await until("the lock's end", async () => {
        const [row] = await shop.server.send("SELECT is_used_lock('shop') AS used");
        return row?.["used"] === null ? true : undefined;
      });
    });
  });

  describe("time", () => {
    const quick = sqlTool({ statement: "select 1 as x", columns: { x: text } });
    const endless = sqlTool({
      statement: "select count(*) as x from big a, big b, big c where a.x <> b.x",
      columns: { x: text },
    });

    test("of a statement is limited on the server", async () => {
      const binding = await loaded(await shop.open({ limits: { statementMs: 200 } }), endless);
      expect((await refusal(ask(binding))).code).toBe("DEADLINE_EXCEEDED");
      await nothingRuns();
    });

    test("a caller that disconnects ends its statement on the server, and frees the connection", async () => {
      const databases = await shop.open({ connections: 1 });
      const [holding, waiting] = [await loaded(databases, endless), await loaded(databases, quick)];
      const leaving = new AbortController();
      const held = refusal(ask(holding, {}, leaving.signal));
      await until("the statement", async () => ((await running()).length === 1 ? true : undefined));
      expect((await refusal(ask(waiting, {}, AbortSignal.timeout(100)))).code).toBe("DEADLINE_EXCEEDED");
      leaving.abort();
      expect((await held).code).toBe("CANCELLED");
      expect(await ask(waiting)).toEqual({ rows: [{ x: "1" }] });
      await nothingRuns();
    });

    test("callers that disconnect do not make the database unavailable to others", async () => {
      const databases = await shop.open({ connections: 2 });
      const [holding, other] = [await loaded(databases, endless), await loaded(databases, quick)];
      for (let call = 0; call < 12; call += 1) {
        const error = await refusal(ask(holding, {}, AbortSignal.timeout(20)));
        expect(error.code).toBe("DEADLINE_EXCEEDED");
      }
      expect(await ask(other)).toEqual({ rows: [{ x: "1" }] });
    });

    test("a server that is silent: a call ends with its deadline, also with a new connection", async () => {
      const binding = await loaded(await shop.open(), quick);
      shop.server.freeze();
      try {
        for (let call = 0; call < 2; call += 1) {
          expect((await refusal(ask(binding, {}, AbortSignal.timeout(100)))).code).toBe("DEADLINE_EXCEEDED");
        }
      } finally {
        shop.server.thaw();
      }
      expect(await ask(binding)).toEqual({ rows: [{ x: "1" }] });
    });
  });

  describe("a table that changes", () => {
    test("in a way that fits is checked again, and answered", async () => {
      await shop.server.send(
        ["CREATE TABLE moods (id int, mood varchar(10))", "INSERT INTO moods VALUES (1, 'glad')"],
        "shop",
      );
      const tool = sqlTool({
        statement: "select mood as x from moods where id = ?",
        input: { id: z.int() },
        columns: { x: text },
      });
      const binding = await loaded(await shop.open(), tool);
      await shop.server.send("ALTER TABLE moods ADD COLUMN more int", "shop");
      expect(await ask(binding, { id: 1 })).toEqual({ rows: [{ x: "glad" }] });
    });

    const changes: readonly (readonly [what: string, change: readonly string[]])[] = [
      ["loses the column", ["ALTER TABLE t DROP COLUMN a"]],
      ["has another type", ["ALTER TABLE t MODIFY a int"]],
      [
        "becomes a view of what is never released",
        ["DROP TABLE t", "CREATE VIEW t AS SELECT id, salary AS a FROM people"],
      ],
      ["becomes generated", ["ALTER TABLE t DROP COLUMN a", "ALTER TABLE t ADD COLUMN a int AS (id + 1)"]],
      ["is gone", ["DROP TABLE t"]],
    ];
    test.each(changes)("quarantines its tools before the next answer when it %s", async (_, change) => {
      await shop.server.send(
        [
          "DROP TABLE IF EXISTS t",
          "DROP VIEW IF EXISTS t",
          "CREATE TABLE t (id int, a boolean)",
          "INSERT INTO t VALUES (1, true)",
        ],
        "shop",
      );
      const tool = sqlTool({ statement: "select a from t", columns: { a: z.boolean() } });
      const databases = await shop.open({ columns: { "people.salary": "never" } });
      const binding = await loaded(databases, tool);
      expect(await ask(binding)).toEqual({ rows: [{ a: true }] });
      await shop.server.send([...change], "shop");
      const first = await refusal(ask(binding));
      expect(["TARGET_FAILED", "INVALID_OUTPUT"]).toContain(first.code);
      expect((await refusal(ask(binding))).code).toBe(first.code);
      await shop.server.send(["DROP TABLE IF EXISTS t", "DROP VIEW IF EXISTS t"], "shop");
    });
  });

  test("320 calls share few connections, and get their own answers", async () => {
    const databases = await shop.open({ connections: 3 });
    const tool = sqlTool({
      statement: "select ? as x, sum(id) as y from orders where id > ?",
      input: { x: z.int(), least: z.int() },
      columns: { x: text, y: text },
    });
    const binding = await loaded(databases, tool);
    const answers: unknown[] = [];
    for (let turn = 0; turn < 10; turn += 1) {
      const calls = Array.from({ length: 32 }, (_, at) => ask(binding, { x: 32 * turn + at, least: at % 2 }));
      answers.push(...(await Promise.all(calls)));
    }
    expect(answers).toEqual(answers.map((_, x) => ({ rows: [{ x: String(x), y: x % 2 === 0 ? "3" : "2" }] })));
  });

  test("the text of a statement is read as the server reads it", async () => {
    const pieces = [
      ...[
        "?",
        " ",
        "'",
        '"',
        "`",
        "\\",
        "--",
        "-- ",
        "#",
        "\n",
        "/*",
        "*/",
        "/",
        "*",
        "(",
        ")",
        ",",
        "1",
        "a",
        ".5",
        "1e",
        "0x",
      ],
      ...[
        "select ",
        " as ",
        "concat(",
        "'x'",
        "'?'",
        '"?"',
        "`?`",
        "cast(? as signed)",
        " from people",
        " where ",
        "_utf8mb4",
        "N",
      ],
      ...["x'3f'", "\u00a0", "é", "\t", "\u0001", "''", "\\'", "--\u0001", "/**/", "/*?*/"],
    ];
    const statements = fc.sample(
      fc.array(fc.constantFrom(...pieces), { minLength: 1, maxLength: 14 }).map((parts) => `select ${parts.join("")}`),
      { numRuns: 20_000, seed: Number(process.env["STC_TEST_SEED"] ?? 1) },
    );
    const address = { host: "127.0.0.1", port: shop.server.port, database: "shop", user: "reader" };
    const connection = await MariaDbConnection.open({ ...address, password: undefined, tls: undefined });
    let accepted = 0;
    for (const statement of statements) {
      const { problems, parameters } = readStatement(statement, false);
      const counted = await connection.prepare(statement).then(
        ({ parameterCount }) => parameterCount,
        () => undefined,
      );
      if (counted === undefined || problems.length > 0) continue;
      accepted += 1;
      expect([statement, parameters.length]).toEqual([statement, counted]);
    }
    connection.destroy();
    expect(accepted).toBeGreaterThan(500);
  });

  test("the guide's users and its statement are what a tool needs", async () => {
    const [users = "", statement = ""] = blocksOf("docs/sql.md")
      .filter(({ language, text }) => language === "sql" && /CREATE USER|\?/.test(text))
      .map(({ text }) => text);
    const table =
      "CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint unsigned, status varchar(10), total decimal(10,2), placed_at datetime(6))";
    const grants = users.trim().split("\n");
    await shop.server.send(
      [
        "DROP TABLE orders",
        table,
        "INSERT INTO orders VALUES (1, 7, 'open', 1.50, '2026-11-28 13:02:11.123456'), (2, 8, 'open', 2, NULL)",
        ...grants,
      ],
      "shop",
    );
    const databases = await shop.open({ read: { user: "stc_reader", passwordFile: passwordFile("change-me") } });
    const input = { customer: z.string().regex(/^\d{1,18}$/), status: z.enum(["open", "sent"]).optional() };
    const columns = { id: z.string(), status: text, total: text, placed_at: text };
    const parameters = ["{customer}", "{status}", "{status}"];
    const binding = await loaded(databases, sqlTool({ statement, input, columns, parameters }));
    const rows = [{ id: "1", status: "open", total: "1.50", placed_at: "2026-11-28 13:02:11.123456" }];
    expect(await ask(binding, { customer: "7" })).toEqual({ rows });
    expect(await ask(binding, { customer: "7", status: "sent" })).toEqual({ rows: [] });
  });

  test("a server with another SQL mode, character set and time zone gives the same answers", async () => {
    await shop.server.kill();
    const modes = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,IGNORE_SPACE";
    await shop.server.start([
      ...["--skip-character-set-client-handshake", "--character-set-server=latin1", `--sql-mode=${modes}`],
      "--default-time-zone=+09:00",
    ]);
    await shop.server.send("SET GLOBAL sql_select_limit = 1");
    const statement = `select "a\\"b" as x, ? as y, 1 || 0 as z, from_unixtime(0) as t union all select 'é😀', 'c', 0, null`;
    const columns = { x: text, y: text, z: z.int(), t: text };
    const binding = await loaded(await shop.open(), sqlTool({ statement, input: { y: z.string() }, columns }));
    expect(await ask(binding, { y: "é😀" })).toEqual({
      rows: [
        { x: 'a"b', y: "é😀", z: 1, t: "1970-01-01 00:00:00" },
        { x: "é😀", y: "c", z: 0, t: null },
      ],
    });
    await shop.server.kill();
    await shop.server.start();
  });

  test("a database that is unavailable at the start is checked by the first call", async () => {
    await shop.server.kill();
    const databases = await shop.open();
    const tool = sqlTool({ statement: "select name as x from people order by id", columns: { x: text } });
    const binding = await loaded(databases, tool);
    expect(databases.quarantineOf(tool)?.reason).toContain("has not been reached yet");
    expect((await refusal(ask(binding))).code).toBe("TARGET_UNAVAILABLE");
    await shop.server.start();
    expect(await ask(binding)).toEqual({ rows: [{ x: "Ann" }, { x: "Bob" }] });
  });
});
