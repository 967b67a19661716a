import { describe, expect, test } from "bun:test";
import { Semaphore } from "../../src/database/semaphore.ts";

const ABORTED = new Error("aborted");
const BUSY = new Error("busy");

function semaphore(options: { permits?: number; permitsPerKey?: number; waitMs?: number } = {}): Semaphore {
  return new Semaphore({ permits: 1, refused: (isAborted) => (isAborted ? ABORTED : BUSY), ...options });
}

/** Returns the names of the callers that have a permit, in the order in which they got it. */
function callers(of: Semaphore, names: readonly string[]): string[] {
  const granted: string[] = [];
  for (const name of names) void of.acquire().then(() => granted.push(name));
  return granted;
}

/** Returns the keys of callers in the order in which they got a permit, which each returns at once. */
function turns(of: Semaphore, keys: readonly string[]): string[] {
  const granted: string[] = [];
  for (const key of keys) {
    void of.acquire(undefined, key).then(() => {
      granted.push(key);
      of.release(key);
    });
  }
  return granted;
}

/** Runs what is due now. */
const settled = (): Promise<void> => new Promise(setImmediate);
const refusal = (work: Promise<void>): Promise<unknown> => work.catch((error: unknown) => error);

describe("a semaphore", () => {
  test("grants its permits, and each that is released to the caller that has waited longest", async () => {
    const permits = semaphore({ permits: 2 });
    const granted = callers(permits, ["a", "b", "c", "d"]);
    await settled();
    expect(granted).toEqual(["a", "b"]);
    permits.release();
    await settled();
    expect(granted).toEqual(["a", "b", "c"]);
    permits.release();
    permits.release();
    await settled();
    expect(granted).toEqual(["a", "b", "c", "d"]);
  });

  test("gives a released permit to nobody who comes while another waits", async () => {
    const permits = semaphore();
    const granted = callers(permits, ["a", "b"]);
    await settled();
    permits.release();
    const later = callers(permits, ["c"]);
    await settled();
    expect([granted, later]).toEqual([["a", "b"], []]);
  });

  test("refuses a caller whose signal fires, and grants the permit to the next one", async () => {
    const permits = semaphore();
    await permits.acquire();
    const controller = new AbortController();
    const left = refusal(permits.acquire(controller.signal));
    const granted = callers(permits, ["b"]);
    controller.abort();
    expect(await left).toBe(ABORTED);
    expect(await refusal(permits.acquire(controller.signal))).toBe(ABORTED);
    permits.release();
    await settled();
    expect(granted).toEqual(["b"]);
  });

  test("keeps the permit that was granted before the signal fired", async () => {
    const permits = semaphore();
    await permits.acquire();
    const controller = new AbortController();
    const second = permits.acquire(controller.signal);
    permits.release();
    controller.abort();
    await second;
    const granted = callers(permits, ["c"]);
    await settled();
    expect(granted).toEqual([]);
  });

  test("refuses a caller at the time limit", async () => {
    const permits = semaphore({ waitMs: 1 });
    await permits.acquire();
    expect(await refusal(permits.acquire())).toBe(BUSY);
  });

  test("refuses more than 5,000 waiting callers", async () => {
    const permits = semaphore();
    await permits.acquire();
    for (let count = 0; count < 5_000; count += 1) void refusal(permits.acquire());
    expect(await refusal(permits.acquire())).toBe(BUSY);
  });

  test("refuses waiting and later callers when it is closed", async () => {
    const permits = semaphore();
    await permits.acquire();
    const waiting = refusal(permits.acquire());
    permits.close();
    expect([await waiting, await refusal(permits.acquire())]).toEqual([BUSY, BUSY]);
    permits.release();
    expect(await refusal(permits.acquire())).toBe(BUSY);
  });
});

describe("a semaphore whose callers have keys", () => {
  test("serves keys in turns: 2,000 callers of one key delay another key's caller by one of them", async () => {
    const permits = semaphore();
    await permits.acquire(undefined, "noisy");
    const granted = turns(permits, [...Array<string>(2_000).fill("noisy"), "quiet"]);
    permits.release("noisy");
    await settled();
    expect(granted.indexOf("quiet")).toBe(1);
    expect(granted).toHaveLength(2_001);
  });

  test("delays a caller by at most one of each other key, and serves the callers of a key in their order", async () => {
    const permits = semaphore();
    await permits.acquire(undefined, "a");
    const granted = turns(permits, ["a", "a", "a", "b", "b", "c", "d", "d"]);
    permits.release("a");
    await settled();
    expect(granted).toEqual(["a", "b", "c", "d", "a", "b", "d", "a"]);
  });

  test("gives a key that comes later its turn after one of each key that waits", async () => {
    const permits = semaphore();
    await permits.acquire(undefined, "a");
    const order: string[] = [];
    const take = (key: string): void => void permits.acquire(undefined, key).then(() => order.push(key));
    for (const key of ["a", "a", "b", "b"]) take(key);
    permits.release("a");
    await settled();
    take("c");
    for (const key of ["a", "b", "a", "b"]) {
      permits.release(order.at(-1) ?? key);
      await settled();
    }
    expect(order).toEqual(["a", "b", "a", "c", "b"]);
  });

  test("refuses a key that has 5,000 waiting callers, and no other", async () => {
    const permits = semaphore();
    await permits.acquire(undefined, "noisy");
    for (let count = 0; count < 5_000; count += 1) void refusal(permits.acquire(undefined, "noisy"));
    const quiet = permits.acquire(undefined, "quiet");
    expect(await refusal(permits.acquire(undefined, "noisy"))).toBe(BUSY);
    permits.release("noisy");
    permits.release("noisy");
    await quiet;
    permits.close();
  });

  test("leaves permits free that its keys may not have, and grants them to others", async () => {
    const permits = semaphore({ permits: 2, permitsPerKey: 1 });
    await permits.acquire(undefined, "a");
    const granted: string[] = [];
    const take = (key: string): void => void permits.acquire(undefined, key).then(() => granted.push(key));
    for (const key of ["a", "b", "b"]) take(key);
    await settled();
    expect(granted).toEqual(["b"]);
    permits.release("b");
    await settled();
    expect(granted).toEqual(["b", "b"]);
    permits.release("a");
    await settled();
    expect(granted).toEqual(["b", "b", "a"]);
  });

  test("refuses the waiting callers of one key only", async () => {
    const permits = semaphore();
    await permits.acquire(undefined, "a");
    const left = refusal(permits.acquire(undefined, "a"));
    const stays = permits.acquire(undefined, "b");
    permits.refuse("a");
    expect(await left).toBe(BUSY);
    permits.release("a");
    await stays;
    expect(permits.isAwaited).toBe(false);
  });

  test("grants a permit again to a key whose callers have all left", async () => {
    const permits = semaphore({ permits: 1, permitsPerKey: 1 });
    for (const key of ["a", "b", "a", "b"]) {
      await permits.acquire(undefined, key);
      permits.release(key);
    }
    expect(permits.isAwaited).toBe(false);
  });
});
