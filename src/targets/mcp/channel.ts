import type { Refusal } from "../../core/errors.ts";
import { unlessAborted } from "../../core/time-limits.ts";
import type { RunContext } from "../../core/types.ts";
import type { CredentialOwner } from "../../egress/credentials.ts";

/** The call that a message belongs to. It is not sent, except in the caller assertion. `begin` is called before the message is. */
export interface AssertedCall extends Pick<RunContext, "caller" | "traceId" | "begin"> {
  /** Name of our own tool. */
  readonly tool: string;
}

/** One connection to an MCP server, whatever carries it. Messages from the server are untrusted. */
export interface McpChannel {
  /** Resolves when the server may be written to. Rejects when it cannot be reached. */
  readonly ready: Promise<void>;
  /** Resolves with the reason when the connection has ended. */
  readonly ended: Promise<string>;
  /** True while the server keeps a session for this connection, which it may forget without closing the connection. */
  readonly hasSession?: boolean;
  /**
   * Sends one message. Resolves when the server has taken it, or earlier: then `MessageReceiver.lost` reports a failure.
   *
   * @param call the call of a `tools/call`
   * @throws {UpstreamError} `notSent` when no byte of it was sent
   */
  send(message: OutgoingMessage, call?: AssertedCall): Promise<void>;
  /** Called when a request no longer waits: what else the server sends in its answer is not needed. */
  settled?(id: number, isAnswered: boolean): void;
  /** Called with the version of the protocol that the server chose. */
  negotiated?(version: string): void;
  /** Ends the connection and everything that belongs to it; at once when the server misbehaves. */
  close(isAtOnce?: boolean): Promise<void>;
}

export interface OutgoingMessage {
  readonly method?: string;
  readonly id?: number | string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** Receives what a channel reads. */
export interface MessageReceiver {
  /**
   * Receives one value of JSON, in which each part that two readers may read differently is an `AmbiguousValue`. Returns false when
   * it is not a message.
   *
   * @param bytes size of the message
   */
  message(value: unknown, bytes: number): boolean;
  /** Returns whether a request still waits for its answer. */
  isWaiting(id: number): boolean;
  /** Receives the reason why the answer to one request does not come. */
  lost(id: number, error: UpstreamError): void;
  /** Called when a message over the limit arrived, before the channel ends. */
  tooLarge(): void;
  /** Receives what the operators' log should contain. */
  log(what: string, text: string): void;
}

/** Opens a connection. `owner`: the caller whose own credentials it uses; undefined for those of the service. */
export type OpenMcpChannel = (receiver: MessageReceiver, owner?: CredentialOwner) => McpChannel;

/** The reason why a request to an upstream server has no usable result. */
export type UpstreamFailure =
  /** Nothing was sent. */
  | "notSent"
  /** The server says that it ended the session before the request. */
  | "expired"
  /** The request was sent, and no answer came. */
  | "lost"
  /** An answer came that does not follow the protocol. */
  | "invalid"
  | "tooLarge"
  /** The server answered with an error of the protocol. */
  | "error";

export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  readonly failure: UpstreamFailure;
  /** Code of the server's error. */
  readonly code: number | undefined;
  /** The server's own text, untrusted. */
  readonly text: string;
  /** The reason why the request has no credentials. */
  readonly refusal: Refusal | undefined;
  /** Time that the server asks to wait. */
  readonly retryAfterMs: number | undefined;

  constructor(failure: UpstreamFailure, reason: string, facts: UpstreamFacts = {}) {
    super(reason);
    this.failure = failure;
    this.code = facts.code;
    this.text = facts.text ?? "";
    this.refusal = facts.refusal;
    this.retryAfterMs = facts.retryAfterMs;
  }

  /** Whether the server, or the authorization server, works and has refused the credentials. */
  get isRefused(): boolean {
    return this.refusal?.code === "TARGET_FAILED" || REFUSED.has(this.code ?? 0);
  }
}

export type UpstreamFacts = Partial<Pick<UpstreamError, "code" | "text" | "refusal" | "retryAfterMs">>;

/** HTTP statuses with which a server refuses credentials. */
const REFUSED: ReadonlySet<number> = new Set([401, 403]);

/** Settles like `work`, but rejects when the signal fires first: nothing of a call was sent then. */
export function unlessCallEnded<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return unlessAborted(work, signal, () => new UpstreamError("notSent", "the call ended before the server was ready"));
}
