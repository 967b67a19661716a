import { z } from "zod";
import type { EpochMs } from "../core/types.ts";
import type { Sql } from "../database/dialect.ts";
import { bounded, NO_INPUT, type NoInput, type Operation } from "../database/operations.ts";
import { text } from "../database/rows.ts";
import {
  clearedCount,
  clearRows,
  type FlowCaller,
  type LabelRow,
  labelRows,
  type MarkRow,
  marksOf,
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
  storedPage,
} from "./operation-schemas.ts";
import { BYTES_READ, type KnownOf, readSources, SOURCES_MAX, type StoredSource } from "./source-rows.ts";
import { insertText, lastSeq, nextSeq, readTexts, type StoredPage, type StoredText } from "./stored-rows.ts";

/** A caller whose fingerprints exceed this is loaded again: the database has deleted the oldest ones meanwhile. */
export const CALLER_SOURCES_MAX = SOURCES_MAX * 2;
/** Maximum size of the fingerprints of one text, in bytes: above the limit of the code that makes them. */
export const TEXT_BYTES_MAX = 262_144 * 9;
const SECRET_HEX = /^[0-9a-f]{64}$/;

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

/** State by which a process without a database decides whether it may keep an answer later. */
export interface FlowChanges {
  /** Number of clears of callers. */
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
