import { ConnectionError, ProtocolError } from "./errors.ts";
import type { Refusal } from "./schema.ts";

/** Sends a request: the part of `fetch` that the client uses. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface Transport {
  /** Without a slash at the end. */
  readonly url: string;
  readonly token: string | (() => string | Promise<string>);
  readonly fetch: Fetch;
  readonly timeoutMs: number;
  readonly retries: number;
}

export interface Request {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | undefined;
  /** Whether the request may be sent again when its answer was lost. */
  readonly repeatable: boolean;
  /** How long the service is asked to wait, in milliseconds. */
  readonly waitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** JSON of the service: its status is that of a success exactly when `body` is not a refusal. */
export interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  /** Whether an earlier attempt may have arrived although its answer was lost. */
  readonly isRepeated: boolean;
}

const ANSWER_BYTES_MAX = 67_108_864;
const BACKOFF_FIRST_MS = 250;
const BACKOFF_MAX_MS = 8_000;
const VISIBLE = /^[\x21-\x7e]+$/;

/** Codes of failures before anything was sent: of Node and Bun. Browsers do not say. */
const NOT_SENT =
  /^(?:ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused|FailedToOpenSocket|.*CERT.*|.*SIGNATURE.*)$/;
/** The server's certificate is not accepted: the next attempt would fail in the same way. */
const UNTRUSTED = /CERT|SIGNATURE/;
/** Statuses with which a proxy says that the service cannot answer now. */
const PASSING: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/**
 * Sends a request, and repeats it while the answer says that it can be repeated or, for repeatable requests, got lost.
 *
 * @throws {ConnectionError} when no answer came
 * @throws {ProtocolError} when the answer is not the service's
 * @throws the reason of `signal`, when it is aborted
 */
export async function send(transport: Transport, request: Request): Promise<Answer> {
  const { signal } = request;
  let asksToken = typeof transport.token === "function";
  let isLost = false;
  let progressUntil: number | undefined;
  for (let attempt = 0; ; attempt += 1) {
    const isLast = attempt >= transport.retries;
    signal?.throwIfAborted();
    try {
      const { status, body, retryAfterMs } = await exchange(transport, request);
      const answer = { status, body, isRepeated: isLost };
      if (status === 401 && asksToken) {
        asksToken = false;
        attempt -= 1;
        continue;
      }
      if (!isRefusal(body) || !body.error.retryable) return answer;
      const waitMs = Math.max(body.error.retryAfterMs ?? retryAfterMs ?? 0, 0);
      if (waitMs > transport.timeoutMs) return answer;
      if (body.error.code === "CALL_IN_PROGRESS") {
        // The first attempt, whose answer was lost, is still running.
        progressUntil ??= Date.now() + transport.timeoutMs;
        if (Date.now() + waitMs > progressUntil) return answer;
        attempt -= 1;
      } else if (isLast) return answer;
      await sleep(waitMs + backoff(attempt), signal);
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      isLost ||= error.mayHaveRun;
      const mayRepeat = (request.repeatable || !isLost) && isPassing(error) && !isLast;
      if (!mayRepeat) throw asLost(error, isLost);
      await sleep(backoff(attempt), signal);
    }
  }
}

function isPassing(error: ConnectionError): boolean {
  if (error.status === undefined) return !UNTRUSTED.test(error.code ?? "");
  return error.status < 300 || PASSING.has(error.status);
}

function asLost(error: ConnectionError, mayHaveRun: boolean): ConnectionError {
  const { message, status, code } = error;
  const loss = { mayHaveRun, status, code };
  return error instanceof ProtocolError ? new ProtocolError(message, loss) : new ConnectionError(message, loss);
}

/** Full jitter: a random part of a time that doubles. */
function backoff(attempt: number): number {
  return Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** Math.max(attempt, 0));
}

export function isRefusal(body: unknown): body is Refusal {
  const { status, error } = isTable(body) ? body : {};
  if ((status !== "denied" && status !== "error") || !isTable(error)) return false;
  return (
    typeof error["code"] === "string" && typeof error["message"] === "string" && typeof error["retryable"] === "boolean"
  );
}

export function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

interface Received {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
  readonly retryAfterMs: number | undefined;
}

async function exchange(transport: Transport, request: Request): Promise<Received> {
  const { method, path, body, headers, waitMs = 0, signal } = request;
  const token = typeof transport.token === "function" ? await transport.token() : transport.token;
  if (typeof token !== "string" || !VISIBLE.test(token)) {
    throw new TypeError('the token must be one word of visible ASCII characters, without "Bearer"');
  }
  const ending = new AbortController();
  const abort = () => ending.abort();
  signal?.throwIfAborted();
  signal?.addEventListener("abort", abort);
  const timer = setTimeout(abort, transport.timeoutMs + waitMs);
  let status: number | undefined;
  try {
    const response = await transport.fetch(`${transport.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body }),
      // A redirect would carry the token to somebody else.
      redirect: "manual",
      signal: ending.signal,
    });
    status = response.status;
    return await received(response);
  } catch (error) {
    signal?.throwIfAborted();
    if (error instanceof ProtocolError) throw error;
    throw lost(error, { token, status, isLate: ending.signal.aborted });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
    // Ends the connection when the rest of the answer is not read.
    ending.abort();
  }
}

async function received(response: Response): Promise<Received> {
  const { status, type } = response;
  if (type === "opaqueredirect" || (status >= 300 && status < 400)) {
    throw foreign(status, "redirects, which the client does not follow: use the service's own URL");
  }
  const text = await readText(response);
  const body = parsed(text);
  if (!isTable(body)) throw foreign(status, "answered something other than JSON of the service");
  if (!response.ok && !isRefusal(body)) throw foreign(status, "answered something other than a refusal of the service");
  if (response.ok && isRefusal(body)) throw foreign(status, "answered a refusal with the status of a success");
  return { status, body, retryAfterMs: readRetryAfter(response.headers.get("retry-after")) };
}

async function readText(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  if (reader === undefined) return response.text();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.byteLength;
    if (bytes > ANSWER_BYTES_MAX) throw foreign(response.status, `answered more than ${ANSWER_BYTES_MAX} bytes`);
    text += decoder.decode(value, { stream: true });
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function foreign(status: number, what: string): ProtocolError {
  const named = status === 0 ? "" : ` (HTTP ${status})`;
  return new ProtocolError(`the server at the client's URL ${what}${named}`, { mayHaveRun: true, status });
}

function readRetryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

interface Failed {
  readonly token: string;
  readonly status: number | undefined;
  readonly isLate: boolean;
}

/** Leaves out the failure itself: a `fetch` may show the request's headers in it. */
function lost(failure: unknown, { token, status, isLate }: Failed): ConnectionError {
  const code = codeOf(failure);
  const mayHaveRun = status !== undefined || !NOT_SENT.test(code ?? "");
  const said = failure instanceof Error ? failure.message : String(failure);
  const reason = isLate ? "no answer in time" : (code ?? said).replaceAll(token, "[token]");
  return new ConnectionError(`no answer from the service: ${reason}`, { mayHaveRun, status, code });
}

function codeOf(failure: unknown): string | undefined {
  for (let each = failure, depth = 0; isObject(each) && depth < 4; each = each["cause"], depth += 1) {
    if (typeof each["code"] === "string") return each["code"];
  }
  return undefined;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** @throws the reason of `signal`, when it is aborted */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
}
