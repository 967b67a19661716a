import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { PAGE, withDetectors } from "./detectors-reference.ts";

test("the table of the detector rules is current: else `bun run docs:detectors`", () => {
  const page = readFileSync(PAGE, "utf8");
  expect(page).toBe(withDetectors(page));
});

test("a page without their section is an error", () => {
  expect(() => withDetectors("# A page")).toThrow("the page has no section of docs:");
});
