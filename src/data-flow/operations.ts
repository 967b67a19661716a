import { z } from "zod";
import type { EpochMs } from "../core/types.ts";
import type { Sql } from "../database/dialect.ts";
import { bounded, NO_INPUT, type NoInput, type Operation, type OperationTransaction } from "../database/operations.ts";
import { text } from "../database/rows.ts";
import {
  type Carrier,
  clearedAt,
  clearedCount,
  clearRows,
  type FlowCaller,
  type LabelRow,
  labelRows,
  MARKS,
  type Mark,
  type MarkRow,
  marksOf,
  missingMarks,
  setMark,
  type Writing,
} from "./label-rows.ts";
import { APPROVER, REQUEST } from "./source-index.ts";
import {
  BYTES_READ,
  enforceLimits,
  insertSource,
  type KnownOf,
  readSources,
  SOURCES_MAX,
  type SourceRow,
  type StoredSource,
} from "./source-rows.ts";
import { insertText, lastSeq, nextSeq, readTexts, type StoredPage, type StoredText } from "./stored-rows.ts";

/** A caller whose fingerprints exceed this is loaded again: the database has deleted the oldest ones meanwhile. */
export const CALLER_SOURCES_MAX = SOURCES_MAX * 2;
/** A caller and those who act for it. */
const CARRIERS_MAX = 16;
/** Rows of one answer: one for all of it, and one for each label of what had been stored before. */
const ROWS_MAX = 4;
/** Most bytes of the fingerprints of one answer, and of one text: both are limited where they are made. */
export const ANSWER_BYTES_MAX = 131_072 * 9;
export const TEXT_BYTES_MAX = 262_144 * 9;
const FIELDS_MAX = 256;
/** Ten years. */
const LASTING_MS_MAX = 315_576_000_000;
const SECRET_HEX = /^[0-9a-f]{64}$/;

const caller = { issuer: bounded.claim, subject: bounded.claim };
const carrier = { ...caller, session: bounded.claim };
const labels = z.array(z.enum(["private", "untrusted"])).max(2);
const bytes = (max: number) => z.instanceof(Uint8Array).refine(({ byteLength }) => byteLength <= max, "is too long");
const lastMs = z.int().positive().max(LASTING_MS_MAX);

const markRows = z.array(z.looseObject({ session: z.string(), mark: z.string(), since: z.int(), until: z.int() }));
const storedPage = z.looseObject({
  texts: z.array(
    z.looseObject({
      seq: z.int(),
      until: z.int(),
      tool: z.string(),
      traceId: z.string(),
      system: z.string(),
      labels: z.array(z.string()),
      prints: z.instanceof(Uint8Array),
    }),
  ),
  isMore: z.boolean(),
});
const newerPage = storedPage.extend({ outcome: z.literal("newer") });

/** Returns the secret of the deployment's fingerprints: the proposed one when there is none yet. */
export const flowSecret: Operation<{ readonly proposed: string }, Uint8Array> = {
  name: "flow.secret",
  kind: "write",
  input: z.strictObject({ proposed: z.string().regex(SECRET_HEX) }),
  output: z.instanceof(Uint8Array),
  async run({ sql }, { proposed }) {
    await sql`INSERT INTO policy_flow_secret (id, secret) VALUES (1, ${proposed}) ON CONFLICT (id) DO NOTHING`;
    const [row = {}] = await sql`SELECT secret FROM policy_flow_secret WHERE id = 1`;
    return new Uint8Array(Buffer.from(text(row, "secret"), "hex"));
  },
};

/** The rows of one carrier. */
interface ReadCarrier {
  readonly marks: readonly MarkRow[];
  /** Answers that the process did not know. */
  readonly sources: readonly StoredSource[];
}

interface ReadCarriers {
  readonly carriers: readonly ReadCarrier[];
  /** Whether there are more answers: the same question, with these as known, reads them. */
  readonly isMore: boolean;
}

