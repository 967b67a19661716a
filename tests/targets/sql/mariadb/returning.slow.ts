import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { z } from "zod";
import type { OutputFieldPolicy } from "../../../../src/core/types.ts";
import { ask, faultsOf, loaded, MariaDbShop, refusal, sqlTool } from "../support.ts";

const TABLES = [
  "CREATE TABLE people (id bigint AUTO_INCREMENT PRIMARY KEY, name varchar(40), email varchar(40), score double, loud varchar(40) AS (upper(email)))",
  "CREATE TABLE copies (id bigint PRIMARY KEY, text varchar(40))",
  "CREATE FUNCTION noted() RETURNS int NO SQL RETURN 1",
  "CREATE USER reader@'%'",
  "GRANT SELECT ON shop.* TO reader@'%'",
  "CREATE USER writer@'%'",
  "GRANT SELECT, INSERT, UPDATE, DELETE, EXECUTE ON shop.* TO writer@'%'",
];

const classification = "write";
const text = z.string().nullable();
const outputPolicy: OutputFieldPolicy = { changed: "allow", "rows[].*": "allow" };
const shop = new MariaDbShop();

type Options = Parameters<typeof sqlTool>[0];

const remove = (more: Partial<Options> = {}): ReturnType<typeof sqlTool> =>
  sqlTool({
    statement: "delete from people where id <= cast(? as signed) returning id, name as who",
    ...{ classification, outputPolicy, input: { id: z.int() }, columns: { id: text, who: text }, ...more },
  });

const people = async (): Promise<readonly unknown[]> =>
  (await shop.server.send("SELECT name FROM people ORDER BY id", "shop")).map(({ name }) => name);
const ALL = ["Ann", "Bob", "Cy", "Di"];

