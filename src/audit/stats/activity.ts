import type { AuditActivity } from "../../core/api/audit.ts";
import { LINE_DECISIONS } from "../../core/audit-fields.ts";
import type { EpochMs } from "../../core/types.ts";
import type { Range } from "../journal/day-files.ts";
import type { Filter } from "../query/filter.ts";
import { type LineRows, rowTest } from "../query/line-rows.ts";
import { DAY_MS, HOUR_MS } from "../query/time-range.ts";
import { KEYS_MAX, Names, OTHERS_ID, RADIX } from "./names.ts";
import { type CountOptions, countSegments, type SegmentTally } from "./segments.ts";

/** Who called what in the last hour and day: calls by decision, of each caller, tool and refusal code. */

/** Rows of an answer: those with the most calls. */
const ROWS_MAX = { callers: 1_000, tools: 500, codes: 200 } as const;

/** The last day, and the hour at its end that is counted separately. */
export interface ActivityRange {
  /** Begins with the day. */
  readonly filter: Filter;
  readonly hourFromMs: EpochMs;
}

export function activityRange(filter: Filter, nowMs: EpochMs): ActivityRange {
  return { filter: { ...filter, fromMs: nowMs - DAY_MS }, hourFromMs: nowMs - HOUR_MS };
}

/** Calls with one decision. */
interface Added {
  /** Index in `DECISIONS`. */
  readonly decision: number;
  readonly day: number;
  readonly hour: number;
  /** Time of the newest. */
  readonly lastMs: EpochMs;
}

/** Decisions of a line; the last one stands for any other text. */
const DECISIONS = [...LINE_DECISIONS, "UNKNOWN"] as const;

/** Returns the number of a decision. */
export function decisionNumber(decision: string | undefined): number {
  const at = (DECISIONS as readonly (string | undefined)[]).indexOf(decision);
  return at === -1 ? DECISIONS.length - 1 : at;
}

class Counts {
  readonly #day = new Float64Array(DECISIONS.length);
  readonly #hour = new Float64Array(DECISIONS.length);
  #calls = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  add({ decision, day, hour, lastMs }: Added): void {
    this.#day[decision] = (this.#day[decision] ?? 0) + day;
    this.#hour[decision] = (this.#hour[decision] ?? 0) + hour;
    this.#calls += day;
    if (lastMs > this.#lastMs) this.#lastMs = lastMs;
  }

  get calls(): number {
    return this.#calls;
  }

