import { escapeName } from "../../audit/escape.ts";
import type { Filter } from "../../audit/query/filter.ts";
import type { Params } from "../../audit/query/params.ts";
import {
  type Counts,
  compareStats,
  type RefusalChange,
  readStats,
  readStatsRange,
  type Stats,
  type StatsRange,
} from "../../audit/stats/stats.ts";
import { EXIT, print, table, wrongUsage } from "../output.ts";
import { auditDirectory, ProgressLine, warnOfDays, withIndexes } from "./directory.ts";

/** Rows of each table; `--json` prints all of them. */
const ROWS_MAX = 20;

interface AuditStatsOptions {
  readonly dir: string | undefined;
  readonly json: boolean | undefined;
  readonly withoutIndex: boolean | undefined;
  readonly params: Params;
}

/** `stc audit stats`: counts calls and refusals by group, with durations; with `--compare`, prints the changes. */
export async function auditStats({ dir, json, withoutIndex, params }: AuditStatsOptions): Promise<void> {
  const directory = auditDirectory(dir);
  if (directory === undefined) return;
  const range = readStatsRange(params, directory.nowMs);
  if ("faults" in range) return wrongUsage(...range.faults);
  warnOfDays(directory.logs);
  await withIndexes(directory.logs, withoutIndex, async (logs) => {
    const progress = new ProgressLine();
    await printStatistics(range.ok, json, async (filter) => {
      const stats = await readStats({ logs, filter, mayGoOn: progress.count });
      progress.end();
      return stats;
    });
  });
}

/** Prints the statistics of a range, or how it differs from an earlier one. */
export async function printStatistics(
  { filter, earlierMs }: StatsRange,
  json: boolean | undefined,
  statsOf: (filter: Filter) => Promise<Stats>,
): Promise<void> {
  if (earlierMs === undefined) {
    const stats = await statsOf(filter);
    if (stats.calls === 0) process.exitCode = EXIT.failed;
    return json === true ? print.json(stats) : printStats(stats);
  }
  const comparison = await compareStats({ filter, earlierMs }, statsOf);
  const { before, now, changes } = comparison;
  if (before.calls + now.calls === 0) process.exitCode = EXIT.failed;
  return json === true ? print.json(comparison) : printChanges(changes, [before.calls, now.calls]);
}

function printStats({ calls, durations, ...counts }: Stats): void {
  print.line(`${calls} calls`);
  printCounts("DECISION", counts.byDecision);
  printCounts("STAGE", counts.byStage);
  printCounts("CODE", counts.byCode);
  printCounts("TOOL", counts.byTool);
  printCounts("CALLER", counts.byCaller);
  printCounts("REFUSAL (CODE STAGE TOOL)", counts.refusals);
  const rows = durations
    .slice(0, ROWS_MAX)
    .map(({ tool, calls: timed, p50, p95, p99 }) => [escapeName(tool), String(timed), ...[p50, p95, p99].map(msText)]);
  if (calls > 0) print.line(`\n${table([["DURATION", "CALLS", "P50", "P95", "P99"], ...rows])}`);
}

function printCounts(title: string, counts: Counts): void {
  if (counts.length === 0) return;
  const rows = counts.slice(0, ROWS_MAX).map(([name, calls]) => [escapeName(name, NAME_CHARACTERS_MAX), String(calls)]);
  print.line(`\n${table([[title, "CALLS"], ...rows])}`);
  if (counts.length > ROWS_MAX) print.line(`… and ${counts.length - ROWS_MAX} more (--json lists all)`);
}

/** Maximum length of a name in characters: a caller is shown as issuer and subject. */
const NAME_CHARACTERS_MAX = 512;

function printChanges(changes: readonly RefusalChange[], [before, now]: readonly [number, number]): void {
  print.line(`${before} calls before, ${now} now`);
  if (changes.length === 0) {
    print.line("no refusal became more or less frequent");
    return;
  }
  const rows = changes
    .slice(0, ROWS_MAX)
    .map(({ refusal, ...times }) => [
      escapeName(refusal, NAME_CHARACTERS_MAX),
      String(times.before),
      String(times.now),
      signed(times.now - times.before),
    ]);
  print.line(`\n${table([["REFUSAL (CODE STAGE TOOL)", "BEFORE", "NOW", "CHANGE"], ...rows])}`);
}

function signed(change: number): string {
  return change > 0 ? `+${change}` : String(change);
}

function msText(ms: number | undefined): string {
  return ms === undefined ? "-" : `${ms} ms`;
}
