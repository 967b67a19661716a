import { isAuditDir } from "../audit/journal/day-files.ts";
import { readFilter } from "../audit/query/params.ts";
import { damageText } from "../audit/verify/damage.ts";
import { printable, printableCell } from "../core/printable.ts";
import { policyVersionOf } from "../runtime/composition/reloading.ts";
import { pathFrom } from "../runtime/config/config.ts";
import { type AuditState, type ReplayReport, replay as replayCalls } from "../runtime/replay/replay.ts";
import { type ConfigurationOptions, withParts } from "./configuration.ts";
import { CommandError, EXIT, print, table, wrongUsage } from "./output.ts";

interface ReplayCommandOptions extends ConfigurationOptions {
  readonly from?: string;
  readonly to?: string;
  readonly audit?: string;
  readonly askExternal?: boolean;
  readonly json?: boolean;
}

/** Rows of the table; `--json` has all. */
const ROWS_MAX = 100;
const PROGRESS_EVERY_MS = 1_000;

/** `stc replay`: compares the verdicts of recorded calls with those of a configuration that is not in use yet. */
export async function replay({
  from,
  to,
  audit,
  askExternal,
  json,
  ...configured
}: ReplayCommandOptions): Promise<void> {
  const filter = readFilter({ from, to }, Date.now());
  if ("faults" in filter) return wrongUsage(...filter.faults);
  await withParts(configured, async (parts, config) => {
    const dir = audit ?? pathFrom(config, config.audit.dir);
    if (!isAuditDir(dir)) throw new CommandError(EXIT.noInput, `there is no audit directory ${printable(dir)}`);
    const { fromMs, toMs } = filter.ok;
    let shownAt = Date.now();
    const progress = (calls: number): void => {
      if (json === true || process.stderr.isTTY !== true || Date.now() - shownAt < PROGRESS_EVERY_MS) return;
      shownAt = Date.now();
      print.error(`${calls} calls read`);
    };
    const asked = { parts, config, dir, filter: { fromMs, toMs }, asksExternal: askExternal === true, progress };
    const report = await replayCalls(asked);
    const policyVersion = policyVersionOf(config, parts);
    if (json === true) print.json({ policyVersion, ...report });
    else for (const line of linesOf(report, policyVersion)) print.line(line);
    if (isDamaged(report.audit)) process.exitCode = EXIT.dataDamaged;
    else if (report.changed > 0) process.exitCode = EXIT.failed;
  });
}

/** A last line without an end does not count: the service may be writing it. */
function isDamaged({ damage }: AuditState): boolean {
  return damage !== undefined && damage.isTornEnd !== true;
}

function linesOf(report: ReplayReport, policyVersion: string): readonly string[] {
  const { audit, calls, unchanged, changed, notJudged, leftOut, changes } = report;
  const rows = changes
    .slice(0, ROWS_MAX)
    .map(({ tool, sub, iss, then, now, calls: count, examples }) => [
      ...[String(count), printableCell(tool), printableCell(sub), printableCell(iss)],
      ...[printable(then), printable(now), examples.map(printable).join(" ")],
    ]);
  return [
    `${calls} ${calls === 1 ? "call" : "calls"}, judged by configuration ${printable(policyVersion)}`,
    `${unchanged} unchanged, ${changed} changed, ${sum(notJudged)} not judged, ${sum(leftOut)} left out`,
    ...auditLines(audit),
    ...(rows.length === 0
      ? []
      : ["", table([["CALLS", "TOOL", "CALLER", "ISSUER", "THEN", "NOW", "EXAMPLES"], ...rows])]),
    ...(changes.length > ROWS_MAX
      ? [`note: ${changes.length - ROWS_MAX} rows are left out; --json has all of them`]
      : []),
    ...countLines("not judged, because the verdict depends on what is not known:", notJudged),
    ...countLines("left out, because no policy decided them then:", leftOut),
  ];
}

function auditLines(audit: AuditState): readonly string[] {
  const { damage, unverified, linesBefore } = audit;
  const first = damage === undefined ? [] : [printable(damageText(damage))];
  const broken = [
    "",
    "lines of the audit were changed, removed or cut off: its calls are not all that were made",
    ...first.map((text) => `  first: ${text}`),
    `  ${unverified} ${unverified === 1 ? "line does not verify, and is" : "lines do not verify, and are"} not judged`,
  ];
  return [
    ...(isDamaged(audit) ? broken : first.map((text) => `note: ${text}; the service may be writing it`)),
    ...(linesBefore > 0
      ? [`note: ${linesBefore} of the lines were written before the hash chain: changes to them cannot be found`]
      : []),
  ];
}

function countLines(head: string, counts: Readonly<Record<string, number>>): readonly string[] {
  const rows = Object.entries(counts).map(([reason, count]) => `  ${count} ${printable(reason)}`);
  return rows.length === 0 ? [] : ["", head, ...rows];
}

function sum(counts: Readonly<Record<string, number>>): number {
  return Object.values(counts).reduce((all, one) => all + one, 0);
}
