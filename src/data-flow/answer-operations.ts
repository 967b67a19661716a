import { z } from "zod";
import type { EpochMs } from "../core/types.ts";
import { bounded, type Operation, type OperationTransaction } from "../database/operations.ts";
import {
  type Carrier,
  clearedAt,
  type FlowCaller,
  MARKS,
  type Mark,
  type MarkRow,
  marksOf,
  missingMarks,
  setMark,
  type Writing,
} from "./label-rows.ts";
import {
  answerTool,
  bytes,
  CARRIERS_MAX,
  caller,
  carrier,
  labels,
  lastMs,
  markRows,
  newerPage,
} from "./operation-schemas.ts";
import { APPROVER, REQUEST } from "./source-index.ts";
import { enforceLimits, insertSource, type SourceRow } from "./source-rows.ts";
import { readTexts, type StoredPage } from "./stored-rows.ts";

/** Rows of one answer: one for all of it, and one for each label of what had been stored before. */
const ROWS_MAX = 4;
/** Maximum size of the fingerprints of one answer, in bytes: above the limit of the code that makes them. */
export const ANSWER_BYTES_MAX = 131_072 * 9;
const FIELDS_MAX = 256;

/** A label that an answer earns. `stored`: the call that wrote the text by which it is earned. */
export interface EarnedMark {
  readonly mark: Mark;
  readonly stored?: Writing | undefined;
}

/** The stored texts with which an answer was compared: all up to `seq`. `until`: expiry of the first of those that it contains. */
export interface ComparedWith {
  readonly seq: number;
  readonly until?: EpochMs | undefined;
}

export interface KeepAnswer {
  readonly carriers: readonly (Carrier & { readonly checksLimits: boolean })[];
  readonly tool: string;
  readonly traceId: string;
  /** Lifetime of labels and fingerprints, in milliseconds. */
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

/** Does the same as `rememberAnswer` when all labels are stored already. A crash of the machine may lose the fingerprints. */
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

/** Returns a time after the last clearing: an answer of the same millisecond must not be forgotten with earlier ones. */
function timeFor(marks: readonly MarkRow[], now: EpochMs): EpochMs {
  return Math.max(now, clearedAt(marks) + 1);
}

interface VouchOrder extends FlowCaller {
  readonly rememberMs: number;
  readonly source: Omit<SourceRow, "labels">;
}

/** Keeps the values that the user or an approver vouches for, in any session. Returns their expiry. */
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
