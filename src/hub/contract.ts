import type { z } from "zod";
import type { EpochMs } from "../core/types.ts";
import type { BundleFact } from "./bundle-fact.ts";

/** Start of the path of each request; the name of a method, or `EVENTS`, follows. */
export const HUB_PATH = "/hub/v1/";
/** Name of the stream of pushed values. */
export const EVENTS = "events";

/** Headers in which a member describes itself. */
export const MEMBER_HEADERS = {
  instance: "stc-instance",
  version: "stc-version",
  policyVersion: "stc-policy-version",
  bundle: "stc-bundle",
  tenant: "stc-tenant",
} as const;

/** Characters of an instance or a version in these headers. */
export const HEADER_VALUE = /^[\x21-\x7e]{1,128}$/;

/** A member's own description of itself. Nobody verifies it. */
export interface MemberFacts {
  readonly version?: string | undefined;
  /** Digest of the configuration in use. */
  readonly policyVersion?: string | undefined;
  readonly bundle?: BundleFact | undefined;
}

/** A service that reaches the shared state through the hub. */
export interface HubMember {
  /** Name in its certificate or workload token. Replicas of one service share it. */
  readonly name: string;
  /** The tenant whose requests it sends; undefined for a member of the service itself. */
  readonly tenant?: string | undefined;
  /** Id of the log that this process writes. */
  readonly instance: string;
  /** Whether the member may name callers whose tokens this issuer issues. */
  speaksFor(issuer: string): boolean;
}

export interface HubRequest {
  readonly member: HubMember;
  /** Stays the same when the member repeats a request whose answer it did not get. */
  readonly id: string;
  /** Digest of the method and the input. Another digest with the same id is another request. */
  readonly digest: string;
  /** Fires when the member has left. */
  readonly signal: AbortSignal;
}

/** A request that a hub answers: its name, the schema of its input, and its work. */
export interface HubMethod<Input = unknown> {
  readonly name: string;
  readonly input: z.ZodType<Input>;
  /** Whether the answer waits for an event. Such requests have a limit of their own. */
  readonly waits?: boolean;
  /** Whether commands send it, too. Its senders are not listed as members. */
  readonly isProbe?: boolean;
  handle(input: Input, request: HubRequest): Promise<HubAnswer>;
}

export interface HubAnswer {
  readonly value: unknown;
  /** The database's clock, in Unix milliseconds. */
  readonly now: EpochMs;
}

/** A value that the hub sends by itself: the output of an operation. */
export interface Pushed {
  readonly value: unknown;
  /** Estimate of the database's clock now. */
  readonly now: EpochMs;
}

/** The member's end. */
export interface HubClient {
  /**
   * Sends a request, and sends it again with the same id when its answer is lost, until the time limit. The hub changes nothing twice.
   * Rejects with `HubUnavailable` when there is no answer, with `HubRefusal` when the hub refuses it.
   */
  call(method: string, input: unknown, options?: HubCallOptions): Promise<HubAnswer>;
  /** Whether the last message of the hub is at most two seconds old. */
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
   * With it, a request that gets no answer until the time limit is repeated for some minutes more, unless the hub has certainly not
   * carried it out. Called once, with the answer when one comes, or with undefined when none will come: the caller has got an error
   * by then.
   */
  readonly late?: (answer: HubAnswer | undefined) => void;
  /** Whether the request is repeated for these minutes even when the hub has certainly not received it. */
  readonly isReport?: boolean;
  /**
   * Whether the request continues an earlier one with the same input that is still repeated: it gets the answer to the earlier one,
   * whose `late` is then not called. Only for requests whose answer stays true until `late` has acted on it.
   */
  readonly resumes?: boolean;
}

/** A value that the hub sends to its members whenever it changes. */
export interface PushSource {
  /** Name of the operation that the value is the output of. */
  readonly name: string;
  current(): Promise<HubAnswer>;
  /** Calls `changed` when the value may have changed, until the returned function is called. */
  watch(changed: () => void): () => void;
}
