import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeExportPosition } from "../../../src/audit/export/positions.ts";
import { agedFiles, pruneFiles } from "../../../src/audit/export/prune.ts";
import { daysIn } from "../../../src/audit/journal/day-files.ts";
import { DAY_MS } from "../../../src/audit/query/time-range.ts";
import { writeDays } from "../../support/audit-lines.ts";

const NOW = Date.parse("2026-02-16T12:00:00.000Z");
const DAYS = ["2026-01-01", "2026-01-02", "2026-01-03", "2026-02-15", "2026-02-16"];

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "stc-prune-"));
  writeDays(dir, Object.fromEntries(DAYS.map((day, seq) => [day, [JSON.stringify({ day, seq, hash: `h${seq}` })]])));
  writeDays(join(dir, "journal"), { "2026-01-01": ["{}"] });
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const optionsOf = (keepDays: number, exporters: readonly string[] = []) => ({
  dir,
  nowMs: NOW,
  keepMs: keepDays * DAY_MS,
  exporters,
});

async function prune(keepDays: number, exporters: readonly string[] = []): Promise<readonly string[]> {
  const options = optionsOf(keepDays, exporters);
  const settled = await pruneFiles(agedFiles(options), options);
  return settled.flatMap(({ stream, day, keptBecause }) => (keptBecause === undefined ? [`${stream} ${day}`] : []));
}

function reasons(keepDays: number, exporters: readonly string[] = []): readonly (string | undefined)[] {
  return agedFiles(optionsOf(keepDays, exporters))
    .filter(({ stream }) => stream === "calls")
    .map(({ keptBecause }) => keptBecause);
}

function passed(day: string, offset: number, stream: "calls" | "journal" = "calls"): void {
  writeExportPosition(dir, { exporter: "loki", stream, position: { day, offset } });
}

function checkpoint(size: number): void {
  const root = Buffer.alloc(32).toString("base64");
  const note = `safe-tool-call/audit/calls/${"0".repeat(32)}\n${size}\n${root}\n\n— safe-tool-call/audit/calls x\n\n`;
  mkdirSync(join(dir, "checkpoints"));
  writeFileSync(join(dir, "checkpoints/2026-02-15.txt"), note);
}

test("old files are deleted, each recorded; a stream's newest file stays", async () => {
  expect(await prune(30)).toEqual(["calls 2026-01-01", "calls 2026-01-02", "calls 2026-01-03"]);
  expect(daysIn(dir)).toEqual(["2026-02-15", "2026-02-16"]);
  expect(daysIn(join(dir, "journal"))).toEqual(["2026-01-01"]);
  const records = readFileSync(join(dir, "pruned.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as object);
  expect(records[2]).toMatchObject({
    type: "audit.pruned",
    stream: "calls",
    day: "2026-01-03",
  });
  expect(statSync(join(dir, "pruned.jsonl")).mode & 0o777).toBe(0o600);
});

test("today's file stays, however small the limit", async () => {
  expect(await prune(0.00001)).toEqual([
    "calls 2026-01-01",
    "calls 2026-01-02",
    "calls 2026-01-03",
    "calls 2026-02-15",
  ]);
  expect(daysIn(dir)).toEqual(["2026-02-16"]);
});

test("a dry run deletes nothing", () => {
  expect(reasons(30)).toEqual([undefined, undefined, undefined]);
  expect(daysIn(dir)).toEqual(DAYS);
  expect(existsSync(join(dir, "pruned.jsonl"))).toBe(false);
});

test("files that an exporter has not passed stay, and so do later ones", async () => {
  const size = statSync(join(dir, "2026-01-02.jsonl")).size;
  passed("2026-01-02", size - 1);
  expect(reasons(30)).toEqual([undefined, "the exporter loki has not sent it yet", "an older file stays"]);
  passed("2026-01-02", size);
  expect(await prune(30)).toEqual(["calls 2026-01-01", "calls 2026-01-02"]);
});

test("an exporter that never ran here has passed nothing", () => {
  expect(reasons(30, ["otlp"])[0]).toBe("the exporter otlp has not sent it yet");
});

test("an exporter whose position cannot be read has passed nothing", async () => {
  passed("2026-02-16", 0);
  writeFileSync(join(dir, "export/loki.calls.json"), "?");
  expect(await prune(30)).toEqual([]);
});

test("files that no checkpoint covers stay, where there are checkpoints", () => {
  checkpoint(2);
  expect(reasons(30)).toEqual([undefined, undefined, "no checkpoint covers it"]);
});
