import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { findPostgres } from "../../support/postgres.ts";
import { ask, faultsOf, loaded, notesOf, PostgresShop, refusal, sqlTool } from "./support.ts";

const native = findPostgres();
const text = z.string().nullable();
const classification = "write";

const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN;
CREATE TABLE people (id bigint PRIMARY KEY, name varchar, email varchar, shown text GENERATED ALWAYS AS (lower(email)) STORED);
INSERT INTO people VALUES (1, 'Ann', 'canary');
CREATE TABLE staff () INHERITS (people);
CREATE TABLE visits (id bigint, email text) PARTITION BY RANGE (id);
CREATE TABLE visits_old PARTITION OF visits FOR VALUES FROM (0) TO (100);
CREATE VIEW listed AS SELECT email FROM people; CREATE MATERIALIZED VIEW copied AS SELECT email FROM people;
CREATE TABLE odd (constructor text, "__proto__" text, "a.b" text); INSERT INTO odd VALUES ('a', 'b', 'c');
CREATE TABLE a (id bigint PRIMARY KEY); CREATE TABLE b (id bigint PRIMARY KEY REFERENCES a ON DELETE CASCADE);
CREATE TABLE c (id bigint REFERENCES b ON DELETE SET NULL ON UPDATE CASCADE);
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER note AFTER UPDATE ON c FOR EACH ROW EXECUTE FUNCTION noted();
CREATE TRIGGER part AFTER DELETE ON visits_old FOR EACH ROW EXECUTE FUNCTION noted();
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader; GRANT ALL ON ALL TABLES IN SCHEMA public TO writer;`;

const shop = new PostgresShop();

describe.skipIf(native === undefined)("an attack on a database", () => {
  beforeAll(() => shop.start(native, TABLES));
  afterAll(() => shop.end());

  describe("on the rules of columns", () => {
    const never = (key: string) => ({ columns: { [key]: "never" } });
    const released = (from: string): readonly string[] => [
      `target.sql.statement returns ${from}, which the system's columns never release`,
    ];
    const reading: readonly (readonly [what: string, rule: string, statement: string, from: string])[] = [
      ["a table that inherits", "people.email", "select email as x from staff", "public.people.email"],
      ["a partition", "visits.*", "select email as x from visits_old", "public.visits.email"],
      ["the table above", "public.staff.email", "select email as x from people", "public.staff.email"],
      ["a name with a point", "odd.*", 'select "a.b" as x from odd', "public.odd.a.b"],
    ];
    test.each(reading)("by %s: the rule holds", async (_, rule, statement, from) => {
      expect(await faultsOf(await shop.open(never(rule)), sqlTool({ statement, columns: { x: text } }))).toEqual(
        released(from),
      );
    });

    test("by a view that has a rule of its own: no declared origin lifts it", async () => {
      for (const view of ["listed", "copied"]) {
        const tool = sqlTool({
          statement: `select email as x from ${view}`,
          columns: { x: text },
          origins: { x: "computed" },
        });
        expect(await faultsOf(await shop.open(never(`${view}.email`)), tool)).toEqual(released(`public.${view}.email`));
      }
    });

    const unknown = ["select email as x from copied", "select shown as x from people", "select p as x from people p"];
    test.each(unknown)("by what holds another column's value, in %p: it needs an origin", async (statement) => {
      const [fault = ""] = await faultsOf(
        await shop.open(never("people.email")),
        sqlTool({ statement, columns: { x: text } }),
      );
      expect(fault).toStartWith("target.sql.origins does not say where the column x comes from");
    });

    test("by a name in RETURNING that hides a column: each column has its own place", async () => {
      const statement = `update people set name = 'Ann' where id = 1
returning id, email as "a b", (select "a.b" as "c d" from odd) as "e (f", name`;
      const columns = { id: text, "a b": text, "e (f": text, name: text };
      const tool = sqlTool({ classification, statement, columns });
      expect(await faultsOf(await shop.open(never("people.email")), { ...tool, target: origin(tool, "e (f") })).toEqual(
        released("public.people.email"),
      );
      expect(await ask(await loaded(await shop.open(), tool))).toEqual({
        changed: 1,
        rows: [{ id: "1", "a b": "canary", "e (f": "c", name: "Ann" }],
      });
    });

    const origin = ({ target }: ReturnType<typeof sqlTool>, column: string) => {
      const { system, sql } = target as Extract<typeof target, { readonly sql: unknown }>;
      return { system, sql: { ...sql, origins: { [column]: "computed" } } };
    };

    test("by names that every object has: they are columns as any other", async () => {
      const statement = 'select constructor, "__proto__" from odd';
      expect(await faultsOf(await shop.open(), sqlTool({ statement }))).toEqual([
        "output.rows[] has no member constructor, which the statement returns",
        "output.rows[] has no member __proto__, which the statement returns",
      ]);
    });
  });

  const inexact = ["1234567890123456789012345", "12345678901234567.5", "0.12345678901234567890123"];
  test.each(inexact)("on the digits of a number that JSON would change, %s: there is no answer", async (number) => {
    const tool = sqlTool({ statement: `select ${number}::numeric as x`, columns: { x: z.number() } });
    expect((await refusal(ask(await loaded(await shop.open(), tool)))).code).toBe("INVALID_OUTPUT");
  });

  test("numbers that JSON holds are read in each of their forms", async () => {
    const statement = `select 1.500::numeric as a, 1e20::float8 as b, '-0'::float8 as c, 0.1::real as d, 1e-7::numeric as e`;
    const columns = { a: z.number(), b: z.number(), c: z.number(), d: z.number(), e: z.number() };
    const { rows } = (await ask(await loaded(await shop.open(), sqlTool({ statement, columns })))) as {
      rows: unknown[];
    };
    expect(rows).toEqual([{ a: 1.5, b: 1e20, c: -0, d: 0.1, e: 1e-7 }]);
  });

  test("by an answer that cannot be read: the change is taken back", async () => {
    const statement = "update people set name = 'changed' where id = 1 returning 9007199254740993 as id";
    const tool = sqlTool({ classification, statement, columns: { id: z.int() } });
    expect((await refusal(ask(await loaded(await shop.open(), tool)))).code).toBe("INVALID_OUTPUT");
    expect(await shop.server.send("SELECT name FROM people WHERE id = 1", "shop")).toEqual([{ name: "Ann" }]);
  });

  test("by a row that is larger than the limit of all rows: it is not sent", async () => {
    const databases = await shop.open({ limits: { cellChars: 1_000, bytes: 2_500 } });
    const statement = `select ${["a", "b", "c"].map((name) => `repeat('x', 1000) as ${name}`).join(", ")}`;
    const tool = sqlTool({ statement, columns: { a: text, b: text, c: text } });
    expect(await ask(await loaded(databases, tool))).toEqual({ rows: [], truncated: true });
  });

  test("by functions that read what their argument names: they are refused", async () => {
    const statement = "select schema_to_xml($1::text::name, false, false, '')::text as x";
    const tool = sqlTool({ statement, input: { schema: z.string() }, columns: { x: text } });
    expect((await faultsOf(await shop.open(), tool))[0]).toContain("calls pg_catalog.schema_to_xml");
  });

  describe("by what is found first under the same name", () => {
    test("a table: it is checked before its first answer", async () => {
      const tool = sqlTool({ statement: "select name as x from people", columns: { x: text } });
      const binding = await loaded(await shop.open({ columns: { "reader.people.name": "never" } }), tool);
      expect(await ask(binding)).toEqual({ rows: [{ x: "Ann" }] });
      const shadow =
        "CREATE TABLE reader.people AS SELECT 'canary'::text AS name; GRANT USAGE ON SCHEMA reader TO reader";
      await shop.server.send(`CREATE SCHEMA reader; ${shadow}; GRANT SELECT ON reader.people TO reader`, "shop");
      try {
        expect((await refusal(ask(binding))).code).toBe("TARGET_FAILED");
      } finally {
        await shop.server.send("DROP SCHEMA reader CASCADE", "shop");
      }
    });

    test("a function: it is checked before its first answer", async () => {
      const tool = sqlTool({ statement: "select lower(name) as x from people", columns: { x: text } });
      const binding = await loaded(await shop.open(), tool);
      expect(await ask(binding)).toEqual({ rows: [{ x: "ann" }] });
      await shop.server.send(
        "CREATE FUNCTION lower(varchar) RETURNS text LANGUAGE sql AS $$ SELECT 'canary' $$",
        "shop",
      );
      try {
        expect((await refusal(ask(binding))).code).toBe("TARGET_FAILED");
      } finally {
        await shop.server.send("DROP FUNCTION lower(varchar)", "shop");
      }
    });
  });

  test("by effects two tables away, or of a partition: approvers read them", async () => {
    const notes = async (statement: string): Promise<unknown> =>
      notesOf(await loaded(await shop.open(), sqlTool({ classification, statement, columns: { id: text } })));
    expect(await notes("delete from a where id = 1 returning id")).toEqual([
      "a changed row of b also changes c",
      "a deleted row of a also changes b",
      "a deleted row of b also changes c",
      "the trigger note of c runs",
    ]);
    expect(await notes("delete from visits where id = 1 returning id")).toEqual([
      "the trigger part of visits_old runs",
    ]);
  });

  describe("on time", () => {
    const soon = () => AbortSignal.timeout(100);
    const quick = sqlTool({ statement: "select 1 as x", columns: { x: text } });

    test("by calls that hold every connection: the next one ends with its own deadline", async () => {
      const databases = await shop.open({ connections: 1 });
      const slow = sqlTool({ statement: "select count(*) as x from generate_series(1, 1e9)", columns: { x: text } });
      const [holding, waiting] = [await loaded(databases, slow), await loaded(databases, quick)];
      const leaving = new AbortController();
      const held = refusal(ask(holding, {}, leaving.signal));
      expect((await refusal(ask(waiting, {}, soon()))).code).toBe("DEADLINE_EXCEEDED");
      leaving.abort();
      expect((await held).code).toBe("CANCELLED");
      expect(await ask(waiting)).toEqual({ rows: [{ x: "1" }] });
    });

    test("by a server that is silent: a call ends with its deadline, also with a new connection", async () => {
      const binding = await loaded(await shop.open(), quick);
      shop.server.freeze();
      const started = performance.now();
      try {
        for (let call = 0; call < 2; call += 1) {
          expect((await refusal(ask(binding, {}, soon()))).code).toBe("DEADLINE_EXCEEDED");
        }
      } finally {
        shop.server.thaw();
      }
      expect(performance.now() - started).toBeLessThan(4_500);
    });
  });
});
