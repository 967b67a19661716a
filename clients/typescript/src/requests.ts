import { ConnectionError, ProtocolError } from "./errors.ts";
import { type Refusal, STAGES_BEFORE_KEY } from "./schema.ts";

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
  /** Whether the request can change something. */
  readonly changes: boolean;
  /** Whether the request may be sent again when its answer was lost. */
  readonly repeatable: boolean;
  /** How long the service is asked to wait. */
  readonly waitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** JSON of the service: a refusal exactly when the HTTP status is not that of a success. */
export interface Answer {
  readonly status: number;
  readonly body: Table;
  /** Whether an earlier attempt may have arrived although its answer was lost. */
  readonly isRepeated: boolean;
}

type Table = Readonly<Record<string, unknown>>;

const ANSWER_BYTES_MAX = 67_108_864;
const TOO_LARGE = "ANSWER_TOO_LARGE";
const BACKOFF_FIRST_MS = 500;
const BACKOFF_MAX_MS = 8_000;
/** The longest time of a timer. */
const TIMER_MS_MAX = 2_147_483_647;
const VISIBLE = /^[\x21-\x7e]+$/;

/** The server's certificate is not accepted: the next attempt would fail in the same way. */
const UNTRUSTED = /CERT|SIGNATURE/;
/** Codes of failures before anything was sent, of Node and Bun. Browsers have none. */
const NOT_SENT =
  /^(?:ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused|FailedToOpenSocket)$/;
/** Statuses by which a proxy says that the service does not answer now. */
const PASSING: ReadonlySet<number> = new Set([408, 429, 500, 502, 503, 504]);

/**
 * Sends a request, and repeats it while it is refused for now or, if it is repeatable, its answer is lost.
 *
 * @throws {ConnectionError} when no answer came, or none that says what became of a lost one
 * @throws {ProtocolError} when the answer is not the service's
 * @throws the reason of `signal`, when it is aborted
 */
export async function send(transport: Transport, request: Request): Promise<Answer> {
  const { timeoutMs, retries } = transport;
  const { signal, changes, repeatable } = request;
  let hasNewToken = typeof transport.token === "string";
  let isRepeated = false;
  let progressUntil: number | undefined;
  for (let failures = 0; ; ) {
    try {
      const { status, body, retryAfterMs = 0 } = await exchange(transport, request);
      if (status === 401 && !hasNewToken) {
        hasNewToken = true;
        continue;
      }
      const isRunning = isRefusal(body) && body.error.code === "CALL_IN_PROGRESS";
      if (isRunning) progressUntil ??= performance.now() + timeoutMs;
      else failures += 1;
      const isOver = isRunning ? performance.now() + retryAfterMs > (progressUntil ?? 0) : failures > retries;
      if (!isRefusal(body) || !body.error.retryable || retryAfterMs > timeoutMs || isOver) {
        return known({ status, body, isRepeated }, changes);
      }
      await sleep(retryAfterMs + backoff(failures), signal);
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      failures += 1;
      isRepeated ||= error.mayHaveRun;
      const { retryAfterMs = 0 } = error;
      const isOver = failures > retries || retryAfterMs > timeoutMs || !isPassing(error);
      if (isOver || (isRepeated && !repeatable)) {
        // Not a new error, which would lose the class and the stack.
        throw Object.assign(error, { mayHaveRun: isRepeated && changes });
      }
      await sleep(retryAfterMs + backoff(failures), signal);
    }
  }
}

/** Returns whether the same request may succeed a little later. */
export function isPassing({ status, code = "" }: ConnectionError): boolean {
  if (code === TOO_LARGE) return false;
  return status === undefined ? !UNTRUSTED.test(code) : status === 200 || PASSING.has(status);
}

/** @throws {ConnectionError} for a refusal that would hide that the call may have run */
function known(answer: Answer, changes: boolean): Answer {
  const { status, body, isRepeated } = answer;
  if (!isRepeated || !changes || !isRefusal(body)) return answer;
  const { code, stage, retryAfterMs } = body.error;
  if (!STAGES_BEFORE_KEY.has(stage) || code === "CALL_IN_PROGRESS") return answer;
  throw new ConnectionError(`the answer was lost, and the request could not be repeated: ${code}`, {
    ...{ mayHaveRun: true, status, code, retryAfterMs },
  });
}

/** Full jitter: a random part of a time that doubles with each failure. */
function backoff(failures: number): number {
  return Math.random() * Math.min(BACKOFF_MAX_MS, BACKOFF_FIRST_MS * 2 ** Math.max(0, failures - 1));
}

export function isRefusal(body: unknown): body is Refusal {
  const { status, error } = isTable(body) ? body : {};
  if ((status !== "denied" && status !== "error") || !isTable(error)) return false;
  const { code, stage, message, retryable } = error;
  return [code, stage, message].every((one) => typeof one === "string") && typeof retryable === "boolean";
}

