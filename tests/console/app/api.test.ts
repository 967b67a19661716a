import { expect, test } from "bun:test";
import { backoffMs } from "../../../src/console/app/api.ts";

test("the delay before the next attempt doubles, up to 20 seconds, and half of it is random", () => {
  expect([0, 1, 2, 3].map((failures) => backoffMs(failures, 1))).toEqual([400, 800, 1_600, 3_200]);
  expect([0, 5, 1_000].map((failures) => backoffMs(failures, 0))).toEqual([200, 6_400, 10_000]);
  expect(backoffMs(1_000, 1)).toBe(20_000);
});
