import { afterAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Follower, lastLines } from "../../../src/audit/query/follow.ts";
import { writeDays } from "../../support/audit-lines.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-follow-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const newDir = (): string => mkdtempSync(join(folder, "audit-"));
const seen = (follower: Follower): readonly string[] => follower.readNewLines().map(({ line }) => line);

describe("following", () => {
  test("begins after the existing lines, reads whole lines only, continues at midnight", () => {
    const dir = newDir();
    writeDays(dir, { "2026-02-16": ["one"] });
    const follower = new Follower(dir);
    expect(seen(follower)).toEqual([]);
    appendFileSync(join(dir, "2026-02-16.jsonl"), "two\nthr");
    expect(seen(follower)).toEqual(["two"]);
    appendFileSync(join(dir, "2026-02-16.jsonl"), "ee\n");
    writeDays(dir, { "2026-02-17": ["four"] });
    expect(seen(follower)).toEqual(["three", "four"]);
    expect(seen(follower)).toEqual([]);
    writeDays(dir, { "2026-02-18": ["five"] });
    expect(seen(follower)).toEqual(["five"]);
  });

  test("a replaced file is read from its beginning", () => {
    const dir = newDir();
    writeDays(dir, { "2026-02-16": ["one", "two"] });
    const follower = new Follower(dir);
    renameSync(join(dir, "2026-02-16.jsonl"), join(dir, "2026-02-16.jsonl.1"));
    writeDays(dir, { "2026-02-16": ["a", "b", "c"] });
    expect(seen(follower)).toEqual(["a", "b", "c"]);
  });

  test("begins in a directory that has no file yet", () => {
    const dir = newDir();
    const follower = new Follower(dir);
    writeDays(dir, { "2026-02-16": ["one"] });
    expect(seen(follower)).toEqual(["one"]);
  });

  test("continues from a position, even within a line", () => {
    const dir = newDir();
    writeDays(dir, { "2026-02-15": ["old"], "2026-02-16": ["one", "two"], "2026-02-17": ["three"] });
    expect(seen(new Follower(dir, { day: "2026-02-16", offset: 4 }))).toEqual(["two", "three"]);
    expect(seen(new Follower(dir, { day: "2026-02-16", offset: 2 }))).toEqual(["two", "three"]);
    expect(seen(new Follower(dir, { day: "2026-02-16", offset: 999 }))).toEqual(["three"]);
  });

  test("many lines at once are read in pieces, in order, across days", () => {
    const dir = newDir();
    const follower = new Follower(dir);
    const lines = Array.from({ length: 30_000 }, (_, at) => `${at} ${"x".repeat(90)}`);
    writeFileSync(join(dir, "2026-02-16.jsonl"), `${lines.slice(0, 20_000).join("\n")}\n`);
    writeFileSync(join(dir, "2026-02-17.jsonl"), `${lines.slice(20_000).join("\n")}\n`);
    const looks: (readonly string[])[] = [];
    for (let look = 0; look < 10; look += 1) looks.push(seen(follower));
    expect(looks.flat()).toEqual(lines);
    expect(Math.max(...looks.map((look) => look.length))).toBeLessThan(22_000);
  });
});

describe("the last lines", () => {
  const dir = newDir();
  writeDays(dir, { "2026-02-15": ["a", "b"], "2026-02-16": ["c"] });
  appendFileSync(join(dir, "2026-02-16.jsonl"), "torn");
  writeDays(dir, { "2026-02-14": ["x".repeat(300_000), "z"] });

  test.each([
    [0, []],
    [1, ["c"]],
    [3, ["a", "b", "c"]],
    [4, ["z", "a", "b", "c"]],
  ])("%d of them", (count, want) => {
    expect(lastLines(dir, new Follower(dir).ends(), count)).toEqual([...want]);
  });
});
