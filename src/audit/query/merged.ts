import { logIds } from "../chain/log-id.ts";
import type { LogFolder } from "../logs.ts";
import type { FoundLine } from "./filter.ts";
import type { LineIndex } from "./line-index.ts";
import { type Cursor, type Position, type Query, writeCursor } from "./params.ts";
import { type QueryPage, type SearchOptions, search, searchPages } from "./query.ts";

/** Reads several logs as one: those of replicas, or those of the workers of one service. */

export interface SearchedLog extends Pick<LogFolder, "dir"> {
  readonly index?: LineIndex | undefined;
}

interface MergedOptions extends Pick<SearchOptions, "query" | "pageBytesMax" | "mayGoOn"> {
  readonly logs: readonly SearchedLog[];
  /** Gets each page of a log that was read. */
  readonly onPage?: (page: QueryPage) => void;
}

/** Yields the lines of all logs in the query's order, up to its limit. Ends when `mayGoOn` returns `false`. */
export async function* mergedLines({ logs, ...options }: MergedOptions): AsyncGenerator<FoundLine, void> {
  const { query } = options;
  const sources = logs.map((log) => linesOf(log, options));
  const idOf = logIds();
  const heads = await Promise.all(sources.map((source) => source.next()));
  for (let count = 0; count < query.limit; count += 1) {
    const at = firstOf(
      heads.map(({ value }) => value),
      query,
    );
    const line = heads[at]?.value;
    const source = sources[at];
    if (line === undefined || source === undefined) return;
    yield { ...line, log: idOf(logs[at]?.dir ?? "", "calls") };
    heads[at] = await source.next();
  }
}

async function* linesOf(
  { dir, index }: SearchedLog,
  { query, pageBytesMax, mayGoOn = () => true, onPage }: Omit<MergedOptions, "logs">,
): AsyncGenerator<FoundLine, undefined> {
  for await (const page of searchPages({ dir, index, query, pageBytesMax, mayGoOn })) {
    onPage?.(page);
    yield* page.found;
    if (!mayGoOn(0, 0)) return;
  }
}

/** Returns which of the lines is next in the query's order, -1 when there is none. Of the same time, the first log's. */
function firstOf(lines: readonly (FoundLine | undefined)[], { order }: Pick<Query, "order">): number {
  const sign = order === "oldest" ? 1 : -1;
  let first = -1;
  for (const [at, line] of lines.entries()) {
    const before = lines[first];
    if (line === undefined) continue;
    if (before === undefined || sign * (line.entry.timeMs - before.entry.timeMs) < 0) first = at;
  }
  return first;
}

interface SearchLogsOptions extends Pick<SearchOptions, "query" | "pageBytesMax"> {
  /** The log of the directory itself, then those of the workers. */
  readonly logs: readonly (LogFolder & SearchedLog)[];
  /** Returns the `mayGoOn` for one of the logs, by its index. */
  readonly mayGoOn: (log: number) => NonNullable<SearchOptions["mayGoOn"]>;
}

/** Returns one page of all logs. Its cursor holds a position in each. */
export async function searchLogs(options: SearchLogsOptions): Promise<Pick<QueryPage, "found" | "cursor" | "more">> {
  const { logs, query, pageBytesMax, mayGoOn } = options;
  const [only] = logs;
  if (only !== undefined && logs.length === 1) return search({ ...only, query, pageBytesMax, mayGoOn: mayGoOn(0) });
  const pages: QueryPage[] = [];
  for (const [at, log] of logs.entries()) {
    const cursor = query.cursor && { ...query.cursor, ...positionIn(query.cursor, log) };
    pages.push(await search({ ...log, query: { ...query, cursor }, pageBytesMax, mayGoOn: mayGoOn(at) }));
  }
  return merge(pages, options);
}

/** A position before all lines: with the oldest first, all of them follow; with the newest first, none. */
const START: Position = { day: "0000-01-01", offset: 0 };

/** A log without a position has appeared since the first page: with the newest first, all its lines are later ones. */
function positionIn(cursor: Cursor, { name }: LogFolder): Position {
  if (name === "") return { day: cursor.day, offset: cursor.offset };
  const { day, offset } = cursor.workers?.find(({ log }) => log === name) ?? START;
  return { day, offset };
}

function merge(
  pages: readonly QueryPage[],
  { logs, query, pageBytesMax }: SearchLogsOptions,
): Pick<QueryPage, "found" | "cursor" | "more"> {
  const taken = pages.map(() => 0);
  const idOf = logIds();
  const found: FoundLine[] = [];
  let bytes = 0;
  while (found.length < query.limit && bytes < pageBytesMax) {
    const heads = pages.map((page, at) => page.found[taken[at] ?? 0]);
    // Lines that were not read yet may come before all others.
    if (pages.some((page, at) => heads[at] === undefined && page.more)) break;
    const at = firstOf(heads, query);
    const line = heads[at];
    if (line === undefined) break;
    found.push({ ...line, log: idOf(logs[at]?.dir ?? "", "calls") });
    bytes += line.end - line.offset;
    taken[at] = (taken[at] ?? 0) + 1;
  }
  const positions = pages.map((page, at) => endOf(page, taken[at] ?? 0, query));
  const more = pages.some((page, at) => page.more || (taken[at] ?? 0) < page.found.length);
  if (!more && query.order === "newest") return { found, cursor: undefined, more };
  const [own = START, ...others] = positions;
  const workers = others.map((position, at) => ({ log: logs[at + 1]?.name ?? "", ...position }));
  const { order, digest, filter } = query;
  const times = { fromMs: filter.fromMs, toMs: filter.toMs };
  return { found, cursor: writeCursor({ order, digest, ...times, ...own, workers }), more };
}

/** Returns where the next page of a log continues, of which this page has taken the first lines. */
function endOf({ found, position = START }: QueryPage, taken: number, { order }: Query): Position {
  const next = found[taken];
  if (next === undefined) return position;
  return { day: next.day, offset: order === "oldest" ? next.offset : next.end };
}
