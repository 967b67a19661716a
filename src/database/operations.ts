import type { z } from "zod";
import type { EpochMs, Json } from "../core/types.ts";
import type { Sql, TransactionKind } from "./dialect.ts";
import type { SharedState } from "./shared-state.ts";

/** Resolves when the line is durable. */
export type StateJournal = (line: {
  readonly type: string;
  readonly [member: string]: Json | undefined;
}) => Promise<void>;

export interface OperationTransaction {
  readonly sql: Sql;
  /** The database's clock in Unix milliseconds. */
  readonly now: EpochMs;
  /** The journal of the process that has the database. A line is durable before the change that it announces is committed. */
  readonly journal: StateJournal;
}

/**
 * A short transaction on the shared state, by its name: a process without a database asks its hub to run it. Input and output are
 * plain data (JSON, and bytes as `Uint8Array`).
 */
export interface Operation<Input, Output> {
  readonly name: string;
  /** As the methods of `SharedState`. */
  readonly kind: TransactionKind;
  /** Parses what another process sends. */
  readonly input: z.ZodType<Input>;
  run(transaction: OperationTransaction, input: Input): Promise<Output>;
}

/** The output of an operation, and the database's clock when it ran. */
export interface Ran<Output> {
  readonly value: Output;
  readonly now: EpochMs;
}

/** Runs operations on the shared state. */
export interface StateOperations extends Pick<SharedState, "scope" | "watch"> {
  /** Rejects within about a second when the state does not answer; whether a write was made is then unknown. */
  run<Input, Output>(operation: Operation<Input, Output>, input: Input): Promise<Ran<Output>>;
}

/** Runs operations in transactions of this process. */
export function operationsOn(state: SharedState, journal: StateJournal): StateOperations {
  const transactions = { read: state.read, write: state.write, relaxed: state.writeRelaxed } as const;
  return {
    scope: state.scope,
    watch: state.watch,
    run: ({ kind, run }, input) =>
      transactions[kind](async (sql, now) => ({ value: await run({ sql, now, journal }, input), now })),
  };
}