/** Reads what carriers have read until now, and the process does not know yet. */
export const readCarriers: Operation<{ readonly carriers: readonly KnownOf[] }, ReadCarriers> = {
  name: "flow.judge",
  kind: "read",
  input: z.strictObject({
    carriers: z
      .array(
        z.strictObject({
          ...carrier,
          since: z.int().nonnegative(),
          known: z.array(bounded.id).max(CALLER_SOURCES_MAX).readonly(),
        }),
      )
      .max(CARRIERS_MAX)
      .readonly(),
  }),
  output: z.looseObject({
    carriers: z.array(
      z.looseObject({
        marks: markRows,
        sources: z.array(z.looseObject({ id: z.string(), at: z.int(), until: z.int() })),
      }),
    ),
    isMore: z.boolean(),
  }),
  async run({ sql, now }, { carriers: asked }) {
    const carriers: ReadCarrier[] = [];
    let isMore = false;
    let bytesMax = BYTES_READ;
    for (const one of asked) {
      const marks = await marksOf(sql, one);
      const read = await readSources(sql, one, { now, bytesMax });
      bytesMax -= read.bytes;
      isMore ||= read.isMore;
      carriers.push({ marks, sources: read.sources });
    }
    return { carriers, isMore };
  },
};

/** A label that an answer earns; `stored`: by a text that a caller had stored. */
export interface EarnedMark {
  readonly mark: Mark;
  readonly stored?: Writing | undefined;
}

/** With which stored texts an answer was compared: all up to `seq`. `until`: when one that it has expires. */
export interface ComparedWith {
  readonly seq: number;
  readonly until?: EpochMs | undefined;
}

export interface KeepAnswer {
  readonly carriers: readonly (Carrier & { readonly checksLimits: boolean })[];
  readonly tool: string;
  readonly traceId: string;
  /** How long labels and fingerprints last. */
  readonly rememberMs: number;
  readonly marks: readonly EarnedMark[];
  readonly rows: readonly Omit<SourceRow, "tool" | "traceId">[];
  /** Undefined for an answer that is not compared. */
  readonly compared?: ComparedWith | undefined;
}

/**
 * `newer`: texts were stored or have expired since the answer was compared. `unwritten`: a label is missing that only a durable
 * transaction may write. Nothing was written then. `marks`: of each carrier, before.
 */
export type KeptAnswer =
  | ({ readonly outcome: "newer" } & StoredPage)
  | { readonly outcome: "unwritten" }
  | {
      readonly outcome: "kept";
      readonly at: EpochMs;
      readonly until: EpochMs;
      readonly marks: readonly (readonly MarkRow[])[];
    };

const field = {
  path: z.string().max(512),
  place: z.string().max(1_024).optional(),
  isTrusted: z.boolean(),
  isStored: z.literal(true).optional(),
  isNamed: z.literal(true).optional(),
};
const writing = z.strictObject({ tool: bounded.name, traceId: bounded.id });
// What vouches for values is not an answer.
const answerTool = bounded.name.refine((tool) => tool !== REQUEST && tool !== APPROVER, "is no tool");

const answerOrder = z.strictObject({
  carriers: z
    .array(z.strictObject({ ...carrier, checksLimits: z.boolean() }))
    .max(CARRIERS_MAX)
    .readonly(),
  tool: answerTool,
  traceId: bounded.id,
  rememberMs: lastMs,
  marks: z
    .array(z.strictObject({ mark: z.enum(MARKS), stored: writing.optional() }))
    .max(MARKS.length)
    .readonly(),
  rows: z
    .array(
      z.strictObject({
        id: bounded.id,
        of: z.string().max(2_048),
        labels,
        fields: z.array(z.strictObject(field)).max(FIELDS_MAX),
        prints: bytes(ANSWER_BYTES_MAX),
      }),
    )
    .max(ROWS_MAX)
    .readonly(),
  compared: z.strictObject({ seq: z.int().nonnegative(), until: z.int().optional() }).optional(),
});

