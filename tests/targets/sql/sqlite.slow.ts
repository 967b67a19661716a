import { Database } from "bun:sqlite";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import type { ServerProcessOptions } from "../../../src/core/server-process.ts";
import type { Json } from "../../../src/core/types.ts";
import { serverProcesses } from "../../../src/targets/command/confinement/server-process.ts";
import type { Databases } from "../../../src/targets/sql/databases.ts";
import type { SqlContext } from "../../../src/targets/sql/engine.ts";
import { sqlSystem } from "../../../src/targets/sql/engines.ts";
import { openSqlite } from "../../../src/targets/sql/sqlite/system.ts";
import type { SqliteUser } from "../../../src/targets/sql/sqlite/user.ts";
import { blocksOf } from "../../support/documented.ts";
import { until } from "../../support/until.ts";
import { ask, faultsOf, loaded, notesOf, openShop, refusal, sqlTool } from "./support.ts";

const text = z.string().nullable();
const classification = "write";
const folder = fs.mkdtempSync(join(tmpdir(), "stc-sqlite-"));
const opened: Databases[] = [];
let made = 0;
let file = "";
/** The application's own connection. */
let app: Database;

const TABLES = `CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT, email TEXT, salary INTEGER, loud TEXT AS (upper(email)));
INSERT INTO people (id, name, email, salary) VALUES (1, 'Ann', 'ann@canary.example', 10), (2, 'Bob', 'bob@canary.example', 20);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL REFERENCES people ON DELETE CASCADE, status TEXT NOT NULL CHECK (status <> 'bad'));
INSERT INTO orders VALUES (1, 1, 'open'), (2, 1, 'open'), (3, 1, 'open'), (4, 2, 'open');
CREATE TABLE log (at TEXT);
CREATE TRIGGER noted AFTER UPDATE ON orders BEGIN INSERT INTO log VALUES (new.id); END;
CREATE VIEW visible AS SELECT id, email AS mail FROM people;
CREATE VIEW "odd""view" AS SELECT name AS x FROM people UNION ALL SELECT email FROM people;
CREATE VIEW mixed AS SELECT name AS x FROM people UNION ALL SELECT email FROM people;`;

beforeEach(() => {
  made += 1;
  file = join(folder, `shop-${made}.sqlite`);
  app = new Database(file);
  app.run("PRAGMA busy_timeout = 5000");
  app.run(TABLES);
});

afterEach(async () => {
  for (const databases of opened.splice(0)) await databases.close();
});

afterAll(() => fs.rmSync(folder, { recursive: true }));

async function open(settings: Readonly<Record<string, unknown>> = {}): Promise<Databases> {
  const databases = await openShop({ url: `sqlite:${file}`, writable: true, ...settings });
  opened.push(databases);
  return databases;
}

const faults = async (statement: string, more = {}, settings = {}): Promise<readonly string[]> =>
  faultsOf(await open(settings), sqlTool({ statement, columns: { x: text }, ...more }));

const states = (): unknown => app.query("SELECT status, count(*) FROM orders GROUP BY 1 ORDER BY 1").values();
const UNCHANGED = [["open", 4]];

const cancel = (rows: object, more = {}) =>
  sqlTool({
    ...{ classification, input: { customer: z.int() }, columns: { id: text }, rows, ...more },
    statement: "update orders set status = 'cancelled' where customer = $1 returning id",
  });

/** Process ids of the processes of a service that have databases open. Without a command line, one has ended. */
function children(service = process.pid): readonly number[] {
  return fs
    .readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const parent = /^PPid:\t(\d+)$/m.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
        return Number(parent) === service && fs.readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("sqlite-child");
      } catch {
        return false;
      }
    });
}

const kill = (): void => {
  for (const pid of children()) process.kill(pid, "SIGKILL");
};

