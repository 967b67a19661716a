import type { DataLabel } from "../core/types.ts";
import type { StateOperations } from "../database/operations.ts";
import {
  addAnswer,
  type ComparedWith,
  type EarnedMark,
  type KeepAnswer,
  type KeptAnswer,
  keepVouched,
  rememberAnswer,
} from "./answer-operations.ts";
import type { AnswerPrints, FieldPrints } from "./answer-prints.ts";
import {
  type CarriedLabels,
  type Carrier,
  carriedIn,
  clearedAt,
  type FlowCaller,
  type LabelRow,
  type MarkRow,
  missingMarks,
  type Writing,
} from "./label-rows.ts";
import { LaterAnswers } from "./later.ts";
import { clearCaller, flowChanges, flowSecret, listLabels, readCarriers, sweepFlow } from "./operations.ts";
import { knownOf, nameOf, SourceCache } from "./source-cache.ts";
import { type KnownSources, together } from "./source-index.ts";
import type { SourceRow } from "./source-rows.ts";
import type { StoredPage } from "./stored-rows.ts";

/** The limits are enforced after this many new answers of a caller. */
const ENFORCED_EVERY = 16;
/** Interval at which rows that have expired are deleted. */
const SWEEP_MS = 60_000;
/** Callers of which this process knows labels. */
const CALLERS_MAX = 100_000;
/** Times that an answer is compared again because texts were stored meanwhile. */
const ATTEMPTS_MAX = 16;

/** An answer that is about to be released. */
export interface ReadAnswer extends AnswerPrints {
  readonly id: string;
  readonly tool: string;
  readonly traceId: string;
  readonly of: string;
  readonly labels: readonly DataLabel[];
  /** How long labels and fingerprints last. */
  readonly rememberMs: number;
  /** Labels that the answer earns by what callers have stored before. */
  readonly earned?: ReadonlyMap<DataLabel, Writing>;
  /** The fingerprints that were stored before, by their labels; `named`: those of values that are not known, which have none. */
  readonly parts?: ReadonlyMap<DataLabel | "named", FieldPrints>;
}

/** An answer as it is compared with what callers have stored. */
export interface Comparing {
  /** Compares the answer with the stored texts that are known now. */
  compare(): { readonly answer: ReadAnswer; readonly with: ComparedWith };
  /** Takes texts that were stored since then. */
  learn(newer: StoredPage, now: number): Promise<void>;
}

type Remembered = { readonly before: CarriedLabels; readonly after: CarriedLabels };
type Kept = Extract<KeptAnswer, { readonly outcome: "kept" }>;

/** Knowledge of this process about a carrier. */
interface Known {
  /** Answers that this process has written. */
  count: number;
  marks: readonly MarkRow[];
  /** Number of clears of callers before the marks were read; undefined: not known. */
  cleared: number | undefined;
}

interface LedgerOptions {
  readonly state: StateOperations;
  /** Returns 32 random bytes, in hex: the deployment's secret when there is none yet. */
  readonly newSecret: () => string;
  readonly log?: (message: string, cause: unknown) => void;
}

/** The labels and fingerprints of all callers, in the state that replicas share. */
export class FlowLedger {
  readonly #state: StateOperations;
  readonly #newSecret: () => string;
  readonly #sources = new SourceCache();
  readonly #carriers = new Map<string, Known>();
  readonly #later: LaterAnswers;
  readonly #unwatch: () => void;
  #secret: Promise<Uint8Array> | undefined;
  #sweepAt = 0;

  constructor({ state, newSecret, log = () => {} }: LedgerOptions) {
    this.#state = state;
    this.#newSecret = newSecret;
    this.#later = new LaterAnswers(log);
    this.#unwatch = state.isRemote ? state.watch(() => this.#later.flush()) : () => {};
  }

  /** Judgments by verdict, and answers that were withheld because they could not be remembered, since the start. */
  readonly counts = { passed: 0, asked: 0, denied: 0, unknown: 0, withheld: 0 };

