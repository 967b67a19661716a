import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { parsePostgresUrl } from "../../../src/database/postgres-url.ts";
import { SqlDatabase, type Transaction } from "../../../src/targets/sql/postgres/database.ts";
import { findPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";
import { ask, loaded, PostgresShop, sqlTool } from "./support.ts";

const native = findPostgres();
const text = z.string().nullable();
const never = new AbortController().signal;

const MODE = "SELECT current_setting('transaction_read_only'), current_setting('TimeZone')";
const PID = "SELECT pg_backend_pid()::text";

const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN; CREATE TABLE orders (id bigint PRIMARY KEY, status text);
INSERT INTO orders VALUES (1, 'open'); GRANT SELECT ON orders TO reader; GRANT ALL ON orders TO writer;`;

const shop = new PostgresShop();

function database(settings: Readonly<Record<string, number>> = {}): SqlDatabase {
  const address = parsePostgresUrl(`postgres://writer@127.0.0.1:${shop.server.port}/shop?sslmode=disable`);
  const limits = { connections: 1, statementMs: 20_000, lockMs: 5_000, ...settings };
  return shop.keep(new SqlDatabase({ name: "shop", address: () => address, ...limits }));
}

/** Ends the server's process of a transaction. */
async function broken(transaction: Transaction): Promise<void> {
  const [[pid] = []] = await transaction.query(PID, []);
  await shop.server.send(`SELECT pg_terminate_backend(${pid})`);
}

const ways = {
  read: (made: SqlDatabase, work: (transaction: Transaction) => Promise<unknown>) => made.read(never, work),
  look: (made: SqlDatabase, work: (transaction: Transaction) => Promise<unknown>) => made.look(never, work),
  change: (made: SqlDatabase, work: (transaction: Transaction) => Promise<unknown>) => made.change(never, work),
};
const each = Object.entries(ways);

