import { status } from "@grpc/grpc-js";
import { FailedAttempt, type Origin } from "../resilience.ts";
import { boundedWaitMs } from "../retry-after.ts";
import { WIRE, WireCursor } from "./wire-cursor.ts";

export type StatusName = keyof typeof status;

/** A failed attempt. grpc-js reports connection errors with statuses that services also use; `origin` tells them apart. */
export class AttemptFailed extends FailedAttempt {
  override readonly name = "AttemptFailed";
  readonly status: StatusName;
  /** The service's error text. By default, only its origin and length are recorded, and it is not passed on. */
  readonly text: string;
  /** Returns the metadata that came with the status. */
  readonly trailers: () => Readonly<Record<string, string>>;

  constructor(
    facts: Pick<AttemptFailed, "origin" | "status" | "answerStarted" | "sent"> & {
      readonly text?: string;
      readonly metadata?: Headers | undefined;
    },
  ) {
    const { origin, status: name } = facts;
    const waitMs = origin === "service" && MAY_WAIT.has(name) ? retryInfoMs(facts.metadata) : undefined;
    const isUnavailable = origin === "transport" || name === "UNAVAILABLE" || waitMs !== undefined;
    super(`${origin} ${name}`, { ...facts, isUnavailable, ...(waitMs !== undefined && { waitMs }) });
    this.status = name;
    this.text = facts.text ?? "";
    this.trailers = () => {
      const values = Object.entries(facts.metadata?.getMap?.() ?? {});
      return Object.fromEntries(values.map(([name, value]) => [name, String(value)]));
    };
  }
}

/** Statuses with which a service may say how long to wait. */
const MAY_WAIT: ReadonlySet<StatusName> = new Set(["UNAVAILABLE", "RESOURCE_EXHAUSTED"]);

/** Returns the delay in a `google.rpc.RetryInfo` among the details of a status, at most an hour; undefined without one. */
function retryInfoMs(metadata: Headers | undefined): number | undefined {
  const [details] = metadata?.get("grpc-status-details-bin") ?? [];
  if (!Buffer.isBuffer(details) || details.length > DETAILS_BYTES_MAX) return undefined;
  try {
    // google.rpc.Status has its details in field 3; Any its type in field 1 and its message in field 2.
    const infos = fieldsOf(details, 3)
      .filter((any) => fieldsOf(any, 1).some((type) => type.toString("latin1").endsWith("/google.rpc.RetryInfo")))
      .flatMap((any) => fieldsOf(any, 2));
    const [delay] = infos.flatMap((info) => fieldsOf(info, 1));
    return delay === undefined ? undefined : durationMs(delay);
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

const DETAILS_BYTES_MAX = 8_192;

/** Returns the messages, texts or bytes of a field. @throws {RangeError} for a message that is not valid */
function fieldsOf(message: Buffer, wanted: number): readonly Buffer[] {
  const cursor = new WireCursor(message);
  const found: Buffer[] = [];
  while (cursor.position < cursor.end) {
    const field = cursor.tag();
    if (field === wanted && cursor.wireType === WIRE.bytes) found.push(Buffer.from(cursor.base64(), "base64"));
    else cursor.skip(field);
  }
  return found;
}

/** Reads a google.protobuf.Duration. */
function durationMs(message: Buffer): number | undefined {
  const cursor = new WireCursor(message);
  let ms = 0;
  while (cursor.position < cursor.end) {
    const field = cursor.tag();
    if (field === 1) ms += Number(cursor.int64()) * 1_000;
    else if (field === 2) ms += Number(cursor.int64()) / 1_000_000;
    else cursor.skip(field);
  }
  return boundedWaitMs(ms);
}

function nameOf(code: unknown): StatusName {
  const name = typeof code === "number" ? status[code] : undefined;
  return name !== undefined ? (name as StatusName) : "UNKNOWN";
}

/** Error texts of grpc-js for a broken connection. */
const TRANSPORT_TEXTS = [
  "RST_STREAM",
  "Session closed",
  "Bandwidth exhausted",
  "Connection dropped",
  "Protocol not secure enough",
] as const;
/** Error text of grpc-js for an answer without a gRPC status: from an intermediary, or incomplete. */
const HTTP_STATUS_TEXT = "Received HTTP status code";
/** Error texts of grpc-js for a message that arrived but could not be accepted. */
const OVERSIZE_TEXTS = ["Received message larger than max", "Received message that decompresses to a size"] as const;
const UNREADABLE_TEXT = "Failed to decompress";

/** The sender of the received headers: a gRPC service, or something else. */
export type ReceivedHeaders = "none" | "service" | "other";

interface Headers {
  get(key: string): readonly unknown[];
  getMap?(): Readonly<Record<string, unknown>>;
}

/** Returns the sender of headers. Every gRPC service sends the same content type. */
export function headersFrom(headers: Headers): ReceivedHeaders {
  return String(headers.get("content-type")[0] ?? "").startsWith("application/grpc") ? "service" : "other";
}

function originOf(
  error: { readonly code?: unknown; readonly metadata?: Headers },
  text: string,
  received: ReceivedHeaders,
): Origin {
  const name = nameOf(error.code);
  if (text.startsWith(HTTP_STATUS_TEXT)) return "transport";
  // Headers came with the status: an answer that consists only of a status.
  if ((error.metadata?.get("content-type").length ?? 0) > 0) return "service";
  // grpc-js reports no status for a message with an unknown compression.
  const hasStatus = Number.isInteger(error.code);
  if (!hasStatus || isOversize(name, text) || text.startsWith(UNREADABLE_TEXT)) {
    return received === "other" ? "transport" : "local";
  }
  if (name === "DEADLINE_EXCEEDED" || name === "CANCELLED") return "local";
  if (received === "none") return "transport";
  const isBroken = name === "UNAVAILABLE" || TRANSPORT_TEXTS.some((part) => text.includes(part));
  return isBroken ? "transport" : "service";
}

export function attemptFailed(error: unknown, received: ReceivedHeaders): AttemptFailed {
  const reported = error as { readonly code?: unknown; readonly details?: unknown; readonly metadata?: Headers };
  const text = typeof reported.details === "string" ? reported.details : "";
  return new AttemptFailed({
    origin: originOf(reported, text, received),
    status: nameOf(reported.code),
    text,
    metadata: reported.metadata,
    answerStarted: received !== "none",
    sent: true,
  });
}

/** Returns the failure of a call that the service ended with OK, but not with exactly one answer. */
export function notOneAnswer(): AttemptFailed {
  return new AttemptFailed({ origin: "local", status: "UNIMPLEMENTED", answerStarted: true, sent: true });
}

/** Returns the failure of an attempt that sent nothing: no connection was made, or the call ended before there was one. */
export function notSent(signal: AbortSignal): AttemptFailed {
  if (signal.aborted)
    return new AttemptFailed({ origin: "local", status: "CANCELLED", answerStarted: false, sent: false });
  return new AttemptFailed({ origin: "transport", status: "UNAVAILABLE", answerStarted: false, sent: false });
}

export function isOversize(name: StatusName, text: string): boolean {
  return name === "RESOURCE_EXHAUSTED" && OVERSIZE_TEXTS.some((start) => text.startsWith(start));
}
