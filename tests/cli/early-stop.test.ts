import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import { EarlyStop } from "../../src/cli/service.ts";

const LONG_MS = 60_000;

let givenUp = 0;
let early: EarlyStop;
beforeEach(() => {
  jest.useFakeTimers();
  givenUp = 0;
  early = new EarlyStop(() => {
    givenUp += 1;
  });
});
afterEach(() => {
  jest.useRealTimers();
});

test("a start that does not complete is given up, once", () => {
  early.request();
  early.request();
  expect(givenUp).toBe(0);
  jest.advanceTimersByTime(LONG_MS);
  expect(givenUp).toBe(1);
});

test("a start that completes ends in its own time: its drain is not cut off", () => {
  early.request();
  expect(early.started()).toBe(true);
  jest.advanceTimersByTime(LONG_MS);
  expect(givenUp).toBe(0);
});

test("a start that nobody stops goes on", () => {
  expect(early.started()).toBe(false);
});
