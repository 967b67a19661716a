import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { isTable } from "../core/json.ts";
import { printable } from "../core/printable.ts";
import type { Environment } from "../runtime/config/config.ts";
import { processEnvironment } from "../runtime/config/environment.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import type { CLIENT, OptionValues } from "./command.ts";
import { checkAddress, clientTls, fetchService } from "./connection.ts";
import { CommandError, EXIT, print, wrongUsage } from "./output.ts";

export type ClientOptions = OptionValues<typeof CLIENT.options>;

export interface ServiceRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  readonly body?: string;
  readonly timeoutMs?: number;
  readonly ifNotFound?: string;
}

export interface ServiceAnswer {
  readonly status: number;
  readonly body: unknown;
  /** Server time in milliseconds since the Unix epoch, with a resolution of one second; undefined without a valid Date header. */
  readonly servedAt: number | undefined;
}

export interface Client {
  readonly url: string;
  /** Returns a message that the latest request got no answer, with the reason when it is known. */
  noAnswer(): string;
  /** Returns whether the latest request may have reached the service although it got no answer. */
  mayHaveArrived(): boolean;
  /**
   * Sends a request; the path is below the service's URL.
   *
   * @throws what `fetch` throws; `mayHaveArrived` and `noAnswer` explain it
   */
  open(path: string, init: BunFetchRequestInit): Promise<Response>;
  send(request: ServiceRequest): Promise<ServiceAnswer | undefined>;
}

const DEFAULT_PORT = "8787";
const ANSWER_BYTES_MAX = 67_108_864;
const ISSUES_MAX = 5;
const OPERATOR_REQUEST_TIMEOUT_MS = 30_000;

/**
 * Returns a client for the service that the options or the environment name. With `sign`, each request presents a token that
 * `sign` returns instead of the token in the file.
 *
 * @throws {CommandError} when there is neither a token nor a certificate to present, or the certificates are unusable
 */
export function connect(options: ClientOptions, sign?: () => Promise<string>): Client {
  const environment = processEnvironment();
  const tls = clientTls(options, environment);
  const named = options.url ?? (environment["STC_URL"] || undefined);
  const url = named ?? defaultUrl(environment);
  checkAddress(url);
  const token =
    sign === undefined
      ? tokenIn(options.tokenFile ?? environment["STC_TOKEN_FILE"], tls.hasCertificate)
      : { header: async () => bearer(await sign()) };
  let failure: unknown;
  const open = async (path: string, init: BunFetchRequestInit): Promise<Response> => {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(await token.header())) headers.set(name, value);
    return fetchService({ url, tls: tls.read() }, path, { ...init, headers });
  };
  return {
    url,
    noAnswer: () => noAnswer(url, failure) + (named === undefined ? NAME_THE_SERVICE : ""),
    mayHaveArrived: () => mayHaveArrived(failure),
    open,
    async send({ method, path, body, timeoutMs }) {
      try {
        const headers: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
        const signal = timeoutMs === undefined ? null : AbortSignal.timeout(timeoutMs);
        const response = await open(path, { method, headers, body: body ?? null, signal });
        return await readAnswer(response);
      } catch (error) {
        failure = error;
        return undefined;
      }
    },
  };
}

/** Returns the address of a service on this machine that has no other settings than the environment's. */
export function defaultUrl(environment: Environment): string {
  return `http://127.0.0.1:${environment["STC_PORT"] || DEFAULT_PORT}`;
}

const NAME_THE_SERVICE = "; name the service with --url or STC_URL, or its port on this machine with STC_PORT";

/** The answer did not come from this service. */
class ForeignAnswer extends Error {}

/**
 * Error codes of `fetch` that mean nothing was sent. EPROTO is none: a connection that is disturbed after the request was sent has
 * this code too.
 */
const NOT_SENT =
  /^(?:ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|(?!ERR_SSL_).*(?:CERT|SIGNATURE).*)$/;

