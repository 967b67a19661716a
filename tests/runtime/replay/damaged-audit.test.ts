import { afterAll, beforeAll, beforeEach, expect, test } from "bun:test";
import type { KeyObject } from "node:crypto";
import { appendFileSync, cpSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openAuditLog } from "../../../src/audit/audit-log.ts";
import { agedFiles, pruneFiles } from "../../../src/audit/export/prune.ts";
import { savedPositionPath } from "../../../src/audit/journal/saved-position.ts";
import { DAY_MS } from "../../../src/audit/query/time-range.ts";
import { canonicalJson, sha256Hex } from "../../../src/core/digest.ts";
import { ARGUMENT_LIMITS } from "../../../src/core/json.ts";
import type { Parts } from "../../../src/runtime/composition/assembly.ts";
import type { Config } from "../../../src/runtime/config/config.ts";
import { type ReplayReport, replay } from "../../../src/runtime/replay/replay.ts";
import { hashIn, keys, linesOf, rehashed, writeLines } from "../../audit/support/chained-log.ts";
import { draftOf } from "../../audit/support/open.ts";
import { entryLine } from "../../support/audit-lines.ts";
import { assemble, readConfig } from "../../support/build.ts";
import { ReplayWorld, usualPolicy } from "./replay-world.ts";

const [ONE, TWO, LAST] = ["2026-02-16", "2026-02-17", "2026-02-19"] as const;
const CALLS_A_DAY = 5;
const world = new ReplayWorld();
const original = join(world.folder, "audit-original");
const dir = join(world.folder, "audit-changed");
let parts: Parts;
let config: Config;

beforeAll(async () => {
  const written = { ...world.sections(usualPolicy()), audit: { dir: "unused" } };
  config = readConfig(written, { folder: world.folder, environment: { PATH: "/usr/bin:/bin" }, origin: "test" });
  parts = await assemble(config);
  await write(original);
});
beforeEach(() => {
  rmSync(dir, { recursive: true, force: true });
  cpSync(original, dir, { recursive: true });
});
afterAll(async () => {
  await parts.close();
  await world.end();
});

/** A call of `order_update` that asked a person, then as now. */
function callOf(n: number): Parameters<typeof draftOf>[1] {
  const args = { n, tier: "gold" };
  const argsDigest = parts.registry.find("order_update").registered?.argsDigest ?? "";
  return {
    caller: { sub: "agent-0", iss: "https://idp.test", permissions: ["orders:write"] },
    tool: { name: "order_update", classification: "write", targetSystem: "orders", argsDigest },
    request: { args, argsHash: sha256Hex(canonicalJson(args, ARGUMENT_LIMITS)), hashAlg: "sha256" },
    decision: "PENDING",
    error: { code: "APPROVAL_REQUIRED" },
    approval: { by: "APPROVAL_REQUIRED", id: "a-1" },
    stages: { AUTH: 0.1, PERMISSION: 0.1, VALIDATION: 0.1, PLAN: 0.1, APPROVAL: 0.1 },
  } as Parameters<typeof draftOf>[1];
}

/** Writes five calls on each of three days. */
async function write(into: string, checkpointKey?: KeyObject): Promise<void> {
  let now = Date.parse(`${ONE}T00:00:00.000Z`);
  const log = openAuditLog({
    ...{ dir: into, instance: "test", clock: () => now, durability: "write", queueEntriesMax: 100 },
    ids: () => `id-${now}`,
    checkpointKey,
  });
  for (const day of [ONE, TWO, LAST]) {
    now = Date.parse(`${day}T12:00:00.000Z`);
    for (let call = 0; call < CALLS_A_DAY; call += 1) {
      now += 1_000;
      await log.append(draftOf(`t-${day}-${call}`, callOf(call)));
    }
  }
  await log.close();
}

const fileOf = (day: string): string => join(dir, `${day}.jsonl`);

function edit(day: string, change: (lines: string[]) => readonly string[]): void {
  writeLines(fileOf(day), change(linesOf(fileOf(day))));
}

