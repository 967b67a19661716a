import type { DataLabel } from "../core/types.ts";
import type { Row, Sql } from "../database/dialect.ts";
import { integer, json, oneOf, text, unreadable } from "../database/rows.ts";
import type { SharedState } from "../database/shared-state.ts";
import { type AnswerField, type AnswerPrints, columnsOf, type FieldPrints } from "./answer-prints.ts";
import { type KnownSources, type Source, SourceIndex, together } from "./source-index.ts";

/** What a row of labels may say of a caller. */
const MARKS = ["private", "untrusted", "lost", "cleared"] as const;
type Mark = (typeof MARKS)[number];

/** A label is written again when it would last longer by this share of its time. */
const RENEWED_SHARE = 0.05;
/** Most answers of one caller whose fingerprints are kept, and most bytes of them. */
const SOURCES_MAX = 1_024;
const SOURCE_BYTES_MAX = 16_777_216;
/** The limits are enforced after this many new answers of a caller. */
const ENFORCED_EVERY = 16;
/** Rows of other replicas may become visible this much later than rows that are younger. */
const LATE_MS_MAX = 15_000;
/** Interval at which rows that have expired are deleted. */
const SWEEP_MS = 60_000;
/** Memory for fingerprints of all callers together: the callers that were judged longest ago are forgotten first. */
const CACHED_BYTES_MAX = 67_108_864;
/** A caller whose fingerprints exceed these limits is loaded again: the database has deleted the oldest ones meanwhile. */
const CALLER_SOURCES_MAX = SOURCES_MAX * 2;
const CALLER_BYTES_MAX = CACHED_BYTES_MAX * 2;

/** Whose labels a call carries. */
export interface Carrier {
  readonly issuer: string;
  readonly subject: string;
  /** The session that labels are narrowed to; empty: every session. */
  readonly session: string;
}

/** What a caller has read. */
export interface CarriedLabels {
  /** Sorted. */
  readonly labels: readonly DataLabel[];
  /** The fingerprints of some untrusted or private text are not known any more, or never were. */
  readonly isLost: boolean;
}

/** One row of a caller's labels, for operators. */
export interface LabelRow {
  readonly session: string;
  readonly label: Exclude<Mark, "cleared">;
  readonly since: number;
  readonly until: number;
  /** The tool whose answer earned it first, and that call. */
  readonly tool: string;
  readonly traceId: string;
  /** The answer earned it by a text that a caller had stored: the tool that wrote it, and that call. */
  readonly stored: Writing | undefined;
}

/** The call that wrote a text. */
export interface Writing {
  readonly tool: string;
  readonly traceId: string;
}

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

/** Completes an answer within the transaction that keeps it: what other replicas have stored until then is known. */
type Completing = (sql: Sql, now: number) => Promise<ReadAnswer>;

interface Cached {
  readonly sources: SourceIndex;
  /** Bytes of these as they were counted last. */
  bytes: number;
  /** Time of the youngest row that was loaded. */
  youngest: number;
}

interface Remembering {
  readonly carriers: readonly Carrier[];
  readonly answer: Completing;
  readonly now: number;
  readonly mayEarn: boolean;
}

interface LedgerOptions {
  readonly state: SharedState;
  /** Returns 32 random bytes, in hex: the deployment's secret when there is none yet. */
  readonly newSecret: () => string;
}

/** The labels and fingerprints of all callers, in the state that replicas share. */
export class FlowLedger {
  readonly #state: SharedState;
  readonly #newSecret: () => string;
  readonly #cache = new Map<string, Cached>();
  /** Callers of which this process has remembered an answer, with the number of those that have fingerprints. */
  readonly #added = new Map<string, number>();
  #cachedBytes = 0;
  #secret: Promise<Uint8Array> | undefined;
  #sweepAt = 0;

  constructor({ state, newSecret }: LedgerOptions) {
    this.#state = state;
    this.#newSecret = newSecret;
  }

  /** Judgments by verdict, and answers that were withheld because they could not be remembered, since the start. */
  readonly counts = { passed: 0, asked: 0, denied: 0, unknown: 0, withheld: 0 };