/** Returns whether a request that failed with this error may have reached the service. */
export function mayHaveArrived(failure: unknown): boolean {
  return !NOT_SENT.test(codeOf(failure) ?? "");
}

export function noAnswer(url: string, failure: unknown): string {
  if (failure instanceof ForeignAnswer) return `the server at ${url} is not this service: ${failure.message}`;
  if (failure instanceof Error && failure.name === "TimeoutError") return `no answer from ${url} in time`;
  const code = codeOf(failure);
  return `no answer from ${url}${code === undefined ? "" : ` (${code})`}`;
}

function codeOf(failure: unknown): string | undefined {
  return failure instanceof Error && "code" in failure && typeof failure.code === "string" ? failure.code : undefined;
}

const UNKNOWN_EFFECT = "the request may or may not have taken effect";
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

/**
 * Sends one request.
 *
 * @throws {CommandError} when there was no answer; it says when a change may still have been applied
 */
export async function sendOnce(client: Client, request: ServiceRequest): Promise<ServiceAnswer> {
  const isChange = request.method !== "GET";
  const signalHandlers = Object.entries(SIGNALS).map(([name, code]) => [name, () => exitOnSignal(name, code)] as const);
  if (isChange) for (const [name, handler] of signalHandlers) process.on(name, handler);
  const answer = await client.send(request);
  for (const [name, handler] of signalHandlers) process.off(name, handler);
  if (answer !== undefined) return answer;
  const problem = client.noAnswer();
  throw new CommandError(
    EXIT.unreachable,
    isChange && client.mayHaveArrived() ? `${problem}: ${UNKNOWN_EFFECT}` : problem,
  );
}

function exitOnSignal(signal: string, exitCode: number): void {
  print.error(`${signal}: ${UNKNOWN_EFFECT}`);
  process.exit(exitCode);
}

/**
 * Sends a request for a command of an operator.
 *
 * @throws {CommandError} when the service refuses the request or does not answer
 */
export async function requestAnswer(
  client: Client,
  request: ServiceRequest,
  { json }: ClientOptions,
): Promise<ServiceAnswer> {
  const answer = await sendOnce(client, { timeoutMs: OPERATOR_REQUEST_TIMEOUT_MS, ...request });
  if (answer.status < 400) return answer;
  if (json === true) {
    print.json(answer.body);
    throw new CommandError(EXIT.failed);
  }
  const hint = answer.status === 404 && request.ifNotFound !== undefined ? [request.ifNotFound] : [];
  throw new CommandError(EXIT.failed, problemOf(answer), ...hint);
}

export async function connectAndRequest(options: ClientOptions, request: ServiceRequest): Promise<ServiceAnswer> {
  return requestAnswer(connect(options), request, options);
}

export function problemOf({ status, body }: ServiceAnswer): string {
  const error = isTable(body) ? body["error"] : undefined;
  if (!isTable(error) || !("code" in error) || !("message" in error)) return `the service answered ${status}`;
  const { code, message, details } = error;
  return `${printable(String(code))}: ${printable(String(message))}${issuesText(details)}`;
}

function issuesText(details: unknown): string {
  const issues = isTable(details) ? details["issues"] : undefined;
  const named = (Array.isArray(issues) ? issues : []).slice(0, ISSUES_MAX).flatMap((issue: unknown) => {
    if (!isTable(issue) || !("path" in issue) || !("message" in issue)) return [];
    return [`${printable(String(issue["path"]))}: ${printable(String(issue["message"]))}`];
  });
  return named.length === 0 ? "" : ` (${named.join("; ")})`;
}

export const UNKNOWN_ANSWER = "this version of stc does not understand the answer of the service";

/** @throws {CommandError} always */
export function unknownAnswer(): never {
  throw new CommandError(EXIT.failed, UNKNOWN_ANSWER);
}

/**
 * Returns the id as one path segment.
 *
 * @throws {CommandError} for an unusable id: `.` and `..` would change the path even when they are escaped
 */
