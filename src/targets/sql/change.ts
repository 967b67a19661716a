import { Refusal } from "../../core/errors.ts";
import type { RunContext } from "../../core/types.ts";
import type { AnsweredRow, Outcome, PreparedStatement, RecordedTransaction, Texts } from "./engine.ts";
import { noSuchRow, SqlFailure } from "./failures.ts";

const CONFLICTS_MAX = 3;
/** Time limit for asking about a lost COMMIT, in milliseconds. */
const RESOLVE_MS_MAX = 5_000;
const RESOLVE_PAUSE_MS = 100;

interface PlannedChange {
  /** Name of the system. */
  readonly system: string;
  readonly statement: PreparedStatement;
  readonly parameters: Texts;
  /** Most rows that may change. */
  readonly changes: number;
  /** Whether a change that matches no row is rolled back. */
  readonly needsRow: boolean;
  /** Returns the result, before COMMIT: the change is rolled back when it throws. @throws {Refusal} */
  readonly result: (rows: readonly AnsweredRow[], changed: number) => unknown;
}

/** Thrown when the tables or functions of a statement have changed since its check. Nothing is changed. */
export class Drifted extends Error {}

/**
 * Changes rows. The id of the transaction is in the journal before COMMIT is sent: the next process asks for the outcome of a change
 * that was interrupted. After a lost answer to COMMIT, the service asks at once.
 *
 * @throws {SqlFailure | Refusal | Drifted} when nothing is changed
 */
export async function runChange(planned: PlannedChange, context: RunContext): Promise<unknown> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await changeOnce(planned, context);
    } catch (error) {
      const mayRepeat = error instanceof SqlFailure && error.isConflict && attempt < CONFLICTS_MAX;
      if (!mayRepeat || context.signal.aborted) throw error;
    }
  }
}

async function changeOnce(planned: PlannedChange, context: RunContext): Promise<unknown> {
  const { statement, system, parameters, changes } = planned;
  let prepared: { readonly result: unknown; readonly recorded: RecordedTransaction } | undefined;
  try {
    // One row more than may change is enough to see that there are too many.
    return await statement.change({ parameters, rows: changes + 1, context }, async (sent) => {
      if (!sent.isCurrent) throw new Drifted();
      const { changed, transaction, server } = sent;
      const recorded = { transaction, ...(server !== undefined && { server }) };
      checkBound(changed, planned);
      const result = planned.result(sent.rows, changed);
      await context.record?.({ system, ...recorded, changed });
      context.begin?.();
      prepared = { result, recorded };
      return result;
    });
  } catch (error) {
    if (!(error instanceof SqlFailure) || prepared === undefined || error.isDefinite) throw error;
    const outcome = await resolved(statement, prepared.recorded);
    if (outcome === "committed") return prepared.result;
    if (outcome === "aborted") throw error;
    throw new Refusal("OUTCOME_UNKNOWN", "It is not known whether the change happened. Check before you call again.", {
      cause: { system, ...prepared.recorded, because: error.message },
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

/** Asks the database for the outcome of a transaction. This has a time limit of its own: the caller's deadline may have passed. */
async function resolved(statement: PreparedStatement, recorded: RecordedTransaction): Promise<Outcome | undefined> {
  const signal = AbortSignal.timeout(RESOLVE_MS_MAX);
  while (!signal.aborted) {
    const outcome = await statement.outcomeOf(recorded, signal).catch(() => "unreachable" as const);
    if (outcome !== "in progress" && outcome !== "unreachable") return outcome;
    await Bun.sleep(RESOLVE_PAUSE_MS);
  }
  return undefined;
}
