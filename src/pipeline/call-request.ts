import type { HttpRequestFacts } from "../core/tracing.ts";
import type { Disconnect } from "./call-scope.ts";
import type { ClientCertificate } from "./identity/binding.ts";

/** One request to run a tool, as an endpoint received it. Nothing in it is verified yet. */
export interface CallRequest {
  readonly tool: string;
  readonly args: unknown;
  /** The value of the `Authorization` header, the only source of a token. */
  readonly authorization: string | undefined;
  /** The certificate whose key the client of the connection has proved to hold. */
  readonly certificate?: ClientCertificate | undefined;
  readonly session?: string | undefined;
  readonly callId?: string | undefined;
  readonly reason?: string | undefined;
  /** Identifies the approval request that was approved. */
  readonly approvalId?: string | undefined;
  /** How long the caller waits for an approver's answer. */
  readonly waitMs?: number | undefined;
  readonly idempotencyKey?: string | undefined;
  /** W3C trace context; the endpoint has checked its syntax. */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
  /** The HTTP facts of the endpoint that received the request, when it speaks HTTP. */
  readonly http?: HttpRequestFacts | undefined;
  /** Where the request came from: a peer address, or the name of the endpoint. */
  readonly source: string;
  /** The body as received, when the endpoint had one to read; hashed when the request is not a call. */
  readonly body?: Uint8Array | undefined;
  /** Notifies when the client disconnects. */
  readonly disconnect?: Disconnect | undefined;
}
