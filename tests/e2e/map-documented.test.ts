import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT } from "../support/world.ts";

const SRC = join(PROJECT, "src");
const map = readFileSync(join(SRC, "README.md"), "utf8");
const [, drawing = ""] = /^```\n([\s\S]*?)^```/m.exec(map) ?? [];
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
  const files = new Set(readdirSync(join(SRC, "pipeline")));
  expect(steps.filter(({ file }) => !files.has(file) && !files.has(`${file}.ts`))).toEqual([]);
  const ends = [...drawing.matchAll(/\b((?:http|pipeline)\/[\w/-]+\.ts)/g)].map(([, file = ""]) => file);
  expect(ends.length).toBeGreaterThan(3);
  expect(ends.filter((file) => !existsSync(join(SRC, file)))).toEqual([]);
});

/** Top-level entries and what is in them: the list of layers. */
const [, layers = ""] = map.split("\n## Layers\n");
const rows = [...layers.slice(0, layers.indexOf("\n## ")).matchAll(/^- `([^`]+)`: ((?:.|\n {2})*)/gm)].map(
  ([, entry = "", contents = ""]) => ({
    entry: entry.replace(/\/$/, ""),
    inside: [...contents.matchAll(/`([\w-]+(?:\/|\.ts))`/g)].map(([, name = ""]) => name),
  }),
);

test("every entry of the source has its row, and every row its entry", () => {
  expect(rows.map(({ entry }) => entry).sort()).toEqual(
    readdirSync(SRC)
      .filter((name) => name !== "README.md")
      .sort(),
  );
});

test("the contents that a row lists exist", () => {
  const missing = rows.flatMap(({ entry, inside }) =>
    inside.map((name) => join(entry, name)).filter((path) => !existsSync(join(SRC, path))),
  );
  expect(rows.flatMap(({ inside }) => inside).length).toBeGreaterThan(25);
  expect(missing).toEqual([]);
});

test("the files to change exist", () => {
  const [, changes = ""] = map.split("\n## Where do I change …\n");
  const list = changes.slice(0, changes.indexOf("\n`tests/architecture`"));
  const named = [...list.matchAll(/`([a-z]+\/[\w/-]*(?:\.ts)?)`/g)].map(([, path = ""]) => path);
  expect(named.length).toBeGreaterThan(12);
  expect(named.filter((path) => !existsSync(join(SRC, path)))).toEqual([]);
});

test("the files of the decisions exist", () => {
  const [, decisions = ""] = map.split("\n## Decisions\n");
  const named = [...decisions.matchAll(/`([a-z]+\/[\w/*-]*(?:\.ts)?)`/g)].map(([, path = ""]) => path);
  expect(named.length).toBeGreaterThan(15);
  expect(named.filter((path) => [...new Bun.Glob(path.replace(/\/$/, "/*")).scanSync(SRC)].length === 0)).toEqual([]);
});