describe("a statement is refused that", () => {
  test.each([
    ["ends the transaction and goes on", "select id as x from people; commit; insert into people (id) values (3)"],
    ["is followed by another", "select id as x from people; drop table people"],
    ["ends in a semicolon", "select id as x from people;"],
    ["closes the query around it", "select id as x from people) limit 1; drop table people; --"],
    ["leaves the query around it", "select 1 as x) as a, (select 2 as x"],
    ["is another part of the WITH around it", "select 1 as x), other as (select 2"],
    ["ends in a comment that is not closed", "select id as x from people /*"],
    ["opens a text that is not closed", "select 'a as x from people"],
    ["changes rows", "update people set name = 'y' returning id as x"],
    ["adds rows", "insert into people (id) values (3) returning id as x"],
    ["changes rows within WITH", "with w as (delete from people returning id) select id as x from w"],
    ["opens another file", "attach '/etc/passwd' as x"],
    ["writes a copy", `vacuum into '${join(tmpdir(), "stc-sqlite-copy")}'`],
    ["sets", "pragma writable_schema = on"],
    ["makes a table", "create temp table y as select 1 as x"],
    ["explains", "explain select 1 as x"],
    ["begins a transaction", "begin"],
    ["rebuilds", "reindex"],
    ["has two columns of a name", "select 1 as x, 2 as x"],
    ["has a parameter too many", "select $1 as x"],
    ["names a table that does not exist", "select x from nothing"],
  ])("%s", async (_, statement) => {
    expect(await faults(statement)).not.toEqual([]);
    expect(states()).toEqual(UNCHANGED);
  });

  test.each([
    ["is a query", "select id as x from people"],
    ["is two", "delete from orders returning id as x; delete from people"],
    ["returns nothing", "delete from orders where id = 1"],
    ["only reads", "with w as (select 1 as x) select x from w"],
    ["makes a table", "create table y (x)"],
    ["writes a copy", `vacuum into '${join(tmpdir(), "stc-sqlite-copy")}'`],
    ["opens another file", "attach '/etc/passwd' as x"],
    ["hides behind a comment", "/* */ delete from orders where id = 1 returning id as x"],
    ["ends in a comment that is not closed", "delete from orders where id = 1 returning id as x /*"],
    ["removes uncounted rows", "replace into orders values (1, 2, 'open') returning id as x"],
    ["removes uncounted rows by another name", "update or/**/replace orders set id = 2 where id = 1 returning id as x"],
  ])("should change rows, and %s", async (_, statement) => {
    expect(await faults(statement, { classification })).not.toEqual([]);
    expect(states()).toEqual(UNCHANGED);
  });

  test("adds to a table that replaces rows by itself", async () => {
    app.run("CREATE TABLE labels (id INTEGER PRIMARY KEY, name TEXT UNIQUE ON CONFLICT REPLACE)");
    const [fault] = await faults("insert into labels (name) values ('a') returning id as x", { classification });
    expect(fault).toContain("labels, which is declared ON CONFLICT REPLACE: that removes rows which no bound counts");
    expect(
      await faults("insert into log values (replace('a', 'a', 'b')) returning at as x", { classification }),
    ).toEqual([]);
  });

  test("loads an extension", async () => {
    const binding = await loaded(
      await open(),
      sqlTool({ statement: "select load_extension('x') as x", columns: { x: text } }),
    );
    expect((await refusal(ask(binding))).code).toBe("TARGET_FAILED");
  });
});

describe("columns", () => {
  const rules = { columns: { "People.email": "mask", "people.salary": "never" } };
  const masked = ["outputPolicy.rows[].x must be mask, as the system's columns say of people.email"];
  const unknown =
    "target.sql.origins does not say where the column x comes from, and the database does not know: table.column, or computed";

  test.each([
    ["under another name", "select p.email as x from people p"],
    ["in other letters", "select EMAIL as x from PEOPLE"],
    ["of a view", "select mail as x from visible"],
    ["of a query", "select y as x from (select email as y, id from people) where id = $1"],
    ["of a WITH", "with w(y) as (select email from people) select y as x from w"],
    ["as one value", "select (select email from people) as x"],
    ["of a join", "select p.email as x from orders o left join people p on p.id = o.customer"],
    ["of a group", "select email as x from people group by email"],
  ])("%s are protected", async (_, statement) => {
    const input = statement.includes("$1") ? { id: z.int() } : {};
    expect(await faults(statement, { input }, rules)).toEqual(masked);
  });

  test("that a change returns are protected", async () => {
    const statement = "update people set name = 'y' where id = 1 returning email as x";
    expect(await faults(statement, { classification }, rules)).toEqual(masked);
    const insert = "insert into people (id, name) values (9, 'y') returning salary as x";
    expect(await faults(insert, { classification }, rules)).toEqual([
      "target.sql.statement returns people.salary, which the system's columns never release",
    ]);
  });

  test.each([
    ["select name as x from people union all select email from people"],
    ["select x from (select name as x from people union select email from people)"],
    ["with recursive r(x) as (select name from people union all select email from people) select x from r"],
    ["select column1 as x from (values ((select name from people)), ((select email from people)))"],
    ["select x from mixed"],
    ['select x from "odd""view"'],
    ["select email as x from people p full join people o using (email)"],
    ["select email || '' as x from people"],
    ["select max(email) as x from people"],
    ["select rowid as x from people"],
    ["select loud as x from people"],
    ["select value as x from json_each((select json_array(email) from people))"],
    ["select sql as x from sqlite_schema"],
  ])("of %s have no origin that SQLite knows, so the manifest has to say it", async (statement) => {
    expect(await faults(statement, {}, rules)).toEqual([unknown]);
    expect(await faults(statement, { origins: { x: "PEOPLE.EMAIL" } }, rules)).toEqual([
      "outputPolicy.rows[].x must be mask, as the system's columns say of PEOPLE.EMAIL",
    ]);
  });

  test("of a view cannot have rules of their own", async () => {
    const [fault = ""] = await faults("select name as x from people", {}, { columns: { "visible.mail": "mask" } });
    expect(fault).toContain("the system's columns name the view of visible.mail");
  });
});