describe.skipIf(native === undefined)("a transaction", () => {
  beforeAll(() => shop.start(native, TABLES));
  afterAll(() => shop.end());

  test.each(each)("that %ss whose connection has ended runs nothing on another one", async (way, run) => {
    const made = database();
    for (let round = 0; round < 3; round += 1) {
      const ended = run(made, async (transaction) => {
        await broken(transaction);
        const first = await transaction.query(MODE, []).catch((error: unknown) => error);
        // The runtime knows by now that the connection has ended.
        const again = await transaction
          .query("UPDATE orders SET status = 'lost' RETURNING id", [])
          .catch((error: unknown) => error);
        expect([first, again]).toEqual([expect.any(Error), expect.any(Error)]);
        throw first;
      });
      expect(await ended.catch((error: unknown) => error)).toBeInstanceOf(Bun.SQL.SQLError);
      expect(await run(made, (transaction) => transaction.query(MODE, []))).toEqual([
        [way === "read" ? "on" : "off", "UTC"],
      ]);
    }
    expect(await shop.server.send("SELECT status FROM orders", "shop")).toEqual([{ status: "open" }]);
  });

  test.each(each)("that %ss may lose its connection at any moment", async (way, run) => {
    const made = database();
    for (let round = 0; round < 40; round += 1) {
      const modes: unknown[] = [];
      const work = async (transaction: Transaction): Promise<void> => {
        for (let query = 0; query < 4; query += 1) modes.push(...(await transaction.query(MODE, [])));
      };
      const killing = shop.server.send(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'writer'",
      );
      await Promise.all([
        run(made, work).catch((error: unknown) => expect(error).toBeInstanceOf(Bun.SQL.SQLError)),
        killing,
      ]);
      for (const mode of modes) expect(mode).toEqual([way === "read" ? "on" : "off", "UTC"]);
    }
  });

  test.each(each)(
    "that %ss on a silent server ends soon after its call, and frees its connection",
    async (way, run) => {
      const made = database({ statementMs: 600_000 });
      await run(made, (transaction) => transaction.query(MODE, []));
      shop.server.freeze();
      try {
        const started = performance.now();
        const signal = AbortSignal.timeout(50);
        const ended =
          way === "change"
            ? made.change(signal, (tx) => tx.query(MODE, []))
            : made.read(signal, (tx) => tx.query(MODE, []));
        expect(await ended.catch((error: Error) => error.name)).toBe("StoreUnavailable");
        expect(performance.now() - started).toBeLessThan(5_000);
        expect(made.hasAnswered).toBe(false);
      } finally {
        shop.server.thaw();
      }
      expect(await run(made, (transaction) => transaction.query(MODE, []))).toHaveLength(1);
      expect(made.hasAnswered).toBe(true);
    },
  );

  test("that waits follows another one at once, has nothing of it, and none is left open", async () => {
    const made = database({ connections: 3 });
    const found: unknown[] = [];
    const open: unknown[] = [];
    for (let round = 0; round < 20; round += 1) {
      const transactions = Array.from({ length: 40 }, (_, index) => {
        const [way, run] = each[(index + round) % each.length] ?? ["read", ways.read];
        return run(made, async (transaction) => {
          const left =
            "SELECT coalesce(current_setting('test.left', true), ''), current_setting('transaction_read_only')";
          const [row] = await transaction.query(left, []);
          found.push(`${way} ${row?.join()}`);
          if (way !== "change") await transaction.query("SELECT set_config('test.left', 'yes', false)", []);
          for (let more = 0; more < index % 4; more += 1) await transaction.query(PID, []);
          if (index % 7 === 0) throw new RangeError("of this program");
        }).catch((error: unknown) => expect(error).toBeInstanceOf(RangeError));
      });
      await Promise.all(transactions);
      open.push(
        ...(await shop.server.send(
          "SELECT 1 FROM pg_stat_activity WHERE usename = 'writer' AND state LIKE 'idle in%'",
        )),
      );
    }
    expect([...new Set(found)].sort()).toEqual(["change ,off", "look ,off", "read ,on"]);
    expect(open).toEqual([]);
  });

  test("that waits for a connection leaves with its call", async () => {
    const made = database();
    const holding = Promise.withResolvers<void>();
    const held = made.read(never, () => holding.promise);
    const error = await made.change(AbortSignal.timeout(20), async () => "never").catch((thrown: Error) => thrown);
    expect(error).toMatchObject({ name: "StoreUnavailable" });
    holding.resolve();
    await held;
    expect(await made.read(never, (transaction) => transaction.query("SELECT 1::text", []))).toEqual([["1"]]);
  });

  test("of a call that is cancelled ends in each phase, and the next call has its connection", async () => {
    const binding = await loaded(
      await shop.open({ connections: 1 }),
      sqlTool({ statement: "select count(*)::text as x from generate_series(1, 100000)", columns: { x: text } }),
    );
    for (let afterMs = 0; afterMs < 20; afterMs += 1) {
      const leaving = new AbortController();
      const answer: Promise<unknown> = ask(binding, {}, leaving.signal).catch((error: { code: string }) => error.code);
      await Bun.sleep(afterMs);
      leaving.abort();
      expect([{ rows: [{ x: "100000" }] }, "CANCELLED"] as unknown[]).toContainEqual(await answer);
      expect(await ask(binding)).toEqual({ rows: [{ x: "100000" }] });
    }
  });

  test("of a change that is cancelled has changed everything or nothing", async () => {
    const tool = sqlTool({
      classification: "write",
      statement: "update orders set status = $1::text where id = 1 returning id",
      input: { status: z.string() },
      columns: { id: text },
    });
    const binding = await loaded(await shop.open({ connections: 1 }), tool);
    // The first twelve callers disconnect at once, which must not make the database unavailable to the next one.
    for (const [round, afterMs] of [...Array<number>(12).fill(0), ...Array(12).keys()].entries()) {
      const leaving = new AbortController();
      const status = `round ${round}`;
      const answer = ask(binding, { status }, leaving.signal).then(
        () => "changed",
        (error: { readonly code: string }) => error.code,
      );
      await Bun.sleep(afterMs);
      leaving.abort();
      const isChanged = (await answer) === "changed";
      expect(["changed", "CANCELLED"]).toContain(await answer);
      const [row] = await shop.server.send("SELECT status FROM orders", "shop");
      expect(row?.["status"] === status).toBe(isChanged);
    }
    await shop.server.send("UPDATE orders SET status = 'open'", "shop");
  });

  test("whose answer cannot be used because of an error in this program does not say that the database is away", async () => {
    const tool = sqlTool({
      classification: "write",
      statement: "update orders set status = 'x' where id = 1 returning id",
      columns: { id: text },
    });
    const binding = await loaded(await shop.open(), tool);
    const record = () => Promise.reject(new TypeError("of this program"));
    expect(await ask(binding, {}, undefined, { record }).catch((error: unknown) => error)).toBeInstanceOf(TypeError);
    expect(await shop.server.send("SELECT status FROM orders", "shop")).toEqual([{ status: "open" }]);
  });

  test("that deadlocks with another one is repeated", async () => {
    // The last one to wait detects the deadlock: the call, because `gate` lets only the call reach the other one's row.
    await shop.server.send(
      "INSERT INTO orders VALUES (2, 'open'), (3, 'open'); ALTER ROLE writer SET deadlock_timeout = '20ms'",
      "shop",
    );
    const statement =
      "update orders set status = status || '.' where id = any(array(select id from orders order by id for update)) returning id";
    const tool = sqlTool({ classification: "write", statement, columns: { id: text }, rows: { changes: 3 } });
    const binding = await loaded(await shop.open({ limits: { lockMs: 20_000, statementMs: 30_000 } }), tool);
    const waits = (count: number): Promise<unknown> =>
      until("waiting transactions", async () => {
        const waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = 'shop' AND wait_event_type = 'Lock'";
        return (await shop.server.send(waiting)).length === count || undefined;
      });
    const url = `postgres://tester@127.0.0.1:${shop.server.port}/shop?sslmode=disable`;
    const [gate, other] = [new Bun.SQL({ url, max: 1 }), new Bun.SQL({ url, max: 1 })];
    try {
      await gate.unsafe("BEGIN; UPDATE orders SET status = 'gate' WHERE id = 2");
      await other.unsafe("BEGIN; SET LOCAL deadlock_timeout = '60s'; UPDATE orders SET status = 'other' WHERE id = 3");
      const answer = ask(binding);
      await waits(1);
      const blocked = other.unsafe("UPDATE orders SET status = 'other' WHERE id = 1").execute();
      await waits(2);
      await gate.unsafe("ROLLBACK");
      await blocked;
      await other.unsafe("COMMIT");
      expect(await answer).toMatchObject({ changed: 3 });
    } finally {
      await Promise.all([gate.close({ timeout: 0 }), other.close({ timeout: 0 })]);
    }
    const statuses = (await shop.server.send("SELECT status FROM orders ORDER BY id", "shop")).map(
      (row) => row["status"],
    );
    expect(statuses).toEqual(["other.", "open.", "other."]);
    await shop.server.send("DELETE FROM orders WHERE id > 1; UPDATE orders SET status = 'open'", "shop");
  });
});
