import type { HttpRequestFacts } from "../core/tracing.ts";
import type { Disconnect } from "./call-scope.ts";
import type { ClientCertificate } from "./identity/binding.ts";

/** One request to run a tool, as it came through a door. Nothing in it is believed yet. */
export interface CallRequest {
  readonly tool: string;
  readonly args: unknown;
  /** The value of the `Authorization` header; the only place a token is looked for. */
  readonly authorization: string | undefined;
  /** What the client of its connection has proved to hold. */
  readonly certificate?: ClientCertificate | undefined;
  readonly session?: string | undefined;
  readonly callId?: string | undefined;
  readonly reason?: string | undefined;
  /** Of the question that a person said yes to. */
  readonly approvalId?: string | undefined;
  /** How long the caller would wait for a person's answer. */
  readonly waitMs?: number | undefined;
  readonly idempotencyKey?: string | undefined;
  /** W3C trace context; the door has checked its form. */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
  /** The door that it came through, when that speaks HTTP. */
  readonly http?: HttpRequestFacts | undefined;
  /** Where the request came from: a peer address, or the name of the door. */
  readonly source: string;
  /** The body as it came, when the door had one to read; hashed when it is not a call. */
  readonly body?: Uint8Array | undefined;
  /** Tells when the client is gone. */
  readonly departure?: Disconnect | undefined;
}
