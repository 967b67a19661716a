import { describe, expect, test } from "bun:test";
import { Semaphore } from "../../src/database/semaphore.ts";

const ABORTED = new Error("aborted");
const BUSY = new Error("busy");

function semaphore(options: { permits?: number; waitMs?: number } = {}): Semaphore {
  return new Semaphore({ permits: 1, refused: (isAborted) => (isAborted ? ABORTED : BUSY), ...options });
}

/** Returns the names of the callers that have a permit, in the order in which they got it. */
function callers(of: Semaphore, names: readonly string[]): string[] {
  const granted: string[] = [];
  for (const name of names) void of.acquire().then(() => granted.push(name));
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
