import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { z } from "zod";
import { Refusal } from "../../src/core/errors.ts";
import type { Databases } from "../../src/targets/sql/databases.ts";
import { until } from "../support/until.ts";
import { Wire } from "../support/wire.ts";
import { runContext } from "../targets/http/support.ts";
import { ask, faultsOf, loaded, MariaDbShop, notesOf, refusal, sqlTool } from "../targets/sql/support.ts";

const classification = "write";

const TABLES = [
  "CREATE TABLE people (id bigint PRIMARY KEY, name varchar(20))",
  "CREATE TABLE orders (id bigint PRIMARY KEY AUTO_INCREMENT, customer bigint NOT NULL, status varchar(10) NOT NULL CHECK (status <> 'bad'), FOREIGN KEY (customer) REFERENCES people (id) ON DELETE CASCADE)",
  "CREATE TABLE parts (id bigint, FOREIGN KEY (id) REFERENCES orders (id) ON UPDATE CASCADE)",
  "CREATE TRIGGER note AFTER UPDATE ON orders FOR EACH ROW SET @noted = 1",
  "CREATE TABLE old (id bigint, status varchar(10)) ENGINE=MyISAM",
  "INSERT INTO old VALUES (1, 'open')",
  "CREATE TABLE `2019` (id bigint, status varchar(10)) ENGINE=MyISAM",
  "CREATE TABLE prices (id bigint PRIMARY KEY AUTO_INCREMENT, price decimal(5,2), name varchar(3), day date)",
  "CREATE VIEW older AS SELECT id, status FROM old",
  "CREATE USER reader@'%'",
  "GRANT SELECT ON shop.* TO reader@'%'",
  "CREATE USER writer@'%'",
  "GRANT SELECT, INSERT, UPDATE, DELETE, TRIGGER ON shop.* TO writer@'%'",
];

const UPDATE = "update orders set status = ? where customer = cast(? as signed) and status in ('open', ?)";
const COUNT =
  "select count(*) from orders where ? is not null and customer = cast(? as signed) and status in ('open', ?)";
const input = { status: z.string(), customer: z.int(), same: z.string() };
const changed = z.object({ changed: z.int() });
const first = { customer: 1, status: "sent", same: "sent" };

const shop = new MariaDbShop();

type Options = Parameters<typeof sqlTool>[0];

/** Returns a tool whose result is the number of changed rows. */
function change(options: Partial<Options> = {}): ReturnType<typeof sqlTool> {
  const outputPolicy = { changed: "allow" } as const;
  return { ...sqlTool({ classification, statement: UPDATE, input, outputPolicy, ...options }), output: changed };
}

const states = (): Promise<readonly unknown[]> =>
  shop.server.send("SELECT status, count(*) AS n FROM orders GROUP BY 1 ORDER BY 1", "shop");
const UNCHANGED = [{ status: "open", n: 5 }];

