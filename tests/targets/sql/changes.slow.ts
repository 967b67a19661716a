import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { z } from "zod";
import { Refusal } from "../../../src/core/errors.ts";
import type { Databases } from "../../../src/targets/sql/databases.ts";
import { findPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";
import { Wire } from "../../support/wire.ts";
import { runContext } from "../http/support.ts";
import { ask, faultsOf, loaded, notesOf, PostgresShop, refusal, sqlTool } from "./support.ts";

const native = findPostgres();
const text = z.string().nullable();
const classification = "write";

const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN;
CREATE TABLE people (id bigint PRIMARY KEY, name text);
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL REFERENCES people ON DELETE CASCADE, status text NOT NULL CHECK (status <> 'bad'));
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER note AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION noted();
GRANT SELECT ON people, orders TO reader; GRANT SELECT, INSERT, UPDATE, DELETE ON people, orders TO writer;`;

const UPDATE = "update orders set status = $2::text where customer = $1::int8 and status = 'open' returning id, status";
const COUNT = "select count(*) from orders where customer = $1::int8 and status = 'open'";
const input = { customer: z.int(), status: z.string() };
const columns = { id: z.int(), status: text };

const shop = new PostgresShop();

const states = (): Promise<readonly unknown[]> =>
  shop.server.send("SELECT status, count(*)::int AS n FROM orders GROUP BY 1 ORDER BY 1", "shop");
const UNCHANGED = [{ status: "open", n: 5 }];

describe.skipIf(native === undefined)("a change", () => {
  beforeAll(() => shop.start(native, TABLES));
  beforeEach(async () => {
    await shop.server.send(
      `TRUNCATE people, orders; INSERT INTO people VALUES (1, 'Ann'), (2, 'Bob');
