import type { AuditActivity } from "../../core/api/audit.ts";
import { type EntryView, viewOf } from "../../core/audit-fields.ts";
import type { EpochMs } from "../../core/types.ts";
import type { StreamName } from "../chain/chain.ts";
import { type LineName, type Proof, readLineName } from "../chain/proof.ts";
import { type FoundHistory, HISTORY_LINES_MAX, type HistorySource } from "../query/call-history.ts";
import type { Filter } from "../query/filter.ts";
import { TIME_MS_MAX } from "../query/time-range.ts";
import { parseLine } from "../query/view.ts";
import { Activity, type ActivityRange, decisionNumber } from "../stats/activity.ts";
import { KEYS_MAX, NONE, OTHERS, type Sum } from "../stats/names.ts";
import { callerText, refusalText, type Stats, statsFrom, TIMED_TOOLS_MAX } from "../stats/stats.ts";
import { dayIn, storable, stored } from "./columns.ts";
import { proveStored } from "./prove-stored.ts";
import type { StoreAnswer, StoreDatabase } from "./sql-text.ts";
import {
  ACTIVE,
  ACTIVE_COLUMNS,
  activityStatement,
  COUNTED,
  countsStatement,
  durationsStatement,
  groupingOf,
  logsStatement,
  type PageRequest,
  pageStatement,
  type StorePosition,
} from "./statements.ts";
import { NotProvable } from "./store-error.ts";
import { isPosition, type StoreQuery } from "./store-query.ts";
import { type StoreVerification, verifyStore } from "./verify-store.ts";

/** A line of the store. */
export interface StoredLine extends StorePosition {
  readonly day: string;
  readonly line: string;
  readonly entry: EntryView;
}

export interface StorePage {
  readonly found: readonly StoredLine[];
  /** Position of the last line; without one, where the page began. */
  readonly after: StorePosition | undefined;
  /** True when there may be more lines. */
  readonly more: boolean;
}

/** One stream of one log, and how far the store has it. */
export interface StoredLog {
  readonly log: string;
  readonly stream: StreamName;
  /** The replica that wrote its newest line. */
  readonly instance: string;
  /** The store has every line before this one, as far as retention left them. */
  readonly nextSeq: number;
  /** Time of its newest line. */
  readonly newestMs: EpochMs | undefined;
  /** The store has every line with an earlier time. */
  readonly completeMs: EpochMs | undefined;
}

/** Lines that are read from the database at once: at most 16 MB. */
const CHUNK_LINES = 250;

/** Answers questions about all logs of a fleet from one database. Decides nothing: whoever can write there can write anything. */
export class AuditStore implements HistorySource {
  readonly #database: StoreDatabase;

  constructor(database: StoreDatabase) {
    this.#database = database;
  }

  close(): Promise<void> {
    return this.#database.close();
  }

