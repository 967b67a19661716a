import type { IncomingHttpHeaders } from "node:http";
import { errorName } from "../core/error-text.ts";

export interface EgressRequest {
  readonly method: string;
  readonly url: URL;
  /** Lower-case names. `host`, `content-length` and `connection` are set by the client. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | undefined;
  /** Ends the whole exchange. */
  readonly signal?: AbortSignal | undefined;
  /** Time limit for the whole exchange: lookup, connection, answer and body. */
  readonly timeoutMs?: number | undefined;
  /** Maximum size of the answer's body, as received and decompressed. */
  readonly bodyBytesMax: number;
  /** Called before the request is written to its connection. When it throws, nothing is sent. */
  readonly onSend?: (() => void) | undefined;
  /**
   * True when it is harmless if the server never sees the request because it is just closing the connection. Other requests
   * use a new connection, or one that was in use within the last second.
   */
  readonly isRepeatable: boolean;
  /** Accepts a body whose end is the end of the connection. A truncated body then looks like a whole one. */
  readonly acceptsUnboundedBody?: boolean | undefined;
}

export interface EgressAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The whole body, decompressed. */
  readonly body: Buffer;
}

export interface EgressStream extends Omit<EgressAnswer, "body"> {
  /** The body while it arrives, not decompressed. Throws `EgressError`. Leaving a loop over it closes the connection. */
  readonly body: AsyncIterable<Buffer>;
  /** Reads the body instead: takes a third of the time. Rejects with `EgressError`. */
  whole(bytesMax: number): Promise<Buffer>;
  /** Closes the connection. Needed unless the body is read. */
  close(): void;
}

/**
 * A reason for a missing answer. `address`: refused address; `unreachable`: no connection, or no trust in its certificate;
 * `lost`: the connection ended; `malformed`: not HTTP, or head too large; `interim`: too many interim answers; `upgrade`: another
 * protocol; `too-large`, `encoding`, `unbounded`: the body; `aborted`: by signal or time limit, the reason is the `cause`.
 */
export type EgressFailure =
  | "address"
  | "unreachable"
  | "lost"
  | "malformed"
  | "interim"
  | "upgrade"
  | "too-large"
  | "encoding"
  | "unbounded"
  | "aborted";

/** The message contains neither the URL, which may be a secret, nor text of the server. */
export class EgressError extends Error {
  override readonly name = "EgressError";
  readonly failure: EgressFailure;
  /** Whether the server may have received the request. */
  readonly sent: boolean;
  /** Status of an answer whose head has arrived. */
  readonly status: number | undefined;

  constructor(
    failure: EgressFailure,
    message: string,
    facts: { readonly sent: boolean; readonly status?: number | undefined; readonly cause?: unknown },
  ) {
    super(message, "cause" in facts ? { cause: facts.cause } : undefined);
    this.failure = failure;
    this.sent = facts.sent;
    this.status = facts.status;
  }
}

/** Returns the reason of a failed request, without a text that may hold a URL: the name and code of its cause. */
export function egressReason(error: unknown): string {
  if (!(error instanceof EgressError)) return errorName(error);
  return error.cause === undefined ? error.failure : errorName(error.cause);
}
