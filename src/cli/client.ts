import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { isTable } from "../core/json.ts";
import { processEnvironment } from "../runtime/config/environment.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import type { CLIENT, OptionValues } from "./command.ts";
import { addressProblem, clientTls, fetchService } from "./connection.ts";
import { EXIT, print, wrongUsage } from "./output.ts";
import { printable } from "./printable.ts";

export type ClientOptions = OptionValues<typeof CLIENT.options>;

interface ServiceRequest {
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

const DEFAULT_URL = "http://127.0.0.1:8787";
const ANSWER_BYTES_MAX = 67_108_864;
const ISSUES_MAX = 5;
const OPERATOR_REQUEST_TIMEOUT_MS = 30_000;

/**
 * Returns a client for the service that the options or the environment name. Returns undefined, after printing the reason, when
 * there is neither a token nor a certificate to present or the certificates are unusable. With `sign`, each request presents a
 * token that `sign` returns instead of the token in the file.
 */
export function connect(options: ClientOptions, sign?: () => Promise<string>): Client | undefined {
  const environment = processEnvironment();
  const tls = clientTls(options, environment);
  if (typeof tls === "string") {
    wrongUsage(tls);
    return undefined;
  }
  const url = options.url ?? (environment["STC_URL"] || DEFAULT_URL);
  const file = options.tokenFile ?? environment["STC_TOKEN_FILE"];
  const signed = sign && { header: async () => bearer(await sign()) };
  const token = addressProblem(url) ?? signed ?? tokenIn(file, tls.hasCertificate);
  if (typeof token === "string") {
    wrongUsage(token);
    return undefined;
  }
  let failure: unknown;
  const open = async (path: string, init: BunFetchRequestInit): Promise<Response> => {
    const headers = new Headers(init.headers);
    for (const [name, value] of Object.entries(await token.header())) headers.set(name, value);
    return fetchService({ url, tls: tls.read() }, path, { ...init, headers });
  };
  return {
    url,
    noAnswer: () => noAnswer(url, failure),
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

/** The answer did not come from this service. */
class ForeignAnswer extends Error {}

/** Error codes of `fetch` that mean nothing was sent. */
const NOT_SENT =
  /^(?:ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EPROTO|.*(?:CERT|SSL|TLS|SIGNATURE).*)$/;

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
 * Sends one request. Returns undefined, after printing an error, when there was no answer; the error says when a change may still
 * have been applied.
 */
export async function sendOnce(client: Client, request: ServiceRequest): Promise<ServiceAnswer | undefined> {
  const isChange = request.method !== "GET";
  const signalHandlers = Object.entries(SIGNALS).map(([name, code]) => [name, () => exitOnSignal(name, code)] as const);
  if (isChange) for (const [name, handler] of signalHandlers) process.on(name, handler);
  const answer = await client.send(request);
  for (const [name, handler] of signalHandlers) process.off(name, handler);
  if (answer !== undefined) return answer;
  print.error(isChange && client.mayHaveArrived() ? `${client.noAnswer()}: ${UNKNOWN_EFFECT}` : client.noAnswer());
  process.exitCode = EXIT.unreachable;
  return undefined;
}

function exitOnSignal(signal: string, exitCode: number): void {
  print.error(`${signal}: ${UNKNOWN_EFFECT}`);
  process.exit(exitCode);
}

/**
 * Sends a request for a command that prints the answer. Returns undefined, after printing the reason, when there is nothing to
 * print.
 */
export async function requestAnswer(
  client: Client,
  request: ServiceRequest,
  { json }: ClientOptions,
): Promise<ServiceAnswer | undefined> {
  const answer = await sendOnce(client, { timeoutMs: OPERATOR_REQUEST_TIMEOUT_MS, ...request });
  if (answer === undefined) return undefined;
  if (answer.status < 400) return answer;
  if (json === true) print.json(answer.body);
  else print.error(problemOf(answer));
  if (json !== true && answer.status === 404 && request.ifNotFound !== undefined) print.error(request.ifNotFound);
  process.exitCode = EXIT.failed;
  return undefined;
}

export async function connectAndRequest(
  options: ClientOptions,
  request: ServiceRequest,
): Promise<ServiceAnswer | undefined> {
  const client = connect(options);
  return client && (await requestAnswer(client, request, options));
}

/** Sends a request about the resource with this id; `request` gets the id as a path segment. */
export async function requestById(
  id: string,
  options: ClientOptions,
  request: (name: string) => ServiceRequest,
): Promise<ServiceAnswer | undefined> {
  const name = segment(id);
  return name === undefined ? undefined : connectAndRequest(options, request(name));
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

export function reportUnknownAnswer(): void {
  print.error(UNKNOWN_ANSWER);
  process.exitCode = EXIT.failed;
}

/**
 * Returns the name as one path segment. Returns undefined, after printing the reason, for a name that cannot be used: `.` and
 * `..` would change the path however they are escaped.
 */
function segment(name: string): string | undefined {
  if (/^[\x21-\x7e]{1,132}$/.test(name) && name !== "." && name !== "..") return encodeURIComponent(name);
  wrongUsage("not a valid id: expected 1 to 132 visible characters");
  return undefined;
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

/** Larger than any token, and than any service accepts in a header. */
const TOKEN_BYTES_MAX = 65_536;
const VISIBLE = /^[\x21-\x7e]+$/;

type Authorization = Readonly<Record<string, string>>;

function bearer(token: string): Authorization {
  return { authorization: `Bearer ${token}` };
}

interface TokenSource {
  /** Returns the header with the current token of the file, or with the last valid token while the file holds none. */
  header(): Authorization | Promise<Authorization>;
}

/**
 * Reads the token that is presented to the service along with a certificate. The file is read again for each request: tokens are
 * short-lived, and someone who watches for hours puts fresh tokens into the file. The token is optional when a certificate
 * identifies the caller. A returned string describes the error.
 */
function tokenIn(file: string | undefined, isOptional: boolean): TokenSource | string {
  if (!file) return isOptional ? { header: () => ({}) } : "no token: set STC_TOKEN_FILE or give --token-file";
  const first = read(() => readBounded(file));
  if (first === undefined || first === "") return `no token: ${printable(file)} is empty or cannot be read`;
  if (!isToken(first)) return `no token: ${printable(file)} must contain one word, without "Bearer"`;
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