  /** Returns the secret of the deployment's fingerprints; the first process makes it. */
  secret(): Promise<Uint8Array> {
    this.#secret ??= this.#state.run(flowSecret, { proposed: this.#newSecret() }).then(
      ({ value }) => value,
      (error: unknown) => {
        this.#secret = undefined;
        throw error;
      },
    );
    return this.#secret;
  }

  /** Returns the labels of the carriers as they are in the database now, and the answers that they got. */
  async judge(
    carriers: readonly Carrier[],
  ): Promise<CarriedLabels & { readonly sources: KnownSources; readonly now: number }> {
    await this.#later.sent(carriers);
    const cached = carriers.map((carrier) => ({ carrier, known: this.#sources.open(carrier) }));
    const cleared = this.#cleared();
    for (;;) {
      const asked = cached.map(({ carrier, known }) => knownOf(carrier, known));
      const { value, now } = await this.#state.run(readCarriers, { carriers: asked });
      if (value.carriers.length !== asked.length) throw new Error("not every carrier was read");
      const rows = value.carriers;
      for (const [index, { carrier, known }] of cached.entries()) {
        const { marks, sources } = rows[index] ?? NOTHING;
        const since = clearedAt(marks);
        this.#sources.read(carrier, known, { sources, isKept: ({ at, until }) => at > since && until > now });
        this.#note(carrier, { marks, cleared });
      }
      if (value.isMore) continue;
      const labels = carriedIn(
        rows.flatMap(({ marks }) => marks),
        now,
      );
      return { ...labels, sources: together(cached.map(({ known }) => known.sources)), now };
    }
  }

  /**
   * Keeps an answer's labels and fingerprints for each carrier. Others see them when the promise resolves, and new labels are on
   * disk; of fingerprints, a crash of the machine may lose the last ones. Where another process has the database, fingerprints of
   * an answer that earns no new label may be written after that: `judge` waits for them. Returns the labels before and after.
   */
  async remember(carriers: readonly Carrier[], comparing: Comparing): Promise<Remembered> {
    return this.#rememberLater(carriers, comparing) ?? (await this.#remember(carriers, comparing));
  }

  async #remember(carriers: readonly Carrier[], comparing: Comparing): Promise<Remembered> {
    let mayEarn = false;
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt += 1) {
      const cleared = this.#cleared();
      const { answer, with: compared } = comparing.compare();
      const order = this.#orderOf(carriers, answer, compared);
      // Most answers earn nothing new, and wait for no disk.
      mayEarn ||= !this.#areKnown(carriers, order.marks);
      const { value, now } = await this.#state.run(mayEarn ? rememberAnswer : addAnswer, order);
      if (value.outcome === "kept") {
        this.#noteKept(order, value, { now, cleared });
        await this.#sweep(now);
        return labelsOf(order, value.marks.flat(), now);
      }
      if (value.outcome === "newer") await comparing.learn(value, now);
      else mayEarn = true;
    }
    throw new Error("texts were stored faster than an answer could be compared with them");
  }

  /**
   * Keeps the answer after it is released; undefined when it must be kept before. It may be later when this process knows that each
   * label is written and that nobody has stored a text, as far as the hub has said until now.
   */
  #rememberLater(carriers: readonly Carrier[], comparing: Comparing): Remembered | undefined {
    const pushed = this.#state.pushed(flowChanges);
    if (pushed === undefined || pushed.value.stored !== 0) return undefined;
    const { answer, with: compared } = comparing.compare();
    const order = this.#orderOf(carriers, answer, compared);
    const rows: MarkRow[] = [];
    for (const carrier of carriers) {
      const known = this.#carriers.get(nameOf(carrier));
      if (known === undefined || known.cleared !== pushed.value.cleared) return undefined;
      const { session } = carrier;
      const lasting = { session, now: pushed.now, lastMs: order.rememberMs };
      if (missingMarks(order.marks, known.marks, lasting).length > 0) return undefined;
      rows.push(...known.marks);
    }
    const bytes = order.rows.reduce((sum, { prints }) => sum + prints.byteLength, 0);
    const isQueued = this.#later.add(carriers, bytes, () => this.#remember(carriers, comparing));
    return isQueued ? labelsOf(order, rows, pushed.now) : undefined;
  }

  /** Keeps what the user or an approver says about values in the calls of a caller. Returns until when. */
  async vouch(
    { issuer, subject }: FlowCaller,
    { rememberMs, ...source }: Omit<SourceRow, "labels"> & Pick<ReadAnswer, "rememberMs">,
  ): Promise<number> {
    return (await this.#state.run(keepVouched, { issuer, subject, rememberMs, source })).value;
  }

  /** Returns the labels of a caller in all sessions that have not expired. */
  async labelsOf({ issuer, subject }: FlowCaller): Promise<readonly LabelRow[]> {
    return (await this.#state.run(listLabels, { issuer, subject })).value;
  }

  /** Removes all labels and fingerprints of a caller. Processes that know the fingerprints forget them at their next judgment. */
  async clear({ issuer, subject }: FlowCaller): Promise<void> {
    await this.#state.run(clearCaller, { issuer, subject });
  }

  /** Writes what waits, in one attempt. Never rejects. */
  async close(): Promise<void> {
    this.#unwatch();
    await this.#later.close();
  }

  #orderOf(carriers: readonly Carrier[], answer: ReadAnswer, compared: ComparedWith): KeepAnswer {
    const { tool, traceId, rememberMs } = answer;
    const rows = rowsOf(answer);
    return {
      carriers: carriers.map(({ issuer, subject, session }) => {
        const { count = 0 } = this.#carriers.get(nameOf({ issuer, subject, session })) ?? {};
        const checksLimits = Math.floor((count + rows.length) / ENFORCED_EVERY) > Math.floor(count / ENFORCED_EVERY);
        return { issuer, subject, session, checksLimits };
      }),
      tool,
      traceId,
      rememberMs,
      marks: marksOf(answer),
      rows,
      compared,
    };
  }

  /** Returns whether the labels were there when this process looked last. */
  #areKnown(carriers: readonly Carrier[], marks: readonly EarnedMark[]): boolean {
    return carriers.every((carrier) => {
      const known = this.#carriers.get(nameOf(carrier))?.marks ?? [];
      return marks.every(({ mark }) => known.some((row) => row.mark === mark && row.session === carrier.session));
    });
  }

  #noteKept(
    { carriers, marks: earned, rows, tool, traceId, rememberMs: lastMs }: KeepAnswer,
    { at, until, marks }: Kept,
    { now, cleared }: { readonly now: number; readonly cleared: number | undefined },
  ): void {
    for (const [index, carrier] of carriers.entries()) {
      const { session } = carrier;
      const before = marks[index] ?? [];
      const written = missingMarks(earned, before, { session, now, lastMs }).map(({ mark }) => mark);
      const others = before.filter((row) => row.session !== session || !written.some((mark) => mark === row.mark));
      const added = written.map((mark) => ({ session, mark, since: now, until }));
      this.#note(carrier, { marks: [...others, ...added], cleared }, rows.length);
      for (const row of rows) this.#sources.keepOwn(carrier, { ...row, tool, traceId, at, until });
    }
  }

  #note(carrier: Carrier, read: Pick<Known, "marks" | "cleared">, more = 0): void {
    const name = nameOf(carrier);
    const { count = 0 } = this.#carriers.get(name) ?? {};
    if (this.#carriers.size > CALLERS_MAX) this.#carriers.clear();
    this.#carriers.set(name, { ...read, count: count + more });
  }

  /** Read before a request: what is answered to it is not older. */
  #cleared(): number | undefined {
    return this.#state.pushed(flowChanges)?.value.cleared;
  }

  /** Deletes expired rows, unless another process has the database and deletes them. */
  async #sweep(now: number): Promise<void> {
    if (this.#state.isRemote || now < this.#sweepAt) return;
    this.#sweepAt = now + SWEEP_MS;
    // Expired rows have no effect. The next attempt deletes them.
    await this.#state.run(sweepFlow, {}).catch(() => {});
  }
}

