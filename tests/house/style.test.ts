import { expect, test } from "bun:test";
import { type Source, sources } from "./sources.ts";

const LINES_MAX = 300;
const FUNCTION_LINES_MAX = 70;

const all = [...sources("src"), ...sources("tools"), ...sources("tests")];

function report(check: (source: Source) => boolean): readonly string[] {
  return all.filter(check).map(({ path }) => path);
}

test("files end before they become two", () => {
  const long = report(({ path, text }) => !path.startsWith("tests/") && text.split("\n").length > LINES_MAX + 1);
  expect(long).toEqual([]);
});

test("functions fit on a screen", () => {
  const long = all
    .filter(({ path }) => !path.startsWith("tests/"))
    .flatMap(({ path, text }) => {
      const lines = text.split("\n");
      return lines.flatMap((line, from) => {
        const [, indent = ""] = /^(\s*)(?:export )?(?:async )?(?:function\b|(?:async )?[#\w]+\(.*\{$)/.exec(line) ?? [];
        if (!/\{$/.test(line) || !/\bfunction\b|^\s*(async )?[#\w]+\(/.test(line)) return [];
        const length = lines.slice(from).findIndex((other) => other.startsWith(`${indent}}`));
        return length > FUNCTION_LINES_MAX ? [`${path}:${from + 1} (${length} lines)`] : [];
      });
    });
  expect(long).toEqual([]);
});

test("one word per idea: no manager, util, helper, common, base or data in a file's name", () => {
  expect(report(({ path }) => /(^|[/-])(manager|utils?|helpers?|common|base|misc)(-|\.ts$)/.test(path))).toEqual([]);
});

test("no default exports, no enums, no `any`, no suppressed checks", () => {
  expect(
    report(
      ({ path, code }) =>
        path !== "tests/house/style.test.ts" && /\bexport default\b|^\s*(export )?(const )?enum \w/m.test(code),
    ),
  ).toEqual([]);
  expect(
    report(
      ({ path, text }) => path !== "tests/house/style.test.ts" && /@ts-ignore|@ts-nocheck|biome-ignore/.test(text),
    ),
  ).toEqual([]);
});
