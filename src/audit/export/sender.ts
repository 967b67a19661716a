import { readFileSync, statSync } from "node:fs";
import { endedWithin } from "../../core/time-limits.ts";
import { OPERATED_ADDRESSES } from "../../egress/addresses.ts";
import { EgressClient } from "../../egress/client.ts";
import { type EgressStream, egressReason } from "../../egress/request.ts";
import { retryAfterMs } from "../../egress/retry-after.ts";

export type SendOutcome =
  | { readonly kind: "taken"; readonly answer: string }
  /** The receiver will never accept this body. */
  | { readonly kind: "refused"; readonly reason: string }
  /** The receiver may accept the body later, or after an operator has fixed its credentials or address. */
  | { readonly kind: "later"; readonly reason: string; readonly retryAfterMs: number | undefined };

interface SenderOptions {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Limit for the whole request until the response status, in milliseconds. */
  readonly timeoutMs: number;
  /** True when the body of a success response must be read. */
  readonly readsAnswer: boolean;
  /** Aborts a running request. */
  readonly signal: AbortSignal;
}

const ANSWER_BYTES_MAX = 65_536;
/** Time limit for the body of a response. Only the part that arrives in time is used. */
const ANSWER_TIMEOUT_MS = 2_000;
const RETRY_AFTER_MS_MAX = 300_000;
/** 4xx statuses that are not about the body: credentials, address, time, rate. */
const LATER_STATUSES = new Set([401, 403, 404, 405, 407, 408, 421, 425, 429]);
const TOO_MANY_REQUESTS = 429;
/**
 * Text of a 429 of Loki that is about the lines' labels: the same body is refused as long as the limit stays. A text
 * that also names a rate is about the time. Loki's texts are in `pkg/validation/validate.go` of grafana/loki: "maximum
 * active stream limit exceeded", "ingestion rate limit exceeded", "Per stream rate limit exceeded".
 */
const STREAM_LIMIT = /\bstreams?[ _]limit\b/i;
const RATE_LIMIT = /\brate[ _]limit/i;

/** Collectors are the operator's own. */
const client = new EgressClient({ addresses: OPERATED_ADDRESSES });

/**
 * Sends one POST request with a JSON body. Never rejects. Does not follow redirects: credentials are sent only to the
 * configured address.
 */
export async function post(body: string, options: SenderOptions): Promise<SendOutcome> {
  const { url, headers, timeoutMs, readsAnswer, signal } = options;
  try {
    const answer = await client.open({
      method: "POST",
      url: new URL(url),
      body,
      signal,
      timeoutMs,
      headers: { ...headers, "content-type": "application/json" },
      bodyBytesMax: ANSWER_BYTES_MAX,
      isRepeatable: false,
      acceptsUnboundedBody: true,
    });
    const { status } = answer;
    const isTaken = status >= 200 && status < 300;
    if (isTaken && readsAnswer) return { kind: "taken", answer: await readInTime(answer) };
    if (status === TOO_MANY_REQUESTS && isStreamLimit(await readInTime(answer))) {
      return { kind: "refused", reason: `status ${status}, stream limit` };
    }
    answer.close();
    return outcomeOf(answer);
  } catch (error) {
    return { kind: "later", reason: egressReason(error), retryAfterMs: undefined };
  }
}

function outcomeOf({ status, headers }: EgressStream): SendOutcome {
  if (status >= 200 && status < 300) return { kind: "taken", answer: "" };
  const reason = `status ${status}`;
  const isFinal = status >= 400 && status < 500 && !LATER_STATUSES.has(status);
  if (isFinal) return { kind: "refused", reason };
  return { kind: "later", reason, retryAfterMs: retryAfterMs(headers, { msMax: RETRY_AFTER_MS_MAX }) };
}

function isStreamLimit(answer: string): boolean {
  return STREAM_LIMIT.test(answer) && !RATE_LIMIT.test(answer);
}

/** Reads the part of the body that arrives in time. Never rejects: the status alone says whether lines were accepted. */
async function readInTime({ body, close }: EgressStream): Promise<string> {
  const chunks: Buffer[] = [];
  const reading = async (): Promise<void> => {
    for await (const chunk of body) chunks.push(chunk);
  };
  const isRead = await endedWithin(
    reading().catch(() => {}),
    ANSWER_TIMEOUT_MS,
  );
  if (!isRead) close();
  return Buffer.concat(chunks).toString("utf8");
}

const HEADERS_MAX = 32;
const NAME = /^[A-Za-z0-9-]{1,64}$/;
const VALUE = /^[\x20-\x7e]{1,8192}$/;
/** Headers that the service sets itself. */
const RESERVED = new Set(["content-type", "content-length", "host", "connection", "transfer-encoding"]);

/**
 * Reads headers from the text of a file, one `Name: value` per line. Ignores empty lines and lines that start with `#`.
 * Reports errors by line number only, because values are secrets.
 */
export function readHeaders(
  text: string,
): { readonly ok: Readonly<Record<string, string>> } | { readonly problem: string } {
  const headers: Record<string, string> = {};
  for (const [index, raw] of text.split("\n").entries()) {
    const line = raw.trim();
    if (line === "" || line.startsWith("#")) continue;
    const colon = line.indexOf(":");
    const [name, value] = [line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()];
    if (colon === -1 || !NAME.test(name) || !VALUE.test(value))
      return { problem: `line ${index + 1} is not Name: value` };
    if (RESERVED.has(name)) return { problem: `line ${index + 1}: ${name} cannot be set` };
    if (Object.hasOwn(headers, name)) return { problem: `line ${index + 1}: ${name} appears twice` };
    headers[name] = value;
    if (Object.keys(headers).length > HEADERS_MAX) return { problem: `more than ${HEADERS_MAX} headers` };
  }
  return { ok: headers };
}

export function readHeadersFile(path: string): ReturnType<typeof readHeaders> {
  try {
    // Reading a pipe would block the whole process.
    if (statSync(path).isFIFO()) return { problem: "is a pipe" };
    return readHeaders(readFileSync(path, "utf8"));
  } catch {
    return { problem: "cannot be read" };
  }
}
