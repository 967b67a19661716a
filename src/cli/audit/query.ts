import type { FoundLine } from "../../audit/query/filter.ts";
import { type Cursor, type Params, type Query, readQuery } from "../../audit/query/params.ts";
import { type LineIndex, type QueryPage, search } from "../../audit/query/query.ts";
import { print } from "../output.ts";
import { type AuditDirectory, auditPlace, noCalls, ProgressLine, refuse, warnOfDays, withIndex } from "./directory.ts";
import { printEntry, printHeader } from "./rows.ts";

const LIMIT = 50;
const LIMIT_MAX = 1_000_000;
/** Number of lines in memory at a time. */
const PAGE_LINES = 1_000;
const PAGE_BYTES_MAX = 8 * 1_048_576;

export interface AuditQueryOptions {
  readonly dir?: string;
  readonly json?: boolean;
  readonly params: Params;
}

/** `stc audit query`: lists the calls that match the filters. Exit code: 0 found; 1 none; 64 wrong usage; 66 no directory. */
export async function auditQuery({ dir, json, params }: AuditQueryOptions): Promise<void> {
  const place = auditPlace(dir);
  if (place === undefined) return;
  const query = readQuery(params, { limit: LIMIT, limitMax: LIMIT_MAX, nowMs: place.nowMs });
  if ("faults" in query) return refuse(query.faults);
  warnOfDays(place.dir);
  await withIndex(place.dir, async (places) => {
    let count = 0;
    let cursor: string | undefined;
    for await (const page of pages({ ...place, places }, query.ok)) {
      for (const found of page.found) {
        if (count === 0 && json !== true) printHeader();
        show(found, place, json === true);
        count += 1;
      }
      cursor = page.more || query.ok.order === "oldest" ? page.cursor : undefined;
    }
    if (count === 0) noCalls(json === true);
    if (cursor !== undefined) print.error(`go on with --cursor ${cursor}`);
  });
}

function show({ line, entry }: FoundLine, place: AuditDirectory, isJson: boolean): void {
  if (isJson) print.line(line);
  else printEntry(entry, place);
}

interface SearchPlace extends Pick<AuditDirectory, "dir"> {
  readonly places?: LineIndex | undefined;
}

/** Yields page after page until the query's limit or the end of the log. */
export async function* pages(place: SearchPlace, query: Query): AsyncGenerator<QueryPage, void> {
  const progress = new ProgressLine();
  let [left, cursor]: [number, Cursor | undefined] = [query.limit, query.cursor];
  while (left > 0) {
    const limit = Math.min(left, PAGE_LINES);
    const page = await search({
      dir: place.dir,
      places: place.places,
      query: { ...query, limit, cursor },
      pageBytesMax: PAGE_BYTES_MAX,
      mayGoOn: progress.heed,
    });
    progress.end();
    yield page;
    left -= page.found.length;
    if (!page.more || page.position === undefined) return;
    const { order, digest, filter } = query;
    cursor = { order, digest, fromMs: filter.fromMs, toMs: filter.toMs, ...page.position };
  }
}
