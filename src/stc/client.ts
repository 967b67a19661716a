import { readFileSync } from "node:fs";
import { processEnvironment } from "../config/file.ts";
import { type ClientTls, clientTls, type TlsFileOptions } from "./client-tls.ts";
import { print } from "./output.ts";
import { printable } from "./printable.ts";

export interface ClientOptions extends TlsFileOptions {
  readonly url?: string;
  readonly tokenFile?: string;
  readonly json?: boolean;
}

/** How the commands that ask a service end: 0 done, 1 refused or failed, 2 not reached, 64 wrong usage. */
export const EXIT = { refused: 1, unreachable: 2, usage: 64 } as const;

export interface ServiceRequest {
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly path: string;
  /** JSON text. */
  readonly body?: string;
  /** After it the service counts as not reached. */
  readonly timeoutMs?: number;
  /** What people are told after a 404. */
  readonly ifNotFound?: string;
}

export interface ServiceAnswer {
  readonly status: number;
  /** JSON as it came: nobody has looked at it yet. */
  readonly body: unknown;
  /** The service's clock, in milliseconds since 1970, to the second; undefined when it does not tell. */
  readonly servedAt: number | undefined;
}

/** A running service and the token that is shown to it. */
export interface Client {
  readonly url: string;
  /** That the latest request had no answer, and why, as far as it is known. */
  noAnswer(): string;
  /** Undefined: not reached, or what answered speaks no JSON. */
  send(request: ServiceRequest): Promise<ServiceAnswer | undefined>;
  /** Opens a stream that goes on. */
  stream(path: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Response | undefined>;
}

const DEFAULT_URL = "http://127.0.0.1:8787";
/** In front of the path of a service's Unix socket. */
const SOCKET = "unix:";
const ANSWER_BYTES_MAX = 67_108_864;
const OPERATOR_REQUEST_TIMEOUT_MS = 30_000;

/**
 * The service that the options or the environment name. Without anything to show to it, or with certificates that cannot be
 * used: undefined, and it has been said why.
 */
export function connect(options: ClientOptions): Client | undefined {
  const environment = processEnvironment();
  const tls = clientTls(options, environment);
  if (typeof tls === "string") {
    wrongUsage(tls);
    return undefined;
  }
  const tokenFile = options.tokenFile ?? environment["STC_TOKEN_FILE"];
  const token = tokenOf(tokenFile, tls.hasCertificate);
  if (token === undefined) {
    const hint = "set STC_TOKEN_FILE or give --token-file";
    wrongUsage(tokenFile ? `no token: nothing to be read in ${printable(tokenFile)}` : `no token: ${hint}`);
    return undefined;
  }
  const named = options.url ?? environment["STC_URL"] ?? DEFAULT_URL;
  const way = wayTo(named);
  if (!URL.canParse(way.base) || !/^https?:\/\//i.test(way.base)) {
    wrongUsage(noAddress(named));
    return undefined;
  }
  let fault: unknown;
  const request = (path: string, init: BunFetchRequestInit): Promise<Response> =>
    fetch(new URL(path, way.base), {
      ...init,
      ...over(way, tls.read()),
      headers: { ...(init.headers as Record<string, string>), ...token() },
      redirect: "error",
    });
  return {
    url: named,
    noAnswer: () => noAnswer(named, fault),
    async send({ method, path, body, timeoutMs }) {
      try {
        const headers: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
        const signal = timeoutMs === undefined ? null : AbortSignal.timeout(timeoutMs);
        const response = await request(path, { method, headers, body: body ?? null, signal });
        return await readAnswer(response);
      } catch (error) {
        fault = error;
        return undefined;
      }
    },
    async stream(path, headers, signal) {
      try {
        return await request(path, { headers: { ...headers }, signal });
      } catch {
        return undefined;
      }
    },
  };
}

/** Where a service's URL leads: over the network, or through a Unix socket for `unix:<path>`. */
interface Way {
  readonly base: string;
  readonly unix?: string;
}

export function wayTo(url: string): Way {
  return url.startsWith(SOCKET) ? { base: "http://localhost", unix: url.slice(SOCKET.length) } : { base: url };
}

/** What `fetch` is told to take this way. */
export function over({ base, unix }: Way, tls: ClientTls): BunFetchRequestInit {
  if (unix !== undefined) return { unix };
  return /^https:/i.test(base) ? { tls: { ...tls } } : {};
}

export function noAddress(named: string): string {
  return `${printable(named)} is no address of a service: http://…, https://… or unix:…`;
}

/** For people: a name that the system or TLS has for what went wrong stands behind it. */
export function noAnswer(url: string, fault: unknown): string {
  const code = fault instanceof Error && "code" in fault && typeof fault.code === "string" ? ` (${fault.code})` : "";
  return `no answer from ${url}${code}`;
}

/**
 * What is shown to the service beside a certificate, read anew each time: tokens are short-lived, and whoever watches for hours
 * puts fresh ones into the file. A certificate may stand for its caller alone.
 */
function tokenOf(file: string | undefined, isOptional: boolean): (() => Record<string, string>) | undefined {
  if (!file && isOptional) return () => ({});
  const token = file ? readToken(file) : undefined;
  if (file === undefined || token === undefined) return undefined;
  return () => ({ authorization: `Bearer ${file === "-" ? token : (readToken(file) ?? token)}` });
}

/** For the commands whose answer is a thing to print: undefined when there is none, and it has been said why. */
export async function ask(
  client: Client,
  request: ServiceRequest,
  { json }: ClientOptions,
): Promise<ServiceAnswer | undefined> {
  const answer = await client.send({ timeoutMs: OPERATOR_REQUEST_TIMEOUT_MS, ...request });
  if (answer === undefined) {
    print.error(client.noAnswer());
    process.exitCode = EXIT.unreachable;
    return undefined;
  }
  if (answer.status < 400) return answer;
  if (json === true) print.json(answer.body);
  else print.error(problemOf(answer));
  if (json !== true && answer.status === 404 && request.ifNotFound !== undefined) print.error(request.ifNotFound);
  process.exitCode = EXIT.refused;
  return undefined;
}

/** Why the service said no, for people. */
export function problemOf({ status, body }: ServiceAnswer): string {
  const error: unknown = typeof body === "object" && body !== null && "error" in body ? body.error : undefined;
  if (typeof error !== "object" || error === null || !("code" in error) || !("message" in error)) {
    return `the service answered ${status}`;
  }
  return `${printable(String(error.code))}: ${printable(String(error.message))}`;
}

/** For an answer that is no refusal and not what was asked for either. */
export function notUnderstood(): void {
  print.error("the service answered something that this stc does not understand");
  process.exitCode = EXIT.refused;
}

export function wrongUsage(problem: string): void {
  print.error(problem);
  process.exitCode = EXIT.usage;
}

/**
 * A name as one segment of a path. `.` and `..` would be another path, however they are escaped: undefined, and it has been
 * said why.
 */
export function segment(name: string): string | undefined {
  if (/^[\x21-\x7e]{1,128}$/.test(name) && name !== "." && name !== "..") return encodeURIComponent(name);
  wrongUsage("that is no id: 1 to 128 visible characters");
  return undefined;
}

function readToken(file: string): string | undefined {
  try {
    return readFileSync(file === "-" ? 0 : file, "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

async function readAnswer(response: Response): Promise<ServiceAnswer | undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > ANSWER_BYTES_MAX) return undefined;
    chunks.push(chunk);
  }
  const servedAt = Date.parse(response.headers.get("date") ?? "");
  const body: unknown = bytes === 0 && response.ok ? undefined : JSON.parse(Buffer.concat(chunks).toString("utf8"));
  return { status: response.status, body, servedAt: Number.isNaN(servedAt) ? undefined : servedAt };
}
