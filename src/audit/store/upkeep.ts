import type { EpochMs } from "../../core/types.ts";

const EVERY_MS = 3_600_000;
/** Pause after a failure: an attempt may wait for locks, and lets readers wait. */
const RETRY_MS = 60_000;

/** The state of a receiver's work on what it has stored, such as deleting old days. */
export interface UpkeepState {
  /** Attempts since the start that failed. */
  readonly failures: number;
  /** Why the last attempt failed; undefined after one that did not. */
  readonly problem: string | undefined;
}

/** Runs the work on a store that no line waits for: hourly, and a minute after a failure. */
export class Upkeep {
  readonly #reasonOf: (error: unknown) => string;
  #dueMs: EpochMs = Number.NEGATIVE_INFINITY;
  #state: UpkeepState = { failures: 0, problem: undefined };

  constructor(reasonOf: (error: unknown) => string) {
    this.#reasonOf = reasonOf;
  }

  get state(): UpkeepState {
    return this.#state;
  }

  /** Runs the steps when they are due. Never rejects. */
  async run(nowMs: EpochMs, steps: readonly Step[]): Promise<void> {
    if (nowMs < this.#dueMs) return;
    this.#dueMs = nowMs + RETRY_MS;
    try {
      await runAll(steps);
      this.#dueMs = nowMs + EVERY_MS;
      this.#state = { ...this.#state, problem: undefined };
    } catch (error) {
      this.#state = { failures: this.#state.failures + 1, problem: this.#reasonOf(error) };
    }
  }
}

type Step = () => Promise<unknown>;

/** Runs each step, whatever becomes of the others. @throws the first error */
export async function runAll(steps: readonly Step[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps) await step().catch((error: unknown) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}
