import { STREAMS } from "../../audit/chain/chain.ts";
import { escapeLine, escapeName } from "../../audit/escape.ts";
import { type CallHistory, historyIn, readCallHistory } from "../../audit/query/call-history.ts";
import { type Filter, type FoundLine, Matcher } from "../../audit/query/filter.ts";
import { lastLines } from "../../audit/query/follow.ts";
import { byTime, LogsFollower } from "../../audit/query/follow-logs.ts";
import { mergedLines } from "../../audit/query/merged.ts";
import { type Params, readFilter, readQuery } from "../../audit/query/params.ts";
import { search } from "../../audit/query/query.ts";
import { membersOf, parseLine } from "../../audit/query/view.ts";
import { CALL_COLUMNS, type EntryView, type LineMembers, viewOf } from "../../core/audit-fields.ts";
import { storyLines } from "../../core/call-story.ts";
import { asString } from "../../core/json.ts";
import { EXIT, print, type StyledText, table, wrongUsage } from "../output.ts";
import {
  type AuditDirectory,
  auditDirectories,
  auditDirectory,
  NO_CALLS,
  noCalls,
  ProgressLine,
  warnOfDays,
  withIndexes,
} from "./directory.ts";

export const LIMITS = { limit: 50, limitMax: 1_000_000 } as const;
const PAGE_BYTES_MAX = 8 * 1_048_576;

interface SearchOptions {
  readonly dir: string | undefined;
  readonly json: boolean | undefined;
}

interface QueryOptions {
  readonly dirs: readonly string[];
  readonly json: boolean | undefined;
  readonly withoutIndex: boolean | undefined;
  readonly params: Params;
}

/** `stc audit query`: lists the calls that match the filters. */
export async function auditQuery({ dirs, json, withoutIndex, params }: QueryOptions): Promise<void> {
  const directories = auditDirectories(dirs);
  const [directory] = directories ?? [];
  if (directories === undefined || directory === undefined) return;
  const query = readQuery(params, { ...LIMITS, nowMs: directory.nowMs });
  if ("faults" in query) return wrongUsage(...query.faults);
  const all = directories.flatMap(({ logs }) => logs);
  const isOne = all.length === 1;
  if (!isOne && params["cursor"] !== undefined) return wrongUsage("--cursor continues the query of one log");
  warnOfDays(all);
  await withIndexes(all, withoutIndex, async (logs) => {
    let count = 0;
    let cursor: string | undefined;
    const progress = new ProgressLine();
    const found = mergedLines({
      logs,
      query: query.ok,
      pageBytesMax: PAGE_BYTES_MAX,
      mayGoOn: progress.count,
      onPage: (page) => {
        progress.end();
        cursor = page.more || query.ok.order === "oldest" ? page.cursor : undefined;
      },
    });
    for await (const line of found) {
      if (count === 0 && json !== true) printHeading();
      if (json === true) print.line(isOne ? line.line : withLog(line));
      else printEntry(line.entry, directory);
      count += 1;
    }
    if (count === 0) noCalls(json === true);
    if (cursor !== undefined && isOne) print.error(`continue with --cursor ${cursor}`);
    if (count === query.ok.limit && !isOne) print.error("there may be more: narrow --from and --to, or raise --limit");
  });
}

/** Returns the line with a first member `log`: of several logs, the line alone does not say which one it is from. */
export function withLog({
  line,
  log = null,
}: Pick<FoundLine, "line"> & { readonly log?: string | null | undefined }): string {
  return `{"log":${JSON.stringify(log)},${line.slice(line.indexOf("{") + 1)}`;
}

interface TailOptions extends SearchOptions {
  readonly lines: number;
  readonly follow: boolean | undefined;
  readonly filters: Params;
}

const FOLLOW_EVERY_MS = 100;
const LATEST_BYTES_MAX = 16 * 1_048_576;

/**
 * `stc audit tail`: prints the latest calls across days, and with `-f` also new ones. Reads the files without asking a service.
 */
