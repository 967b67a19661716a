import type { DataLabel } from "../core/types.ts";
import type { Sql } from "../database/dialect.ts";
import { integer, json, text, unreadable } from "../database/rows.ts";
import type { SharedState } from "../database/shared-state.ts";
import type { AnswerPrints, FieldPrints, StoredParts, StoredSearch } from "./answer-prints.ts";
import type { Carrier, ReadAnswer, Writing } from "./ledger.ts";
import {
  countOf,
  EARNS_PRIVATE,
  EARNS_UNTRUSTED,
  type FlaggedPrints,
  NAMED,
  PRIVATE,
  StoredTable,
  type StoredText,
  UNTRUSTED,
} from "./stored-table.ts";

/** Most stored fingerprints of one caller, and of all callers together. */
const CALLER_PRINTS_MAX = 262_144;
const PRINTS_MAX = 2_097_152;
/** Rows that are read at once. */
const ROWS_READ = 256;
/** What is stored again is written again only if that lasts longer by this share of its time. */
const RENEWED_SHARE = 0.05;
const SWEEP_MS = 60_000;

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
  readonly #state: SharedState;
  readonly #callerPrintsMax: number;
  readonly #printsMax: number;
  #seq = 0;
  #loading: Promise<void> | undefined;
  #sweepAt = 0;

  constructor(state: SharedState, { callerPrintsMax = CALLER_PRINTS_MAX, printsMax = PRINTS_MAX }: StoredOptions = {}) {
    this.#state = state;
    this.#callerPrintsMax = callerPrintsMax;
    this.#printsMax = printsMax;
  }

  /** Reads in parts what was stored before this process began to look, so that no transaction takes long. */
  load(): Promise<void> {
    this.#loading ??= this.#load().catch((error: unknown) => {
      this.#loading = undefined;
      throw error;
    });
    return this.#loading;
  }

  async #load(): Promise<void> {
    while ((await this.#state.read((sql, now) => this.#readRows(sql, now))) === ROWS_READ);
  }

  /** Reads what was stored since the last look, within a transaction that may write. Returns whether there was any. */
  async refresh(sql: Sql, now: number): Promise<boolean> {
    let read = await this.#readRows(sql, now);
    const isChanged = read > 0;
    while (read === ROWS_READ) read = await this.#readRows(sql, now);
    await this.#sweep(sql, now);
    return isChanged;
  }

  /** Writes what a call is about to store. It is on disk when the promise resolves, so that every later answer is compared with it. */
  async store({ issuer, subject }: Pick<Carrier, "issuer" | "subject">, call: WrittenCall): Promise<void> {
    await this.load();
    await this.#state.write(async (sql, now) => {
      const [row = {}] = await sql`
        UPDATE approval_counters SET value = value + 1 WHERE name = 'flow-stored' RETURNING value`;
      await this.refresh(sql, now);
      const until = now + call.storedMs;
      const lasting = until - call.storedMs * RENEWED_SHARE;
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
      const stored = { ...call, seq: integer(row, "value"), issuer, subject, until };
      if (more > 0 && !isFull && !call.isCut)
        await insert(sql, { ...stored, prints, system: "", labels: labelsIn(call.prints.flags) });
      if (isFull || call.isCut) {
        const labels = call.isCut ? call.carried : labelsIn(call.prints.flags);
        await this.#storeWhole(sql, { ...stored, labels, now, lasting });
      }
    });
  }

  /** Marks the system of a text whose fingerprints are not kept. */
  async #storeWhole(sql: Sql, mark: NewText & { readonly now: number; readonly lasting: number }): Promise<void> {
    const known = this.table.wholeOf(mark.system, mark.now).filter(({ until }) => until >= mark.lasting);
    if (mark.labels.every((label) => known.some(({ labels }) => labels.includes(label)))) return;
    await insert(sql, { ...mark, prints: new Uint8Array() });
  }

  async #readRows(sql: Sql, now: number): Promise<number> {
    const rows = await sql`
      SELECT seq, issuer, subject, until, tool, trace_id, system, labels, prints FROM policy_flow_stored
      WHERE seq > ${this.#seq} ORDER BY seq LIMIT ${ROWS_READ}`;
    for (const row of rows) {
      const seq = integer(row, "seq");
      // Another answer may have read it meanwhile.
      if (seq <= this.#seq) continue;
      this.#seq = seq;
      const { prints } = row;
      if (!(prints instanceof Uint8Array) || !Number.isInteger(countOf(prints))) throw unreadable("prints");
      const until = integer(row, "until");
      if (until <= now) continue;
      const labels = json(row, "labels") as unknown as readonly DataLabel[];
      const writer = { issuer: text(row, "issuer"), subject: text(row, "subject"), until };
      const call = { tool: text(row, "tool"), traceId: text(row, "trace_id"), system: text(row, "system") };
      this.table.add({ seq, ...writer, ...call, labels, prints }, now);
    }
    return rows.length;
  }

  async #sweep(sql: Sql, now: number): Promise<void> {
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + SWEEP_MS;
    await sql`DELETE FROM policy_flow_stored WHERE until <= ${now}`;
  }
}

type NewText = Omit<StoredText, "prints">;

async function insert(
  sql: Sql,
  { seq, issuer, subject, until, tool, traceId, system, labels, prints }: StoredText,
): Promise<void> {
  await sql`
    INSERT INTO policy_flow_stored (seq, issuer, subject, until, tool, trace_id, system, labels, prints)
    VALUES (${seq}, ${issuer}, ${subject}, ${until}, ${tool}, ${traceId}, ${system}, ${JSON.stringify(labels)}, ${prints})`;
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
  readonly #whole = new Set<DataLabel>();

  constructor(
    table: StoredTable,
    { system, reads, now }: { readonly system: string; readonly reads: readonly DataLabel[]; readonly now: number },
    read: (stored: StoredSearch | undefined) => Reading,
  ) {
    const earn = (label: DataLabel, { tool, traceId }: Writing): void => {
      if (!reads.includes(label) && !this.#earned.has(label)) this.#earned.set(label, { tool, traceId });
    };
    const find = (low: number, high: number): number =>
      table.find(low, high, now, (text, flags) => {
        for (const { label, earns } of FLAGS) if ((flags & earns) !== 0) earn(label, text);
      });
    this.#answer = read(table.isEmpty ? undefined : { find });
    for (const text of table.wholeOf(system, now)) {
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

  /** The texts by which the answer earns labels that its tool's answers do not have anyway. */
  get texts(): readonly ReadBackText[] {
    return [...this.#earned].map(([label, text]) => ({ label, ...text }));
  }
}