  /** Returns the secret of the deployment's fingerprints; the first process makes it. */
  secret(): Promise<Uint8Array> {
    this.#secret ??= this.#state
      .write(async (sql) => {
        await sql`INSERT INTO policy_flow_secret (id, secret) VALUES (1, ${this.#newSecret()}) ON CONFLICT (id) DO NOTHING`;
        const [row = {}] = await sql`SELECT secret FROM policy_flow_secret WHERE id = 1`;
        return new Uint8Array(Buffer.from(text(row, "secret"), "hex"));
      })
      .catch((error: unknown) => {
        this.#secret = undefined;
        throw error;
      });
    return this.#secret;
  }

  /** Returns the labels of the carriers as they are in the database now, and the answers that they got. */
  judge(carriers: readonly Carrier[]): Promise<CarriedLabels & { readonly sources: KnownSources }> {
    return this.#state.read(async (sql, now) => {
      const marks = new Set<Mark>();
      const sources: SourceIndex[] = [];
      for (const carrier of carriers) {
        const rows = await marksOf(sql, carrier);
        const clearedAt = Math.max(0, ...rows.filter(({ mark }) => mark === "cleared").map(({ since }) => since));
        for (const { mark, until } of rows) if (until > now) marks.add(mark);
        sources.push(await this.#sourcesOf(sql, carrier, { now, clearedAt }));
      }
      return { ...carriedOf(marks), sources: together(sources) };
    });
  }

  /**
   * Keeps an answer's labels and fingerprints for each carrier. Others see them when the promise resolves. New labels are on disk
   * then; of fingerprints, a crash of the machine may lose the last ones. Returns the labels before and after.
   */
  async remember(
    carriers: readonly Carrier[],
    completing: ReadAnswer | Completing,
  ): Promise<{ before: CarriedLabels; after: CarriedLabels }> {
    const answer: Completing = typeof completing === "function" ? completing : async () => completing;
    // Most answers earn nothing new, and wait for no disk. A caller's first one does.
    const names = carriers.map(nameOf);
    const kept = names.every((name) => this.#added.has(name))
      ? await this.#state.writeRelaxed((sql, now) => this.#remember(sql, { carriers, answer, now, mayEarn: false }))
      : undefined;
    const remembered =
      kept ?? (await this.#state.write((sql, now) => this.#remember(sql, { carriers, answer, now, mayEarn: true })));
    if (remembered === undefined) throw new Error("the labels of an answer were not written");
    for (const name of names) this.#count(name, 0);
    const { before, after, at, until, rows } = remembered;
    for (const row of rows) this.#keepOwn(carriers, { ...row, at, until });
    return { before, after };
  }

  /** Keeps an approver's answer, for any session: its fields say whose calls it is about. Returns until when. */
  vouch(
    caller: Pick<Carrier, "issuer" | "subject">,
    answer: Omit<ReadAnswer, keyof AnswerPrints | "labels"> & Pick<AnswerPrints, "fields">,
  ): Promise<number> {
    return this.#state.write(async (sql, now) => {
      const until = now + answer.rememberMs;
      const kept = { ...answer, labels: [], prints: new Uint8Array(), isCut: false, now, until };
      await this.#store(sql, { ...caller, session: "" }, kept);
      return until;
    });
  }

  /** Keeps an answer that this process has written, for carriers that it has judged before. */
  #keepOwn(carriers: readonly Carrier[], { id, tool, traceId, of, labels, at, until, fields, prints }: StoredSource) {
    if (prints.byteLength === 0) return;
    for (const carrier of carriers) {
      const cached = this.#cache.get(nameOf(carrier));
      if (cached !== undefined) this.#keep(cached, { id, tool, traceId, of, labels, at, until, fields, prints });
    }
  }

  /** Returns undefined when a label would have to be written and may not. Then nothing is written. */
  async #remember(sql: Sql, { carriers, answer: completing, now, mayEarn }: Remembering) {
    const answer = await completing(sql, now);
    const before = new Set<Mark>();
    const until = now + answer.rememberMs;
    const isLost = answer.isCut && answer.labels.length > 0;
    const byText = new Map<Mark, Writing>(answer.earned);
    const earned = new Set<Mark>([...answer.labels, ...byText.keys(), ...(isLost ? (["lost"] as const) : [])]);
    const missing: { readonly carrier: Carrier; readonly mark: Mark }[] = [];
    let at = now;
    for (const carrier of carriers) {
      const rows = await marksOf(sql, carrier);
      // What is read in the millisecond in which a caller was cleared is not forgotten with what came before.
      for (const { mark, since } of rows) if (mark === "cleared") at = Math.max(at, since + 1);
      for (const { mark, until: last } of rows) if (last > now) before.add(mark);
      for (const mark of earned) {
        const lasts = rows.find((row) => row.mark === mark && row.session === carrier.session)?.until ?? 0;
        if (lasts <= now || until - lasts > answer.rememberMs * RENEWED_SHARE) missing.push({ carrier, mark });
      }
    }
    if (missing.length > 0 && !mayEarn) return undefined;
    const { tool, traceId } = answer;
    for (const { carrier, mark } of missing) {
      const stored = byText.get(mark);
      await setMark(sql, carrier, { mark, now, until, tool, traceId, stored });
    }
    const rows = rowsOf(answer);
    for (const row of rows) for (const carrier of carriers) await this.#store(sql, carrier, { ...row, now: at, until });
    await this.#sweep(sql, now);
    return { before: carriedOf(before), after: carriedOf(new Set([...before, ...earned])), at, until, rows };
  }

  /** Returns the labels of a caller in all sessions that have not expired. */
  labelsOf({ issuer, subject }: Pick<Carrier, "issuer" | "subject">): Promise<readonly LabelRow[]> {
    return this.#state.read(async (sql, now) => {
      const rows = await sql`
        SELECT session, label, since, until, tool, trace_id, stored FROM policy_flow_labels
        WHERE issuer = ${issuer} AND subject = ${subject} AND until > ${now} ORDER BY session, label`;
      return rows.flatMap((row) => {
        const label = oneOf(row, "label", MARKS);
        if (label === "cleared") return [];
        const times = { since: integer(row, "since"), until: integer(row, "until") };
        const call = { tool: text(row, "tool"), traceId: text(row, "trace_id") };
        const stored = row["stored"] === null ? undefined : (json(row, "stored") as unknown as Writing);
        return [{ session: text(row, "session"), label, ...times, ...call, stored }];
      });
    });
  }

  /** Removes all labels and fingerprints of a caller. Processes that know the fingerprints forget them at their next judgment. */
  clear({ issuer, subject }: Pick<Carrier, "issuer" | "subject">): Promise<void> {
    return this.#state.write(async (sql, now) => {
      await sql`DELETE FROM policy_flow_labels WHERE issuer = ${issuer} AND subject = ${subject}`;
      await sql`DELETE FROM policy_flow_sources WHERE issuer = ${issuer} AND subject = ${subject}`;
      const until = now + CLEARED_MS;
      await setMark(sql, { issuer, subject, session: "" }, { mark: "cleared", now, until, tool: "", traceId: "" });
    });
  }

  async #store(
    sql: Sql,
    carrier: Carrier,
    answer: ReadAnswer & { readonly now: number; readonly until: number },
  ): Promise<void> {
    const { issuer, subject, session } = carrier;
    const { id, tool, traceId, of, labels, fields, prints, now, until } = answer;
    await sql`
      INSERT INTO policy_flow_sources
        (issuer, subject, session, id, at, until, tool, trace_id, reference, labels, fields, bytes, prints)
      VALUES (${issuer}, ${subject}, ${session}, ${id}, ${now}, ${until}, ${tool}, ${traceId}, ${of},
        ${JSON.stringify(labels)}, ${JSON.stringify(fields)}, ${prints.byteLength}, ${prints})`;
    if (this.#count(nameOf(carrier), 1) % ENFORCED_EVERY === 0) await enforceLimits(sql, carrier, now);
  }

  #count(name: string, more: number): number {
    const added = (this.#added.get(name) ?? 0) + more;
    if (this.#added.size > ADDED_MAX) this.#added.clear();
    this.#added.set(name, added);
    return added;
  }

  /** Loads the rows that this process does not know yet. */
  async #sourcesOf(
    sql: Sql,
    carrier: Carrier,
    { now, clearedAt }: { readonly now: number; readonly clearedAt: number },
  ): Promise<SourceIndex> {
    const { issuer, subject, session } = carrier;
    const name = nameOf(carrier);
    const known = this.#cache.get(name);
    const isOver =
      known !== undefined && (known.sources.size > CALLER_SOURCES_MAX || known.sources.bytes > CALLER_BYTES_MAX);
    if (isOver) this.#cachedBytes -= known.bytes;
    const cached = known !== undefined && !isOver ? known : { sources: new SourceIndex(), bytes: 0, youngest: 0 };
    const since = Math.max(0, cached.youngest - LATE_MS_MAX);
    const listed = await sql`
      SELECT id, at FROM policy_flow_sources
      WHERE issuer = ${issuer} AND subject = ${subject} AND at >= ${since} AND until > ${now}
        AND (${session} = '' OR session = '' OR session = ${session})`;
    const fresh = listed.filter((row) => !cached.sources.has(text(row, "id")));
    if (fresh.length > 0) {
      const from = Math.min(...fresh.map((row) => integer(row, "at")));
      const rows = await sql`
        SELECT id, at, until, tool, trace_id, reference, labels, fields, prints FROM policy_flow_sources
        WHERE issuer = ${issuer} AND subject = ${subject} AND at >= ${from} AND until > ${now}
          AND (${session} = '' OR session = '' OR session = ${session})`;
      for (const row of rows) this.#keep(cached, storedSource(row));
    }
    this.#cache.delete(name);
    this.#cache.set(name, cached);
    this.#forgetOldest();
    cached.sources.keep(({ at, until }) => at > clearedAt && until > now);
    this.#recount(cached);
    return cached.sources;
  }

  #keep(cached: Cached, { prints, ...source }: StoredSource): void {
    if (cached.sources.has(source.id)) return;
    const columns = columnsOf(prints);
    if (columns === undefined) throw unreadable("prints");
    cached.sources.add(source, columns);
    cached.youngest = Math.max(cached.youngest, source.at);
    this.#recount(cached);
  }

  #recount(cached: Cached): void {
    this.#cachedBytes += cached.sources.bytes - cached.bytes;
    cached.bytes = cached.sources.bytes;
  }

  #forgetOldest(): void {
    for (const [name, { bytes }] of this.#cache) {
      if (this.#cachedBytes <= CACHED_BYTES_MAX || this.#cache.size === 1) return;
      this.#cache.delete(name);
      this.#cachedBytes -= bytes;
    }
  }

  async #sweep(sql: Sql, now: number): Promise<void> {
    if (now < this.#sweepAt) return;
    this.#sweepAt = now + SWEEP_MS;
    await sql`DELETE FROM policy_flow_labels WHERE until <= ${now}`;
    await sql`DELETE FROM policy_flow_sources WHERE until <= ${now}`;
  }
}

