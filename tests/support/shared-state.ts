import { expect, test } from "bun:test";
import type { Row, Sql } from "../../src/database/dialect.ts";
import { integer } from "../../src/database/rows.ts";
import { openSharedState, type SharedState } from "../../src/database/shared-state.ts";
import { MODULES } from "../../src/modules.ts";
import { until } from "./until.ts";

interface StateOptions {
  readonly url?: string;
  readonly tenant?: string | undefined;
  readonly now: () => number;
}

/** The state in the database of that URL, whose tables exist, or in this process. */
export function openState({ url, tenant, now }: StateOptions): SharedState {
  const kind = MODULES.approvalStores.find(({ accepts }) => url !== undefined && accepts.test(url));
  return openSharedState({
    store: url === undefined || kind === undefined ? undefined : { kind, url },
    tenant,
    now,
    monotonic: () => performance.now(),
  });
}

export interface StateWorld {
  /** Opens another state on the same database. */
  open(): SharedState;
  /** Moves the database's clock. */
  advance(ms: number): void;
}

const rowsOf = async (sql: PromiseLike<readonly Row[]>): Promise<readonly Row[]> => [...(await sql)];

/** Adds one if the value is below the limit: the shape of every statement that the policies run. */
const take = (limit: number) => async (sql: Sql) =>
  (
    await rowsOf(
      sql`UPDATE approval_counters SET value = value + 1 WHERE name = 'taken' AND value < ${limit} RETURNING value`,
    )
  ).length;

const takenIn = (state: SharedState): Promise<number> =>
  state.read(async (sql) => {
    const [row = {}] = await rowsOf(sql`SELECT value FROM approval_counters WHERE name = 'taken'`);
    return integer(row, "value");
  });

/** The promises of a state, in any database. */
export function stateTests({
  scope,
  make,
}: {
  readonly scope: SharedState["scope"];
  readonly make: () => Promise<StateWorld>;
}) {
  async function withStates(
    act: (one: SharedState, other: SharedState, world: StateWorld) => Promise<void>,
  ): Promise<void> {
    const world = await make();
    const [one, other] = [world.open(), world.open()];
    try {
      await one.write((sql) => rowsOf(sql`INSERT INTO approval_counters (name, value) VALUES ('taken', 0)`));
      await act(one, other, world);
    } finally {
      await Promise.all([one.close(), other.close()]);
    }
  }

  test("two states take from one row at the same time: never more than its limit", () =>
    withStates(async (one, other) => {
      expect(one.scope).toBe(scope);
      const taken = await Promise.all(
        Array.from({ length: 60 }, (_, index) => (index % 2 === 0 ? one : other).write(take(25))),
      );
      expect(taken.filter((count) => count === 1)).toHaveLength(25);
      expect(await takenIn(other)).toBe(25);
    }));

  test("a transaction that throws changes nothing, and the next one runs", () =>
    withStates(async (one, other) => {
      const failing = one.write(async (sql) => {
        await take(5)(sql);
        throw new Error("thrown by the work");
      });
      expect(await failing.catch((error: Error) => error.message)).toBe("thrown by the work");
      expect(await takenIn(other)).toBe(0);
      expect(await one.write(take(5))).toBe(1);
      expect(await takenIn(other)).toBe(1);
    }));

  test("a read changes nothing while another transaction writes", () =>
    withStates(async (one, other) => {
      const [, values] = await Promise.all([
        Promise.all(Array.from({ length: 20 }, () => one.write(take(100)))),
        Promise.all(Array.from({ length: 20 }, () => takenIn(other))),
      ]);
      expect(values.every((value) => value >= 0 && value <= 20)).toBe(true);
      expect(await takenIn(other)).toBe(20);
    }));

  test("all states tell the time of the database", () =>
    withStates(async (one, other, { advance }) => {
      const before = await one.read(async (_sql, now) => now);
      advance(60_000);
      const after = await other.write(async (_sql, now) => now);
      expect(after - before).toBeGreaterThanOrEqual(60_000);
      expect(after - before).toBeLessThan(120_000);
      expect(Number.isSafeInteger(after)).toBe(true);
    }));

  test("watchers are called again and again until they end", () =>
    withStates(async (one) => {
      const counts = [0, 0];
      const count = (index: number) => () => {
        counts[index] = (counts[index] ?? 0) + 1;
      };
      const [end, endOther] = [one.watch(count(0)), one.watch(count(1))];
      await until("three calls", () => ((counts[0] ?? 0) >= 3 ? true : undefined));
      end();
      const [ended = 0, going = 0] = counts;
      await until("more calls of the other", () => ((counts[1] ?? 0) > going + 1 ? true : undefined));
      expect(counts[0]).toBe(ended);
      endOther();
    }));

  test("a closed state runs nothing", () =>
    withStates(async (_one, _other, world) => {
      if (scope === "process") return;
      const closed = world.open();
      await closed.read(async () => undefined);
      await closed.close();
      expect(await closed.write(async () => "written").catch((error: Error) => error.message)).toBe(
        "the shared state is closed",
      );
    }));
}
