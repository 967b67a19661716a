import { mint, type Receipt } from "../core/evidence.ts";
import { REFUSALS, type RefusalCode } from "../core/refusals.ts";
import { type EntryDraft, UNSTAMPED } from "./entry.ts";

/** Maximum number of log lines per source and minute for unauthenticated refusals. */
const UNAUTHENTICATED_LINES_PER_MINUTE_MAX = 60;
/** Maximum number of sources that are counted separately within a minute; all further sources count as one. */
export const UNAUTHENTICATED_SOURCES_MAX = 10_000;
/** The source under which all further sources are counted. */
export const FURTHER_SOURCES = "(further sources)";

const MINUTE_MS = 60_000;
const SOURCE_CHARACTERS_MAX = 128;

/** One refused request of an unauthenticated client. */
interface UnauthenticatedClient {
  /**
   * A peer address. IPv6 addresses are grouped by /64, because one machine can use any number of addresses within it.
   */
  readonly source: string;
  readonly code: RefusalCode;
  readonly traceId: string;
}

/**
 * Number of refusals of one source and code that got no line of their own: one entry with `count` must be written for
 * them.
 */
export interface UnauthenticatedSum {
  readonly source: string;
  readonly code: RefusalCode;
  readonly count: number;
}

interface UnauthenticatedLimitOptions {
  /** Read at each refusal. */
  readonly linesPerMinuteMax?: number;
  /** Read at each refusal. */
  readonly sourcesMax?: number;
  /** Returns the group under which a source is counted. Default: the network of a peer address. */
  readonly groupOf?: (source: string) => string;
}

/**
 * The only exception to one line per call: when a source sends too many requests without a valid token, they are summed
 * up, so that unauthenticated clients cannot fill the disk. `now` is in milliseconds since 1970.
 */
export class UnauthenticatedLimit {
  readonly #options: UnauthenticatedLimitOptions;
  /** Refusals of the current minute by source, including those with a line of their own. */
  #seen = new Map<string, number>();
  /** Refusals of the current minute without a line of their own, by source and code. */
  #unwritten = new Map<string, UnauthenticatedSum>();
  /** Sums of past minutes, or given back, that were not fetched yet. */
  #due = new Map<string, UnauthenticatedSum>();
  #minute = Number.NEGATIVE_INFINITY;

  constructor(options: UnauthenticatedLimitOptions = {}) {
    this.#options = options;
  }

