import { signal } from "@preact/signals";
import { EventReader, type StreamedEvent } from "../../core/event-reader.ts";
import { OFFLINE, UNREADABLE } from "./words.ts";

const KEY_HEADER = "Stc-Console-Key";
const REQUEST_MS_MAX = 60_000;
/** The service sends a heartbeat every 15 s: a stream that is silent for longer is dead. */
const SILENCE_MS_MAX = 40_000;
/** A service's clock that is closer than this to the browser's counts as equal: its header has whole seconds. */
const CLOCK_DIFFERENCE_MS_MIN = 2_000;
/** Longest message of a stream. A stream that exceeds it is broken. */
const MESSAGE_BYTES_MAX = 4_194_304;
const FIRST_DELAY_MS = 400;
const DELAY_MS_MAX = 20_000;

type Members = Readonly<Record<string, unknown>>;

/** A request that the service refused, or that did not reach it. `status` is 0 when there was no answer. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly code: string;
  readonly status: number;
  readonly details: Members;
  readonly retryAfterMs: number | undefined;

  constructor(code: string, message: string, more: { status?: number; details?: Members; retryAfterMs?: number } = {}) {
    super(message);
    this.code = code;
    this.status = more.status ?? 0;
    this.details = more.details ?? {};
    this.retryAfterMs = more.retryAfterMs;
  }
}

/** The half of the session that the page holds. The other half is a cookie that no script can read. */
let key: string | undefined;
let onSessionEnd: () => void = () => {};
/** Lead of the service's clock over the browser's. */
let clockDifferenceMs = 0;

/** True when the last request reached the service. */
export const isReachable = signal(true);

export function setKey(value: string | undefined): void {
  key = value;
}

/** Calls `listener` when the service no longer accepts the session. */
export function whenSessionEnds(listener: () => void): void {
  onSessionEnd = listener;
}

/** The service's time in Unix milliseconds. */
export function serviceNow(): number {
  return Date.now() + clockDifferenceMs;
}

interface Sending {
  readonly body?: unknown;
  readonly signal?: AbortSignal;
}

/**
 * Sends a request and returns the answer's JSON; undefined for an answer without a body.
 *
 * @throws {ApiError}
 */