  /** Yields what is wrong with the stored lines of each log. */
  verify(options: StoreVerification): ReturnType<typeof verifyStore> {
    return verifyStore(this.#database, options);
  }

  /** Returns one page, which ends after the line that exceeds `bytesMax`. */
  async page(query: StoreQuery, bytesMax: number): Promise<StorePage> {
    const { filter, order, limit } = query;
    const found: StoredLine[] = [];
    let [after, bytes] = [query.after, 0];
    const pageTo = (more: boolean): StorePage => ({ found, after: found.at(-1) ?? query.after, more });
    for (;;) {
      const chunk = Math.min(CHUNK_LINES, limit - found.length);
      const read = await this.#lines({ stream: "calls", filter, order, after, limit: chunk });
      for (const line of read.found) {
        found.push(line);
        bytes += Buffer.byteLength(line.line);
        if (bytes >= bytesMax) return pageTo(true);
      }
      after = read.after ?? after;
      if (!read.more) return pageTo(false);
      if (found.length >= limit) return pageTo(true);
    }
  }

  /** Yields the lines of a query up to its limit. */
  async *lines(query: StoreQuery): AsyncGenerator<StoredLine, void> {
    let [left, after] = [query.limit, query.after];
    while (left > 0) {
      const page = await this.page({ ...query, after, limit: Math.min(left, CHUNK_LINES) }, Number.POSITIVE_INFINITY);
      yield* page.found;
      left -= page.found.length;
      after = page.after;
      if (!page.more) return;
    }
  }

  async stats(filter: Filter): Promise<Stats> {
    const { dialect } = this.#database;
    const groups = await this.#database.read(countsStatement(dialect, filter));
    const counts = groups.map(groupOf);
    const of = (columns: readonly string[], nameOf: (group: Group) => string): Sum[] =>
      counts.filter(({ grouped }) => grouped === groupingOf(columns)).map((group) => [nameOf(group), group.total]);
    const named = (column: GroupColumn) => (group: Group) => group[column] ?? NONE;
    const decisions = of(COUNTED.decision, named("decision"));
    const calls = sumOf(decisions);
    const refused = counts.filter(
      ({ grouped, refused: isRefused }) => grouped === groupingOf(COUNTED.refusal) && isRefused,
    );
    const refusals = refused.map(
      ({ result, stage, tool, total }) => [refusalText([result, stage, tool]), total] as const,
    );
    const refusedCalls = sumOf(decisions.filter(([name]) => name === "DENIED" || name === "ERROR"));
    const tools = of(COUNTED.tool, named("tool"));
    return statsFrom({
      calls,
      decisions,
      stages: of(COUNTED.stage, named("stage")).filter(([name]) => name !== NONE),
      codes: limited(of(COUNTED.code, named("result")), calls),
      tools: limited(tools, calls),
      callers: limited(
        of(COUNTED.caller, ({ sub, iss }) => callerText([sub, iss])),
        calls,
      ),
      refusals: limited(refusals, refusedCalls),
      durations: await this.#durations(filter, tools),
      isPartial: false,
    });
  }

  async activity(range: ActivityRange): Promise<AuditActivity> {
    const { dialect } = this.#database;
    const activity = new Activity<string, string>();
    const callers = new Map<string, { readonly sub: string; readonly iss?: string }>();
    for (const row of await this.#database.read(activityStatement(dialect, range))) {
      const grouped = Number(row["grouped"]);
      const [sub, iss, tool, code] = [row["sub"], row["iss"], row["tool"], row["code"]].map(textOf);
      const added = {
        decision: decisionNumber(textOf(row["decision"])),
        day: Number(row["total"]),
        hour: Number(row["recent"]),
        lastMs: timeOf(row["newest_ms"]) ?? 0,
      };
      const isOf = (columns: readonly string[]): boolean => grouped === groupingOf(columns, ACTIVE_COLUMNS);
      if (isOf(ACTIVE.all)) activity.all.add(added);
      else if (isOf(ACTIVE.tool) && tool !== undefined) activity.tools.add(tool, added);
      else if (isOf(ACTIVE.code) && code !== undefined) activity.codes.add(code, added);
      else if (isOf(ACTIVE.caller) && sub !== undefined) {
        const key = JSON.stringify([sub, iss]);
        callers.set(key, { sub, ...(iss !== undefined && { iss }) });
        activity.callers.add(key, added);
      }
    }
    return activity.toJson(range, false, {
      caller: (key) => callers.get(key),
      tool: (name) => name,
      code: (name) => name,
    });
  }

  async #durations(filter: Filter, tools: readonly Sum[]) {
    const isAll = tools.length <= TIMED_TOOLS_MAX;
    const timed = isAll ? undefined : tools.slice(0, TIMED_TOOLS_MAX).map(([name]) => name);
    const rows = await this.#database.read(durationsStatement(this.#database.dialect, filter, timed));
    return rows.map(({ timed: tool, duration_code: code, total }) => ({
      tool: textOf(tool),
      code: Number(code),
      calls: Number(total),
    }));
  }

