import { expect, test } from "bun:test";
import { hostname } from "node:os";
import { instanceOf, logDirOf } from "../../../src/runtime/composition/instance.ts";
import { problemsOf, read } from "../config/reading.ts";

test.each([
  ["the host's name without the setting", {}, {}, hostname()],
  ["the setting", { instance: "payments-eu" }, {}, "payments-eu"],
  ["the setting and the worker's number", { instance: "payments-eu" }, { STC_WORKER: "2" }, "payments-eu-2"],
  ["the host's name and the worker's number", {}, { STC_WORKER: "12" }, `${hostname()}-12`],
  ["no number that is none", { instance: "a" }, { STC_WORKER: "../x" }, "a"],
])("an instance's name: %s", (_name, sections, environment, want) => {
  expect(instanceOf(read(sections, environment))).toBe(want);
});

test("a worker writes a folder of its own, which its instance's name does not change", () => {
  expect(logDirOf(read({}))).toBe("/srv/audit-logs");
  expect(logDirOf(read({ instance: "a" }, { STC_WORKER: "3" }))).toBe("/srv/audit-logs/worker-3");
});

test.each(["a", "Payments-EU-1", "a".repeat(63)])("%s is a name", (instance) => {
  expect(problemsOf({ instance })).toEqual([]);
});

test.each(["", "-a", "a-", "a.b", "a b", "a/b", "ä", "a\n", "a".repeat(64), 7])("%j is refused", (instance) => {
  expect(problemsOf({ instance })).toEqual([expect.stringMatching(/^instance: /)]);
});