export async function auditTail({ dir, json, lines, follow, filters }: TailOptions): Promise<void> {
  const directory = auditDirectory(dir);
  if (directory === undefined) return;
  const filter = readFilter(filters, directory.nowMs);
  if ("faults" in filter) return wrongUsage(...filter.faults);
  warnOfDays(directory.logs);
  const show = (line: string): void => (json === true ? print.line(line) : printLine(line, directory));
  const matches = matcherOf(filter.ok, filters);
  // Determines the ends of the files once, for both steps: a line written in between must not be lost or shown twice.
  const follower = new LogsFollower(directory.dir);
  const latestOfLogs = await Promise.all(
    follower
      .ends()
      .map(async ({ dir: log, ends }) =>
        matches === undefined ? lastLines(log, ends, lines) : latestOf(log, { filter: filter.ok, ends, count: lines }),
      ),
  );
  const latest = byTime(latestOfLogs, (line) => line).slice(-lines);
  for (const line of latest) show(line);
  if (follow !== true) {
    if (latest.length === 0 && lines > 0 && json !== true) print.error(NO_CALLS);
    return;
  }
  for (;;) {
    for (const { line } of follower.readNewLines()) if (matches?.(line) ?? true) show(line);
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_EVERY_MS));
  }
}

/** Returns undefined when no filter was given: then every line is shown, even one that is not an audit line. */
function matcherOf(filter: Filter, asked: Params): ((line: string) => boolean) | undefined {
  if (Object.values(asked).every((value) => value === undefined)) return undefined;
  const matcher = new Matcher(filter);
  return (line) => {
    const members = parseLine(line);
    const entry = members && viewOf(members);
    return entry !== undefined && matcher.accepts(entry, line);
  };
}

interface Latest {
  readonly filter: Filter;
  readonly ends: ReadonlyMap<string, number>;
  readonly count: number;
}

async function latestOf(dir: string, { filter, ends, count }: Latest): Promise<readonly string[]> {
  const [day, offset] = [...ends].at(-1) ?? [];
  if (day === undefined || offset === undefined || count === 0) return [];
  const cursor = { order: "newest", day, offset, fromMs: filter.fromMs, toMs: filter.toMs, digest: "" } as const;
  const page = await search({
    dir,
    query: { filter, order: "newest", limit: count, cursor, digest: "" },
    pageBytesMax: LATEST_BYTES_MAX,
  });
  return page.found.map(({ line }) => line).toReversed();
}

const ID = /^[\x21-\x7e]{1,128}$/;

/** @throws {CommandError} */
export function checkId(id: string): void {
  if (!ID.test(id)) wrongUsage("the id must be 1 to 128 printable characters");
}

/** `stc audit show`: prints a call with its intent and its approvals in chronological order. */
export async function auditShow(id: string, { dirs, json, withoutIndex }: Omit<QueryOptions, "params">): Promise<void> {
  checkId(id);
  const directories = auditDirectories(dirs);
  if (directories === undefined) return;
  const all = directories.flatMap(({ logs }) => logs);
  warnOfDays(all, STREAMS);
  const progress = new ProgressLine();
  const record = await withIndexes(all, withoutIndex, async (logs) => {
    const read = await readCallHistory(historyIn({ logs, mayGoOn: progress.count }), id);
    progress.end();
    return read;
  });
  const searched = directories.map(({ dir }) => dir).join(", ");
  printHistory(record, { id, json, searched, isOne: all.length === 1 });
}

interface ShownHistory extends Pick<SearchOptions, "json"> {
  readonly id: string;
  readonly searched: string;
  /** True when a single log was read. */
  readonly isOne: boolean;
}

