import { asString } from "../../core/json.ts";
import type { StreamName } from "../chain/chain.ts";
import { logIds } from "../chain/log-id.ts";
import type { Filter, FoundLine } from "./filter.ts";
import type { LineIndex } from "./line-index.ts";
import { type SearchOptions, search } from "./query.ts";
import { DAY_MS } from "./time-range.ts";
import { membersOf, parseLine } from "./view.ts";

const LINES_MAX = 200;
/** Maximum number of ids that are followed from one to the next. */
const IDS_MAX = 16;
const PAGE_BYTES_MAX = 8 * 1_048_576;
/**
 * Time before and after the calls in which the journal is searched: an approval request lives for minutes, but the
 * resulting approval may be revoked days later.
 */
const AROUND_MS = 7 * DAY_MS;

interface HistoryOptions {
  /** The logs that are read as one: an approval may be requested on one replica and decided on another. */
  readonly logs: readonly { readonly dir: string; readonly index?: LineIndex | undefined }[];
  /** A trace id (this service's or W3C), or the id of an approval. */
  readonly id: string;
  readonly mayGoOn?: SearchOptions["mayGoOn"];
}

interface CallHistory {
  readonly calls: readonly FoundLine[];
  readonly journal: readonly FoundLine[];
  /** The lines of both in one order; of the same time, those of the journal first. */
  readonly lines: readonly FoundLine[];
  /** True when reading ended early: there may be more lines. */
  readonly isPartial: boolean;
}

/** Follows an id to its calls, from the calls to their approvals, and to the journal lines of both. */
export async function readCallHistory(options: HistoryOptions): Promise<CallHistory> {
  const reader = new HistoryReader(options);
  for (const id of reader.ids) await reader.followCalls(id);
  const asked = reader.ids.size;
  for (const id of reader.ids) await reader.followJournal(id);
  // The journal may name an approval that another call used.
  for (const id of [...reader.ids].slice(asked)) await reader.followCalls(id);
  return reader.end();
}

class HistoryReader {
  readonly ids: Set<string>;
  readonly #options: HistoryOptions;
  readonly #calls = new Map<string, LogLine>();
  readonly #journal = new Map<string, LogLine>();
  readonly #idOf = logIds();
  #isPartial = false;

  constructor(options: HistoryOptions) {
    this.#options = options;
    this.ids = new Set([/^[0-9A-Fa-f-]{1,64}$/.test(options.id) ? options.id.toLowerCase() : options.id]);
  }

  async followCalls(id: string): Promise<void> {
    for (const exact of [{ traceId: id }, { approval: id }]) {
      for (const found of await this.#search("calls", { exact })) {
        this.#calls.set(keyOf(found), found);
        this.#add(found.entry.traceId);
        this.#add(found.entry.approvalId);
      }
    }
  }

  async followJournal(id: string): Promise<void> {
    const times = [...this.#calls.values()].map(({ entry }) => entry.timeMs);
    const around =
      times.length === 0 ? {} : { fromMs: Math.min(...times) - AROUND_MS, toMs: Math.max(...times) + AROUND_MS };
    for (const found of await this.#search("journal", { exact: {}, text: JSON.stringify(id), ...around })) {
      const named = idsIn(found.line);
      if (!named.includes(id)) continue;
      this.#journal.set(keyOf(found), found);
      for (const other of named) this.#add(other);
    }
  }

  end(): CallHistory {
    return {
      calls: inOrder(this.#calls),
      journal: inOrder(this.#journal),
      lines: inOrder(new Map([...this.#journal, ...this.#calls])),
      isPartial: this.#isPartial,
    };
  }

  #add(id: string | undefined): void {
    if (id !== undefined && this.ids.size < IDS_MAX) this.ids.add(id);
  }

  async #search(stream: StreamName, filter: Filter): Promise<readonly LogLine[]> {
    const { logs, mayGoOn } = this.#options;
    const all: LogLine[] = [];
    for (const [log, { dir, index }] of logs.entries()) {
      const page = await search({
        dir,
        stream,
        query: { filter, order: "newest", limit: LINES_MAX, cursor: undefined, digest: "" },
        pageBytesMax: PAGE_BYTES_MAX,
        ...(stream === "calls" && { index }),
        ...(mayGoOn !== undefined && { mayGoOn }),
      });
      this.#isPartial ||= page.more;
      const number = stream === "journal" ? log : logs.length + log;
      const own = { source: number, ...(logs.length > 1 && { log: this.#idOf(dir, stream) }) };
      all.push(...page.found.map((found) => ({ ...found, ...own })));
    }
    return all;
  }
}

interface LogLine extends FoundLine {
  /** Number of the log and stream that hold the line. */
  readonly source: number;
}

function keyOf({ source, day, offset }: LogLine): string {
  return `${source} ${day} ${offset}`;
}

/**
 * Returns the ids in a journal line. Ignores the record of an audit query: it names ids, but is not part of their
 * history.
 */
function idsIn(line: string): readonly string[] {
  const members = parseLine(line) ?? {};
  const type = asString(members["type"]) ?? "";
  if (type === "audit.queried") return [];
  const own = type.startsWith("approval.") ? [members["id"]] : [];
  const ids = [members["traceId"], members["approvalId"], membersOf(members["approval"])?.["id"], ...own];
  return ids.flatMap((id) => asString(id) ?? []);
}

/**
 * Returns the lines of each log in its own order, and the logs of a day merged by time. A line after a later one, written
 * after the clock was set back, counts at the time of the later one: otherwise no order would suit both.
 */
function inOrder(found: ReadonlyMap<string, LogLine>): readonly FoundLine[] {
  const ownOrder = [...found.values()].sort(
    (one, other) => one.day.localeCompare(other.day) || one.source - other.source || one.offset - other.offset,
  );
  const latest = new Map<string, number>();
  const timed = ownOrder.map((line) => {
    const key = `${line.source} ${line.day}`;
    const timeMs = Math.max(latest.get(key) ?? 0, line.entry.timeMs);
    latest.set(key, timeMs);
    return { line, timeMs };
  });
  // Sorting is stable: lines of the same time stay in the order of their log.
  return timed
    .sort((one, other) => one.line.day.localeCompare(other.line.day) || one.timeMs - other.timeMs)
    .map(({ line }) => line);
}