  toJson() {
    return {
      lastAt: this.#calls === 0 ? null : new Date(this.#lastMs).toISOString(),
      day: byDecision(this.#day),
      hour: byDecision(this.#hour),
    };
  }
}

function byDecision(counts: Float64Array) {
  return Object.fromEntries(DECISIONS.flatMap((name, at) => ((counts[at] ?? 0) > 0 ? [[name, counts[at] ?? 0]] : [])));
}

/** Counts by caller, tool or code. Later keys than the first `KEYS_MAX` have no counts of their own. */
export class ActivityGroups<Key> {
  readonly #groups = new Map<Key, Counts>();

  add(key: Key, added: Added): void {
    let counts = this.#groups.get(key);
    if (counts === undefined) {
      if (this.#groups.size >= KEYS_MAX) return;
      counts = new Counts();
      this.#groups.set(key, counts);
    }
    counts.add(added);
  }

  /** Returns the rows with the most calls. A key without a name has none. */
  rows<Name>(rowsMax: number, nameOf: (key: Key) => Name | undefined) {
    return [...this.#groups]
      .sort(([, one], [, other]) => other.calls - one.calls)
      .flatMap(([key, counts]) => {
        const name = nameOf(key);
        return name === undefined ? [] : [{ ...name, ...counts.toJson() }];
      })
      .slice(0, rowsMax);
  }
}

/** The counts of one answer. Keys are texts, or numbers of names. */
export class Activity<Caller, Name> {
  readonly all = new Counts();
  readonly callers = new ActivityGroups<Caller>();
  readonly tools = new ActivityGroups<Name>();
  readonly codes = new ActivityGroups<Name>();

  toJson(
    { filter: { fromMs = 0 }, hourFromMs }: ActivityRange,
    isPartial: boolean,
    named: {
      readonly caller: (key: Caller) => { readonly sub: string; readonly iss?: string | undefined } | undefined;
      readonly tool: (key: Name) => string | undefined;
      readonly code: (key: Name) => string | undefined;
    },
  ): AuditActivity {
    const nameIn =
      <Member extends string>(member: Member, read: (key: Name) => string | undefined) =>
      (key: Name) => {
        const name = read(key);
        return name === undefined ? undefined : ({ [member]: name } as Readonly<Record<Member, string>>);
      };
    return {
      dayFrom: new Date(fromMs).toISOString(),
      hourFrom: new Date(hourFromMs).toISOString(),
      isPartial,
      all: this.all.toJson(),
      callers: this.callers.rows(ROWS_MAX.callers, named.caller),
      tools: this.tools.rows(ROWS_MAX.tools, nameIn("tool", named.tool)),
      codes: this.codes.rows(ROWS_MAX.codes, nameIn("code", named.code)),
    };
  }
}

/** Counts the lines of all logs. */
export async function readActivity(
  range: ActivityRange,
  options: Omit<CountOptions, "filter">,
): Promise<AuditActivity> {
  const tally = new RowActivity(range);
  const isPartial = await countSegments({ ...options, filter: range.filter }, tally);
  return tally.toJson(isPartial);
}

class RowActivity implements SegmentTally {
  readonly #range: ActivityRange;
  readonly #activity = new Activity<number, number>();
  readonly #subs = new Names(KEYS_MAX);
  readonly #issuers = new Names(KEYS_MAX);
  readonly #tools = new Names(KEYS_MAX);
  readonly #codes = new Names(KEYS_MAX);

  constructor(range: ActivityRange) {
    this.#range = range;
  }

  add(rows: LineRows, { from, to }: Range): void {
    const { filter, hourFromMs } = this.#range;
    const isWanted = rowTest(rows, filter);
    if (isWanted === undefined) return;
    const { size, offsets, times, codes, values } = rows;
    const { all, callers, tools, codes: refusals } = this.#activity;
    const decisions = [undefined, ...values.decision].map(decisionNumber);
    const subIn = this.#subs.reader(rows, "sub");
    const issuerIn = this.#issuers.reader(rows, "iss");
    const toolIn = this.#tools.reader(rows, "tool");
    const codeIn = this.#codes.reader(rows, "code");
    for (let row = 0; row < size; row += 1) {
      const offset = offsets[row] ?? 0;
      if (offset < from || offset >= to || !isWanted(row)) continue;
      const sum = codes.count[row] ?? 0;
      const day = sum === 0 ? 1 : Number(values.count[sum - 1]);
      const lastMs = times[row] ?? 0;
      const decision = decisions[codes.decision[row] ?? 0] ?? decisionNumber(undefined);
      const added = { decision, day, hour: lastMs >= hourFromMs ? day : 0, lastMs };
      all.add(added);
      callers.add(subIn(row) * RADIX + issuerIn(row), added);
      tools.add(toolIn(row), added);
      if (codes.code[row] !== 0) refusals.add(codeIn(row), added);
    }
  }

  toJson(isPartial: boolean): AuditActivity {
    const nameIn = (names: Names) => (id: number) => (id === OTHERS_ID ? undefined : names.nameOf(id));
    return this.#activity.toJson(this.#range, isPartial, {
      caller: (key) => {
        const sub = nameIn(this.#subs)(Math.floor(key / RADIX));
        const iss = nameIn(this.#issuers)(key % RADIX);
        return sub === undefined ? undefined : { sub, ...(iss !== undefined && { iss }) };
      },
      tool: nameIn(this.#tools),
      code: nameIn(this.#codes),
    });
  }
}