const keptAnswer = z.discriminatedUnion("outcome", [
  newerPage,
  z.looseObject({ outcome: z.literal("unwritten") }),
  z.looseObject({ outcome: z.literal("kept"), at: z.int(), until: z.int(), marks: z.array(markRows) }),
]);

/** Keeps an answer's labels and fingerprints for each carrier; all of it is on disk then. Repeated, it changes nothing. */
export const rememberAnswer: Operation<KeepAnswer, KeptAnswer> = {
  name: "flow.remember",
  kind: "write",
  input: answerOrder,
  output: keptAnswer,
  run: (transaction, order) => keepAnswer(transaction, order, { mayEarn: true }),
};

/** As `rememberAnswer`, when all labels are there already: a crash of the machine may lose the fingerprints. */
export const addAnswer: Operation<KeepAnswer, KeptAnswer> = {
  name: "flow.add",
  kind: "relaxed",
  input: answerOrder,
  output: keptAnswer,
  run: (transaction, order) => keepAnswer(transaction, order, { mayEarn: false }),
};

async function keepAnswer(
  { sql, now }: OperationTransaction,
  { carriers, tool, traceId, rememberMs, marks: earned, rows, compared }: KeepAnswer,
  { mayEarn }: { readonly mayEarn: boolean },
): Promise<KeptAnswer> {
  if (compared !== undefined) {
    const newer = await readTexts(sql, compared.seq);
    const hasExpired = compared.until !== undefined && compared.until <= now;
    if (newer.texts.length > 0 || hasExpired) return { outcome: "newer", ...newer };
  }
  const marks: (readonly MarkRow[])[] = [];
  for (const one of carriers) marks.push(await marksOf(sql, one));
  const until = now + rememberMs;
  const missing = carriers.map((one, index) =>
    missingMarks(earned, marks[index] ?? [], { session: one.session, now, lastMs: rememberMs }),
  );
  if (!mayEarn && missing.some((some) => some.length > 0)) return { outcome: "unwritten" };
  for (const [index, one] of carriers.entries()) {
    for (const { mark, stored } of missing[index] ?? [])
      await setMark(sql, one, { mark, now, until, tool, traceId, stored });
  }
  const at = timeFor(marks.flat(), now);
  for (const row of rows) {
    for (const one of carriers) await insertSource(sql, one, { ...row, tool, traceId, at, until });
  }
  for (const one of carriers) if (one.checksLimits) await enforceLimits(sql, one, now);
  return { outcome: "kept", at, until, marks };
}

/** What is read in the millisecond in which a caller was cleared is not forgotten with what came before. */
function timeFor(marks: readonly MarkRow[], now: EpochMs): EpochMs {
  return Math.max(now, clearedAt(marks) + 1);
}

interface VouchOrder extends FlowCaller {
  readonly rememberMs: number;
  readonly source: Omit<SourceRow, "labels">;
}

/** Keeps what the user or an approver says, for any session. Returns until when. */
export const keepVouched: Operation<VouchOrder, EpochMs> = {
  name: "flow.vouch",
  kind: "write",
  input: z.strictObject({
    ...caller,
    rememberMs: lastMs,
    source: z.strictObject({
      id: bounded.id,
      tool: z.enum([REQUEST, APPROVER]),
      traceId: bounded.id,
      of: z.string().max(2_048),
      fields: z
        .array(
          z.strictObject({
            ...field,
            vouched: z.strictObject({ caller: z.string().max(128), value: z.string().max(128) }).optional(),
          }),
        )
        .max(FIELDS_MAX),
      prints: bytes(ANSWER_BYTES_MAX),
    }),
  }),
  async run({ sql, now }, { issuer, subject, rememberMs, source }) {
    const carrier = { issuer, subject, session: "" };
    const until = now + rememberMs;
    const at = timeFor(await marksOf(sql, carrier), now);
    await insertSource(sql, carrier, { ...source, labels: [], at, until });
    await enforceLimits(sql, carrier, now);
    return until;
  },
};