describe("a change of a MariaDB database that returns rows", () => {
  beforeAll(() => shop.start(TABLES));
  beforeEach(async () => {
    await shop.server.send(
      [
        "TRUNCATE people",
        `INSERT INTO people (name, email, score) VALUES ${ALL.map((name) => `('${name}', '${name}@canary.example', 0.1)`).join(", ")}`,
      ],
      "shop",
    );
  });
  afterAll(() => shop.end());

  test("returns the rows that it has deleted, up to its bound", async () => {
    const binding = await loaded(await shop.open(), remove({ rows: { changes: 2 } }));
    const rows = [
      { id: "1", who: "Ann" },
      { id: "2", who: "Bob" },
    ];
    expect(await ask(binding, { id: 2 })).toEqual({ changed: 2, rows });
    expect(await people()).toEqual(["Cy", "Di"]);
    expect(await ask(binding, { id: 2 })).toEqual({ changed: 0, rows: [] });
  });

  test("above its bound counts all rows, and is taken back", async () => {
    const binding = await loaded(await shop.open(), remove({ rows: { changes: 1 } }));
    const { code, message, details } = await refusal(ask(binding, { id: 4 }));
    expect([code, message, details]).toEqual([
      "TARGET_REFUSED",
      "The statement would change 4 rows, and at most 1 are allowed. Nothing was changed.",
      { status: "FAILED_PRECONDITION" },
    ]);
    expect(await people()).toEqual(ALL);
  });

  test("returns the row that it has added, with exact values", async () => {
    const insert = sqlTool({
      statement: "insert into people (id, name, score) values (cast(? as signed), ?, cast(? as double)) returning *",
      ...{ classification, outputPolicy, one: true },
      input: { id: z.string(), name: z.string(), score: z.number() },
      columns: { id: text, name: text, email: text, score: z.number().nullable(), loud: text },
    });
    const binding = await loaded(await shop.open(), insert);
    const added = { id: "9007199254740993", name: "'); drop table people; --", score: 0.30000000000000004 };
    expect(await ask(binding, added)).toEqual({ ...added, email: null, loud: null });
    expect(await people()).toHaveLength(5);
    expect(await refusal(ask(binding, added))).toMatchObject({
      code: "TARGET_REFUSED",
      details: { status: "ALREADY_EXISTS" },
    });
    expect(await people()).toHaveLength(5);
  });

  test("with a result above the system's limits is taken back", async () => {
    await shop.server.send("UPDATE people SET email = repeat('x', 40), name = repeat('y', 20)", "shop");
    const rows = { changes: 1000 };
    const statement = "delete from people where id <= cast(? as signed) returning id, repeat(name, 30) as who";
    const small = await shop.open({ limits: { bytes: 1024 } });
    const cells = await shop.open({ limits: { cellChars: 100 } });
    for (const databases of [small, cells]) {
      const binding = await loaded(databases, remove({ statement, rows }));
      expect((await refusal(ask(binding, { id: 4 }))).code).toBe("OUTPUT_TOO_LARGE");
      expect(await people()).toHaveLength(4);
    }
    // More than the driver may receive: its connection ends.
    const huge = await loaded(small, remove({ statement: statement.replace("30", "100000"), rows }));
    expect((await refusal(ask(huge, { id: 4 }))).code).toBe("OUTPUT_TOO_LARGE");
    expect(await people()).toHaveLength(4);
    const normal = await loaded(small, remove({ rows }));
    expect(await ask(normal, { id: 1 })).toMatchObject({ changed: 1 });
  });

  test("is held to the rules for columns by origin, under every alias", async () => {
    const databases = await shop.open({ columns: { "people.name": "mask", "people.email": "never" } });
    const faults = (more: Partial<Options>): Promise<readonly string[]> => faultsOf(databases, remove(more));
    const masked: OutputFieldPolicy = { changed: "allow", "rows[].id": "allow", "rows[].who": "mask" };
    expect(await faults({ outputPolicy: masked })).toEqual([]);
    expect(await faults({})).toEqual([
      "outputPolicy.rows[].who must be mask, as the system's columns say of shop.people.name",
    ]);
    const returning = (list: string) => `delete from people where id <= cast(? as signed) returning id, ${list} as who`;
    expect(await faults({ statement: returning("email") })).toEqual([
      "target.sql.statement returns shop.people.email, which the system's columns never release",
    ]);
    for (const list of ["loud", "concat(email, '')", "(select max(email) from people)"]) {
      expect(await faults({ statement: returning(list) })).toContainEqual(
        expect.stringContaining("does not say where the column who comes from"),
      );
    }
    // The returned column has the values of another one.
    const copies = "insert into copies (id, text) select id, email from people where id = ? returning id, text as who";
    expect(await faults({ statement: copies })).toContainEqual(
      expect.stringContaining("does not say where the column who comes from"),
    );
  });

  const refused: readonly (readonly [what: string, statement: string])[] = [
    ["replaces", "replace into people (id) values (?) returning id, name as who"],
    ["ignores errors", "insert ignore into people (id) values (?) returning id, name as who"],
    [
      "updates rows that exist",
      "insert into people (id) values (?) on duplicate key update name = 'x' returning id, name as who",
    ],
    ["updates", "update people set name = 'x' where id = ? returning id, name as who"],
    ["deletes from two tables", "delete people from people, copies where people.id = ? returning id, name as who"],
    ["waits", "delete from people where id = ? returning id, sleep(1) as who"],
    ["calls a stored function", "delete from people where id = ? returning id, noted() as who"],
    ["reads a setting", "delete from people where id = ? returning id, @@datadir as who"],
    ["returns two columns of a name", "delete from people where id = ? returning id as who, name as who"],
    ["is followed by another", "delete from people where id = ? returning id, name as who; drop table copies"],
    ["reads another table", "delete from people where id = ? returning id, text as who from copies"],
    ["writes a file", "delete from people where id = ? returning id, name as who into outfile '/tmp/stc-canary'"],
  ];
  test.each(refused)("is not loaded when it %s", async (_, statement) => {
    expect(await faultsOf(await shop.open(), remove({ statement }))).not.toEqual([]);
    expect(await people()).toEqual(ALL);
  });

  test("notices a table that has changed since the check, before anything is committed", async () => {
    const databases = await shop.open({ columns: { "people.email": "never" } });
    const statement = "delete from people where id <= cast(? as signed) returning id, name as who";
    const binding = await loaded(databases, remove({ statement, rows: { changes: 9 } }));
    try {
      await shop.server.send(
        [
          "ALTER TABLE people DROP COLUMN loud",
          "ALTER TABLE people RENAME COLUMN name TO old, RENAME COLUMN email TO name",
        ],
        "shop",
      );
      // The rule is for a column that is called otherwise now, and the tool has the columns that it names: it is checked again.
      await shop.server.send("ALTER TABLE people CHANGE COLUMN name name varchar(50)", "shop");
      expect(await ask(binding, { id: 1 })).toEqual({ changed: 1, rows: [{ id: "1", who: "Ann@canary.example" }] });
      await shop.server.send("ALTER TABLE people DROP COLUMN name", "shop");
      expect((await refusal(ask(binding, { id: 4 }))).code).toBe("TARGET_FAILED");
      expect(await shop.server.send("SELECT count(*) AS n FROM people", "shop")).toEqual([{ n: 3 }]);
    } finally {
      await shop.server.send(["DROP TABLE people", TABLES[0] ?? ""], "shop");
    }
  });
});
