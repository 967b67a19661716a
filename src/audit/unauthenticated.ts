import { REFUSALS, type RefusalCode } from "../core/errors.ts";
import { mint, type Receipt } from "../core/evidence.ts";
import type { EntryDraft } from "./entry.ts";

/** Unauthenticated refusals of one source that get a line of their own, each minute. */
const STRANGER_LINES_PER_MINUTE_MAX = 60;
/** Sources that are told apart within a minute; all further ones count as one. */
export const STRANGER_SOURCES_MAX = 10_000;
/** The source that stands for all further ones. */
export const FURTHER_SOURCES = "(further sources)";

const MINUTE_MS = 60_000;
const SOURCE_CHARACTERS_MAX = 128;

/** What one refused stranger brings. */
export interface UnauthenticatedClient {
  /** A peer address. IPv6 peers count by their /64: one machine has as many addresses in it as it likes. */
  readonly source: string;
  readonly code: RefusalCode;
  readonly traceId: string;
}

/** Refusals of one source and code that got no line of their own: one entry with `count` is to be written for them. */
export interface UnauthenticatedSum {
  readonly source: string;
  readonly code: RefusalCode;
  readonly count: number;
}

export interface UnauthenticatedLimitOptions {
  /** Read at each refusal. */
  readonly linesPerMinuteMax?: number;
  /** Read at each refusal. */
  readonly sourcesMax?: number;
  /** What of a source counts as one; by default the network of a peer address. */
  readonly groupOf?: (source: string) => string;
}

/**
 * The one exception to a line per call: whoever knocks without a valid token and too often is summed up, so that
 * strangers cannot fill the disk. `now` is in milliseconds since 1970.
 */
export class UnauthenticatedLimit {
  readonly #options: UnauthenticatedLimitOptions;
  /** Refusals of this minute by source, lines of their own included. */
  #seen = new Map<string, number>();
  /** Those of this minute without a line, by source and code. */
  #unwritten = new Map<string, UnauthenticatedSum>();
  /** Sums that nobody fetched yet, of past minutes or given back. */
  #due = new Map<string, UnauthenticatedSum>();
  #minute = Number.NEGATIVE_INFINITY;

  constructor(options: UnauthenticatedLimitOptions = {}) {
    this.#options = options;
  }

  get #sourcesMax(): number {
    return this.#options.sourcesMax ?? STRANGER_SOURCES_MAX;
  }

  /** Counts one refusal. `undefined`: it gets its own line. Else it is summed up, and this is the receipt to answer with. */
  sumUp({ source, code, traceId }: UnauthenticatedClient, now: number): Receipt | undefined {
    this.#turnTo(now);
    const { groupOf = addressGroup } = this.#options;
    const group = groupOf(source);
    const key = this.#seen.has(group) || this.#seen.size < this.#sourcesMax ? group : FURTHER_SOURCES;
    const count = (this.#seen.get(key) ?? 0) + 1;
    this.#seen.set(key, count);
    if (count <= (this.#options.linesPerMinuteMax ?? STRANGER_LINES_PER_MINUTE_MAX)) return undefined;
    add(this.#unwritten, { source: key, code, count: 1 });
    return mint<Receipt>({ traceId });
  }

  /** The sums of the minutes that are over at `now`, each handed out once. At the end, `Infinity` fetches what is left. */
  drain(now: number): readonly UnauthenticatedSum[] {
    this.#turnTo(now);
    const due = this.#due;
    this.#due = new Map();
    return [...due.values()];
  }

  /** Takes the largest sums of the running minute, so that a crash loses no more of them than came since; what is left goes on growing. */
  drainLargest(max: number): readonly UnauthenticatedSum[] {
    const largest = [...this.#unwritten.values()].sort((one, other) => other.count - one.count).slice(0, max);
    for (const sum of largest) this.#unwritten.delete(keyOf(sum));
    return largest;
  }

  /** A sum that was taken and could not be written: it is due again. */
  giveBack(sum: UnauthenticatedSum): void {
    const isKnown = this.#due.has(keyOf(sum)) || this.#due.size < this.#sourcesMax;
    add(this.#due, isKnown ? sum : { ...sum, source: FURTHER_SOURCES });
  }

  /** Any other minute is a new one, an earlier one too: a clock that was set back must not stop the counting. */
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

/** The first 64 bits of an IPv6 address; anything else as it is. */
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

/** The line of a sum. It stands for `count` calls, so it has no arguments and no duration of its own. */
export function sumEntry({ source, code, count }: UnauthenticatedSum, traceId: string): EntryDraft {
  const { stage, decision } = REFUSALS[code];
  return {
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

/** Refused calls of one caller that get a line of their own, each minute, while the audit takes no calls. */
const CALLER_LINES_PER_MINUTE_MAX = 10;
/** Callers that are told apart within a minute, and strangers too while the disk is nearly full. */
export const LOW_DISK_SOURCES_MAX = 100;

/** Sums calls of authenticated callers that were refused because the audit takes none: their lines would use up the last of the disk. */
export function createCallerLimit(): UnauthenticatedLimit {
  return new UnauthenticatedLimit({
    linesPerMinuteMax: CALLER_LINES_PER_MINUTE_MAX,
    sourcesMax: LOW_DISK_SOURCES_MAX,
    groupOf: (source) => source,
  });
}

/** The source that a caller is. */
export function callerSource({ sub, iss }: EntryDraft["caller"]): string {
  return JSON.stringify([sub, iss ?? null]);
}

/** The line of a sum of a caller's calls. */
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