export function segment(id: string): string {
  if (/^[\x21-\x7e]{1,132}$/.test(id) && id !== "." && id !== "..") return encodeURIComponent(id);
  return wrongUsage("not a valid id: expected 1 to 132 visible characters");
}

/** @throws {ForeignAnswer} when the body is not JSON or is larger than `bytesMax` */
export async function readAnswer(response: Response, bytesMax?: number): Promise<ServiceAnswer> {
  return answerOf(response, await readText(response, bytesMax));
}

/** @throws {ForeignAnswer} when the body is larger than `bytesMax` */
export async function readText(response: Response, bytesMax: number = ANSWER_BYTES_MAX): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > bytesMax) throw new ForeignAnswer(`more than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

/** @throws {ForeignAnswer} when the text is not JSON */
export function answerOf({ status, ok, headers }: Response, text: string): ServiceAnswer {
  const servedAt = Date.parse(headers.get("date") ?? "");
  const body = text === "" && ok ? undefined : parsed(text, status);
  return { status, body, servedAt: Number.isNaN(servedAt) ? undefined : servedAt };
}

function parsed(text: string, status: number): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new ForeignAnswer(`${status}, not JSON`);
  }
}

/** Maximum size of a token file: no service accepts a header of this size. */
const TOKEN_BYTES_MAX = 65_536;
const VISIBLE = /^[\x21-\x7e]+$/;

type Authorization = Readonly<Record<string, string>>;

function bearer(token: string): Authorization {
  return { authorization: `Bearer ${token}` };
}

interface TokenSource {
  /** Returns the header with the current token of the file, or with the last valid one while the file contains none. */
  header(): Authorization | Promise<Authorization>;
}

/**
 * Reads the token that is presented to the service along with a certificate. The file is read again for each request: tokens are
 * short-lived, and someone who watches for hours puts fresh tokens into the file. The token is optional when a certificate
 * identifies the caller.
 *
 * @throws {CommandError} when there is no usable token
 */
function tokenIn(file: string | undefined, isOptional: boolean): TokenSource {
  if (!file && isOptional) return { header: () => ({}) };
  if (!file) return wrongUsage("no token: set STC_TOKEN_FILE or give --token-file");
  const first = read(() => readBounded(file));
  if (first === undefined || first === "") wrongUsage(`no token: ${printable(file)} is empty or cannot be read`);
  if (!isToken(first)) wrongUsage(`no token: ${printable(file)} must contain one word, without "Bearer"`);
  let current = first;
  return {
    header() {
      // A pipe that a shell created for this command has already been read to its end.
      const now = file === "-" ? undefined : read(() => readPlainFile(file));
      if (now !== undefined && isToken(now)) current = now;
      return bearer(current);
    },
  };
}

function isToken(text: string): boolean {
  return text.length < TOKEN_BYTES_MAX && VISIBLE.test(text);
}

function read(bytesOf: () => Buffer): string | undefined {
  try {
    return bytesOf().toString("utf8").trim();
  } catch {
    return undefined;
  }
}

/** Reads a file that may be a pipe and may never end. */
function readBounded(file: string): Buffer {
  if (file === "-") return readFileSync(0);
  const descriptor = openSync(file, "r");
  try {
    const bytes = Buffer.alloc(TOKEN_BYTES_MAX);
    let length = 0;
    while (length < bytes.length) {
      const taken = readSync(descriptor, bytes, length, bytes.length - length, null);
      if (taken === 0) break;
      length += taken;
    }
    return bytes.subarray(0, length);
  } finally {
    closeSync(descriptor);
  }
}

/** Returns the two values of the option `--caller`. */
export function issuerAndSubject([issuer, subject, ...more]: readonly string[]): {
  readonly issuer: string;
  readonly subject: string;
} {
  if (issuer === undefined || subject === undefined || more.length > 0)
    return wrongUsage("--caller takes two values: the issuer and the subject of the caller's tokens");
  return { issuer, subject };
}