/** Callers whose new answers are counted. */
const ADDED_MAX = 100_000;
/** Longer than any fingerprint lasts. */
const CLEARED_MS = 366 * 86_400_000;

interface MarkRow {
  readonly session: string;
  readonly mark: Mark;
  readonly since: number;
  readonly until: number;
}

/** Labels that are not narrowed to a session belong to every session, and a caller without a session carries those of all. */
async function marksOf(sql: Sql, { issuer, subject, session }: Carrier): Promise<readonly MarkRow[]> {
  const rows = await sql`
    SELECT session, label, since, until FROM policy_flow_labels
    WHERE issuer = ${issuer} AND subject = ${subject}
      AND (${session} = '' OR session = '' OR session = ${session})`;
  return rows.map((row) => ({
    session: text(row, "session"),
    mark: oneOf(row, "label", MARKS),
    since: integer(row, "since"),
    until: integer(row, "until"),
  }));
}

interface NewMark {
  readonly mark: Mark;
  readonly now: number;
  readonly until: number;
  readonly tool: string;
  readonly traceId: string;
  readonly stored?: Writing | undefined;
}

async function setMark(sql: Sql, { issuer, subject, session }: Carrier, mark: NewMark) {
  const { mark: label, now, until, tool, traceId } = mark;
  const stored = mark.stored === undefined ? null : JSON.stringify(mark.stored);
  await sql`
    INSERT INTO policy_flow_labels (issuer, subject, session, label, since, until, tool, trace_id, stored)
    VALUES (${issuer}, ${subject}, ${session}, ${label}, ${now}, ${until}, ${tool}, ${traceId}, ${stored})
    ON CONFLICT (issuer, subject, session, label) DO UPDATE SET
      until = excluded.until,
      since = CASE WHEN policy_flow_labels.until <= ${now} THEN excluded.since ELSE policy_flow_labels.since END,
      tool = CASE WHEN policy_flow_labels.until <= ${now} THEN excluded.tool ELSE policy_flow_labels.tool END,
      stored = CASE WHEN policy_flow_labels.until <= ${now} THEN excluded.stored ELSE policy_flow_labels.stored END,
      trace_id = CASE WHEN policy_flow_labels.until <= ${now} THEN excluded.trace_id ELSE policy_flow_labels.trace_id END
    WHERE policy_flow_labels.until < excluded.until`;
}

