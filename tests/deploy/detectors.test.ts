import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { PAGE, withDetectors } from "./detectors-reference.ts";

test("the table of the detector rules is current: else `bun run docs:detectors`", () => {
  const page = readFileSync(PAGE, "utf8");
  expect(page).toBe(withDetectors(page));
});

test("a page without a place for the table is refused", () => {
  expect(() => withDetectors("# A page")).toThrow("no place");
});