INSERT INTO orders SELECT n, CASE WHEN n < 4 THEN 1 ELSE 2 END, 'open' FROM generate_series(1, 5) AS n`,
      "shop",
    );
  });
  afterAll(() => shop.end());

  const cancel = (rows: { readonly changes?: number; readonly count?: string }) =>
    sqlTool({ classification, statement: UPDATE, input, columns, rows });

  test("changes rows up to its bound, returns them, and has its transaction recorded before it is final", async () => {
    const binding = await loaded(await shop.open(), cancel({ changes: 3 }));
    const recorded: unknown[] = [];
    const record = async (facts: unknown): Promise<void> => {
      recorded.push(facts, await states());
    };
    const result = await ask(binding, { customer: 1, status: "cancelled" }, undefined, { record });
    expect(result).toEqual({ changed: 3, rows: [1, 2, 3].map((id) => ({ id, status: "cancelled" })) });
    const transaction = expect.stringMatching(/^\d+$/);
    expect(recorded).toEqual([
      { system: "shop", transaction, server: expect.stringMatching(/^[\d. ]+$/), changed: 3 },
      UNCHANGED,
    ]);
    expect(await states()).toEqual([
      { status: "cancelled", n: 3 },
      { status: "open", n: 2 },
    ]);
  });

  test("above its bound is rolled back", async () => {
    const error = await refusal(
      ask(await loaded(await shop.open(), cancel({ changes: 2 })), { customer: 1, status: "x" }),
    );
    expect([error.code, error.message, error.details]).toEqual([
      "TARGET_REFUSED",
      "The statement would change 3 rows, and at most 2 are allowed. Nothing was changed.",
      { status: "FAILED_PRECONDITION" },
    ]);
    expect(await states()).toEqual(UNCHANGED);
  });

  test("that is counted shows the number, and changes no more rows than that", async () => {
    const binding = await loaded(await shop.open(), cancel({ changes: 100, count: COUNT }));
    const { signal } = new AbortController();
    const plan = await binding.plan({ customer: 1, status: "x" }, { signal });
    expect([plan["matches"], plan["changes"]]).toEqual([3, 3]);
    await shop.server.send("INSERT INTO orders VALUES (6, 1, 'open')", "shop");
    const { run } = binding;
    const context = { signal, deadline: 4e12, traceId: "t", traceparent: undefined, caller: {} } as never;
    expect((await refusal(run.call(binding, plan, context))).message).toContain("would change 4 rows, and at most 3");
    const few = await loaded(await shop.open(), cancel({ changes: 1, count: COUNT }));
    expect((await refusal(ask(few, { customer: 1, status: "x" }))).message).toContain(
      "would change 4 rows, and at most 1",
    );
  });

  test("is not planned when the rows that it would change cannot be counted", async () => {
    const count = "select count(*) from orders where customer = $1::int8 having count(*) < 0";
    const binding = await loaded(await shop.open(), cancel({ changes: 5, count }));
    expect((await refusal(ask(binding, { customer: 1, status: "x" }))).code).toBe("INVALID_OUTPUT");
    expect(await states()).toEqual(UNCHANGED);
  });

  test("of one row returns the row; without a row, nothing is changed", async () => {
    const statement = "delete from people where id = $1::int8 returning id, name";
    const one = {
      classification,
      statement,
      input: { id: z.int() },
      columns: { id: z.int(), name: text },
      one: true,
    } as const;
    const binding = await loaded(await shop.open(), sqlTool(one));
    expect(await notesOf(binding, { id: 2 })).toEqual([
      "a deleted row of people also changes orders",
      "the trigger note of orders runs",
    ]);
    expect(await ask(binding, { id: 2 })).toEqual({ id: 2, name: "Bob" });
    const none = await refusal(ask(binding, { id: 9 }));
    expect([none.code, none.details]).toEqual(["TARGET_REFUSED", { status: "NOT_FOUND" }]);
  });

  test("names its triggers", async () => {
    const binding = await loaded(await shop.open(), cancel({ changes: 1 }));
    expect(await notesOf(binding, { customer: 1, status: "x" })).toEqual(["the trigger note of orders runs"]);
  });

  const others: readonly (readonly [what: string, change: string, undo: string])[] = [
    [
      "a trigger",
      "CREATE TRIGGER more AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION noted()",
      "DROP TRIGGER more ON orders",
    ],
    [
      "a key that follows",
      "CREATE TABLE follows (id bigint REFERENCES orders ON UPDATE CASCADE)",
      "DROP TABLE follows",
    ],
    [
      "a child with a trigger",
      "CREATE TABLE part () INHERITS (orders); CREATE TRIGGER more AFTER UPDATE ON part FOR EACH ROW EXECUTE FUNCTION noted()",
      "DROP TABLE part",
    ],
  ];
  test.each(others)("that would have other effects than planned, by %s, is refused", async (_, change, undo) => {
    const binding = await loaded(await shop.open(), cancel({ changes: 3 }));
    const { signal } = new AbortController();
    const plan = await binding.plan({ customer: 1, status: "x" }, { signal });
    await shop.server.send(change, "shop");
    try {
      const error = await refusal(binding.run(plan, runContext({ signal })));
      expect([error.code, error.message, error.details]).toEqual([
        "TARGET_REFUSED",
        "The database has changed: this call would have other effects than planned. Nothing was changed; call again.",
        { status: "FAILED_PRECONDITION" },
      ]);
      expect(await states()).toEqual(UNCHANGED);
      const next = await binding.plan({ customer: 1, status: "x" }, { signal });
      expect(next["effects"]).not.toEqual(plan["effects"]);
      expect(binding.fixedParts?.(next)).not.toEqual(binding.fixedParts?.(plan));
    } finally {
      await shop.server.send(undo, "shop");
    }
  });

  const refused: readonly (readonly [what: string, statement: string])[] = [
    ["returns nothing", "update orders set status = 'x' where id = 1"],
    ["is a query", "select id, status from orders"],
    ["is two", "update orders set status = 'x' where id = 1 returning id, status; drop table orders"],
    [
      "hides another one",
      "with w as (delete from people returning id) update orders set status = 'x' where id in (select id from w) returning id, status",
    ],
    ["is a definition", "drop table orders"],
    ["truncates", "truncate orders"],
    [
      "calls a function that is not listed",
      "update orders set status = random()::text where id = 1 returning id, status",
    ],
    ["copies", "copy orders from program 'true'"],
  ];
  test.each(refused)("is not loaded when it %s", async (_, statement) => {
    expect(await faultsOf(await shop.open(), sqlTool({ classification, statement, columns }))).not.toEqual([]);
    expect(await states()).toEqual(UNCHANGED);
  });

  test("whose rows together exceed the limit of a result is rolled back", async () => {
    const tool = sqlTool({
      classification,
      statement: "update orders set status = repeat('x', 400) where customer = 1 returning id, status",
      columns,
      rows: { changes: 3 },
    });
    const fits = await ask(await loaded(await shop.open({ limits: { bytes: 1_203 } }), tool));
    expect((fits as { readonly rows: readonly unknown[] }).rows).toHaveLength(3);
    await shop.server.send("UPDATE orders SET status = 'open'", "shop");
    const large = await refusal(ask(await loaded(await shop.open({ limits: { bytes: 1_202 } }), tool)));
    expect([large.code, await states()]).toEqual(["OUTPUT_TOO_LARGE", UNCHANGED]);
  });

  test("needs a user for changes that is not a superuser", async () => {
    const tool = cancel({ changes: 1 });
    expect(await faultsOf(await shop.open({ write: undefined }), tool)).toEqual([
      "target.system systems.shop.sql has no user for tools that change something: set write",
    ]);
    const [fault = ""] = await faultsOf(await shop.open({ write: { user: "tester" } }), tool);
    expect(fault).toContain("is a superuser");
  });

  test("that a constraint refuses says so without the row", async () => {
    const binding = await loaded(await shop.open(), cancel({ changes: 3 }));
    const bad = await refusal(ask(binding, { customer: 1, status: "bad" }));
    expect([bad.code, bad.details]).toEqual(["TARGET_REFUSED", { status: "FAILED_PRECONDITION" }]);
    const insert = sqlTool({
      ...{
        classification,
        statement: "insert into people values ($1::int8, 'canary') returning id",
        columns: { id: z.int() },
      },
      input: { id: z.int() },
    });
    const twice = await refusal(ask(await loaded(await shop.open(), insert), { id: 1 }));
    expect([twice.code, twice.details]).toEqual(["TARGET_REFUSED", { status: "ALREADY_EXISTS" }]);
    expect(JSON.stringify([bad.cause, bad.message, twice.cause, twice.message])).not.toMatch(/canary|orders_|people_/);
  });

  test("whose facts cannot be recorded is rolled back", async () => {
    const binding = await loaded(await shop.open(), cancel({ changes: 3 }));
    const record = async (): Promise<void> => {
      throw new Refusal("AUDIT_UNAVAILABLE", "full");
    };
    const error = await refusal(ask(binding, { customer: 1, status: "x" }, undefined, { record }));
    expect(error.code).toBe("AUDIT_UNAVAILABLE");
    expect(await states()).toEqual(UNCHANGED);
  });

  describe("through a connection that breaks", () => {
    const input1 = { customer: 1, status: "lost" };
    const wired = async (): Promise<{ readonly wire: Wire; readonly databases: Databases }> => {
      const wire = new Wire(shop.server.port);
      return { wire, databases: await shop.open({}, await wire.open()) };
    };

    test("before COMMIT: it has not happened, and says so", async () => {
      const { wire, databases } = await wired();
      const binding = await loaded(databases, cancel({ changes: 3 }));
      let isLost = false;
      wire.loses = (sent) => {
        if (isLost || !sent.includes("update orders")) return false;
        isLost = true;
        return true;
      };
      expect((await refusal(ask(binding, input1))).code).toBe("TARGET_UNAVAILABLE");
      expect(isLost).toBe(true);
      await until("the end", async () => (await states()).length === 1 || undefined);
      expect(await states()).toEqual(UNCHANGED);
      wire.close();
    });

    test("with COMMIT: its transaction says that it has happened", async () => {
      const { wire, databases } = await wired();
      const binding = await loaded(databases, cancel({ changes: 3 }));
      let isLost = false;
      wire.loses = (sent) => {
        if (isLost || !/\bcommit\b/i.test(sent.toString("latin1"))) return false;
        isLost = true;
        return true;
      };
      expect(await ask(binding, input1)).toMatchObject({ changed: 3 });
      expect(isLost).toBe(true);
      expect(await states()).toContainEqual({ status: "lost", n: 3 });
      wire.close();
    });

    test("for good, with COMMIT: nobody knows, and it says so", async () => {
      const { wire, databases } = await wired();
      const binding = await loaded(databases, cancel({ changes: 3 }));
      let isLost = false;
      wire.loses = (sent) => {
        if (!isLost && !/\bcommit\b/i.test(sent.toString("latin1"))) return false;
        isLost = true;
        wire.close();
        return true;
      };
      const error = await refusal(ask(binding, input1));
      expect([error.code, (error.cause as { readonly transaction?: string }).transaction]).toEqual([
        "OUTCOME_UNKNOWN",
        expect.stringMatching(/^\d+$/),
      ]);
    });
  });
});
