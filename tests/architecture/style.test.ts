import { expect, test } from "bun:test";
import { type Source, sources } from "./sources.ts";

const all = [...sources("src"), ...sources("tools"), ...sources("tests"), ...sources("deploy")];

function report(check: (source: Source) => boolean): readonly string[] {
  return all.filter(check).map(({ path }) => path);
}

test("no file name contains manager, util, helper, common, base or data", () => {
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

test("no object is written only to be spread", () => {
  const source = sources("src");
  expect(source.length).toBeGreaterThan(300);
  expect(source.filter(({ code }) => /\.\.\.\{/.test(code)).map(({ path }) => path)).toEqual([]);
});

test("no two exported types have the same name", () => {
  const names = sources("src").flatMap(({ path, code }) =>
    [...code.matchAll(/^export (?:declare )?(?:abstract )?(?:interface|type|class) (\w+)/gm)].map(([, name = ""]) => ({
      name,
      path,
    })),
  );
  const twice = names.filter(({ name, path }) => names.some((other) => other.name === name && other.path !== path));
  expect(names.length).toBeGreaterThan(300);
  expect(twice).toEqual([]);
});
