import { errorText } from "../core/error-text.ts";
import { isTable } from "../core/json.ts";
import { resultWithin } from "../core/time-limits.ts";
import type { SharedCharge } from "../pipeline/limits/rates-shared.ts";
import type { Reloaded, ReloadRequester } from "../runtime/reload/types.ts";
import type { MetricValues } from "./metrics.ts";

/** Questions and answers between the parent and a worker, over the channel that the runtime opens when it starts a process. */

/** What a worker answers. */
export type WorkerCalls = {
  readonly metrics: () => Promise<MetricValues>;
  readonly reload: (by: ReloadRequester) => Promise<Reloaded | undefined>;
  /** Ends the delay of a worker that is shutting down. */
  readonly drain: () => Promise<void>;
};

/** The state of a worker, which it reports again and again: a worker that stops reporting hangs. */
export interface WorkerReport {
  /** Why it accepts no calls; empty when it does. */
  readonly reasons: readonly string[];
  /** Digest of its configuration; undefined when it cannot reload. */
  readonly sha256: string | undefined;
  /** Names of its log in the checkpoints, one for each stream that has lines. */
  readonly origins: readonly string[];
}

/** What the parent answers. */
export type ParentCalls = {
  /** The worker listens. */
  readonly listening: (url: string) => Promise<void>;
  readonly report: (report: WorkerReport) => Promise<void>;
  /** The values at the worker's end. */
  readonly lastMetrics: (values: MetricValues) => Promise<void>;
  /** Returns the metrics of all processes as Prometheus reads them. */
  readonly metrics: () => Promise<string>;
  readonly reload: (by: ReloadRequester) => Promise<Reloaded>;
  readonly charge: (charges: readonly SharedCharge[]) => Promise<readonly number[]>;
};

type Calls = Readonly<Record<string, (argument: never) => Promise<unknown>>>;
type ArgumentsOf<Call> = Call extends (...words: infer Words) => unknown ? Words : never;
type AnswerOf<Call> = Call extends (...words: never[]) => Promise<infer Answer> ? Answer : never;

interface ChannelOptions<Ours> {
  readonly send: (message: unknown) => void;
  readonly calls: Ours;
}

/** One end of a channel. Messages come from this program's own processes, which share its user. */
export class ProcessChannel<Theirs extends Calls, Ours extends Calls> {
  readonly #options: ChannelOptions<Ours>;
  readonly #asked = new Map<number, PromiseWithResolvers<unknown>>();
  #last = 0;
  #isClosed = false;

  constructor(options: ChannelOptions<Ours>) {
    this.#options = options;
  }

  /** Rejects when the other end fails, does not answer within `withinMs`, or ends. */
  async ask<Name extends keyof Theirs & string>(
    name: Name,
    withinMs: number,
    ...[argument]: ArgumentsOf<Theirs[Name]>
  ): Promise<AnswerOf<Theirs[Name]>> {
    if (this.#isClosed) throw ended();
    this.#last += 1;
    const number = this.#last;
    const asked = Promise.withResolvers<unknown>();
    this.#asked.set(number, asked);
    try {
      this.#options.send({ ask: number, name, argument });
      const timeout = (): Error => new Error(`no answer to ${name} in ${withinMs} ms`);
      return (await resultWithin(asked.promise, withinMs, timeout)) as AnswerOf<Theirs[Name]>;
    } finally {
      this.#asked.delete(number);
    }
  }

  receive(message: unknown): void {
    if (!isTable(message)) return;
    const { ask, answer, name, argument, value, error } = message;
    if (typeof answer === "number") {
      const asked = this.#asked.get(answer);
      if (typeof error === "string") asked?.reject(new Error(error));
      else asked?.resolve(value);
    } else if (typeof ask === "number" && typeof name === "string") void this.#answer(ask, name, argument);
  }

  close(): void {
    this.#isClosed = true;
    for (const { reject } of this.#asked.values()) reject(ended());
  }

  async #answer(answer: number, name: string, argument: unknown): Promise<void> {
    const { calls, send } = this.#options;
    const call = Object.hasOwn(calls, name) ? calls[name] : undefined;
    let reply: object;
    try {
      if (call === undefined) throw new Error(`there is no ${name}`);
      reply = { answer, value: await call(argument as never) };
    } catch (error) {
      reply = { answer, error: errorText(error) };
    }
    try {
      if (!this.#isClosed) send(reply);
    } catch {
      // The other process has just ended.
    }
  }
}

function ended(): Error {
  return new Error("the process at the other end has ended");
}