const at = (day: string, hour = "00"): number => Date.parse(`${day}T${hour}:00:00.000Z`);

/** The problem in short, the lines that do not verify, and the calls that were judged. */
function summaryOf({ audit, calls, unchanged }: ReplayReport): unknown {
  const { kind, file, line, seq } = audit.damage ?? {};
  return { damage: kind && `${kind} ${file}:${line} seq ${seq}`, unverified: audit.unverified, calls, unchanged };
}

function replayed(filter: { readonly fromMs?: number; readonly toMs?: number } = {}): Promise<ReplayReport> {
  return replay({ parts, config, dir, filter, asksExternal: false });
}

const summary = (damage: string | undefined, unverified: number, judged: number): object => ({
  ...{ damage, unverified, calls: judged, unchanged: judged },
});

const changed = (line = ""): string => line.replace('"gold"', '"vip!"');

test.each<readonly [string, () => void, object]>([
  [
    "a changed line",
    () => edit(TWO, (lines) => lines.with(2, changed(lines[2]))),
    summary(`changed ${TWO}.jsonl:3 seq 7`, 1, 14),
  ],
  [
    "two changed lines, and one that is no JSON",
    () => edit(TWO, (lines) => [changed(lines[0]), "{", lines[2] ?? "", changed(lines[3]), lines[4] ?? ""]),
    summary(`changed ${TWO}.jsonl:1 seq 5`, 3, 12),
  ],
  [
    "neighbours that lost their links",
    () => edit(TWO, (lines) => lines.map((line, n) => (n === 1 || n === 2 ? line.replace(/,"seq":.*/, "}") : line))),
    summary(`changed ${TWO}.jsonl:2 seq 6`, 2, 13),
  ],
  [
    "a changed line with a hash that fits its content",
    () => edit(TWO, (lines) => lines.with(2, rehashed(changed(lines[2])))),
    summary(`changed ${TWO}.jsonl:3 seq 7`, 2, 13),
  ],
  [
    "an added line",
    () =>
      edit(TWO, (lines) =>
        lines.toSpliced(2, 0, rehashed(changed(lines[2]), { seq: 7, prev: hashIn(lines[1] ?? "") })),
      ),
    summary(`inserted ${TWO}.jsonl:3 seq 7`, 2, 14),
  ],
  [
    "a line that appears twice",
    () => edit(TWO, (lines) => lines.toSpliced(2, 0, lines[2] ?? "")),
    summary(`inserted ${TWO}.jsonl:4 seq 7`, 1, 15),
  ],
  ["a removed line", () => edit(TWO, (lines) => lines.toSpliced(2, 1)), summary(`removed ${TWO}.jsonl:3 seq 7`, 1, 13)],
  ["a removed first line", () => edit(ONE, (lines) => lines.slice(1)), summary(`removed ${ONE}.jsonl:1 seq 0`, 1, 13)],
  ["a removed day", () => rmSync(fileOf(TWO)), summary(`gap ${LAST}.jsonl:1 seq 5`, 1, 9)],
  [
    "a removed last line",
    () => edit(LAST, (lines) => lines.slice(0, -1)),
    summary(`cut off ${LAST}.jsonl:4 seq 14`, 0, 14),
  ],
  [
    "a last line that is cut off",
    () => truncateSync(fileOf(LAST), readFileSync(fileOf(LAST)).length - 20),
    summary(`cut off ${LAST}.jsonl:5 seq 14`, 0, 14),
  ],
  [
    "a day without links",
    () => edit(ONE, (lines) => lines.map((line) => line.replace(/,"seq":.*/, "}"))),
    summary(`changed ${TWO}.jsonl:1 seq 0`, 6, 9),
  ],
  [
    "lines put before the chain's first line, which is changed too",
    () => edit(ONE, ([first, ...others]) => ["{}", entryLine(`${ONE}T00:00:00.000Z`), changed(first), ...others]),
    summary(`changed ${ONE}.jsonl:3 seq 0`, 3, 14),
  ],
  [
    "a log without any link",
    () => {
      for (const day of [ONE, TWO, LAST]) edit(day, (lines) => lines.map((line) => line.replace(/,"seq":.*/, "}")));
    },
    summary(`changed ${LAST}.jsonl:1 seq 0`, 15, 0),
  ],
])("names %s, and judges no line that does not verify", async (_name, harm, wanted) => {
  harm();
  expect(summaryOf(await replayed())).toEqual(wanted);
});