export function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

interface Received {
  readonly status: number;
  readonly body: Table;
  readonly retryAfterMs: number | undefined;
}

async function exchange(transport: Transport, request: Request): Promise<Received> {
  const { method, path, body, headers, waitMs = 0, signal } = request;
  signal?.throwIfAborted();
  const ending = new AbortController();
  const abort = () => ending.abort();
  signal?.addEventListener("abort", abort);
  let token: string | undefined;
  let status: number | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    token = await until(tokenOf(transport), ending.signal);
    timer = setTimeout(abort, Math.min(transport.timeoutMs + waitMs, TIMER_MS_MAX));
    const sent = transport.fetch(`${transport.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && { "content-type": "application/json" }),
        ...headers,
      },
      ...(body !== undefined && { body }),
      // Another server must not get the token.
      redirect: "manual",
      signal: ending.signal,
    });
    const response = await until(sent, ending.signal);
    status = response.status;
    return await until(received(response), ending.signal);
  } catch (error) {
    signal?.throwIfAborted();
    if (token === undefined || error instanceof ProtocolError) throw error;
    throw lost(error, { token, status, isLate: ending.signal.aborted });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
    // Closes the connection if the answer was not read to its end.
    ending.abort();
  }
}

async function tokenOf({ token: given }: Transport): Promise<string> {
  const token: unknown = typeof given === "function" ? await given() : given;
  if (typeof token === "string" && VISIBLE.test(token)) return token;
  throw new TypeError('token: expected one word of visible ASCII characters, without "Bearer"');
}

/** Returns what the promise returns, unless the signal is aborted first: some sources do not watch it. */
function until<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

/** @throws {ProtocolError} when the answer is not the service's */
async function received(response: Response): Promise<Received> {
  const { status, type, ok, headers } = response;
  const retryAfterMs = readRetryAfter(headers.get("retry-after"));
  const foreign = (what: string, code?: string) => {
    const named = status === 0 ? "" : ` (HTTP ${status})`;
    return new ProtocolError(`the server at this URL ${what}${named}`, {
      mayHaveRun: true,
      status,
      code,
      retryAfterMs,
    });
  };
  if (type === "opaqueredirect" || (status >= 300 && status < 400)) {
    throw foreign("redirects, which is not followed: use the URL of the service itself");
  }
  const text = await readText(response);
  if (text === undefined) throw foreign(`answered more than ${ANSWER_BYTES_MAX} bytes`, TOO_LARGE);
  const body = parsed(text);
  if (!isTable(body)) throw foreign("did not answer with JSON of the service");
  if (isRefusal(body) === ok) throw foreign("did not answer as the service does");
  const { retryAfterMs: stated } = isRefusal(body) ? body.error : {};
  return { status, body, retryAfterMs: isDuration(stated) ? stated : retryAfterMs };
}

/** Returns undefined for a body over the limit. */
async function readText(response: Response): Promise<string | undefined> {
  const reader = response.body?.getReader();
  if (reader === undefined) return response.text();
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.byteLength;
    if (bytes > ANSWER_BYTES_MAX) return undefined;
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

function readRetryAfter(header: string | null): number | undefined {
  if (header === null) return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000;
  const ms = Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

function isDuration(value: unknown): value is number {
  return typeof value === "number" && value >= 0;
}

interface Failed {
  readonly token: string;
  readonly status: number | undefined;
  readonly isLate: boolean;
}

/** Without the failure itself: a `fetch` may show the request's headers in it. */
function lost(failure: unknown, { token, status, isLate }: Failed): ConnectionError {
  const code = isLate ? undefined : codeOf(failure);
  const isSent = status !== undefined || code === undefined || !(NOT_SENT.test(code) || UNTRUSTED.test(code));
  const said = code ?? (failure instanceof Error ? failure.message : "no reason given");
  const reason = isLate ? "none came in time" : said.replaceAll(token, "[token]");
  return new ConnectionError(`no answer from the service: ${reason}`, { mayHaveRun: isSent, code });
}

/** Returns the code of a failure or of its causes. */
function codeOf(failure: unknown): string | undefined {
  let each = failure;
  for (let depth = 0; depth < 4 && typeof each === "object" && each !== null; depth += 1) {
    if ("code" in each && typeof each.code === "string" && VISIBLE.test(each.code)) return each.code;
    each = "cause" in each ? each.cause : undefined;
  }
  return undefined;
}

/** @throws the reason of `signal`, when it is aborted */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(
      () => {
        signal?.removeEventListener("abort", stop);
        resolve();
      },
      Math.min(ms, TIMER_MS_MAX),
    );
    if (signal?.aborted === true) stop();
    signal?.addEventListener("abort", stop, { once: true });
  });
}
