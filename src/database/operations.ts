import { z } from "zod";
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
  /** The method of `SharedState` that runs it. */
  readonly kind: TransactionKind;
  /** Parses what another process sends. */
  readonly input: z.ZodType<Input>;
  /** Checks an output that another process returns. A newer release may return more. */
  readonly output?: z.ZodType | undefined;
  run(transaction: OperationTransaction, input: Input): Promise<Output>;
}

/** The output of an operation, and the database's clock when it ran. */
export interface Ran<Output> {
  readonly value: Output;
  readonly now: EpochMs;
}

/** The input of operations that need none. */
export const NO_INPUT = z.strictObject({});
export type NoInput = Readonly<z.infer<typeof NO_INPUT>>;

/** Texts of inputs, with bounds that no text of this service reaches. */
export const bounded = {
  /** A claim of a token: an issuer, a subject or a session. */
  claim: z.string().max(8_192),
  /** An id that this service made, or a part of one. */
  id: z.string().max(256),
  /** A name in the configuration or in a manifest: a tool, a system, a quota. */
  name: z.string().max(512),
} as const;

/** Runs operations on the shared state. */
export interface StateOperations extends Pick<SharedState, "scope" | "watch"> {
  /** Whether another process runs them: that process also deletes what has expired. */
  readonly isRemote: boolean;
  /** Rejects within about a second when the state does not answer; whether a write was made is then unknown. */
  run<Input, Output>(operation: Operation<Input, Output>, input: Input): Promise<Ran<Output>>;
  /** Returns the output that the other process sent by itself; undefined when it sends none, or this one may be out of date. */
  pushed<Output>(operation: Operation<NoInput, Output>): Ran<Output> | undefined;
}

/** Runs operations in transactions of this process. */
export function operationsOn(state: SharedState, journal: StateJournal): StateOperations {
  const transactions = { read: state.read, write: state.write, relaxed: state.writeRelaxed } as const;
  return {
    scope: state.scope,
    isRemote: false,
    watch: state.watch,
    pushed: () => undefined,
    run: ({ kind, run }, input) =>
      transactions[kind](async (sql, now) => ({ value: await run({ sql, now, journal }, input), now })),
  };
}