describe("values", () => {
  const hostile = [
    "'; drop table people; --",
    '"',
    "\\",
    "{}",
    "NULL",
    "$1",
    "?1",
    "/*",
    "x'00'",
    "\u{1f600}",
    "\ufeffmark",
    "a\nb",
    "e\u0301",
    "x".repeat(60_000),
  ];

  test("come back as they were sent", async () => {
    const echo = await loaded(
      await open(),
      sqlTool({ statement: "select $1 as x", input: { x: z.string() }, columns: { x: text } }),
    );
    for (const x of hostile) expect(await ask(echo, { x })).toEqual({ rows: [{ x }] });
  });

  test("are exact", async () => {
    const statement = `select 9007199254740993 as a, -9223372036854775808 as b, 0.1 as c, 1.0 as d, 1e300 as e, x'00ff' as f,
null as g, 'a' || char(0) || 'b' as h, 1 as i, 12345 as j, '[1,"2"]' as k, 0.30000000000000004 as l`;
    const columns = {
      ...Object.fromEntries([..."abcdefgh"].map((name) => [name, text])),
      ...{ i: z.boolean(), j: z.int(), k: z.array(z.unknown()), l: z.number() },
    };
    expect(await ask(await loaded(await open(), sqlTool({ statement, columns })))).toEqual({
      rows: [
        {
          ...{ a: "9007199254740993", b: "-9223372036854775808", c: "0.1", d: "1.0", e: "1e+300", f: "\\x00ff" },
          ...{ g: null, h: "a\0b", i: true, j: 12345, k: [1, "2"], l: 0.30000000000000004 },
        },
      ],
    });
  });

  test("that are empty are not NULL", async () => {
    const statement = "select $1 as a, '' as b, zeroblob(0) as c, null as d, typeof($1) as e";
    const columns = Object.fromEntries([..."abcde"].map((name) => [name, text]));
    const binding = await loaded(await open(), sqlTool({ statement, input: { x: z.string() }, columns }));
    expect(await ask(binding, { x: "" })).toEqual({ rows: [{ a: "", b: "", c: "\\x", d: null, e: "text" }] });
    const change = "insert into log values ('') returning at as x";
    const added = await loaded(await open(), sqlTool({ classification, statement: change, columns: { x: text } }));
    expect(await ask(added)).toEqual({ rows: [{ x: "" }], changed: 1 });
  });

  test("that differ with each evaluation are evaluated once", async () => {
    const statement = "select case when abs(random()) % 2 then 'a' else 1 end as x from orders a, orders b, orders c";
    const { rows } = (await ask(await loaded(await open(), sqlTool({ statement, columns: { x: text } })))) as {
      rows: readonly { readonly x: string }[];
    };
    expect(rows.length).toBe(64);
    expect(rows.filter(({ x }) => x !== "a" && x !== "1")).toEqual([]);
  });

  test("that a schema cannot read are no answer", async () => {
    for (const value of ["9007199254740993", "'abc'", "1.5", "x'00'"]) {
      const tool = sqlTool({ statement: `select ${value} as x`, columns: { x: z.int() } });
      // A number that is not whole is refused later, by the output schema.
      if (value === "1.5") expect(await ask(await loaded(await open(), tool))).toEqual({ rows: [{ x: 1.5 }] });
      else expect((await refusal(ask(await loaded(await open(), tool)))).code).toBe("INVALID_OUTPUT");
    }
    const broken = sqlTool({ statement: "select cast(x'61ff62' as text) as x", columns: { x: text } });
    expect((await refusal(ask(await loaded(await open(), broken)))).code).toBe("INVALID_OUTPUT");
  });

  test("of another type match nothing that their type does not match", async () => {
    const statement = "select id as x from orders where status = $1";
    const columns = { x: text };
    const number = await loaded(await open(), sqlTool({ statement, input: { s: z.int() }, columns }));
    expect(await ask(number, { s: 0 })).toEqual({ rows: [] });
    const digits = sqlTool({
      statement: "select id as x from orders where id = $1",
      input: { s: z.string() },
      columns,
    });
    const binding = await loaded(await open(), digits);
    expect(await ask(binding, { s: "2" })).toEqual({ rows: [{ x: "2" }] });
    for (const s of ["2abc", "2 or 1=1", ""]) expect(await ask(binding, { s })).toEqual({ rows: [] });
  });

  test("with NUL or half a character are refused before anything is sent", async () => {
    const tool = sqlTool({ statement: "select $1 as x", input: { x: z.string() }, columns: { x: text } });
    const echo = await loaded(await open(), tool);
    for (const x of ["a\0b", "\ud800"]) expect((await refusal(ask(echo, { x }))).code).toBe("INVALID_INPUT");
  });
});

const COUNTING = "with recursive r(n) as (select 1 union all select n + 1 from r limit 10000000) select n as x from r";