/** Deletes the oldest answers beyond the limits. A caller who loses fingerprints of what earned labels is marked. */
async function enforceLimits(sql: Sql, carrier: Carrier, now: number): Promise<void> {
  const { issuer, subject } = carrier;
  const [all = {}] = await sql`
    SELECT count(*) AS sources, coalesce(sum(bytes), 0) AS bytes FROM policy_flow_sources
    WHERE issuer = ${issuer} AND subject = ${subject}`;
  let sources = integer(all, "sources");
  let bytes = integer(all, "bytes");
  if (sources <= SOURCES_MAX && bytes <= SOURCE_BYTES_MAX) return;
  const oldest = await sql`
    SELECT id, until, bytes, labels FROM policy_flow_sources
    WHERE issuer = ${issuer} AND subject = ${subject}
    ORDER BY at, id LIMIT ${bytes > SOURCE_BYTES_MAX ? sources : sources - SOURCES_MAX}`;
  const surplus = oldest.filter((row) => {
    if (sources <= SOURCES_MAX && bytes <= SOURCE_BYTES_MAX) return false;
    sources -= 1;
    bytes -= integer(row, "bytes");
    return true;
  });
  const labelled = surplus.filter((row) => text(row, "labels") !== "[]");
  const until = Math.max(0, ...labelled.map((row) => integer(row, "until")));
  if (until > now)
    await setMark(sql, { issuer, subject, session: "" }, { mark: "lost", now, until, tool: "", traceId: "" });
  for (const row of surplus)
    await sql`DELETE FROM policy_flow_sources WHERE issuer = ${issuer} AND subject = ${subject} AND id = ${text(row, "id")}`;
}

