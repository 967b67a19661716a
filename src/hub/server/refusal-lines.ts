import type { EpochMs, Json } from "../../core/types.ts";

const MINUTE_MS = 60_000;
/** Maximum number of pairs of source and reason. Further ones are counted as one. */
const KEYS_MAX = 1_000;
const FURTHER = "(further sources)";

type Line = { readonly type: string; readonly [member: string]: Json | undefined };

interface Counted {
  readonly source: string;
  readonly reason: string;
  readonly atMs: EpochMs;
  unwritten: number;
}

/** Writes refused connections of members to the journal: for each source and reason, one line a minute with a count. */
export class RefusalLines {
  readonly #journal: (line: Line) => Promise<void>;
  readonly #clock: () => EpochMs;
  readonly #counted = new Map<string, Counted>();

  constructor({ journal, clock }: { readonly journal: (line: Line) => Promise<void>; readonly clock: () => EpochMs }) {
    this.#journal = journal;
    this.#clock = clock;
  }

  /** Resolves when the refusal is durable, or counted for a later line. */
  async note(refused: { readonly source: string; readonly reason: string }): Promise<void> {
    const now = this.#clock();
    await this.#writeBefore(now - MINUTE_MS);
    const known = `${refused.source} ${refused.reason}`;
    const isFurther = !this.#counted.has(known) && this.#counted.size >= KEYS_MAX;
    const { source, reason } = isFurther ? { source: FURTHER, reason: "" } : refused;
    const key = isFurther ? FURTHER : known;
    const counted = this.#counted.get(key);
    if (counted !== undefined) {
      counted.unwritten += 1;
      return;
    }
    this.#counted.set(key, { source, reason, atMs: now, unwritten: 0 });
    await this.#journal({ type: "hub.refused", source, reason });
  }

  /** Writes what was counted and has no line yet. */
  close(): Promise<void> {
    return this.#writeBefore(Number.POSITIVE_INFINITY);
  }

  async #writeBefore(endMs: EpochMs): Promise<void> {
    const due: Counted[] = [];
    for (const [key, counted] of this.#counted) {
      if (counted.atMs > endMs) continue;
      this.#counted.delete(key);
      if (counted.unwritten > 0) due.push(counted);
    }
    for (const { source, reason, unwritten } of due) {
      await this.#journal({ type: "hub.refused", source, reason, count: unwritten });
    }
  }
}