describe("limits", () => {
  test("more rows than declared are cut and reported, or refused, in the statement's order", async () => {
    const statement = "select id as x from orders order by id desc";
    const tell = await loaded(await open(), sqlTool({ statement, columns: { x: z.int() }, rows: { returns: 3 } }));
    expect(await ask(tell)).toEqual({ rows: [{ x: 4 }, { x: 3 }, { x: 2 }], truncated: true });
    const rows = { returns: 3, more: "refuse" } as const;
    const refuse = await loaded(await open(), sqlTool({ statement, columns: { x: z.int() }, rows }));
    expect((await refusal(ask(refuse))).code).toBe("OUTPUT_TOO_LARGE");
  });

  test("a long text, and long rows together, stay in the process", async () => {
    const limits = { cellChars: 1_000, bytes: 2_500 };
    const cell = sqlTool({ statement: "select hex(zeroblob(50000000)) as x", columns: { x: text } });
    expect((await refusal(ask(await loaded(await open({ limits }), cell)))).code).toBe("OUTPUT_TOO_LARGE");
    const statement = "select hex(zeroblob(500)) as x from orders";
    const { rows, truncated } = (await ask(
      await loaded(await open({ limits }), sqlTool({ statement, columns: { x: text } })),
    )) as { rows: readonly Json[]; truncated: boolean };
    expect([rows.length, truncated]).toEqual([2, true]);
  });

  test("the limit of all rows counts bytes of UTF-8", async () => {
    const limits = { cellChars: 1_000, bytes: 2_500 };
    const statement = "select replace(hex(zeroblob(200)), '0', 'é') as x from orders";
    const { rows, truncated } = (await ask(
      await loaded(await open({ limits }), sqlTool({ statement, columns: { x: text } })),
    )) as { rows: readonly Json[]; truncated: boolean };
    expect([rows.length, truncated]).toEqual([3, true]);
  });

  test("one row is the result itself; none is NOT_FOUND, two are INVALID_OUTPUT", async () => {
    const one = (where: string) =>
      sqlTool({ statement: `select name from people where ${where}`, columns: { name: text }, one: true });
    expect(await ask(await loaded(await open(), one("id = 1")))).toEqual({ name: "Ann" });
    const none = await refusal(ask(await loaded(await open(), one("id = 9"))));
    expect([none.code, none.details?.["status"]]).toEqual(["TARGET_REFUSED", "NOT_FOUND"]);
    expect((await refusal(ask(await loaded(await open(), one("true"))))).code).toBe("INVALID_OUTPUT");
  });

  test("ten million rows with a limit take little memory in the service", async () => {
    const tool = sqlTool({ statement: `${COUNTING} order by n desc`, columns: { x: text }, rows: { returns: 100 } });
    const binding = await loaded(await open({ limits: { statementMs: 120_000 } }), tool);
    Bun.gc(true);
    const before = process.memoryUsage.rss();
    const { rows } = (await ask(binding, {}, AbortSignal.timeout(120_000))) as { rows: readonly Json[] };
    const here = (process.memoryUsage.rss() - before) / 1_048_576;
    expect([rows.length, rows[0]]).toEqual([100, { x: "10000000" }]);
    expect(here).toBeLessThan(20);
  }, 130_000);

  test("a statement that takes too long ends with its process, and the next one has another", async () => {
    const databases = await open({ limits: { statementMs: 1_000 } });
    const endless = COUNTING.replace(" limit 10000000", "").replace("n as x", "count(*) as x");
    const slow = await loaded(databases, sqlTool({ statement: endless, columns: { x: text } }));
    expect((await refusal(ask(slow))).code).toBe("DEADLINE_EXCEEDED");
    await until("the end of the processes", () => children().length === 0 || undefined);
    const quick = await loaded(databases, sqlTool({ statement: "select 1 as x", columns: { x: text } }));
    expect(await ask(quick)).toEqual({ rows: [{ x: "1" }] });
  });

  test("a caller that disconnects ends its statement, also one that waits for its turn", async () => {
    const databases = await open({ connections: 1, limits: { statementMs: 60_000 } });
    const endless = COUNTING.replace(" limit 10000000", "").replace("n as x", "count(*) as x");
    const slow = await loaded(databases, sqlTool({ statement: endless, columns: { x: text } }));
    const controller = new AbortController();
    const first = refusal(ask(slow, {}, controller.signal));
    const waiting = await refusal(ask(slow, {}, AbortSignal.timeout(300)));
    expect(waiting.code).toBe("DEADLINE_EXCEEDED");
    controller.abort();
    expect((await first).code).toBe("CANCELLED");
    await until("the end of the processes", () => children().length === 0 || undefined);
  });

  test("several queries run at once, up to the system's connections", async () => {
    const databases = await open({ connections: 2, limits: { statementMs: 2_000 } });
    const endless = COUNTING.replace(" limit 10000000", "").replace("n as x", "count(*) as x");
    const slow = await loaded(databases, sqlTool({ statement: endless, columns: { x: text } }));
    const quick = await loaded(databases, sqlTool({ statement: "select 1 as x", columns: { x: text } }));
    const failing = refusal(ask(slow));
    expect(await ask(quick)).toEqual({ rows: [{ x: "1" }] });
    expect((await failing).code).toBe("DEADLINE_EXCEEDED");
  });
});