  get #sourcesMax(): number {
    return this.#options.sourcesMax ?? UNAUTHENTICATED_SOURCES_MAX;
  }

  /**
   * Counts one refusal. Returns `undefined` when the refusal gets a line of its own; otherwise it is summed up, and the
   * result is the receipt to answer with.
   */
  sumUp({ source, code, traceId }: UnauthenticatedClient, now: number): Receipt | undefined {
    this.#turnTo(now);
    const { groupOf = addressGroup } = this.#options;
    const group = groupOf(source);
    const key = this.#seen.has(group) || this.#seen.size < this.#sourcesMax ? group : FURTHER_SOURCES;
    const count = (this.#seen.get(key) ?? 0) + 1;
    this.#seen.set(key, count);
    if (count <= (this.#options.linesPerMinuteMax ?? UNAUTHENTICATED_LINES_PER_MINUTE_MAX)) return undefined;
    add(this.#unwritten, { source: key, code, count: 1 });
    return mint<Receipt>({ traceId });
  }

  /**
   * Returns the sums of the minutes that have ended at `now`, each once. At shutdown, `Infinity` fetches all that are
   * left.
   */
  drain(now: number): readonly UnauthenticatedSum[] {
    this.#turnTo(now);
    const due = this.#due;
    this.#due = new Map();
    return [...due.values()];
  }

  /**
   * Removes and returns the largest sums of the current minute, so that a crash loses at most what was counted since.
   * The other sums keep growing.
   */
  drainLargest(max: number): readonly UnauthenticatedSum[] {
    const largest = [...this.#unwritten.values()].sort((one, other) => other.count - one.count).slice(0, max);
    for (const sum of largest) this.#unwritten.delete(keyOf(sum));
    return largest;
  }

  /** Takes back a sum that could not be written: it is due again. */
  giveBack(sum: UnauthenticatedSum): void {
    const isKnown = this.#due.has(keyOf(sum)) || this.#due.size < this.#sourcesMax;
    add(this.#due, isKnown ? sum : { ...sum, source: FURTHER_SOURCES });
  }

  /**
   * Switches to the minute of `now`. An earlier minute counts as a new one too: a clock that was set back must not stop
   * the counting.
   */
  #turnTo(now: number): void {
    const minute = Math.floor(now / MINUTE_MS);
    if (minute === this.#minute) return;
    for (const sum of this.#unwritten.values()) this.giveBack(sum);
    this.#unwritten = new Map();
    this.#seen = new Map();
    this.#minute = minute;
  }
}

function add(sums: Map<string, UnauthenticatedSum>, sum: UnauthenticatedSum): void {
  const key = keyOf(sum);
  sums.set(key, { ...sum, count: (sums.get(key)?.count ?? 0) + sum.count });
}

function keyOf({ source, code }: UnauthenticatedSum): string {
  return `${code} ${source}`;
}

function addressGroup(source: string): string {
  return networkOf(source.slice(0, SOURCE_CHARACTERS_MAX));
}

/** Returns the first 64 bits of an IPv6 address; any other source unchanged. */
export function networkOf(source: string): string {
  if (!source.includes(":") || source.startsWith("::ffff:")) return source;
  const [head = "", tail] = source.split("::");
  const groups = head === "" ? [] : head.split(":");
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === "" ? 0 : tail.split(":").length);
  const whole = [
    ...groups,
    ...Array.from({ length: Math.max(missing, 0) }, () => "0"),
    ...(tail ? tail.split(":") : []),
  ];
  return `${whole.slice(0, 4).join(":")}::/64`;
}

/** Returns the entry of a sum. It represents `count` calls, so it has no arguments and no duration of its own. */
export function sumEntry({ source, code, count }: UnauthenticatedSum, traceId: string): EntryDraft {
  const { stage, decision } = REFUSALS[code];
  return {
    ...UNSTAMPED,
    traceId,
    caller: { sub: "anonymous", permissions: [] },
    tool: { name: "unknown", classification: "unknown", targetSystem: "unknown" },
    request: { args: {}, argsHash: "", hashAlg: "none" },
    decision,
    denial: { reason: "refused without a valid token, too often for a line each", stage, details: { source } },
    error: { code },
    duration: 0,
    count,
  };
}

/** Maximum number of log lines per caller and minute for refused calls while the audit log accepts no calls. */
const CALLER_LINES_PER_MINUTE_MAX = 10;
/**
 * Maximum number of callers that are counted separately within a minute; applies to unauthenticated clients too while
 * the disk is nearly full.
 */
export const LOW_DISK_SOURCES_MAX = 100;

/**
 * Creates the limit for calls of authenticated callers that were refused because the audit log accepts none: their
 * lines would use up the last of the disk.
 */
export function createCallerLimit(): UnauthenticatedLimit {
  return new UnauthenticatedLimit({
    linesPerMinuteMax: CALLER_LINES_PER_MINUTE_MAX,
    sourcesMax: LOW_DISK_SOURCES_MAX,
    groupOf: (source) => source,
  });
}

export function callerSource({ sub, iss }: EntryDraft["caller"]): string {
  return JSON.stringify([sub, iss ?? null]);
}

export function callerSumEntry(sum: UnauthenticatedSum, traceId: string): EntryDraft {
  const entry = sumEntry(sum, traceId);
  const { stage } = REFUSALS[sum.code];
  const reason = "refused while the audit could take no calls, too often for a line each";
  return { ...entry, caller: callerOf(sum.source), denial: { reason, stage } };
}

function callerOf(source: string): EntryDraft["caller"] {
  if (source === FURTHER_SOURCES) return { sub: "(further callers)", permissions: [] };
  const [sub, iss] = JSON.parse(source) as readonly [string, string | null];
  return { sub, permissions: [], ...(iss !== null && { iss }) };
}