/** Returns the rows of an answer: one for all of it, and one for each label of what had been stored before. */
function rowsOf(answer: ReadAnswer): readonly ReadAnswer[] {
  const rows = [answer];
  for (const [label, part] of answer.parts ?? []) {
    const labels = label === "named" ? [] : [label];
    const { tool } = labels.map((one) => answer.earned?.get(one))[0] ?? {};
    const of = [answer.of, ...(tool === undefined ? [] : [`stored by ${tool}`])].filter((one) => one !== "").join(", ");
    rows.push({ ...answer, ...part, id: `${answer.id} ${label}`, of, labels });
  }
  return rows.filter(({ prints }) => prints.byteLength > 0);
}

function carriedOf(marks: ReadonlySet<Mark>): CarriedLabels {
  const labels = (["private", "untrusted"] as const).filter((label) => marks.has(label));
  return { labels, isLost: marks.has("lost") };
}

function nameOf({ issuer, subject, session }: Carrier): string {
  return JSON.stringify([issuer, subject, session]);
}

type StoredSource = Source & { readonly prints: Uint8Array };

function storedSource(row: Row): StoredSource {
  const prints = row["prints"];
  if (!(prints instanceof Uint8Array)) throw unreadable("prints");
  return {
    id: text(row, "id"),
    tool: text(row, "tool"),
    traceId: text(row, "trace_id"),
    of: text(row, "reference"),
    labels: json(row, "labels") as unknown as readonly DataLabel[],
    at: integer(row, "at"),
    until: integer(row, "until"),
    fields: json(row, "fields") as unknown as readonly AnswerField[],
    prints,
  };
}
