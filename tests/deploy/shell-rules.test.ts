import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { PAGE, withShellRules } from "./shell-rules-reference.ts";

test("the tables of shell rules are current: else run `bun run docs:shell-rules`", () => {
  const page = readFileSync(PAGE, "utf8");
  expect(page).toBe(withShellRules(page));
});

test("a page without their section is an error", () => {
  expect(() => withShellRules("# A page")).toThrow("the page has no section of docs:");
});
