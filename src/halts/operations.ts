import { z } from "zod";
import { HALT_KINDS } from "../core/api/halts.ts";
import type { CallerContext } from "../core/types.ts";
import type { Sql } from "../database/dialect.ts";
import { bounded, NO_INPUT, type NoInput, type Operation } from "../database/operations.ts";
import { type CallHalt, type HaltTarget, haltFacts, toHalt } from "./halt.ts";

const HALTS_MAX = 1_000;

/** Returns all halts that are stored, also those that are over. */
export const listHalts: Operation<NoInput, readonly CallHalt[]> = {
  name: "halts.list",
  kind: "read",
  input: NO_INPUT,
  output: z.array(
    z.looseObject({
      id: z.string(),
      target: z.looseObject({
        kind: z.enum(HALT_KINDS),
        issuer: z.string(),
        value: z.string(),
        tenant: z.string().optional(),
      }),
      cancelRunning: z.boolean(),
      until: z.int().optional(),
    }),
  ),
  run: async ({ sql }) => [...(await sql`SELECT * FROM policy_halts ORDER BY set_at, id`)].map(toHalt),
};

export interface HaltToSet {
  readonly id: string;
  readonly target: HaltTarget;
  readonly reason: string;
  readonly cancelRunning: boolean;
  /** Unix milliseconds. */
  readonly until?: number | undefined;
  /** Instead of `until`. */
  readonly forMs?: number | undefined;
  readonly by: Pick<CallerContext, "issuer" | "subject">;
}

/** `too_many`: as many halts as there may be are in force. `past`: `until` has passed by the clock of the state. */
export type SetHalt =
  | { readonly outcome: "set"; readonly halt: CallHalt }
  | { readonly outcome: "too_many" }
  | { readonly outcome: "past" };

const identity = z.strictObject({ issuer: bounded.claim, subject: bounded.claim });

export const setHalt: Operation<HaltToSet, SetHalt> = {
  name: "halts.set",
  kind: "write",
  input: z.strictObject({
    id: bounded.id,
    target: z.strictObject({
      kind: z.enum(HALT_KINDS),
      issuer: bounded.claim,
      value: bounded.claim,
      tenant: bounded.claim.optional(),
    }),
    reason: z.string().max(2_000),
    cancelRunning: z.boolean(),
    until: z.int().optional(),
    forMs: z.int().positive().optional(),
    by: identity,
  }),
  async run({ sql, now, journal }, { id, target, reason, cancelRunning, forMs, by, ...given }) {
    const until = forMs === undefined ? given.until : now + forMs;
    if (until !== undefined && until <= now) return { outcome: "past" };
    const halt: CallHalt = { id, target, reason, cancelRunning, setBy: by, setAt: now, until };
    if (!(await insert(sql, halt, now))) return { outcome: "too_many" };
    await journal({ type: "halt.set", ...haltFacts(halt) });
    return { outcome: "set", halt };
  },
};

/** Returns the lifted halt; null when there is none of this id. */
export const liftHalt: Operation<{ readonly id: string; readonly by: HaltToSet["by"] }, CallHalt | null> = {
  name: "halts.lift",
  kind: "write",
  input: z.strictObject({ id: bounded.id, by: identity }),
  async run({ sql, journal }, { id, by: { issuer, subject } }) {
    const [row] = await sql`DELETE FROM policy_halts WHERE id = ${id} RETURNING *`;
    if (row === undefined) return null;
    const halt = toHalt(row);
    await journal({ type: "halt.lifted", ...haltFacts(halt), liftedBy: { issuer, subject } });
    return halt;
  },
};

/** Deletes what is over. One of the processes does, and journals it. Returns how many halts that were. */
export const sweepHalts: Operation<NoInput, number> = {
  name: "halts.sweep",
  kind: "write",
  input: NO_INPUT,
  async run({ sql, now, journal }) {
    const rows = await sql`DELETE FROM policy_halts WHERE until <= ${now} RETURNING *`;
    for (const row of rows) await journal({ type: "halt.expired", ...haltFacts(toHalt(row)) });
    return rows.length;
  },
};

async function insert(sql: Sql, halt: CallHalt, now: number): Promise<boolean> {
  const { id, target, reason, cancelRunning, setBy, setAt, until } = halt;
  const rows = await sql`
    INSERT INTO policy_halts (id, kind, issuer, value, tenant, reason, cancels_running, set_issuer, set_subject, set_at, until)
    SELECT ${id}, ${target.kind}, ${target.issuer}, ${target.value}, ${target.tenant ?? null}, ${reason}, ${cancelRunning ? 1 : 0}, ${setBy.issuer},
      ${setBy.subject}, ${setAt}, ${until ?? null}
    WHERE (SELECT count(*) FROM policy_halts WHERE until IS NULL OR until > ${now}) < ${HALTS_MAX}
    RETURNING id`;
  return rows.length === 1;
}
