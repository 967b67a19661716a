import { readFileSync } from "node:fs";
import { escapeName } from "../../audit/escape.ts";
import { readCallHistory } from "../../audit/query/call-history.ts";
import type { Params } from "../../audit/query/params.ts";
import { readStatsRange } from "../../audit/stats/stats.ts";
import type { AuditStore, StoredLog } from "../../audit/store/audit-store.ts";
import { isStoreUrl, openAuditStore, STORE_FORMS } from "../../audit/store/open-store.ts";
import { AuditStoreError, NotProvable } from "../../audit/store/store-error.ts";
import { readStoreQuery, writeStoreCursor } from "../../audit/store/store-query.ts";
import type { EpochMs } from "../../core/types.ts";
import { EXIT, print, wrongUsage } from "../output.ts";
import { checkId, LIMITS, printEntry, printHeading, printHistory, withLog } from "./calls.ts";
import { auditMoment, noCalls } from "./directory.ts";
import { type AuditVerifyOptions, NOT_SIGNED, readKey, SIGNATURES_NOT_CHECKED } from "./evidence.ts";
import { EXPORT_LIMITS, formatOf, writeExport } from "./export.ts";
import { printStatistics } from "./stats.ts";

/** Limit for one statement, in milliseconds. */
const STATEMENT_MS = 300_000;
const PAGE_BYTES_MAX = 8 * 1_048_576;
/** Logs that are listed after an answer. */
const LOGS_MAX = 20;
/** Kinds of problems that are about signatures alone. */
const SIGNATURES: ReadonlySet<string> = new Set(["bad signature", "not signed"]);

/** The directories that were named, which must be none, and the tenant whose lines are asked for. */
interface StorePlace {
  readonly dirs: readonly string[];
  readonly tenant?: string | undefined;
}

interface AskedStore extends StorePlace {
  readonly json?: boolean | undefined;
  readonly params: Params;
}

/** `stc audit query --from-store`. */
export async function queryStore(named: string, { json, params, ...place }: AskedStore): Promise<void> {
  const { nowMs, isColoured } = auditMoment();
  const read = readStoreQuery(params, { ...LIMITS, nowMs });
  if ("faults" in read) return wrongUsage(...read.faults);
  await withStore(named, place, async (store) => {
    const logs = await store.logs();
    let [query, left, count] = [read.ok, read.ok.limit, 0];
    while (left > 0) {
      const page = await store.page({ ...query, limit: left }, PAGE_BYTES_MAX);
      for (const found of page.found) {
        if (count === 0 && json !== true) printHeading();
        if (json === true) print.line(withLog(found));
        else printEntry(found.entry, { isColoured });
        count += 1;
      }
      left -= page.found.length;
      query = { ...query, after: page.after };
      if (!page.more) break;
      if (left === 0 && page.after !== undefined)
        print.error(`continue with --cursor ${writeStoreCursor(query, page.after)}`);
    }
    if (count === 0) noCalls(json === true);
    reportLogs(logs);
  });
}

/** `stc audit show --from-store`. */
export async function showFromStore(
  named: string,
  id: string,
  { json, ...place }: Omit<AskedStore, "params">,
): Promise<void> {
  checkId(id);
  await withStore(named, place, async (store) => {
    const logs = await store.logs();
    printHistory(await readCallHistory(store, id), { id, json, searched: "the store", isOne: false });
    reportLogs(logs);
  });
}

/** `stc audit stats --from-store`. */
export async function statsFromStore(named: string, { json, params, ...place }: AskedStore): Promise<void> {
  const range = readStatsRange(params, auditMoment().nowMs);
  if ("faults" in range) return wrongUsage(...range.faults);
  await withStore(named, place, async (store) => {
    const logs = await store.logs();
    await printStatistics(range.ok, json, (filter) => store.stats(filter));
    reportLogs(logs);
  });
}

interface StoreExport extends Omit<AskedStore, "json"> {
  readonly format: string;
  readonly output: string | undefined;
}

/** `stc audit export --from-store`. */
export async function exportFromStore(
  named: string,
  { format: name, output, params, ...place }: StoreExport,
): Promise<void> {
  const format = formatOf(name);
  const read = readStoreQuery({ ...params, order: "oldest" }, { ...EXPORT_LIMITS, nowMs: auditMoment().nowMs });
  if ("faults" in read) return wrongUsage(...read.faults);
  await withStore(named, place, async (store) => {
    const logs = await store.logs();
    await writeExport(store.lines(read.ok), { format, output });
    reportLogs(logs);
  });
}