describe("a change", () => {
  test("changes rows up to its bound, returns them, and is recorded before it is final", async () => {
    const binding = await loaded(await open(), cancel({ changes: 3 }));
    const recorded: unknown[] = [];
    const record = async (facts: unknown): Promise<void> => {
      recorded.push(facts, states());
    };
    const result = await ask(binding, { customer: 1 }, undefined, { record });
    expect(result).toEqual({ rows: [{ id: "1" }, { id: "2" }, { id: "3" }], changed: 3 });
    expect(recorded).toEqual([
      { system: "shop", transaction: expect.stringMatching(/^counter /), changed: 3 },
      UNCHANGED,
    ]);
    expect(states()).toEqual([
      ["cancelled", 3],
      ["open", 1],
    ]);
  });

  test("above its bound is rolled back", async () => {
    const error = await refusal(ask(await loaded(await open(), cancel({ changes: 2 })), { customer: 1 }));
    expect([error.code, error.message]).toEqual([
      "TARGET_REFUSED",
      "The statement would change 3 rows, and at most 2 are allowed. Nothing was changed.",
    ]);
    expect(states()).toEqual(UNCHANGED);
  });

  test("that is counted shows the number, and changes no more rows than that", async () => {
    const count = "select count(*) from orders where customer = $1";
    const binding = await loaded(await open(), cancel({ changes: 100, count }));
    const plan = await binding.plan({ customer: 1 }, { signal: AbortSignal.timeout(5_000) });
    expect(plan).toMatchObject({ matches: 3, changes: 3 });
    app.run("INSERT INTO orders VALUES (9, 1, 'open')");
    expect((await refusal(ask({ ...binding, plan: async () => plan, run: binding.run.bind(binding) }, {}))).code).toBe(
      "TARGET_REFUSED",
    );
  });

  test("names its triggers, and the tables that keys change", async () => {
    const effects = async (statement: string): Promise<unknown> =>
      notesOf(await loaded(await open(), sqlTool({ classification, statement, columns: { id: text } })));
    expect(await effects("update orders set status = 'x' where id = 1 returning id")).toEqual([
      "the trigger noted of orders runs",
      "rows of log may also change, by a key or a trigger",
    ]);
    expect(await effects("delete from people where id = 1 returning id")).toEqual([
      "rows of orders may also change, by a key or a trigger",
    ]);
    app.run("CREATE TRIGGER emptied AFTER DELETE ON people BEGIN DELETE FROM log; END");
    expect(await effects("delete from people where id = 1 returning id")).toEqual([
      "the trigger emptied of people runs",
      "rows of orders may also change, by a key or a trigger",
      "rows of log may also change, by a key or a trigger",
    ]);
    app.run("CREATE TRIGGER turned INSTEAD OF DELETE ON visible BEGIN DELETE FROM orders WHERE id = old.id; END");
    expect(await effects("delete from visible where id = 1 returning id")).toEqual([
      "the trigger turned of visible runs",
      "rows of orders may also change, by a key or a trigger",
    ]);
  });

  test("that a constraint refuses says so without the row", async () => {
    const insert = (statement: string) =>
      sqlTool({ classification, statement, columns: { id: text }, input: { id: z.int() } });
    const one = await loaded(await open(), insert("insert into people (id, name) values ($1, 'canary') returning id"));
    const exists = await refusal(ask(one, { id: 1 }));
    expect([exists.code, exists.details?.["status"]]).toEqual(["TARGET_REFUSED", "ALREADY_EXISTS"]);
    const foreign = insert("insert into orders (id, customer, status) values (99, $1, 'open') returning id");
    const refused = await refusal(ask(await loaded(await open(), foreign), { id: 77 }));
    expect([refused.code, refused.details?.["status"]]).toEqual(["TARGET_REFUSED", "FAILED_PRECONDITION"]);
    expect(JSON.stringify([exists, exists.cause, refused, refused.cause])).not.toContain("canary");
  });

  test("whose rows together exceed the limit of a result is rolled back", async () => {
    const tool = cancel({ changes: 3 });
    const large = await loaded(await open({ limits: { bytes: 2 } }), tool);
    expect((await refusal(ask(large, { customer: 1 }))).code).toBe("OUTPUT_TOO_LARGE");
    expect(states()).toEqual(UNCHANGED);
    const fits = await loaded(await open({ limits: { bytes: 3 } }), tool);
    expect(await ask(fits, { customer: 1 })).toMatchObject({ changed: 3 });
  });

  test("needs a system that is writable", async () => {
    expect(await faultsOf(await open({ writable: undefined }), cancel({}))).toEqual([
      "target.system systems.shop.sql has no tools that change something: set writable",
    ]);
  });

  test("waits for the lock of another program, and no longer than that is allowed", async () => {
    const binding = await loaded(await open({ limits: { lockMs: 200 } }), cancel({ changes: 3 }));
    app.run("BEGIN IMMEDIATE");
    const error = await refusal(ask(binding, { customer: 1 }));
    expect(error.code).toBe("TARGET_UNAVAILABLE");
    app.run("ROLLBACK");
    expect(await ask(binding, { customer: 1 })).toMatchObject({ changed: 3 });
  });

  test("is rolled back when its facts cannot be recorded", async () => {
    const binding = await loaded(await open(), cancel({ changes: 3 }));
    const record = (): Promise<void> => Promise.reject(new Error("the disk is full"));
    expect(await ask(binding, { customer: 1 }, undefined, { record }).catch((error: Error) => error.message)).toBe(
      "the disk is full",
    );
    expect(states()).toEqual(UNCHANGED);
  });

  test("whose process is killed before COMMIT has not happened, and says so", async () => {
    for (const mode of ["delete", "wal"]) {
      app.run(`PRAGMA journal_mode = ${mode}`);
      const binding = await loaded(await open(), cancel({ changes: 3 }));
      const record = async (): Promise<void> => {
        kill();
        await until("the end of the processes", () => children().length === 0 || undefined);
      };
      const error = await refusal(ask(binding, { customer: 1 }, undefined, { record }));
      expect([mode, error.code]).toEqual([mode, "TARGET_UNAVAILABLE"]);
      expect(states()).toEqual(UNCHANGED);
      expect(await ask(binding, { customer: 2 })).toMatchObject({ changed: 1 });
      app.run("UPDATE orders SET status = 'open'");
    }
  });

  test("whose files fail during COMMIT is not run again, and has not happened", async () => {
    for (const mode of ["delete", "wal"]) {
      app.run(`PRAGMA journal_mode = ${mode}`);
      const binding = await loaded(await open(), cancel({ changes: 3 }));
      let recorded = 0;
      const record = async (): Promise<void> => {
        recorded += 1;
        for (const pid of children()) Bun.spawnSync(["prlimit", `--pid=${pid}`, "--fsize=10"]);
      };
      const error = await refusal(ask(binding, { customer: 1 }, undefined, { record }));
      expect([mode, error.code, recorded]).toEqual([mode, "TARGET_UNAVAILABLE", 1]);
      expect(states()).toEqual(UNCHANGED);
      expect(await ask(binding, { customer: 2 })).toMatchObject({ changed: 1 });
      app.run("UPDATE orders SET status = 'open'");
    }
  });

  test("whose process is killed while another program changes the file is unknown, and says so", async () => {
    const binding = await loaded(await open(), cancel({ changes: 3 }));
    const record = async (): Promise<void> => {
      kill();
      await until("the end of the processes", () => children().length === 0 || undefined);
      app.run("INSERT INTO log VALUES ('another')");
    };
    const error = await refusal(ask(binding, { customer: 1 }, undefined, { record }));
    expect(error.code).toBe("OUTCOME_UNKNOWN");
    expect(states()).toEqual(UNCHANGED);
  });

  test("leaves the file whole, whenever its process is killed, and never claims what did not happen", async () => {
    app.run("CREATE TABLE many (id INTEGER PRIMARY KEY, n INTEGER)");
    app.run(
      "INSERT INTO many SELECT value, 0 FROM (WITH RECURSIVE r(value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM r LIMIT 900) SELECT value FROM r)",
    );
    const databases = await open();
    const tool = sqlTool({
      ...{ classification, input: { n: z.int() }, columns: { id: text }, rows: { changes: 1_000 } },
      statement: "update many set n = $1 where id > 0 returning id",
    });
    const binding = await loaded(databases, tool);
    const outcomes: string[] = [];
    for (let n = 1; n <= 60; n += 1) {
      const before = app.query("SELECT DISTINCT n FROM many").values();
      const timer = setTimeout(kill, n % 20);
      const outcome = await ask(binding, { n }).then(
        () => "changed",
        (error: { readonly code?: string }) => error.code ?? String(error),
      );
      clearTimeout(timer);
      const after = app.query("SELECT DISTINCT n FROM many").values();
      outcomes.push(outcome);
      // All rows have one value: a change is whole, or it has not happened.
      expect(after.length).toBe(1);
      if (outcome === "changed") expect(after).toEqual([[n]]);
      else if (outcome !== "OUTCOME_UNKNOWN") expect(after).toEqual(before);
    }
    expect(app.query("PRAGMA integrity_check").values()).toEqual([["ok"]]);
    expect(outcomes).toContain("TARGET_UNAVAILABLE");
  }, 60_000);
});

