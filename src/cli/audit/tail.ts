import type { Filter } from "../../audit/query/filter.ts";
import { Matcher } from "../../audit/query/filter.ts";
import { Follower, lastLines } from "../../audit/query/follow.ts";
import { type Params, readFilter } from "../../audit/query/params.ts";
import { search } from "../../audit/query/query.ts";
import { parseLine, viewOf } from "../../audit/query/view.ts";
import { print } from "../output.ts";
import { auditPlace, NO_CALLS, refuse, warnOfDays } from "./directory.ts";
import { printLine } from "./rows.ts";

export interface AuditTailOptions {
  readonly dir?: string;
  readonly lines: number;
  readonly follow?: boolean;
  readonly json?: boolean;
  readonly filters: Params;
}

const FOLLOW_EVERY_MS = 100;
const PAGE_BYTES_MAX = 16 * 1_048_576;

/**
 * `stc audit tail`: prints the latest calls across days, and with `-f` also new ones. Reads the files without asking a service.
 */
export async function auditTail(options: AuditTailOptions): Promise<void> {
  const place = auditPlace(options.dir);
  if (place === undefined) return;
  const filter = readFilter(options.filters, place.nowMs);
  if ("faults" in filter) return refuse(filter.faults);
  warnOfDays(place.dir);
  const show = (line: string): void => (options.json === true ? print.line(line) : printLine(line, place));
  const isWanted = wantedBy(filter.ok, options.filters);
  // Determines the ends of the files once, for both steps: a line written in between must not be lost or shown twice.
  const follower = new Follower(place.dir);
  const ends = follower.ends();
  const latest =
    isWanted === undefined
      ? lastLines(place.dir, ends, options.lines)
      : await latestOf(place.dir, { filter: filter.ok, ends, count: options.lines });
  for (const line of latest) show(line);
  if (options.follow !== true) {
    if (latest.length === 0 && options.lines > 0 && options.json !== true) print.error(NO_CALLS);
    return;
  }
  for (;;) {
    for (const { line } of follower.look()) if (isWanted?.(line) ?? true) show(line);
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_EVERY_MS));
  }
}

/** Returns undefined when no filter was given: then every line is shown, even one that is not an audit line. */
function wantedBy(filter: Filter, asked: Params): ((line: string) => boolean) | undefined {
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
    pageBytesMax: PAGE_BYTES_MAX,
  });
  return page.found.map(({ line }) => line).toReversed();
}