/** `stc audit prove --from-store`. */
export async function proveFromStore(named: string, id: string, place: StorePlace): Promise<void> {
  checkId(id);
  await withStore(named, place, async (store) => {
    try {
      print.json(await store.prove(id), 2);
    } catch (error) {
      if (!(error instanceof NotProvable)) throw error;
      print.error(error.message);
      process.exitCode = EXIT.failed;
    }
  });
}

/** `stc audit verify --from-store`: checks the stored lines of each log, and names what is missing. */
export async function verifyFromStore(
  named: string,
  expected: readonly string[],
  { dir, tenant, key, from, to, json }: AuditVerifyOptions,
): Promise<void> {
  if ((from ?? to) !== undefined) return wrongUsage("--from and --to are for files: a store is checked as a whole");
  const keys = key.map(readKey);
  await withStore(named, { dirs: dir === undefined ? [] : [dir], tenant }, async (store) => {
    const kinds = new Set<string>();
    // Logs, those with lines, and those with lines that checkpoints cover.
    let [logs, written, covered] = [0, 0, 0];
    for await (const report of store.verify({ keys, expected, pause })) {
      const { log, stream = "expected", lines, firstSeq = "-", lastSeq = "-", compared, problems } = report;
      logs += 1;
      if (lines > 0) written += 1;
      if (lines > 0 && compared > 0) covered += 1;
      for (const { kind } of problems) kinds.add(kind);
      if (json === true) {
        print.json(report);
        continue;
      }
      print.line(
        `${stream} ${escapeName(log)}: ${lines} lines, seq ${firstSeq} to ${lastSeq}, ${compared} checkpoints compared${signedText(report)}`,
      );
      for (const { kind, message } of problems) print.line(`  ${kind}: ${message}`);
    }
    const isChecked = keys.length > 0 && written > 0 && covered === written;
    const isSound = kinds.size === 0 && logs > 0;
    const sound = isChecked ? "ok" : "ok, not checked: signatures";
    if (json !== true) print.line(isSound ? sound : "NOT SOUND");
    if (isSound) process.exitCode = isChecked ? 0 : SIGNATURES_NOT_CHECKED;
    else process.exitCode = logs > 0 && [...kinds].every((kind) => SIGNATURES.has(kind)) ? NOT_SIGNED : EXIT.failed;
  });
}

/** Time in which a running exporter sends new lines. */
const PAUSE_MS = 1_000;

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
}

/** Says how far a log with checkpoints is signed. The newest lines of a service that runs are not yet. */
function signedText({ signedSize, unsignedLines }: { readonly signedSize: number; readonly unsignedLines: number }) {
  if (signedSize === 0) return "";
  return `, signed to seq ${signedSize - 1}${unsignedLines === 0 ? "" : `, ${unsignedLines} lines after it are not signed`}`;
}

/** @throws {AuditStoreError} */
async function withStore(
  named: string,
  { dirs, tenant }: StorePlace,
  work: (store: AuditStore) => Promise<void>,
): Promise<void> {
  if (dirs.length > 0) return wrongUsage("give --dir or --from-store, not both");
  const scope = tenant === undefined ? "all" : { tenant };
  const store = await openAuditStore(storeUrl(named, "--from-store"), { statementMs: STATEMENT_MS, scope });
  try {
    await work(store);
  } finally {
    await store.close();
  }
}

/** Returns the URL of a store that an option names, itself or in a file. @throws {AuditStoreError} */
export function storeUrl(named: string, flag: string): string {
  if (isStoreUrl(named)) return named;
  try {
    return readFileSync(named, "utf8").trim();
  } catch {
    throw new AuditStoreError(`${flag} must be ${STORE_FORMS}, or a file that holds one`);
  }
}

/**
 * Reports until when the store has the lines of each log, on standard error. Those that are furthest behind come first. The logs must
 * have been read before the lines: afterwards, they may be complete until later than the answer.
 */
function reportLogs(logs: readonly StoredLog[]): void {
  const calls = logs.filter(({ stream }) => stream === "calls");
  const time = (ms: EpochMs | undefined): string => (ms === undefined ? "an unknown time" : new Date(ms).toISOString());
  for (const { log, instance, nextSeq, newestMs, completeMs } of calls.slice(0, LOGS_MAX)) {
    const newest = `newest line ${time(newestMs)}, seq ${nextSeq - 1}`;
    print.error(`complete until ${time(completeMs)} (${newest}): log ${log} of ${escapeName(instance)}`);
  }
  if (calls.length > LOGS_MAX) print.error(`… and ${calls.length - LOGS_MAX} logs that are complete until later`);
}
