import type { z } from "zod";
import type { EpochMs } from "../core/types.ts";

/** A service that reaches the shared state through the hub. */
export interface HubMember {
  /** Name in its certificate or workload token. Replicas of one service share it. */
  readonly name: string;
  /** Id of the log that this process writes. */
  readonly instance: string;
  /** Whether the member may name callers whose tokens this issuer issues. */
  speaksFor(issuer: string): boolean;
}

export interface HubRequest {
  readonly member: HubMember;
  /** Stays the same when the member repeats a request whose answer it did not get. */
  readonly id: string;
  /** Of the method and the input. Another digest with the same id is another request. */
  readonly digest: string;
  /** Fires when the member has left. */
  readonly signal: AbortSignal;
}

/** What members may ask a hub for. */
export interface HubMethod<Input = unknown> {
  readonly name: string;
  readonly input: z.ZodType<Input>;
  /** Whether the answer waits for something to happen: such requests do not count as those that work. */
  readonly waits?: boolean;
  /** Whether whoever asks may be no running member: it is not listed then. */
  readonly isProbe?: boolean;
  handle(input: Input, request: HubRequest): Promise<HubAnswer>;
}

export interface HubAnswer {
  readonly value: unknown;
  /** The database's clock, in Unix milliseconds. */
  readonly now: EpochMs;
}

/** Values that the hub sends by itself, by the name of the operation that they are the output of. */
export interface Pushed {
  readonly value: unknown;
  /** The database's clock now, as far as it is known. */
  readonly now: EpochMs;
}

/** The member's end. */
export interface HubClient {
  /**
   * Sends a request, and sends it again with the same id when its answer is lost, until the time limit. The hub changes nothing twice.
   * Rejects with `HubUnavailable` when there is no answer, with `HubRefusal` when the hub refuses it.
   */
  call(method: string, input: unknown, options?: HubCallOptions): Promise<HubAnswer>;
  /** Whether the hub was heard of within the last two seconds. */
  readonly isConnected: boolean;
  /** Returns what the hub pushed last; undefined when that may be out of date. */
  pushed(name: string): Pushed | undefined;
  /** Calls `changed` when something was pushed, and about twice a second while the hub is away, until the returned function is called. */
  watch(changed: () => void): () => void;
  close(): Promise<void>;
}

export interface HubCallOptions {
  /** Limit for all attempts, in milliseconds. */
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  /**
   * With it, a request that gets no answer until the time limit is repeated for some minutes more. Called with the answer, if one
   * comes: the caller has been told that there is none.
   */
  readonly late?: (answer: HubAnswer) => void;
}

/** A value that the hub sends to its members whenever it changes. */
export interface PushSource {
  /** Name of the operation that the value is the output of. */
  readonly name: string;
  current(): Promise<HubAnswer>;
  /** Calls `changed` when the value may have changed, until the returned function is called. */
  watch(changed: () => void): () => void;
}
