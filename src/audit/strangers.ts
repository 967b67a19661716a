import { mint, type Receipt } from "../core/evidence.ts";
import type { EntryDraft } from "./entry.ts";

/** Unauthenticated refusals of one source that get a line of their own, each minute. */
const STRANGER_LINES_PER_MINUTE_MAX = 60;
/** Sources that are told apart within a minute; all further ones count as one. */
const STRANGER_SOURCES_MAX = 10_000;
/** The source that stands for all further ones. */
export const FURTHER_SOURCES = "(further sources)";

const MINUTE_MS = 60_000;
const SOURCE_CHARACTERS_MAX = 128;

/** Refusals of one source that got no line of their own: one entry with `count` is to be written for them. */
export interface StrangerSum {
  readonly source: string;
  readonly count: number;
}

export interface StrangerLimitOptions {
  readonly linesPerMinuteMax?: number;
  readonly sourcesMax?: number;
}

/**
 * The one exception to a line per call: whoever knocks without a valid token and too often is summed up, so that
 * strangers cannot fill the disk. `now` is in milliseconds since 1970.
 */
export class StrangerLimit {
  readonly #linesPerMinuteMax: number;
  readonly #sourcesMax: number;
  /** Refusals of this minute by source, lines of their own included. */
  #seen = new Map<string, number>();
  /** Sums of past minutes that nobody fetched yet. */
  #due = new Map<string, number>();
  #minute = Number.NEGATIVE_INFINITY;

  constructor(options: StrangerLimitOptions = {}) {
    this.#linesPerMinuteMax = options.linesPerMinuteMax ?? STRANGER_LINES_PER_MINUTE_MAX;
    this.#sourcesMax = options.sourcesMax ?? STRANGER_SOURCES_MAX;
  }

  /** Counts one refusal. `undefined`: it gets its own line. Else it is summed up, and this is the receipt to answer with. */
  sumUp(source: string, traceId: string, now: number): Receipt | undefined {
    this.#turnTo(now);
    const key = boundedKey(this.#seen, source.slice(0, SOURCE_CHARACTERS_MAX), this.#sourcesMax);
    const count = (this.#seen.get(key) ?? 0) + 1;
    this.#seen.set(key, count);
    return count <= this.#linesPerMinuteMax ? undefined : mint<Receipt>({ traceId });
  }

  /** The sums of the minutes that are over at `now`, each handed out once. At the end, `Infinity` fetches what is left. */
  drain(now: number): readonly StrangerSum[] {
    this.#turnTo(now);
    const due = this.#due;
    this.#due = new Map();
    return Array.from(due, ([source, count]) => ({ source, count }));
  }

  /** Any other minute is a new one, an earlier one too: a clock that was set back must not stop the counting. */
  #turnTo(now: number): void {
    const minute = Math.floor(now / MINUTE_MS);
    if (minute === this.#minute) {
      return;
    }
    for (const [source, count] of this.#seen) {
      if (count > this.#linesPerMinuteMax) {
        const key = boundedKey(this.#due, source, this.#sourcesMax);
        this.#due.set(key, (this.#due.get(key) ?? 0) + count - this.#linesPerMinuteMax);
      }
    }
    this.#seen = new Map();
    this.#minute = minute;
  }
}

/** The line of a sum. It stands for `count` calls, so it has no arguments and no duration of its own. */
export function sumEntry(sum: StrangerSum, traceId: string): EntryDraft {
  const reason = "refused without a valid token, too often for a line each";
  return {
    traceId,
    caller: { sub: "anonymous", permissions: [] },
    tool: { name: "unknown", classification: "unknown", targetSystem: "unknown" },
    request: { args: {}, argsHash: "", hashAlg: "none" },
    decision: "DENIED",
    denial: { reason, stage: "AUTH", details: { source: sum.source } },
    error: { code: "UNAUTHENTICATED" },
    duration: 0,
    count: sum.count,
  };
}

function boundedKey(counts: ReadonlyMap<string, number>, source: string, sourcesMax: number): string {
  return counts.has(source) || counts.size < sourcesMax ? source : FURTHER_SOURCES;
}