export async function request<T = unknown>(method: string, path: string, { body, signal }: Sending = {}): Promise<T> {
  const timeout = AbortSignal.timeout(REQUEST_MS_MAX);
  const answer = await send(path, {
    method,
    signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const read = await readBody(answer);
  if (!answer.ok) throw refusalOf(answer, read);
  return read as T;
}

/**
 * Sends a request for a file and returns the answer, whose body has not been read.
 *
 * @throws {ApiError}
 */
export async function fetchAnswer(path: string, signal: AbortSignal): Promise<Response> {
  const answer = await send(path, { method: "GET", signal });
  if (!answer.ok) throw refusalOf(answer, await readBody(answer));
  return answer;
}

async function send(path: string, options: RequestInit): Promise<Response> {
  const headers = new Headers(options.headers);
  if (key !== undefined) headers.set(KEY_HEADER, key);
  if (options.body !== undefined) headers.set("content-type", "application/json");
  const sentKey = key;
  let answer: Response;
  try {
    answer = await fetch(path, {
      ...options,
      headers,
      cache: "no-store",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (options.signal?.aborted === true && !isTimeout(options.signal)) throw error;
    isReachable.value = false;
    throw new ApiError(OFFLINE, "The service cannot be reached.");
  }
  isReachable.value = true;
  noteClock(answer);
  if (answer.status === 401 && sentKey !== undefined && sentKey === key) onSessionEnd();
  return answer;
}

function isTimeout({ reason }: AbortSignal): boolean {
  return reason instanceof DOMException && reason.name === "TimeoutError";
}

function noteClock({ headers }: Response): void {
  const served = Date.parse(headers.get("date") ?? "");
  if (Number.isNaN(served)) return;
  // The header is cut to a whole second: half a second is the mean.
  const difference = served + 500 - Date.now();
  clockDifferenceMs = Math.abs(difference) < CLOCK_DIFFERENCE_MS_MIN ? 0 : difference;
}

async function readBody(answer: Response): Promise<unknown> {
  const text = await answer.text().catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(OFFLINE, "The service's answer was cut off.", { status: answer.status });
  });
  try {
    return text === "" ? undefined : JSON.parse(text);
  } catch {
    if (answer.ok) throw new ApiError(UNREADABLE, "The service's answer cannot be read.", { status: answer.status });
    return undefined;
  }
}

function refusalOf({ status, headers }: Response, body: unknown): ApiError {
  const error = members(members(body)["error"]);
  const { code, message, details, retryAfterMs } = error;
  const seconds = Number(headers.get("retry-after") ?? Number.NaN);
  const wait = typeof retryAfterMs === "number" ? retryAfterMs : seconds * 1_000;
  return new ApiError(
    typeof code === "string" ? code : `HTTP_${status}`,
    typeof message === "string" ? message : `The service answered with status ${status}.`,
    { status, details: members(details), ...(Number.isFinite(wait) && { retryAfterMs: wait }) },
  );
}

/** Returns the members of a JSON object; none of any other value. */
export function members(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Members) : {};
}

/** State of a stream. `attemptAt`: when the next attempt starts, in the browser's Unix milliseconds. */
export type StreamState =
  | { readonly is: "connecting" | "live" | "ended" }
  | { readonly is: "waiting"; readonly attemptAt: number; readonly error: ApiError };

export interface Following {
  readonly onMessage: (message: StreamedEvent) => void;
  /** Called at each connection: whatever happened in between may have been missed if the stream could not be resumed. */
  readonly onOpen: () => void;
  readonly onState: (state: StreamState) => void;
}

export interface Stream {
  /** Connects now instead of at the next attempt. */
  readonly retry: () => void;
  readonly close: () => void;
}

/**
 * Follows a stream of server-sent events with `fetch`, since the key must be sent, and connects again until `close`: after the
 * last event that it has seen, with a growing random delay.
 */
export function follow(path: string, following: Following): Stream {
  const closing = new AbortController();
  let wake: () => void = () => {};
  void run();
  return {
    retry: () => wake(),
    close() {
      closing.abort();
      wake();
    },
  };

  async function run(): Promise<void> {
    const progress: Progress = { lastEventId: undefined, failures: 0 };
    while (!closing.signal.aborted) {
      following.onState({ is: "connecting" });
      const error = await readStream(path, following, { progress, closing: closing.signal });
      if (closing.signal.aborted || error.status === 401) break;
      // An id that the service does not accept would be refused forever.
      if (error.status === 400) progress.lastEventId = undefined;
      const delayMs = Math.max(backoffMs(progress.failures, Math.random()), error.retryAfterMs ?? 0);
      progress.failures += 1;
      following.onState({ is: "waiting", attemptAt: Date.now() + delayMs, error });
      await new Promise<void>((resolve) => {
        wake = resolve;
        setTimeout(resolve, delayMs);
      });
    }
    following.onState({ is: "ended" });
  }
}

interface Progress {
  lastEventId: string | undefined;
  failures: number;
}

/** Reads until the stream ends, and returns why it did. */
async function readStream(
  path: string,
  { onMessage, onOpen, onState }: Following,
  { progress, closing }: { readonly progress: Progress; readonly closing: AbortSignal },
): Promise<ApiError> {
  const silence = new AbortController();
  const signal = AbortSignal.any([closing, silence.signal]);
  let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
  try {
    const { lastEventId } = progress;
    const headers = { accept: "text/event-stream", ...(lastEventId !== undefined && { "Last-Event-ID": lastEventId }) };
    const answer = await send(path, { method: "GET", headers, signal });
    if (!answer.ok || answer.body === null) return refusalOf(answer, await readBody(answer));
    onState({ is: "live" });
    onOpen();
    const events = new EventReader(MESSAGE_BYTES_MAX, lastEventId);
    const reader = answer.body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
      progress.failures = 0;
      for (const message of events.read(value)) onMessage(message);
      progress.lastEventId = events.lastId;
    }
    return new ApiError(OFFLINE, "The connection was closed.");
  } catch (error) {
    return error instanceof ApiError ? error : new ApiError(OFFLINE, "The connection was lost.");
  } finally {
    clearTimeout(timer);
    silence.abort();
  }
}

/**
 * Returns how long to wait before the next attempt to connect: doubles with each failure, and half of it is random so that
 * many consoles do not return at once.
 *
 * @param random from 0 to 1
 */
export function backoffMs(failures: number, random: number): number {
  const ceiling = Math.min(DELAY_MS_MAX, FIRST_DELAY_MS * 2 ** Math.min(failures, 16));
  return Math.round(ceiling / 2 + (ceiling / 2) * random);
}
