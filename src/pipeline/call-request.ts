import type { ApprovalCallback } from "../approvals/callback.ts";
import type { HttpRequestFacts } from "../core/tracing.ts";
import type { CallerContext } from "../core/types.ts";
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
  /** Whether the call wants an approval of its own, and uses none that was given for the same call before. */
  readonly newApproval?: boolean | undefined;
  /** Whether the call is only judged: nothing is run, requested or used up. */
  readonly dryRun?: boolean | undefined;
  /** Milliseconds that the caller waits for an approver's answer. */
  readonly waitMs?: number | undefined;
  /** Decides whether and how long the call may wait; without it, the call waits for `waitMs`. */
  readonly hold?: Hold | undefined;
  /** Decides about this call instead of the library's own callback. */
  readonly onToolApprove?: ApprovalCallback | undefined;
  readonly idempotencyKey?: string | undefined;
  /** Maximum bytes of the result's JSON, if less than the tool's own limit. */
  readonly resultBytesMax?: number | undefined;
  /** The protocol in which the call was made; undefined for `POST /call` and the library. */
  readonly protocol?: CallProtocol | undefined;
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

/** A protocol that calls tools in its own words. The client's name and version are what it says of itself: untrusted. */
export interface CallProtocol {
  readonly name: "mcp";
  readonly version: string;
  readonly client?: { readonly name: string; readonly version: string } | undefined;
}

/** A caller that waits while an approver is asked. */
export interface Hold {
  /** Called when the wait would begin. Undefined: this caller may not wait now. `end` is called when the wait has ended. */
  begin(caller: CallerContext, approvalId: string): Begun | undefined | Promise<Begun | undefined>;
}

/** A wait that has begun. */
export interface Begun {
  readonly waitMs: number;
  readonly end: () => void;
  /** A client that disconnects has cancelled the call: its open approval request is withdrawn. */
  readonly isCancelledByDisconnect?: boolean;
}
