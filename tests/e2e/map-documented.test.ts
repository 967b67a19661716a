import { expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT } from "../support/world.ts";

const SRC = join(PROJECT, "src");
const map = readFileSync(join(SRC, "README.md"), "utf8");
const [, drawing = ""] = /^```\n([\s\S]*?)^```/m.exec(map) ?? [];
const steps = [...drawing.matchAll(/^ {3}([A-Z]+) +(\S+)/gm)].map(([, stage = "", file = ""]) => ({ stage, file }));

test("the drawn road has the steps of pipeline/proxy.ts, in their order", () => {
  const text = readFileSync(join(SRC, "pipeline/proxy.ts"), "utf8");
  const from = text.indexOf("async function decide(");
  const road = text.slice(from, text.indexOf("\n}\n", from));
  const walked = [...road.matchAll(/trail\.at\("([A-Z]+)"/g)].map(([, stage = ""]) => stage);
  expect(walked.length).toBeGreaterThan(10);
  expect(steps.map(({ stage }) => stage)).toEqual(walked);
});

test("each step's file is there", () => {
  const files = new Set(readdirSync(join(SRC, "proxy")));
  expect(steps.filter(({ file }) => !files.has(file) && !files.has(`${file}.ts`))).toEqual([]);
  const ends = [...drawing.matchAll(/\b((?:server|proxy)\/[\w/-]+\.ts)/g)].map(([, file = ""]) => file);
  expect(ends.length).toBeGreaterThan(3);
  expect(ends.filter((file) => !existsSync(join(SRC, file)))).toEqual([]);
});

/** The rooms and what stands in them: the first two columns of the table. */
const rows = [...map.matchAll(/^\| (`.*?) \| (.*?) \|/gm)].map(([, rooms = "", holds = ""]) => ({
  rooms: [...rooms.matchAll(/`([^`]+)`/g)].map(([, room = ""]) => room.replace("<kind>/", "")),
  inside: [...holds.matchAll(/`([\w-]+(?:\/|\.ts))`/g)].map(([, name = ""]) => name),
}));

test("every room of the source has its row, and every row its room", () => {
  const written = rows.flatMap(({ rooms }) => rooms.map((room) => room.replace(/\/$/, ""))).sort();
  expect(written).toEqual(
    readdirSync(SRC)
      .filter((name) => name !== "README.md")
      .sort(),
  );
});

test("what a room is said to hold is there", () => {
  const missing = rows.flatMap(({ rooms: [room = ""], inside }) =>
    inside
      .map((name) => join(room, name))
      .filter((path) => !path.startsWith("handlers/") && !existsSync(join(SRC, path))),
  );
  expect(missing).toEqual([]);
});

test("the files of the decisions are there", () => {
  const [, decisions = ""] = map.split("\n## Decisions\n");
  const named = [...decisions.matchAll(/`([a-z]+\/[\w/*-]*(?:\.ts)?)`/g)].map(([, path = ""]) => path);
  expect(named.length).toBeGreaterThan(15);
  expect(named.filter((path) => [...new Bun.Glob(path.replace(/\/$/, "/*")).scanSync(SRC)].length === 0)).toEqual([]);
});