describe("a change of a MariaDB database", () => {
  beforeAll(() => shop.start(TABLES));
  beforeEach(async () => {
    await shop.server.send(
      [
        "DELETE FROM people",
        "INSERT INTO people VALUES (1, 'Ann'), (2, 'Bob')",
        "INSERT INTO orders SELECT seq, IF(seq < 4, 1, 2), 'open' FROM seq_1_to_5",
      ],
      "shop",
    );
  });
  afterAll(() => shop.end());

  test("changes rows up to its bound, and has its connection recorded before it is final", async () => {
    const binding = await loaded(await shop.open(), change({ rows: { changes: 3 } }));
    const recorded: unknown[] = [];
    const record = async (facts: unknown): Promise<void> => {
      recorded.push(facts, await states());
    };
    expect(await ask(binding, first, undefined, { record })).toEqual({ changed: 3 });
    const transaction = expect.stringMatching(/^connection \d+$/);
    expect(recorded).toEqual([{ system: "shop", transaction, changed: 3 }, UNCHANGED]);
    expect(await states()).toEqual([
      { status: "open", n: 2 },
      { status: "sent", n: 3 },
    ]);
  });

  test("counts the rows that it matches, also those that stay as they are", async () => {
    const databases = await shop.open();
    const three = await loaded(databases, change({ rows: { changes: 3 } }));
    expect(await ask(three, { ...first, status: "open" })).toEqual({ changed: 3 });
    const two = await loaded(databases, change({ rows: { changes: 2 } }));
    expect((await refusal(ask(two, { ...first, status: "open" }))).code).toBe("TARGET_REFUSED");
  });

  const large: readonly (readonly [what: string, options: Partial<Options>])[] = [
    ["an update", {}],
    ["a deletion", { statement: "delete from orders where id < 9", input: {} }],
    [
      "an insertion",
      { statement: "insert into orders (customer, status) select 1, 'new' from orders where id < 4", input: {} },
    ],
    [
      "a replacement",
      { statement: "replace into orders (id, customer, status) values (1, 1, 'x'), (2, 1, 'x')", input: {} },
    ],
    [
      "an insertion that updates",
      {
        statement:
          "insert into orders (id, customer, status) values (1, 1, 'x'), (2, 1, 'x') on duplicate key update status = 'y'",
        input: {},
      },
    ],
    [
      "an update of two tables",
      { statement: "update people p, orders o set p.name = 'x', o.status = 'x' where o.customer = p.id", input: {} },
    ],
  ];
  test.each(large)("above its bound is taken back: %s", async (_, options) => {
    const binding = await loaded(await shop.open(), change({ rows: { changes: 2 }, ...options }));
    const error = await refusal(ask(binding, options.input === undefined ? first : {}));
    expect([error.code, error.details]).toEqual(["TARGET_REFUSED", { status: "FAILED_PRECONDITION" }]);
    expect(error.message).toMatch(
      /^The statement would change \d+ rows, and at most 2 are allowed\. Nothing was changed\.$/,
    );
    expect(await states()).toEqual(UNCHANGED);
  });

  test("that is counted shows the number, and changes no more rows than that", async () => {
    const databases = await shop.open();
    const binding = await loaded(databases, change({ rows: { changes: 100, count: COUNT } }));
    const { signal } = new AbortController();
    const plan = await binding.plan(first, { signal });
    expect([plan["matches"], plan["changes"]]).toEqual([3, 3]);
    await shop.server.send("INSERT INTO orders VALUES (6, 1, 'open')", "shop");
    const { run } = binding;
    const context = { signal, deadline: 4e12, traceId: "t", traceparent: undefined, caller: {} } as never;
    expect((await refusal(run.call(binding, plan, context))).message).toContain("would change 4 rows, and at most 3");
    const few = await loaded(databases, change({ rows: { changes: 1, count: COUNT } }));
    expect((await refusal(ask(few, first))).message).toContain("would change 4 rows, and at most 1");
    await shop.server.send(["ALTER TABLE orders ADD COLUMN more int", "DELETE FROM orders WHERE id = 6"], "shop");
    expect(await ask(binding, first)).toEqual({ changed: 3 });
    await shop.server.send("ALTER TABLE orders DROP COLUMN more", "shop");
  });

  test("names its triggers, and the tables whose rows change with it", async () => {
    const statement = "delete from people where id = cast(? as signed)";
    const binding = await loaded(await shop.open(), change({ statement, input: { id: z.int() } }));
    expect(await notesOf(binding, { id: 1 })).toEqual([
      "a changed row of orders also changes parts",
      "a deleted row of people also changes orders",
    ]);
    const noted = await loaded(await shop.open(), change({ rows: { changes: 3 } }));
    expect(await notesOf(noted, first)).toEqual([
      "a changed row of orders also changes parts",
      "the trigger note of orders runs",
    ]);
  });

  const others: readonly (readonly [what: string, change: string, undo: string])[] = [
    ["a trigger", "CREATE TRIGGER more AFTER UPDATE ON orders FOR EACH ROW SET @more = 1", "DROP TRIGGER more"],
    [
      "a key that follows",
      "CREATE TABLE follows (id bigint, FOREIGN KEY (id) REFERENCES orders (id) ON DELETE SET NULL)",
      "DROP TABLE follows",
    ],
  ];
  test.each(others)("that would have other effects than planned, by %s, is refused", async (_, made, undo) => {
    const binding = await loaded(await shop.open(), change({ rows: { changes: 3 } }));
    const { signal } = new AbortController();
    const plan = await binding.plan(first, { signal });
    await shop.server.send(made, "shop");
    try {
      const error = await refusal(binding.run(plan, runContext({ signal })));
      expect([error.code, error.details]).toEqual(["TARGET_REFUSED", { status: "FAILED_PRECONDITION" }]);
      expect(error.message).toContain("would have other effects than planned");
      expect(await states()).toEqual(UNCHANGED);
    } finally {
      await shop.server.send(undo, "shop");
    }
  });

  const refused: readonly (readonly [what: string, statement: string])[] = [
    ["is a query", "select 1"],
    ["is two", "update orders set status = 'x' where id = 1; drop table orders"],
    ["returns rows, which its output lacks", "delete from orders where id = 1 returning id"],
    ["begins with another one", "with w as (select 1) update orders set status = 'x' where id = 1"],
    [
      "sets something for itself",
      "set statement max_statement_time = 0 for update orders set status = 'x' where id = 1",
    ],
    ["is a definition", "drop table orders"],
    ["truncates", "truncate orders"],
    ["is a block", "begin not atomic delete from orders; end"],
    ["calls a function that is not listed", "update orders set status = sleep(9) where id = 1"],
    ["hides another one in a comment", "update orders set status = 'x' /*! , customer = 2 */ where id = 1"],
    ["makes a variable", "update orders set status = (@x := 'x') where id = 1"],
    ["changes a table without transactions", "update old set status = 'x' where id = 1"],
    ["changes one whose name has digits only", "insert into shop.2019 values (1, 'x')"],
    ["changes one behind a view", "update older set status = 'x' where id = 1"],
    ["loads a file", "load data infile '/etc/passwd' into table orders"],
    ["may not be done by its user", "update mysql.user set host = 'x' where user = 'root'"],
  ];
  test.each(refused)("is not loaded when it %s", async (_, statement) => {
    expect(await faultsOf(await shop.open(), change({ statement, input: {} }))).not.toEqual([]);
    expect(await states()).toEqual(UNCHANGED);
  });

  test("returns its number alone", async () => {
    const rows = sqlTool({ classification, statement: "delete from orders where id = 1", columns: { id: z.int() } });
    expect(await faultsOf(await shop.open(), rows)).toEqual([
      "output must have changed alone: the change returns no rows",
    ]);
    const one = change({ statement: "delete from orders where id = 1", input: {}, one: true });
    expect(await faultsOf(await shop.open(), one)).not.toEqual([]);
  });

  test("needs a user for changes, without rights over the server", async () => {
    expect(await faultsOf(await shop.open({ write: undefined }), change())).toEqual([
      "target.system systems.shop.sql has no user for tools that change something: set write",
    ]);
    const [fault = ""] = await faultsOf(await shop.open({ write: { user: "root" } }), change());
    expect(fault).toContain("is a superuser");
  });

  test("that a constraint refuses says so without the row", async () => {
    const databases = await shop.open();
    const bad = await refusal(
      ask(await loaded(databases, change({ rows: { changes: 3 } })), { ...first, status: "bad" }),
    );
    expect([bad.code, bad.details]).toEqual(["TARGET_REFUSED", { status: "FAILED_PRECONDITION" }]);
    const statement = "insert into people values (cast(? as signed), ?)";
    const insert = await loaded(databases, change({ statement, input: { id: z.int(), name: z.string() } }));
    const twice = await refusal(ask(insert, { id: 1, name: "canary" }));
    expect([twice.code, twice.details]).toEqual(["TARGET_REFUSED", { status: "ALREADY_EXISTS" }]);
    const long = await refusal(ask(insert, { id: 7, name: "canary".repeat(9) }));
    expect([long.code, long.details]).toEqual(["TARGET_REFUSED", { status: "INVALID_ARGUMENT" }]);
    const text = JSON.stringify([bad, twice, long].map(({ message, cause }) => [message, cause]));
    expect(text).not.toMatch(/canary|orders\.|PRIMARY|CONSTRAINT/);
  });

  const stored: readonly (readonly [column: string, value: string, isStored: boolean])[] = [
    ["price", "1.50", true],
    ["price", "1.005", false],
    ["name", "abc", true],
    ["name", "abc ", false],
    ["name", "abcd", false],
    ["day", "2026-11-28", true],
    ["day", "2026-11-28 13:02", false],
  ];
  test.each(stored)("stores values as they were approved, or nothing: %s %p", async (column, value, isStored) => {
    const statement = `insert into prices (${column}) values (?)`;
    const binding = await loaded(await shop.open(), change({ statement, input: { value: z.string() } }));
    const count = async (): Promise<unknown> =>
      (await shop.server.send("SELECT count(*) AS n FROM prices", "shop"))[0]?.["n"];
    const before = Number(await count());
    if (isStored) expect(await ask(binding, { value })).toEqual({ changed: 1 });
    else expect((await refusal(ask(binding, { value }))).details).toEqual({ status: "INVALID_ARGUMENT" });
    expect(await count()).toBe(before + (isStored ? 1 : 0));
  });

  test("that ignores errors is rolled back, because the server warns", async () => {
    const statement = "insert ignore into people values (1, 'x'), (3, 'x')";
    const binding = await loaded(await shop.open(), change({ statement, input: {}, rows: { changes: 9 } }));
    expect((await refusal(ask(binding))).code).toBe("TARGET_REFUSED");
    expect(await shop.server.send("SELECT count(*) AS n FROM people", "shop")).toEqual([{ n: 2 }]);
  });

  test("whose facts cannot be recorded is rolled back", async () => {
    const binding = await loaded(await shop.open(), change({ rows: { changes: 3 } }));
    const record = async (): Promise<void> => {
      throw new Refusal("AUDIT_UNAVAILABLE", "full");
    };
    expect((await refusal(ask(binding, first, undefined, { record }))).code).toBe("AUDIT_UNAVAILABLE");
    expect(await states()).toEqual(UNCHANGED);
  });

  test("that waits for a row of another transaction ends soon, and changes nothing", async () => {
    const binding = await loaded(await shop.open(), change({ rows: { changes: 3 } }));
    const held = shop.server.send(
      ["START TRANSACTION", "UPDATE orders SET status = 'held' WHERE id = 1", "DO SLEEP(600)", "ROLLBACK"],
      "shop",
    );
    const holder = await until("the lock", async () => {
      const rows = await shop.server.send("SHOW PROCESSLIST");
      return rows.find(({ Info }) => String(Info).startsWith("DO SLEEP"));
    });
    expect((await refusal(ask(binding, first))).code).toBe("TARGET_UNAVAILABLE");
    await shop.server.send(`KILL QUERY ${holder["Id"]}`);
    await held.catch(() => {});
    await until("the end of the lock", async () => ((await states()).length === 1 ? true : undefined));
    expect(await states()).toEqual(UNCHANGED);
  });

  test("whose caller disconnects changes nothing", async () => {
    const binding = await loaded(await shop.open(), change({ rows: { changes: 3 } }));
    const leaving = new AbortController();
    const record = async (): Promise<void> => {
      leaving.abort();
      throw new Refusal("CANCELLED", "gone");
    };
    expect((await refusal(ask(binding, first, leaving.signal, { record }))).code).toBe("CANCELLED");
    await until("the end", async () => ((await states()).length === 1 ? true : undefined));
    expect(await states()).toEqual(UNCHANGED);
  });

  describe("through a connection that breaks", () => {
    const wired = async (): Promise<{ readonly wire: Wire; readonly databases: Databases }> => {
      const wire = new Wire(shop.server.port);
      return { wire, databases: await shop.open({}, await wire.open()) };
    };

    test("before COMMIT: it has not happened, and says so", async () => {
      const { wire, databases } = await wired();
      const binding = await loaded(databases, change({ rows: { changes: 3 } }));
      let isLost = false;
      wire.loses = (sent) => {
        if (isLost || !sent.includes("update orders")) return false;
        isLost = true;
        return true;
      };
      expect((await refusal(ask(binding, first))).code).toBe("TARGET_UNAVAILABLE");
      expect(isLost).toBe(true);
      await until("the end", async () => ((await states()).length === 1 ? true : undefined));
      expect(await states()).toEqual(UNCHANGED);
      wire.close();
    });

    test("with COMMIT: nobody knows, and it says so; the journal has the connection", async () => {
      const { wire, databases } = await wired();
      const binding = await loaded(databases, change({ rows: { changes: 3 } }));
      const recorded: unknown[] = [];
      wire.loses = (sent) => /\bcommit\b/i.test(sent.toString("latin1"));
      const record = async (facts: unknown): Promise<void> => void recorded.push(facts);
      const error = await refusal(ask(binding, first, undefined, { record }));
      const { transaction } = error.cause as { readonly transaction?: string };
      expect([error.code, transaction]).toEqual(["OUTCOME_UNKNOWN", expect.stringMatching(/^connection \d+$/)]);
      expect(recorded).toMatchObject([{ transaction }]);
      wire.close();
    });
  });

  test("whose connection is cut at any point, 300 times: the results of callers match the database", async () => {
    const wire = new Wire(shop.server.port);
    const databases = await shop.open({}, await wire.open());
    const statement = "insert into people (id, name) values (cast(? as signed), 'cut')";
    const binding = await loaded(databases, change({ statement, input: { id: z.int() } }));
    // Any step of a call may be the last: settings, statement, checks, COMMIT, reset.
    let state = Number(process.env["STC_TEST_SEED"] ?? 1);
    wire.loses = () => {
      state = (state * 48_271) % 2_147_483_647;
      return state % 40 === 0;
    };
    const told = new Map<string, "done" | "not" | "unknown">();
    const call = async (id: number): Promise<void> => {
      const outcome = await ask(binding, { id }).then(
        () => "done" as const,
        (error: unknown) => ((error as Refusal).code === "OUTCOME_UNKNOWN" ? ("unknown" as const) : ("not" as const)),
      );
      told.set(String(id), outcome);
    };
    for (let id = 1_000; id < 1_300; id += 3) await Promise.all([call(id), call(id + 1), call(id + 2)]);
    wire.loses = () => false;
    const rows = await shop.server.send("SELECT id FROM people WHERE name = 'cut'", "shop");
    const has = new Set(rows.map(({ id }) => String(id)));
    const wrong = [...told].filter(([id, outcome]) => outcome !== "unknown" && has.has(id) !== (outcome === "done"));
    expect(wrong).toEqual([]);
    const counts = Map.groupBy(told.values(), (outcome) => outcome);
    for (const outcome of ["done", "not"] as const) expect(counts.get(outcome)?.length).toBeGreaterThan(10);
    wire.close();
  });

  test("a server that was started again is reached by the next call", async () => {
    const databases = await shop.open();
    const binding = await loaded(databases, change({ rows: { changes: 3 } }));
    expect(await ask(binding, first)).toEqual({ changed: 3 });
    await shop.server.kill();
    await shop.server.start();
    expect(await ask(binding, { ...first, same: "sent" })).toEqual({ changed: 3 });
  });
});
