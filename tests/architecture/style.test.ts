import { expect, test } from "bun:test";
import { type Source, sources } from "./sources.ts";

const all = [...sources("src"), ...sources("tools"), ...sources("tests")];

function report(check: (source: Source) => boolean): readonly string[] {
  return all.filter(check).map(({ path }) => path);
}

test("one word per idea: no manager, util, helper, common, base or data in a file's name", () => {
  expect(report(({ path }) => /(^|[/-])(manager|utils?|helpers?|common|base|misc)(-|\.ts$)/.test(path))).toEqual([]);
});

test("no default exports, no enums, no `any`, no suppressed checks", () => {
  expect(
    report(
      ({ path, code }) =>
        path !== "tests/architecture/style.test.ts" && /\bexport default\b|^\s*(export )?(const )?enum \w/m.test(code),
    ),
  ).toEqual([]);
  expect(
    report(
      ({ path, text }) =>
        path !== "tests/architecture/style.test.ts" && /@ts-ignore|@ts-nocheck|biome-ignore/.test(text),
    ),
  ).toEqual([]);
});
