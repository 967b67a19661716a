import type { HttpRequestFacts } from "../core/tracing.ts";
import type { Disconnect } from "./call-scope.ts";
import type { ClientCertificate } from "./identity/binding.ts";

/** One request to run a tool, as an endpoint received it. Nothing in it is verified yet. */
export interface CallRequest {
  readonly tool: string;
  readonly args: unknown;
  /** The canonical JSON text of `args`, when the endpoint has computed it. */
  readonly argsText?: string | undefined;
  /** The value of the `Authorization` header, the only source of a token. */
  readonly authorization: string | undefined;
  /** The certificate whose key the client of the connection has proved to hold. */
  readonly certificate?: ClientCertificate | undefined;
  readonly session?: string | undefined;
  readonly callId?: string | undefined;
  readonly reason?: string | undefined;
  readonly approvalId?: string | undefined;
  /** Milliseconds that the caller waits for an approver's answer. */
  readonly waitMs?: number | undefined;
  readonly idempotencyKey?: string | undefined;
  /** W3C trace context, syntactically valid. */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
  readonly http?: HttpRequestFacts | undefined;
  /** A peer address, or the name of the endpoint. */
  readonly source: string;
  /** The body as received; hashed when the request is not a call. */
  readonly body?: Uint8Array | undefined;
  readonly disconnect?: Disconnect | undefined;
}
