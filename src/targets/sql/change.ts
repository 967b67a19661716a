import { Refusal } from "../../core/errors.ts";
import type { RunContext } from "../../core/types.ts";
import { settingsOf } from "./caller.ts";
import type { SentRow } from "./database.ts";
import { setLimits } from "./description.ts";
import { failureOf, isConflict, isDefinite, noSuchRow, SqlFailure } from "./failures.ts";
import type { DatabaseUser, SqlSystem } from "./system.ts";

const CONFLICTS_MAX = 3;
/** Time limit for asking about a lost COMMIT, in milliseconds. */
const RESOLVE_MS_MAX = 5_000;
const RESOLVE_PAUSE_MS = 100;

interface PlannedChange {
  readonly system: SqlSystem;
  readonly user: DatabaseUser;
  readonly query: string;
  readonly parameters: readonly (string | null)[];
  /** Digest with which the statement was checked. */
  readonly digest: string;
  /** Most rows that may change. */
  readonly changes: number;
  /** Whether a change without a row is taken back. */
  readonly needsRow: boolean;
  /** Reads the rows, before COMMIT: an answer that cannot be given takes the change back. @throws {Refusal} */
  readonly result: (rows: readonly SentRow[]) => unknown;
}

/** The tables or functions of a statement are not those that it was checked with; nothing is changed. */
export class Drifted extends Error {}

/**
 * Changes rows. The id of the transaction is in the journal before COMMIT is sent: whoever finds an unfinished change asks the server
 * for `pg_xact_status`. A lost answer to COMMIT is resolved that way at once.
 *
 * @throws {SqlFailure | Refusal | Drifted} when nothing is changed
 */
export async function runChange(planned: PlannedChange, context: RunContext): Promise<unknown> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await changeOnce(planned, context);
    } catch (error) {
      const mayRepeat = error instanceof SqlFailure && isConflict(error) && attempt < CONFLICTS_MAX;
      if (!mayRepeat || context.signal.aborted) throw error;
    }
  }
}

async function changeOnce(planned: PlannedChange, context: RunContext): Promise<unknown> {
  const { user, system, query, parameters } = planned;
  const settings = settingsOf(system.caller, context.caller);
  let prepared: { readonly result: unknown; readonly transaction: string } | undefined;
  try {
    return await user.database.change(context.signal, async (transaction) => {
      await setLimits(transaction, system.limits, settings);
      const rows = await transaction.query(query, parameters);
      const [digest, id, changed] = rows[0] ?? [];
      if (digest !== planned.digest) throw new Drifted();
      checkBound(Number(changed), planned);
      const result = planned.result(rows);
      await context.record?.({ system: system.name, transaction: String(id), changed: Number(changed) });
      context.begin?.();
      prepared = { result, transaction: String(id) };
      return result;
    });
  } catch (error) {
    if (error instanceof Refusal || error instanceof Drifted) throw error;
    const failed = failureOf(error);
    if (prepared === undefined || isDefinite(failed)) throw failed;
    const status = await resolved(user, prepared.transaction);
    if (status === "committed") return prepared.result;
    if (status === "aborted") throw failed;
    throw new Refusal("OUTCOME_UNKNOWN", "It is not known whether the change happened. Check before you call again.", {
      cause: { system: system.name, transaction: prepared.transaction, because: failed.message },
    });
  }
}

function checkBound(changed: number, { changes, needsRow }: PlannedChange): void {
  if (changed > changes) throw tooManyRows(changed, changes);
  if (changed === 0 && needsRow) throw noSuchRow();
}

/** Returns the refusal of a change that is larger than its bound. */
export function tooManyRows(changed: number, most: number): Refusal {
  const message = `The statement would change ${changed} rows, and at most ${most} are allowed. Nothing was changed.`;
  return new Refusal("TARGET_REFUSED", message, { details: { status: "FAILED_PRECONDITION" } });
}

/** Asks the server what became of a transaction. The caller's time may be over: this has a time of its own. */
async function resolved(user: DatabaseUser, transaction: string): Promise<string | undefined> {
  const signal = AbortSignal.timeout(RESOLVE_MS_MAX);
  while (!signal.aborted) {
    const status = await user.database.statusOf(transaction, signal).catch(() => "unreachable");
    if (status !== "in progress" && status !== "unreachable") return status;
    await Bun.sleep(RESOLVE_PAUSE_MS);
  }
  return undefined;
}