export function printHistory(
  { lines, calls, journal }: CallHistory,
  { id, json, searched, isOne }: ShownHistory,
): void {
  if (lines.length === 0) {
    print.error(`no line in ${searched} has the id ${id}`);
    process.exitCode = EXIT.failed;
    return;
  }
  if (json === true) {
    for (const line of lines) print.line(isOne ? line.line : withLog(line));
    return;
  }
  print.line(table([["TIME", "WHAT", "TOOL", "WHO", "TRACE OR APPROVAL"], ...lines.map(rowOf)]));
  const told = journal.map(({ line }) => parseLine(line) ?? {});
  for (const { line } of calls) {
    for (const text of ["", ...storyLines(parseLine(line) ?? {}, told).map(escapeLine), ""]) print.line(text);
    print.line(indented(line));
  }
}

/** Deeper lines were not written by this service. Indenting them would grow with the square of the depth. */
const DEPTH_MAX = 300;

function indented(line: string): string {
  const members = parseLine(line);
  return isDeeper(members, DEPTH_MAX) ? line : JSON.stringify(members, null, 2);
}

function isDeeper(value: unknown, depthMax: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return depthMax === 0 || Object.values(value).some((member) => isDeeper(member, depthMax - 1));
}

function rowOf({ line, entry }: Pick<FoundLine, "line" | "entry">): readonly string[] {
  const members = parseLine(line) ?? {};
  const type = asString(members["type"]);
  const what = type ?? ["call", entry.decision, entry.code].filter((part) => part !== undefined).join(" ");
  const tool = entry.tool ?? asString(members["tool"]);
  const who = entry.sub ?? whoOf(members);
  const id = type === undefined ? entry.traceId : (asString(members["id"]) ?? entry.traceId);
  return [entry.timestamp, what, tool, who, id].map((cell) => escapeName(cell ?? "-"));
}

/**
 * Returns who acted: the approver if there is one, otherwise the requester, who is named in every line of an approval request.
 */
function whoOf(members: LineMembers): string | undefined {
  return (
    asString(members["sub"]) ?? asString(membersOf(members["decider"])?.["subject"]) ?? asString(members["subject"])
  );
}

const COLOURS: Readonly<Record<string, StyledText["colour"]>> = {
  ALLOWED: "green",
  DENIED: "yellow",
  ERROR: "red",
  PENDING: "cyan",
  DRY_RUN: "cyan",
};

/** Cells that show more than the text of their field, by its name. */
const CELLS: Readonly<Record<string, (entry: EntryView) => string>> = {
  decision: ({ decision = "", code }) => [decision, code].filter((part) => part !== undefined).join(" "),
  tool: ({ tool = "", count }) => (count === 1 ? tool : `${tool} x${count}`),
  duration: ({ duration }) => (duration === undefined ? "" : `${duration.toFixed(1)} ms`),
};

/** Prints one call as a table row. Everything is escaped, because it is unknown who wrote to the directory. */
export function printEntry(entry: EntryView, { isColoured }: Pick<AuditDirectory, "isColoured">): void {
  const cells = CALL_COLUMNS.map(({ name, textIn }) => CELLS[name]?.(entry) ?? textIn(entry.line) ?? "");
  printCells(cells, isColoured ? COLOURS[entry.decision ?? ""] : undefined);
}

function printLine(line: string, directory: AuditDirectory): void {
  const members = parseLine(line);
  const entry = members && viewOf(members);
  if (entry === undefined) print.line(`(not an audit line) ${escapeName(line)}`);
  else printEntry(entry, directory);
}

export function printHeading(): void {
  printCells(CALL_COLUMNS.map(({ title }) => title.toUpperCase()));
}

function printCells(cells: readonly string[], colour?: StyledText["colour"]): void {
  const last = cells.findLastIndex((cell) => cell !== "");
  const pieces = CALL_COLUMNS.slice(0, last + 1).map(({ name, width = 0 }, at) => {
    const text = escapeName(cells[at] ?? "");
    return {
      text: at === last ? text : text.padEnd(width).concat("  "),
      colour: name === "decision" ? colour : undefined,
    };
  });
  print.pieces(pieces);
}
