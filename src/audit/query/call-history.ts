import type { LineMembers } from "../../core/audit-fields.ts";
import { asString } from "../../core/json.ts";
import type { StreamName } from "../chain/chain.ts";
import { logIds } from "../chain/log-id.ts";
import type { Filter, FoundLine } from "./filter.ts";
import type { LineIndex } from "./line-index.ts";
import { type SearchOptions, search } from "./query.ts";
import { DAY_MS } from "./time-range.ts";
import { membersOf, parseLine } from "./view.ts";

/** Maximum number of ids that are followed from one to the next. */
const IDS_MAX = 16;
const PAGE_BYTES_MAX = 8 * 1_048_576;
/**
 * Time before and after the calls in which the journal is searched: an approval request lives for minutes, but the
 * resulting approval may be revoked days later.
 */
const AROUND_MS = 7 * DAY_MS;

/** A line of a history. */
export interface HistoryLine extends Pick<FoundLine, "day" | "offset" | "line" | "entry" | "log"> {
  /** Number of the log and stream that hold the line; those of journals are lower. */
  readonly source: number;
  /** For a log that may have been forked: two of its lines may have one position. */
  readonly hash?: string;
}

/** Logs that are read as one: an approval may be requested on one replica and decided on another. */
export interface HistorySource {
  /** Returns the newest lines of a stream that name the id, and may return others of the journal. */
  find(stream: StreamName, id: string, around: Pick<Filter, "fromMs" | "toMs">): Promise<FoundHistory>;
}

export interface FoundHistory {
  readonly found: readonly HistoryLine[];
  /** True when there may be more lines. */
  readonly isPartial: boolean;
}

/** Maximum lines of one answer of a source. */
export const HISTORY_LINES_MAX = 200;

export interface CallHistory {
  readonly calls: readonly HistoryLine[];
  readonly journal: readonly HistoryLine[];
  /** The lines of both in one order; of the same time, those of the journal first. */
  readonly lines: readonly HistoryLine[];
  /** True when reading ended early: there may be more lines. */
  readonly isPartial: boolean;
}

/**
 * Follows an id to its calls, from the calls to their approvals, and to the journal lines of both. The id is a trace id (this
 * service's or W3C), or that of an approval.
 */
export async function readCallHistory(source: HistorySource, id: string): Promise<CallHistory> {
  const reader = new HistoryReader(source, id);
  for (const id of reader.ids) await reader.followCalls(id);
  const asked = reader.ids.size;
  for (const id of reader.ids) await reader.followJournal(id);
  // The journal may name an approval that another call used.
  for (const id of [...reader.ids].slice(asked)) await reader.followCalls(id);
  return reader.end();
}

class HistoryReader {
  readonly ids: Set<string>;
  readonly #source: HistorySource;
  readonly #calls = new Map<string, HistoryLine>();
  readonly #journal = new Map<string, HistoryLine>();
  #isPartial = false;

  constructor(source: HistorySource, id: string) {
    this.#source = source;
    this.ids = new Set([/^[0-9A-Fa-f-]{1,64}$/.test(id) ? id.toLowerCase() : id]);
  }

  async followCalls(id: string): Promise<void> {
    for (const found of await this.#find("calls", id, {})) {
      this.#calls.set(keyOf(found), found);
      this.#add(found.entry.traceId);
      this.#add(found.entry.approvalId);
    }
  }

  async followJournal(id: string): Promise<void> {
    const times = [...this.#calls.values()].map(({ entry }) => entry.timeMs);
    const around =
      times.length === 0 ? {} : { fromMs: Math.min(...times) - AROUND_MS, toMs: Math.max(...times) + AROUND_MS };
    for (const found of await this.#find("journal", id, around)) {
      const named = idsIn(parseLine(found.line) ?? {});
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

  async #find(...asked: Parameters<HistorySource["find"]>): Promise<readonly HistoryLine[]> {
    const { found, isPartial } = await this.#source.find(...asked);
    this.#isPartial ||= isPartial;
    return found;
  }
}

interface LogsOptions {
  readonly logs: readonly { readonly dir: string; readonly index?: LineIndex | undefined }[];
  readonly mayGoOn?: SearchOptions["mayGoOn"];
}

/** Returns the source that reads the files of logs. */
export function historyIn({ logs, mayGoOn }: LogsOptions): HistorySource {
  const idOf = logIds();
  const searchAll = async (stream: StreamName, filter: Filter): Promise<FoundHistory> => {
    const all: HistoryLine[] = [];
    let isPartial = false;
    for (const [log, { dir, index }] of logs.entries()) {
      const page = await search({
        dir,
        stream,
        query: { filter, order: "newest", limit: HISTORY_LINES_MAX, cursor: undefined, digest: "" },
        pageBytesMax: PAGE_BYTES_MAX,
        ...(stream === "calls" && { index }),
        ...(mayGoOn !== undefined && { mayGoOn }),
      });
      isPartial ||= page.more;
      const number = stream === "journal" ? log : logs.length + log;
      const own = { source: number, ...(logs.length > 1 && { log: idOf(dir, stream) }) };
      all.push(...page.found.map((found) => ({ ...found, ...own })));
    }
    return { found: all, isPartial };
  };
  return {
    async find(stream, id, around) {
      if (stream === "journal") return searchAll(stream, { exact: {}, text: JSON.stringify(id), ...around });
      const byTrace = await searchAll(stream, { exact: { traceId: id }, ...around });
      const byApproval = await searchAll(stream, { exact: { approval: id }, ...around });
      return {
        found: [...byTrace.found, ...byApproval.found],
        isPartial: byTrace.isPartial || byApproval.isPartial,
      };
    },
  };
}

function keyOf({ source, day, offset, hash = "" }: HistoryLine): string {
  return `${source} ${day} ${offset} ${hash}`;
}

/**
 * Returns the ids in a line of the journal. Ignores the record of an audit query: it names ids, but is not part of their
 * history.
 */
export function idsIn(members: LineMembers): readonly string[] {
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
function inOrder(found: ReadonlyMap<string, HistoryLine>): readonly HistoryLine[] {
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