/** Reads the texts that were stored after `after`. */
export const readStored: Operation<{ readonly after: number }, StoredPage> = {
  name: "flow.texts",
  kind: "read",
  input: z.strictObject({ after: z.int().nonnegative() }),
  output: storedPage,
  run: ({ sql }, { after }) => readTexts(sql, after),
};

export interface TextOrder {
  readonly text: Omit<StoredText, "seq" | "until">;
  readonly storedMs: number;
  /** The text was compared with all stored texts up to this one. */
  readonly seq: number;
}

/** `newer`: texts were stored since the text was compared, and nothing was written. */
export type KeptText =
  | ({ readonly outcome: "newer" } & StoredPage)
  | { readonly outcome: "stored"; readonly seq: number; readonly until: EpochMs };

/** Keeps a text that a call is about to write. Repeated, it answers the text itself as a newer one. */
export const storeText: Operation<TextOrder, KeptText> = {
  name: "flow.store",
  kind: "write",
  input: z.strictObject({
    text: z.strictObject({
      ...caller,
      tool: answerTool,
      traceId: bounded.id,
      system: bounded.name,
      labels,
      prints: bytes(TEXT_BYTES_MAX),
    }),
    storedMs: lastMs,
    seq: z.int().nonnegative(),
  }),
  output: z.discriminatedUnion("outcome", [
    newerPage,
    z.looseObject({ outcome: z.literal("stored"), seq: z.int(), until: z.int() }),
  ]),
  async run({ sql, now }, { text: stored, storedMs, seq: compared }) {
    const seq = await nextSeq(sql);
    const newer = await readTexts(sql, compared);
    if (newer.texts.length > 0) return { outcome: "newer", ...newer };
    const until = now + storedMs;
    await insertText(sql, { ...stored, seq, until });
    return { outcome: "stored", seq, until };
  },
};

/** What a process without a database must know to keep an answer later. */
export interface FlowChanges {
  /** How many times callers were cleared. */
  readonly cleared: number;
  /** Number of the last stored text that has not expired; 0: there is none. */
  readonly stored: number;
}

export const flowChanges: Operation<NoInput, FlowChanges> = {
  name: "flow.changes",
  kind: "read",
  input: NO_INPUT,
  output: z.looseObject({ cleared: z.int(), stored: z.int() }),
  run: async ({ sql, now }) => ({ cleared: await clearedCount(sql), stored: await lastSeq(sql, now) }),
};

export const listLabels: Operation<FlowCaller, readonly LabelRow[]> = {
  name: "flow.labels",
  kind: "read",
  input: z.strictObject(caller),
  run: ({ sql, now }, of) => labelRows(sql, of, now),
};

/** Removes all labels and fingerprints of a caller. Processes that know the fingerprints forget them at their next judgment. */
export const clearCaller: Operation<FlowCaller, null> = {
  name: "flow.clear",
  kind: "write",
  input: z.strictObject(caller),
  async run({ sql, now }, of) {
    await clearRows(sql, of, now);
    return null;
  },
};

/** Deletes what has expired. */
export const sweepFlow: Operation<NoInput, null> = {
  name: "flow.sweep",
  kind: "relaxed",
  input: NO_INPUT,
  run: async ({ sql, now }) => sweepRows(sql, now),
};

async function sweepRows(sql: Sql, now: EpochMs): Promise<null> {
  await sql`DELETE FROM policy_flow_labels WHERE until <= ${now}`;
  await sql`DELETE FROM policy_flow_sources WHERE until <= ${now}`;
  await sql`DELETE FROM policy_flow_stored WHERE until <= ${now}`;
  return null;
}
