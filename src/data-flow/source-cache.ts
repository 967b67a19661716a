import { unreadable } from "../database/rows.ts";
import { columnsOf } from "./answer-prints.ts";
import type { Carrier } from "./label-rows.ts";
import { CALLER_SOURCES_MAX } from "./operations.ts";
import { SourceIndex } from "./source-index.ts";
import type { KnownOf, StoredSource } from "./source-rows.ts";

/** Rows of other replicas may become visible this much later than rows that are younger. */
const LATE_MS_MAX = 15_000;
/** Memory for fingerprints of all callers together: the callers that were judged longest ago are forgotten first. */
const CACHED_BYTES_MAX = 67_108_864;
const CALLER_BYTES_MAX = CACHED_BYTES_MAX * 2;

/** The answers of one carrier, as far as they were read. */
interface Cached {
  readonly sources: SourceIndex;
  /** Bytes of these as they were counted last; 0 while they are not counted. */
  bytes: number;
  /** Time of the youngest row that was read: all older ones were, too. */
  youngest: number;
}

/** The answers that carriers got, in the memory of this process. */
export class SourceCache {
  readonly #carriers = new Map<string, Cached>();
  #bytes = 0;

  /** Returns the carrier's answers, to which `read` adds; those that came last are used last for others. */
  open(carrier: Carrier): Cached {
    const name = nameOf(carrier);
    const known = this.#carriers.get(name);
    if (known !== undefined && known.sources.size <= CALLER_SOURCES_MAX && known.sources.bytes <= CALLER_BYTES_MAX)
      return known;
    const cached = { sources: new SourceIndex(), bytes: 0, youngest: 0 };
    this.#enter(name, cached);
    return cached;
  }

  /** Adds what was read, and drops what is over. */
  read(
    carrier: Carrier,
    cached: Cached,
    {
      sources,
      isKept,
    }: { readonly sources: readonly StoredSource[]; readonly isKept: (source: StoredTimes) => boolean },
  ): void {
    for (const source of sources) {
      add(cached, source);
      cached.youngest = Math.max(cached.youngest, source.at);
    }
    cached.sources.keep(isKept);
    this.#enter(nameOf(carrier), cached);
  }

  /** Adds an answer that this process has written, for a carrier whose answers it knows. */
  keepOwn(carrier: Carrier, source: StoredSource): void {
    const cached = this.#carriers.get(nameOf(carrier));
    if (cached === undefined || source.prints.byteLength === 0) return;
    // Not the youngest: other replicas may have written before it.
    add(cached, source);
    this.#recount(cached);
  }

  /** Enters the answers as those that were used last, and forgets others that were used longest ago. */
  #enter(name: string, cached: Cached): void {
    const other = this.#carriers.get(name);
    if (other !== undefined && other !== cached) this.#uncount(other);
    this.#carriers.delete(name);
    this.#carriers.set(name, cached);
    this.#recount(cached);
    for (const [oldest, one] of this.#carriers) {
      if (this.#bytes <= CACHED_BYTES_MAX || this.#carriers.size === 1) return;
      this.#carriers.delete(oldest);
      this.#uncount(one);
    }
  }

  #recount(cached: Cached): void {
    this.#bytes += cached.sources.bytes - cached.bytes;
    cached.bytes = cached.sources.bytes;
  }

  #uncount(cached: Cached): void {
    this.#bytes -= cached.bytes;
    cached.bytes = 0;
  }
}

type StoredTimes = Pick<StoredSource, "at" | "until">;

/** Returns what is known of a carrier, for the question after the rest. */
export function knownOf({ issuer, subject, session }: Carrier, { sources, youngest }: Cached): KnownOf {
  const since = Math.max(0, youngest - LATE_MS_MAX);
  const known = sources
    .values()
    .filter(({ at }) => at >= since)
    .map(({ id }) => id);
  return { issuer, subject, session, since, known };
}

/** Names a carrier: texts of three members do not run into each other. */
export function nameOf({ issuer, subject, session }: Carrier): string {
  return JSON.stringify([issuer, subject, session]);
}

function add({ sources }: Cached, { prints, ...source }: StoredSource): void {
  if (sources.has(source.id)) return;
  const columns = columnsOf(prints);
  if (columns === undefined) throw unreadable("prints");
  sources.add(source, columns);
}