test("a day that was written again does not verify from there on, where a checkpoint covers it", async () => {
  rmSync(dir, { recursive: true });
  await write(dir, keys.privateKey);
  let prev = hashIn(linesOf(fileOf(ONE)).at(-1) ?? "");
  for (const day of [TWO, LAST])
    edit(day, (lines) =>
      lines.map((line) => {
        const forged = rehashed(changed(line), { prev });
        prev = hashIn(forged);
        return forged;
      }),
    );
  expect(summaryOf(await replayed())).toEqual(summary(`checkpoint mismatch ${TWO}.jsonl:1 seq 5`, 10, 5));
});

test("the days that are read are checked, and no others", async () => {
  edit(TWO, (lines) => lines.with(2, changed(lines[2])));
  expect(summaryOf(await replayed({ toMs: at(TWO) }))).toEqual(summary(undefined, 0, 5));
  expect(summaryOf(await replayed({ fromMs: at(LAST) }))).toEqual(summary(undefined, 0, 5));
  expect(summaryOf(await replayed({ fromMs: at(TWO), toMs: at(LAST) }))).toEqual(
    summary(`changed ${TWO}.jsonl:3 seq 7`, 1, 4),
  );
  expect(summaryOf(await replayed({ fromMs: at(TWO, "13") }))).toEqual(summary(`changed ${TWO}.jsonl:3 seq 7`, 1, 5));
});

test("a first line of the days that are read that lost its link is not from before the chain", async () => {
  edit(TWO, (lines) => lines.with(0, changed(lines[0]).replace(/,"seq":.*/, "}")));
  expect(summaryOf(await replayed({ fromMs: at(TWO) }))).toEqual(summary(`changed ${TWO}.jsonl:1 seq 5`, 1, 9));
});

test("a whole log of several days, and any part of it, is sound", async () => {
  for (const [filter, judged] of [
    [{}, 15],
    [{ fromMs: at(TWO) }, 10],
    [{ toMs: at(LAST) }, 10],
    [{ fromMs: at(TWO), toMs: at(TWO, "13") }, 5],
    [{ fromMs: at("2026-02-18"), toMs: at("2026-02-18", "13") }, 0],
  ] as const) {
    const report = await replayed(filter);
    expect(summaryOf(report)).toEqual(summary(undefined, 0, judged));
    expect(report.audit).toEqual({ unverified: 0, linesBefore: 0 });
  }
});

test("a log whose first days were deleted by retention is sound", async () => {
  const options = { dir, nowMs: at(LAST, "13"), keepMs: 2 * DAY_MS };
  await pruneFiles(agedFiles(options), options);
  expect(summaryOf(await replayed())).toEqual(summary(undefined, 0, 10));
});

test("a line that is being written is reported as such, and nothing else", async () => {
  rmSync(savedPositionPath(dir));
  appendFileSync(fileOf(LAST), '{"timestamp":"2026-02-19T');
  const report = await replayed();
  expect(summaryOf(report)).toEqual(summary(`cut off ${LAST}.jsonl:6 seq 15`, 0, 15));
  expect(report.audit.damage?.isTornEnd).toBe(true);
});

test("lines from before the chain are judged, and counted as such", async () => {
  rmSync(dir, { recursive: true });
  mkdirSync(dir);
  const line = entryLine(`${ONE}T12:00:00.000Z`, callOf(1) as Parameters<typeof entryLine>[1]);
  writeFileSync(fileOf(ONE), `${line}\n${line}\n`);
  const report = await replayed();
  expect(summaryOf(report)).toEqual(summary(undefined, 0, 2));
  expect(report.audit).toEqual({ unverified: 0, linesBefore: 2 });
});