describe("the file", () => {
  const problemOf = async (path: string): Promise<string> => {
    const problems: string[] = [];
    opened.push(await openShop({ url: `sqlite:${path}` }, { problems }));
    return problems.join();
  };

  test("must exist, and must not be a link", async () => {
    expect(await problemOf(join(folder, "missing"))).toContain("cannot be used (ENOENT)");
    const link = join(folder, `link-${made}`);
    fs.symlinkSync(file, link);
    expect(await problemOf(link)).toBe(`systems.shop.sql.url: ${link} is a symbolic link`);
    expect(await problemOf(folder)).toBe(`systems.shop.sql.url: ${folder} is not a file`);
    const other = join(folder, `other-${made}`);
    fs.linkSync(file, other);
    expect(await problemOf(file)).toBe(`systems.shop.sql.url: ${file} has another name as well (a hard link)`);
  });

  test("that is not a database: its tool is not loaded", async () => {
    app.close();
    fs.writeFileSync(file, "x".repeat(5_000));
    expect(await faults("select 1 as x")).toEqual(["target.sql.statement the database refuses it (SQLITE_NOTADB)"]);
  });

  test("is read in WAL mode while another program writes, and when none has it open", async () => {
    app.run("PRAGMA journal_mode = wal");
    const tool = sqlTool({ statement: "select count(*) as x from orders", columns: { x: z.int() } });
    const binding = await loaded(await open({ writable: undefined }), tool);
    app.run("BEGIN IMMEDIATE");
    app.run("INSERT INTO orders VALUES (50, 1, 'open')");
    expect(await ask(binding)).toEqual({ rows: [{ x: 4 }] });
    app.run("COMMIT");
    expect(await ask(binding)).toEqual({ rows: [{ x: 5 }] });
    app.close();
    expect(await ask(await loaded(await open({ writable: undefined }), tool))).toEqual({ rows: [{ x: 5 }] });
    app = new Database(file);
  });

  test("changes to WAL mode while several processes have it open, and the next call answers", async () => {
    const tool = sqlTool({ statement: "select count(*) as x from orders", columns: { x: z.int() } });
    const binding = await loaded(await open({ writable: undefined }), tool);
    await Promise.all(Array.from({ length: 4 }, () => ask(binding)));
    expect(children().length).toBeGreaterThan(1);
    app.run("PRAGMA journal_mode = wal");
    app.run("INSERT INTO orders VALUES (50, 1, 'open')");
    expect(await ask(binding)).toEqual({ rows: [{ x: 5 }] });
  });

  test("with another program's unfinished change is restored in a writable system, and is unavailable in any other", async () => {
    // A crash leaves the journal of a change whose pages are in the file.
    app.run("PRAGMA cache_size = 1");
    app.run("PRAGMA cache_spill = 1");
    app.run("BEGIN IMMEDIATE");
    app.run("UPDATE people SET name = hex(zeroblob(20000))");
    app.run("INSERT INTO log SELECT hex(zeroblob(20000)) FROM orders, orders AS o, orders AS p");
    const copy = join(folder, `crashed-${made}.sqlite`);
    fs.copyFileSync(`${file}-journal`, `${copy}-journal`);
    fs.copyFileSync(file, copy);
    app.run("ROLLBACK");
    const tool = sqlTool({ statement: "select name as x from people where id = 1", columns: { x: text } });
    const reading = await openShop({ url: `sqlite:${copy}` });
    opened.push(reading);
    await reading.prepare([tool]);
    expect(reading.quarantineOf(tool)?.reason).toContain("has not been reached yet");
    const both = await openShop({ url: `sqlite:${copy}`, writable: true });
    opened.push(both);
    expect(await ask(await loaded(both, tool))).toEqual({ rows: [{ x: "Ann" }] });
  });

  test("is the only one that its process can use", async () => {
    const secret = join(folder, `secret-${made}.sqlite`);
    new Database(secret).run("CREATE TABLE t (x)");
    const attach = async (confinement: "require" | "off"): Promise<unknown> => {
      const entry = sqlSystem.parse({ sql: { url: `sqlite:${file}`, writable: true } }).sql;
      const options = { newId: () => crypto.randomUUID() } as ServerProcessOptions;
      const processes = serverProcesses(options);
      const context = {
        pathOf: (path: string) => path,
        problems: [],
        random: () => 0,
        config: { commands: { confinement } },
      };
      const system = await openSqlite(context as unknown as SqlContext, processes, { name: "shop", entry });
      const user = system?.write as SqliteUser;
      const statement = `attach '${secret}' as other`;
      const limits = { cellChars: 10, bytes: 10 };
      const request = { do: "change", statement, values: [], rows: 1, limits } as const;
      const answer = await user.ask(request, AbortSignal.timeout(10_000)).then(
        () => "attached",
        (error: Error) => error.message,
      );
      await system?.close();
      await processes.close();
      return answer;
    };
    expect(await attach("off")).toBe("attached");
    expect(await attach("require")).toBe("SQLITE_CANTOPEN");
  });
});