const NOTHING = { marks: [], sources: [] } as const;

function marksOf({ labels, earned, isCut }: ReadAnswer): readonly EarnedMark[] {
  const isLost = isCut && labels.length > 0;
  const marks = new Set([...labels, ...(earned?.keys() ?? []), ...(isLost ? (["lost"] as const) : [])]);
  return [...marks].map((mark) => ({ mark, stored: mark === "lost" ? undefined : earned?.get(mark) }));
}

/** Returns the rows of an answer: one for all of it, and one for each label of what had been stored before. */
function rowsOf(answer: ReadAnswer): KeepAnswer["rows"] {
  const { id, of, labels, fields, prints } = answer;
  const rows = [{ id, of, labels, fields, prints }];
  for (const [label, part] of answer.parts ?? []) {
    const own = label === "named" ? [] : [label];
    const { tool } = own.map((one) => answer.earned?.get(one))[0] ?? {};
    const from = [of, ...(tool === undefined ? [] : [`stored by ${tool}`])].filter((one) => one !== "").join(", ");
    rows.push({ id: `${id} ${label}`, of: from, labels: own, fields: part.fields, prints: part.prints });
  }
  return rows.filter((row) => row.prints.byteLength > 0);
}

function labelsOf({ marks }: KeepAnswer, rows: readonly MarkRow[], now: number): Remembered {
  const earned = marks.map(({ mark }) => ({ session: "", mark, since: now, until: Number.POSITIVE_INFINITY }));
  return { before: carriedIn(rows, now), after: carriedIn([...rows, ...earned], now) };
}
