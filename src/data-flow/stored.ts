import type { DataLabel, EpochMs } from "../core/types.ts";
import type { StateOperations } from "../database/operations.ts";
import type { AnswerPrints, FieldPrints, StoredParts, StoredSearch } from "./answer-prints.ts";
import type { FlowCaller, Writing } from "./label-rows.ts";
import type { ReadAnswer } from "./ledger.ts";
import { readStored, storeText, type TextOrder } from "./operations.ts";
import type { StoredPage } from "./stored-rows.ts";
import {
  countOf,
  EARNS_PRIVATE,
  EARNS_UNTRUSTED,
  type FlaggedPrints,
  NAMED,
  PRIVATE,
  StoredTable,
  UNTRUSTED,
} from "./stored-table.ts";

/** Most stored fingerprints of one caller, and of all callers together. */
const CALLER_PRINTS_MAX = 262_144;
const PRINTS_MAX = 2_097_152;
/** What is stored again is written again only if that lasts longer by this share of its time. */
const RENEWED_SHARE = 0.05;
/** Times that a text is compared again because others were stored meanwhile. */
const ATTEMPTS_MAX = 16;

interface StoredOptions {
  readonly callerPrintsMax?: number;
  readonly printsMax?: number;
}

/** A call that writes something, with what of it has an origin. */
export interface WrittenCall {
  readonly tool: string;
  readonly traceId: string;
  /** The system that the tool writes to. */
  readonly system: string;
  readonly prints: FlaggedPrints;
  /** Some of what was written was not looked at: it may have all that the caller has read. */
  readonly isCut: boolean;
  readonly carried: readonly DataLabel[];
  readonly storedMs: number;
}

/**
 * What callers wrote while its origin was private or untrusted, in the state that replicas share. It belongs to the stores that the
 * text went to, not to the callers: it lasts when their labels have ended.
 */
export class StoredTexts {
  readonly table = new StoredTable();
  readonly #state: StateOperations;
  readonly #callerPrintsMax: number;
  readonly #printsMax: number;
  #seq = 0;
  #now = 0;
  #loading: Promise<void> | undefined;

  constructor(
    state: StateOperations,
    { callerPrintsMax = CALLER_PRINTS_MAX, printsMax = PRINTS_MAX }: StoredOptions = {},
  ) {
    this.#state = state;
    this.#callerPrintsMax = callerPrintsMax;
    this.#printsMax = printsMax;
  }

  /** Number of the last text in the table; all earlier ones are there, too. */
  get seq(): number {
    return this.#seq;
  }

  /** The database's clock when it was read last. */
  get now(): EpochMs {
    return this.#now;
  }

  /** Reads in parts what was stored before this process began to look, so that no transaction takes long. */
  load(): Promise<void> {
    this.#loading ??= this.#readAll().catch((error: unknown) => {
      this.#loading = undefined;
      throw error;
    });
    return this.#loading;
  }

  async #readAll(): Promise<void> {
    for (let isMore = true; isMore; ) {
      const { value, now } = await this.#state.run(readStored, { after: this.#seq });
      this.#take(value, now);
      ({ isMore } = value);
    }
  }

  /** Takes texts that come after those in the table. */
  async learn(newer: StoredPage, now: EpochMs): Promise<void> {
    this.#take(newer, now);
    if (newer.isMore) await this.#readAll();
  }

  #take({ texts }: StoredPage, now: EpochMs): void {
    this.#now = now;
    for (const text of texts) {
      // Another answer may have read it meanwhile.
      if (text.seq <= this.#seq) continue;
      this.#seq = text.seq;
      if (text.until > now) this.table.add(text, now);
    }
  }

  /**
   * Writes what a call is about to store, compared at `now` of the database. It is on disk when the promise resolves, so that every
   * later answer is compared with it.
   */
  async store({ issuer, subject }: FlowCaller, call: WrittenCall, now: EpochMs): Promise<void> {
    await this.load();
    this.#now = now;
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const text = this.#newTextOf({ issuer, subject }, call);
      if (text === undefined) return;
      const ran = await this.#state.run(storeText, { text, storedMs: call.storedMs, seq: this.#seq });
      if (ran.value.outcome === "newer") await this.learn(ran.value, ran.now);
      else {
        const { seq, until } = ran.value;
        this.#take({ texts: [{ ...text, seq, until }], isMore: false }, ran.now);
        return;
      }
    }
    throw new Error("texts were stored faster than another one could be compared with them");
  }

  /** Returns what of a call is not stored yet, or a mark of its system where its fingerprints are not kept; undefined: nothing. */
  #newTextOf({ issuer, subject }: FlowCaller, call: WrittenCall): TextOrder["text"] | undefined {
    const { tool, traceId, system, isCut, storedMs } = call;
    const now = this.#now;
    const lasting = now + storedMs * (1 - RENEWED_SHARE);
    const isNew = (low: number, high: number, flags: number): boolean => {
      let known = 0;
      this.table.find(low, high, now, (one, its) => {
        if (one.until >= lasting) known |= its;
      });
      return (flags & ~known) !== 0;
    };
    const prints = call.prints.packed(isNew);
    const { all, own } = this.table.counts({ issuer, subject }, now);
    const more = countOf(prints);
    const isFull = own + more > this.#callerPrintsMax || all + more > this.#printsMax;
    const text = { issuer, subject, tool, traceId };
    if (!isFull && !isCut)
      return more === 0 ? undefined : { ...text, prints, system: "", labels: labelsIn(call.prints.flags) };
    // Fingerprints that are not kept: the system is marked.
    const labels = isCut ? call.carried : labelsIn(call.prints.flags);
    const known = this.table.wholeOf(system, now).filter(({ until }) => until >= lasting);
    if (labels.every((label) => known.some((one) => one.labels.includes(label)))) return undefined;
    return { ...text, prints: new Uint8Array(), system, labels };
  }
}

