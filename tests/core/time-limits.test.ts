import { describe, expect, test } from "bun:test";
import { endedWithin, resultWithin } from "../../src/core/time-limits.ts";

const LONG_MS = 60_000;
const never = new Promise<never>(() => {});
const tooLate = (): Error => new RangeError("too late");

describe("endedWithin", () => {
  test.each([
    ["work that has ended", () => Promise.resolve(1), LONG_MS, true],
    ["work that has failed", () => Promise.reject(new Error("failed")), LONG_MS, true],
    ["work that ends later", () => Bun.sleep(1), LONG_MS, true],
    ["work that never ends", () => never, 1, false],
    ["work that ends too late", () => Bun.sleep(50), 0, false],
  ] as const)("%s", async (_title, work, timeoutMs, ended) => {
    expect(await endedWithin(work(), timeoutMs)).toBe(ended);
  });
});

describe("resultWithin", () => {
  test("the result or error of the work, if it ends in time", async () => {
    expect(await resultWithin(Promise.resolve("word"), LONG_MS, tooLate)).toBe("word");
    await expect(resultWithin(Promise.reject(new TypeError("its own")), LONG_MS, tooLate)).rejects.toThrow(TypeError);
  });

  test("the replacement error, and a later failure is ignored", async () => {
    const work = Promise.withResolvers<never>();
    expect(await resultWithin(work.promise, 1, tooLate).catch((error: unknown) => error)).toBeInstanceOf(RangeError);
    // If nothing handled the rejection, this test would fail.
    work.reject(new Error("later"));
    await Bun.sleep(0);
    expect(await resultWithin(never, 1, tooLate).catch(String)).toBe("RangeError: too late");
  });
});
