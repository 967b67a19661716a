import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { durationCode } from "../../../src/audit/query/line-rows.ts";
import { compareStats, Durations, readStats, readStatsRange } from "../../../src/audit/stats/stats.ts";
import { entryLine, refusedLine, writeDays } from "../../support/audit-lines.ts";

const NOW = Date.parse("2026-02-17T00:00:00.000Z");
const dir = mkdtempSync(join(tmpdir(), "stc-stats-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const PENDING = { decision: "PENDING", error: { code: "APPROVAL_REQUIRED" } } as const;
writeDays(dir, {
  "2026-02-15": [
    refusedLine("2026-02-15T10:00:00.000Z", ["INVALID_INPUT", "VALIDATION"]),
    refusedLine("2026-02-15T11:00:00.000Z", ["PERMISSION_DENIED", "PERMISSION"]),
    refusedLine("2026-02-15T11:00:00.000Z", ["PERMISSION_DENIED", "PERMISSION"]),
  ],
  "2026-02-16": [
    ...[1, 2, 3, 4].map((at) => entryLine(`2026-02-16T0${at}:00:00.000Z`, { duration: at * 10 })),
    refusedLine("2026-02-16T10:00:00.000Z", ["INVALID_INPUT", "VALIDATION"], { duration: 50 }),
    refusedLine("2026-02-16T11:00:00.000Z", ["INVALID_INPUT", "VALIDATION"], { duration: 60 }),
    refusedLine("2026-02-16T12:00:00.000Z", ["UNAUTHENTICATED", "AUTH"], {
      caller: { sub: "anonymous", permissions: [] },
      count: 89,
    }),
    refusedLine("2026-02-16T12:30:00.000Z", ["UNAUTHENTICATED", "AUTH"], {
      caller: { sub: "anonymous", permissions: [] },
      count: 1,
    }),
    refusedLine("2026-02-16T13:00:00.000Z", ["APPROVAL_REQUIRED", "APPROVAL"], PENDING),
  ],
});

const DAY = { exact: {}, fromMs: NOW - 86_400_000, toMs: NOW };

describe("counts", () => {
  test("by everything; a summary line counts as many calls, and has no duration of theirs", async () => {
    const stats = await readStats({ logs: [{ dir }], filter: DAY });
    expect(stats).toMatchObject({
      calls: 97,
      byDecision: [
        ["DENIED", 92],
        ["ALLOWED", 4],
        ["PENDING", 1],
      ],
      byStage: [
        ["AUTH", 90],
        ["VALIDATION", 2],
        ["APPROVAL", 1],
      ],
      byCode: [
        ["UNAUTHENTICATED", 90],
        ["OK", 4],
        ["INVALID_INPUT", 2],
        ["APPROVAL_REQUIRED", 1],
      ],
      byTool: [["get_customer", 97]],
      byCaller: [
        ["anonymous", 90],
        ["agent-7 (https://idp.test)", 7],
      ],
      refusals: [
        ["UNAUTHENTICATED AUTH get_customer", 90],
        ["INVALID_INPUT VALIDATION get_customer", 2],
      ],
      isPartial: false,
    });
    expect(stats.durations[0]).toEqual({ tool: "(all)", calls: 7, p50: 30, p95: 60, p99: 60 });
  });

  test("with filters", async () => {
    const stats = await readStats({ logs: [{ dir }], filter: { ...DAY, exact: { decision: "ALLOWED" } } });
    expect([stats.calls, stats.refusals.length]).toEqual([4, 0]);
  });

  test("a day counts as read with the bytes of its file, however short", async () => {
    const bytes: number[] = [];
    const filter = { exact: {}, fromMs: NOW - 2 * 86_400_000, toMs: NOW };
    await readStats({ logs: [{ dir }], filter, mayGoOn: (read) => bytes.push(read) > 0 });
    const sizes = ["2026-02-15", "2026-02-16"].map((day) => statSync(join(dir, `${day}.jsonl`)).size);
    expect(bytes).toEqual([sizes[1] ?? 0, (sizes[0] ?? 0) + (sizes[1] ?? 0)]);
  });

  test("unread lines are reported", async () => {
    expect((await readStats({ logs: [{ dir }], filter: DAY, mayGoOn: () => false })).isPartial).toBe(true);
  });
});

describe("comparison", () => {
  test("the largest increase comes first, the largest decrease last, unchanged values are left out", async () => {
    const { changes, before, now } = await compareStats({ filter: DAY, earlierMs: 86_400_000 }, (filter) =>
      readStats({ logs: [{ dir }], filter }),
    );
    expect([before.calls, now.calls]).toEqual([3, 97]);
    expect(changes).toEqual([
      { refusal: "UNAUTHENTICATED AUTH get_customer", before: 0, now: 90 },
      { refusal: "INVALID_INPUT VALIDATION get_customer", before: 1, now: 2 },
      { refusal: "PERMISSION_DENIED PERMISSION get_customer", before: 2, now: 0 },
    ]);
  });

  test.each([
    [{ compare: "1d" }, { fromMs: NOW - 86_400_000, toMs: NOW }],
    [
      { compare: "7d", from: "2026-02-16T12:00" },
      { fromMs: NOW - 43_200_000, toMs: NOW },
    ],
  ])("%p is a range", (params, range) => {
    expect(readStatsRange(params, NOW)).toMatchObject({ ok: { filter: range } });
  });

  test.each([
    [{ compare: "1x" }, "compare must be a duration"],
    [{ compare: "1h", from: "2026-02-16" }, "would overlap"],
    [{ compare: "1h", from: "2026-02-18" }, "from must be earlier than to"],
    [{ limit: "1" }, "limit is not a parameter here"],
  ])("%p is refused", (params, fault) => {
    const read = readStatsRange(params, NOW);
    expect("faults" in read ? read.faults.join() : "").toContain(fault);
  });
});

describe("percentiles", () => {
  test.each<[string, readonly number[], readonly [number | undefined, number | undefined, number | undefined]]>([
    ["of nothing", [], [undefined, undefined, undefined]],
    ["of one", [7], [7, 7, 7]],
    ["of a hundred", Array.from({ length: 100 }, (_, at) => at + 1), [50, 95, 99]],
    ["of fractions", [0.1, 0.2, 0.3], [0.2, 0.3, 0.3]],
    ["of nothing but zero", [0, 0, 0], [0, 0, 0]],
    ["of what is beyond all patience", [1e12], [1e9, 1e9, 1e9]],
  ])("%s", (_title, values, want) => {
    const durations = new Durations();
    for (const value of values) durations.add(durationCode(value));
    expect(durations.percentiles([50, 95, 99])).toEqual(want);
  });

  test("are right to half a percent and store few numbers for any amount of input", () => {
    const durations = new Durations();
    for (let at = 0; at < 100_000; at += 1) durations.add(durationCode(at / 7));
    const [p50 = 0] = durations.percentiles([50]);
    expect(Math.abs(p50 / (50_000 / 7) - 1)).toBeLessThan(0.005);
  });
});