  /**
   * Proves a call by its trace id, or the line `LOG:SEQ`.
   *
   * @throws {NotProvable} when the store does not hold what the proof needs
   */
  async prove(id: string): Promise<Proof> {
    const named = readLineName(id) ?? (await this.#lineOf(id));
    if (named === undefined) throw new NotProvable(`no stored call has the traceId or the log and seq ${id}`);
    return proveStored(this.#database, named);
  }

  /** Returns the oldest line of a call. */
  async #lineOf(traceId: string): Promise<LineName | undefined> {
    const { found } = await this.#lines({ stream: "calls", filter: { exact: { traceId } }, order: "oldest", limit: 1 });
    return found[0];
  }

  async find(stream: StreamName, id: string, around: Pick<Filter, "fromMs" | "toMs">): Promise<FoundHistory> {
    const { found, more } = await this.#lines({
      stream,
      filter: { exact: {}, ...around },
      order: "newest",
      also: [this.#database.dialect.hasId(storable(id))],
      limit: HISTORY_LINES_MAX,
    });
    const lines = found.map(({ log, seq, hash, day, line, entry }) => ({
      source: this.#numberOf(stream, log),
      log,
      day,
      offset: seq,
      hash,
      line,
      entry,
    }));
    return { found: lines, isPartial: more };
  }

  /** Numbers logs in the order in which they were first seen. */
  readonly #numbers = new Map<string, number>();

  #numberOf(stream: StreamName, log: string): number {
    const key = `${stream} ${log}`;
    const number = this.#numbers.get(key) ?? this.#numbers.size + (stream === "journal" ? 0 : FIRST_LOG_OF_CALLS);
    this.#numbers.set(key, number);
    return number;
  }

  /** Returns the logs that the store has lines of, the one that is furthest behind first. */
  async logs(): Promise<readonly StoredLog[]> {
    const rows = await this.#database.read(logsStatement(this.#database.dialect));
    return rows.map(storedLogOf).sort((one, other) => (one.completeMs ?? 0) - (other.completeMs ?? 0));
  }

  async #lines(request: PageRequest): Promise<StorePage> {
    const rows = await this.#database.read(pageStatement(this.#database.dialect, request));
    const lines = rows.map(lineOf);
    return {
      // A line that the service did not write may have been put into the database.
      found: lines.filter((line): line is StoredLine => line.entry !== undefined && isPosition(line)),
      after: lines.at(-1),
      more: rows.length === request.limit,
    };
  }
}

/** Numbers of logs of calls follow those of journals. */
const FIRST_LOG_OF_CALLS = 1_000_000_000;

function lineOf({ log, day, seq, hash, time_ms, line }: StoreAnswer) {
  const text = String(line);
  const members = parseLine(text);
  return {
    log: String(log),
    seq: Number(seq),
    hash: String(hash),
    timeMs: Number(time_ms),
    day: dayIn(day),
    line: text,
    entry: members && viewOf(members),
  };
}

/** A replica that does not idle sends lines, in the order of their times. */
function storedLogOf(row: StoreAnswer): StoredLog {
  const { log, stream, instance, next_seq, time_ms, complete_ms } = row;
  const [newestMs, settledMs] = [timeOf(time_ms), timeOf(complete_ms)];
  return {
    log: String(log),
    stream: stream === "journal" ? "journal" : "calls",
    instance: textOf(instance) ?? "",
    nextSeq: Math.max(0, Math.min(Number(next_seq), Number.MAX_SAFE_INTEGER)),
    newestMs,
    completeMs: Math.max(newestMs ?? 0, settledMs ?? 0) || undefined,
  };
}

type GroupColumn = "decision" | "stage" | "result" | "tool" | "sub" | "iss";
type Group = ReturnType<typeof groupOf>;

function groupOf({ grouped, refused, total, decision, stage, result, tool, sub, iss }: StoreAnswer) {
  return {
    grouped: Number(grouped),
    refused: Number(refused) === 1,
    total: Number(total),
    decision: textOf(decision),
    stage: textOf(stage),
    result: textOf(result),
    tool: textOf(tool),
    sub: textOf(sub),
    iss: textOf(iss),
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? stored(value) : undefined;
}

function timeOf(value: unknown): EpochMs | undefined {
  const ms = Number(value ?? Number.NaN);
  return Math.abs(ms) <= TIME_MS_MAX ? ms : undefined;
}

function sumOf(sums: readonly Sum[]): number {
  return sums.reduce((total, [, calls]) => total + calls, 0);
}

/** Returns the largest sums, and what is missing from the total as one more. */
function limited(sums: readonly Sum[], total: number): readonly Sum[] {
  const kept = sums.slice(0, KEYS_MAX);
  const others = total - sumOf(kept);
  return others > 0 ? [...kept, [OTHERS, others]] : kept;
}
