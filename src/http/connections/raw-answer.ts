import type { Socket } from "node:net";
import type { RefusalCode } from "../../core/errors.ts";
import type { AnswersOwed } from "./answers-owed.ts";

/** Reason why the received bytes are not a request. */
export type RawEnd = "malformed" | "headers_too_large" | "timeout";

/** An answer that is written to the socket directly, because no request was parsed. */
export interface RawAnswer {
  readonly status: keyof typeof REASONS;
  readonly code: RefusalCode | "METHOD_NOT_ALLOWED";
  readonly message: string;
  readonly retryAfterSeconds?: number;
  /** Value of the Allow header. */
  readonly allow?: string;
}

const REASONS = {
  400: "Bad Request",
  405: "Method Not Allowed",
  408: "Request Timeout",
  431: "Request Header Fields Too Large",
  503: "Service Unavailable",
} as const;

const ENDS: Readonly<Record<RawEnd, RawAnswer>> = {
  malformed: { status: 400, code: "MALFORMED_REQUEST", message: "This is no HTTP/1.1 request." },
  headers_too_large: { status: 431, code: "PAYLOAD_TOO_LARGE", message: "The request's headers are too large." },
  timeout: { status: 408, code: "REQUEST_TIMEOUT", message: "The request was not complete in time." },
};

/**
 * Handles bytes that the runtime's parser rejects: answers like any refusal, after the pending answers, and ends the
 * connection.
 */
export function answerNoRequest(error: Error, socket: Socket, owed: AnswersOwed): RawEnd | undefined {
  const code = "code" in error ? error.code : undefined;
  if (code === "ECONNRESET" || !socket.writable) {
    socket.destroy();
    return undefined;
  }
  const end = endOf(code);
  if (owed.isEnding(socket)) socket.end();
  else owed.settled(socket, () => socket.end(rawAnswer(ENDS[end])));
  return end;
}

const NO_TUNNEL = {
  status: 405,
  code: "METHOD_NOT_ALLOWED",
  message: "This service tunnels nothing: it is no proxy for connections. Send it POST /call.",
  allow: "",
} as const satisfies RawAnswer;

/** Refuses `CONNECT`, whose client expects a tunnel and not the answer of a route. */
export function refuseTunnel(socket: Socket, owed: AnswersOwed): void {
  socket.on("error", () => socket.destroy());
  owed.settled(socket, () => socket.end(rawAnswer(NO_TUNNEL)));
}

function endOf(code: unknown): RawEnd {
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return "timeout";
  return code === "HPE_HEADER_OVERFLOW" ? "headers_too_large" : "malformed";
}

export function rawAnswer({ status, code, message, retryAfterSeconds, allow }: RawAnswer): string {
  const retry = retryAfterSeconds === undefined ? {} : { retryAfterMs: retryAfterSeconds * 1000 };
  const stage = retryAfterSeconds === undefined ? "REQUEST" : "LIMIT";
  const error = { code, stage, message, retryable: retryAfterSeconds !== undefined, ...retry };
  const body = JSON.stringify({ status: "denied", error });
  return [
    `HTTP/1.1 ${status} ${REASONS[status]}`,
    "content-type: application/json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    "cache-control: no-store",
    "x-content-type-options: nosniff",
    ...(allow === undefined ? [] : [`allow: ${allow}`]),
    ...(retryAfterSeconds === undefined ? [] : [`retry-after: ${retryAfterSeconds}`]),
    "connection: close",
    "",
    body,
  ].join("\r\n");
}