describe("when the schema changes", () => {
  test.each([
    ["a column is gone", "ALTER TABLE people DROP COLUMN salary"],
    ["a column has another name", "ALTER TABLE people RENAME COLUMN salary TO pay"],
    ["the table is gone", "DROP VIEW visible; DROP VIEW mixed; DROP TABLE people"],
  ])("%s: the tool is quarantined", async (_, change) => {
    const databases = await open();
    const tool = sqlTool({ statement: "select salary as x from people where id = 1", columns: { x: text } });
    const binding = await loaded(databases, tool);
    expect(await ask(binding)).toEqual({ rows: [{ x: "10" }] });
    app.run(change);
    expect((await refusal(ask(binding))).code).toBe("TARGET_FAILED");
    expect(databases.quarantineOf(tool)?.reason).toBe("the database has changed since the tool was loaded");
  });

  test("a protected column that appears under another column's name is noticed before its first answer", async () => {
    const databases = await open({ columns: { "people.email": "never", "people.address": "never" } });
    const tool = sqlTool({ statement: "select name as x from shown", columns: { x: text } });
    app.run("CREATE VIEW shown AS SELECT name FROM people");
    const binding = await loaded(databases, tool);
    expect(await ask(binding)).toMatchObject({ rows: [{ x: "Ann" }, { x: "Bob" }] });
    app.run("DROP VIEW shown; CREATE VIEW shown AS SELECT email AS name FROM people");
    const error = await refusal(ask(binding));
    expect(error.code).toBe("TARGET_FAILED");
    expect(JSON.stringify([error, error.cause])).not.toContain("canary.example");
  });

  test("a change that does not concern the tool is checked once, and the tool stays available", async () => {
    const binding = await loaded(await open(), sqlTool({ statement: "select 1 as x", columns: { x: text } }));
    app.run("CREATE TABLE another (x)");
    expect(await ask(binding)).toEqual({ rows: [{ x: "1" }] });
  });

  test("a change of rows is rolled back", async () => {
    const binding = await loaded(await open(), cancel({ changes: 3 }));
    app.run("ALTER TABLE orders RENAME TO former; CREATE VIEW orders AS SELECT * FROM former");
    expect((await refusal(ask(binding, { customer: 1 }))).code).toBe("TARGET_FAILED");
    expect(states()).toEqual(UNCHANGED);
  });

  test("another file at the path is checked before its first answer", async () => {
    const databases = await open();
    const tool = sqlTool({ statement: "select name as x from people where id = 1", columns: { x: text } });
    const binding = await loaded(databases, tool);
    expect(await ask(binding)).toEqual({ rows: [{ x: "Ann" }] });
    const next = new Database(join(folder, `next-${made}`));
    next.run("CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO people VALUES (1, 'Zoe')");
    next.close();
    fs.renameSync(join(folder, `next-${made}`), file);
    expect(await ask(binding)).toEqual({ rows: [{ x: "Zoe" }] });
  });
});