function labelsIn(flags: number): readonly DataLabel[] {
  return [
    ...((flags & PRIVATE) === 0 ? [] : ["private" as const]),
    ...((flags & (UNTRUSTED | NAMED)) === 0 ? [] : ["untrusted" as const]),
  ];
}

/** A stored text that an answer holds, and a label that the answer earns by it. */
export interface ReadBackText extends Writing {
  readonly label: DataLabel;
}

const FLAGS = [
  { label: "private", origin: PRIVATE, earns: EARNS_PRIVATE },
  { label: "untrusted", origin: UNTRUSTED, earns: EARNS_UNTRUSTED },
] as const;

type Reading = AnswerPrints & { readonly stored: StoredParts | undefined };

/** An answer, compared with what was stored. */
export class ReadBack {
  readonly #answer: Reading;
  /** The first text by which the answer earns each label. */
  readonly #earned = new Map<DataLabel, Writing>();
  readonly #parts = new Map<DataLabel | "named", FieldPrints>();
  readonly #isWholeUntrusted: boolean;
  /** Time at which a text in the answer expires; after it the answer may earn fewer labels. */
  #until: EpochMs | undefined;
  readonly #whole = new Set<DataLabel>();

  constructor(
    table: StoredTable,
    { system, reads, now }: { readonly system: string; readonly reads: readonly DataLabel[]; readonly now: number },
    read: (stored: StoredSearch | undefined) => Reading,
  ) {
    const earn = (label: DataLabel, { tool, traceId }: Writing): void => {
      if (!reads.includes(label) && !this.#earned.has(label)) this.#earned.set(label, { tool, traceId });
    };
    const note = ({ until }: { readonly until: EpochMs }): void => {
      this.#until = Math.min(this.#until ?? until, until);
    };
    const find = (low: number, high: number): number =>
      table.find(low, high, now, (text, flags) => {
        note(text);
        for (const { label, earns } of FLAGS) if ((flags & earns) !== 0) earn(label, text);
      });
    this.#answer = read(table.isEmpty ? undefined : { find });
    for (const text of table.wholeOf(system, now)) {
      note(text);
      for (const label of text.labels) {
        this.#whole.add(label);
        earn(label, text);
      }
    }
    this.#isWholeUntrusted = this.#whole.has("untrusted");
    for (const { label, origin } of FLAGS) {
      const part = this.#answer.stored?.withFlag(origin);
      if (part !== undefined) this.#parts.set(label, part);
    }
    const named = this.#answer.stored?.withFlag(NAMED, true);
    if (named !== undefined) this.#parts.set("named", named);
  }

  /** Returns the answer with what it earns. Where fingerprints of a system's texts are missing, all of it counts as such a text. */
  completed(read: Omit<ReadAnswer, keyof AnswerPrints>): ReadAnswer {
    const { fields, prints, isCut } = this.#answer;
    return {
      ...read,
      labels: [...new Set([...read.labels, ...this.#whole])],
      fields: this.#isWholeUntrusted ? fields.map((field) => ({ ...field, isTrusted: false, isStored: true })) : fields,
      prints,
      isCut,
      earned: this.#earned,
      parts: this.#parts,
    };
  }

  get until(): EpochMs | undefined {
    return this.#until;
  }

  /** The texts by which the answer earns labels that its tool's answers do not have anyway. */
  get texts(): readonly ReadBackText[] {
    return [...this.#earned].map(([label, text]) => ({ label, ...text }));
  }
}
