import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT } from "../support/world.ts";

const SRC = join(PROJECT, "src");
const map = readFileSync(join(SRC, "README.md"), "utf8");
const [, drawing = ""] = /## The life of a call[\s\S]*?^```\n([\s\S]*?)^```/m.exec(map) ?? [];
const steps = [...drawing.matchAll(/^ {3}([A-Z]+) +(\S+)/gm)].map(([, stage = "", file = ""]) => ({ stage, file }));

test("the drawing has the stages of pipeline/proxy.ts, in their order", () => {
  const text = readFileSync(join(SRC, "pipeline/proxy.ts"), "utf8");
  const from = text.indexOf("async function decide(");
  const decide = text.slice(from, text.indexOf("\n}\n", from));
  const passed = [...decide.matchAll(/record\.at\("([A-Z]+)"/g)].map(([, stage = ""]) => stage);
  expect(passed.length).toBeGreaterThan(10);
  expect(steps.map(({ stage }) => stage)).toEqual(passed);
});

test("each stage's file exists", () => {
  const isThere = (file: string): boolean => existsSync(join(SRC, "pipeline", file));
  expect(steps.filter(({ file }) => !isThere(file) && !isThere(`${file}.ts`))).toEqual([]);
  const ends = [...drawing.matchAll(/\b((?:http|pipeline)\/[\w/-]+\.ts)/g)].map(([, file = ""]) => file);
  expect(ends.length).toBeGreaterThan(3);
  expect(ends.filter((file) => !existsSync(join(SRC, file)))).toEqual([]);
});

test("the shape has every entry of the source, once", () => {
  const [, shape = ""] = /## The shape[\s\S]*?```\n([\s\S]*?)```/.exec(map) ?? [];
  const entries = shape.split("\n").flatMap((line) => line.trim().split(/ {3,}/)[0]?.split(" · ") ?? []);
  expect(entries.filter((entry) => entry !== "").sort()).toEqual(
    readdirSync(SRC)
      .filter((name) => name !== "README.md")
      .sort(),
  );
});

test("the files to change exist", () => {
  const [, changes = ""] = map.split("\n## Where do I change …\n");
  const rows = changes.match(/^\| .*$/gm)?.slice(2) ?? [];
  const named = rows.flatMap((row) =>
    [...row.matchAll(/`([\w-]+\/[\w/-]*(?:\.tsx?)?|modules\.ts)`/g)].map(([, path = ""]) => path),
  );
  expect(rows.length).toBeGreaterThan(25);
  expect(named.length).toBeGreaterThan(50);
  expect(named.filter((path) => !existsSync(join(SRC, path)) && !existsSync(join(PROJECT, path)))).toEqual([]);
});