test("the guide's settings and its statement are what a tool needs", async () => {
  const blocks = blocksOf("docs/sql.md").map(({ text: block }) => block);
  const settings = parse(blocks.find((block) => block.includes("url: sqlite:")) ?? "").systems.shop.sql;
  const statement = blocks.find((block) => block.startsWith("select o.id, o.total")) ?? "";
  app.run("CREATE TABLE customers (id INTEGER PRIMARY KEY, email TEXT)");
  app.run("INSERT INTO customers SELECT id, email FROM people");
  app.run("ALTER TABLE orders ADD COLUMN total TEXT DEFAULT '1.50'");
  const tool = sqlTool({
    statement,
    input: { customer: z.string(), states: z.array(z.string()).optional() },
    columns: { id: text, total: text, contact: text },
    outputPolicy: { "rows[].id": "allow", "rows[].total": "allow", "rows[].contact": "mask" },
  });
  const binding = await loaded(await open({ ...settings, url: `sqlite:${file}` }), tool);
  const row = { total: "1.50", contact: "ann@canary.example" };
  const all = [1, 2, 3].map((id) => ({ id: String(id), ...row }));
  expect(await ask(binding, { customer: "1" })).toEqual({ rows: all });
  expect(await ask(binding, { customer: "1", states: ["open", "x"] })).toEqual({ rows: all });
  expect(await ask(binding, { customer: "1", states: ["sent"] })).toEqual({ rows: [] });
});

test("the processes end with the databases", async () => {
  const databases = await openShop({ url: `sqlite:${file}` });
  await loaded(databases, sqlTool({ statement: "select 1 as x", columns: { x: text } }));
  const before = children().length;
  expect(before).toBeGreaterThan(0);
  await databases.close();
  expect(children().length).toBe(before - 1);
});

test("the processes end with a service that is killed during a query", async () => {
  const code = `import { ask, loaded, openShop, sqlTool } from ${JSON.stringify(join(import.meta.dir, "support.ts"))};
import { z } from "zod";
const databases = await openShop({ url: ${JSON.stringify(`sqlite:${file}`)}, limits: { statementMs: 600000 } });
const statement = "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) as x from r";
const binding = await loaded(databases, sqlTool({ statement, columns: { x: z.string() } }));
console.log("asks");
await ask(binding, {}, AbortSignal.timeout(600000));`;
  // A killed service leaves the private directory of its process.
  const env = { ...process.env, TMPDIR: folder };
  const service = Bun.spawn([process.execPath, "-e", code], { cwd: import.meta.dir, env, stdout: "pipe" });
  const said = await service.stdout.getReader().read();
  expect(Buffer.from(said.value ?? []).toString()).toBe("asks\n");
  const [child = 0] = children(service.pid);
  expect(child).toBeGreaterThan(0);
  service.kill("SIGKILL");
  await service.exited;
  const runs = (): boolean => {
    try {
      return fs.readFileSync(`/proc/${child}/cmdline`, "utf8") !== "";
    } catch {
      return false;
    }
  };
  await until("the end of its process", () => !runs() || undefined);
});
