import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import type { Databases } from "../../../src/targets/sql/databases.ts";
import { findPostgres } from "../../support/postgres.ts";
import { until } from "../../support/until.ts";
import { ask, loaded, PostgresShop, sqlTool } from "./support.ts";

/** A system's answer about a change of which only the journal's line is left. */
const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN; CREATE TABLE counters (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO counters VALUES (1, 0); GRANT SELECT ON counters TO reader; GRANT SELECT, UPDATE ON counters TO writer;`;

const ADD = sqlTool({
  classification: "write",
  statement: "update counters set n = n + 1 where id = $1::int4 returning n",
  input: { id: z.int() },
  columns: { n: z.int() },
  rows: { changes: 1 },
});

type Facts = Readonly<Record<string, unknown>>;

const native = findPostgres();
const shop = new PostgresShop();

describe.skipIf(native === undefined)("a change that was interrupted", () => {
  let databases: Databases;
  beforeAll(async () => {
    await shop.start(native, TABLES);
    databases = await shop.open();
  });
  afterAll(() => shop.end());

  const resolve = (facts: Facts | undefined) => databases.resolve("shop", facts ?? {}, AbortSignal.timeout(10_000));

  /** Makes a change. `then`: what happens once its transaction is recorded. */
  async function change(then: (facts: Facts) => Promise<void> = async () => {}): Promise<Facts | undefined> {
    let recorded: Facts | undefined;
    const record = async (facts: Facts): Promise<void> => {
      recorded = facts;
      await then(facts);
    };
    await ask(await loaded(databases, ADD), { id: 1 }, undefined, { record }).catch(() => {});
    return recorded;
  }

  test("is in progress, committed or aborted, as its transaction is", async () => {
    let before: unknown;
    const committed = await change(async (facts) => {
      before = await resolve(facts);
    });
    expect(before).toEqual({ outcome: "in progress" });
    expect(await resolve(committed)).toEqual({ outcome: "committed" });
    const aborted = await change(() => Promise.reject(new Error("the journal is full")));
    expect(await resolve(aborted)).toEqual({ outcome: "aborted" });
  });

  test("is not asked about with the lines of an earlier release, or at a system that keeps no record", async () => {
    const { server: _, ...earlier } = (await change()) ?? {};
    expect(await resolve(earlier)).toBeUndefined();
    expect(await databases.resolve("other", earlier, AbortSignal.timeout(10_000))).toBeUndefined();
    const readOnly = await shop.open({ write: undefined });
    expect([databases.mayResolve, readOnly.mayResolve]).toEqual([true, false]);
  });

  test("is unknown at a server that has started again", async () => {
    const facts = await change();
    await shop.server.stop();
    await expect(resolve(facts)).rejects.toThrow();
    await shop.server.start();
    const found = await until("the server", () => resolve(facts).catch(() => undefined));
    expect(found).toEqual({ outcome: "unknown", reason: expect.stringContaining("started again") });
  });

  test("is unknown after a crash in which the server gave its id to another transaction", async () => {
    await shop.server.stop();
    await shop.server.start(["wal_writer_delay=10s", "restart_after_crash=on"]);
    await until("the server", () => change().catch(() => undefined));
    await shop.server.send("CHECKPOINT");
    const counters = () => shop.server.send("SELECT n FROM counters", "shop");
    const started = (): Promise<unknown> => shop.server.send("SELECT pg_postmaster_start_time()");
    const reset = async (): Promise<unknown> =>
      (await shop.server.send("SELECT pg_stat_get_bgwriter_stat_reset_time()::text AS at"))[0]?.["at"];
    const resetBefore = await reset();
    const [before, counted] = [await started(), await counters()];
    const facts = await change(async () => {
      const [row] = await shop.server.send(
        "SELECT pid FROM pg_stat_activity WHERE usename = 'writer' AND backend_xid IS NOT NULL",
      );
      process.kill(Number(row?.["pid"]), "SIGKILL");
    });
    // The change ends with its connection, before the server has noticed the crash.
    await until("the end of the crash", async () => {
      const now = await reset().catch(() => resetBefore);
      return now === resetBefore ? undefined : true;
    });
    expect(await started()).toEqual(before);
    const status = async () =>
      (await shop.server.send(`SELECT pg_xact_status('${facts?.["transaction"]}')`).catch(() => []))[0]?.[
        "pg_xact_status"
      ];
    await until("another transaction with the id", async () => {
      await shop.server.send("SELECT pg_current_xact_id()");
      return (await status()) === "committed" ? true : undefined;
    });
    expect(await counters()).toEqual(counted);
    expect(await until("the server", () => resolve(facts).catch(() => undefined))).toMatchObject({
      outcome: "unknown",
    });
  });
});
