import { readFileSync } from "node:fs";
import { processEnvironment } from "../config/file.ts";
import { print } from "./output.ts";
import { printable } from "./printable.ts";

export interface ClientOptions {
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

/** The service that the options or the environment name. Without a token: undefined, and it has been said why. */
export function connect({ url, tokenFile }: ClientOptions): Client | undefined {
  const environment = processEnvironment();
  const file = tokenFile ?? environment["STC_TOKEN_FILE"];
  const token = file ? readToken(file) : undefined;
  if (file === undefined || token === undefined) {
    wrongUsage("no token: set STC_TOKEN_FILE or give --token-file");
    return undefined;
  }
  const named = url ?? environment["STC_URL"] ?? DEFAULT_URL;
  const { base, ...over } = wayTo(named);
  // Read anew each time: tokens are short-lived, and whoever watches for hours puts fresh ones into the file.
  const current = (): string => (file === "-" ? token : (readToken(file) ?? token));
  const request = (path: string, init: BunFetchRequestInit): Promise<Response> =>
    fetch(new URL(path, base), {
      ...init,
      ...over,
      headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${current()}` },
      redirect: "error",
    });
  return {
    url: named,
    async send({ method, path, body, timeoutMs }) {
      try {
        const headers: Record<string, string> = body === undefined ? {} : { "content-type": "application/json" };
        const signal = timeoutMs === undefined ? null : AbortSignal.timeout(timeoutMs);
        const response = await request(path, { method, headers, body: body ?? null, signal });
        return await readAnswer(response);
      } catch {
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

/** How a service's URL is reached: over the network, or through a Unix socket for `unix:<path>`. */
export function wayTo(url: string): { readonly base: string; readonly unix?: string } {
  return url.startsWith(SOCKET) ? { base: "http://localhost", unix: url.slice(SOCKET.length) } : { base: url };
}

/** For the commands whose answer is a thing to print: undefined when there is none, and it has been said why. */
export async function ask(
  client: Client,
  request: ServiceRequest,
  { json }: ClientOptions,
): Promise<ServiceAnswer | undefined> {
  const answer = await client.send({ timeoutMs: OPERATOR_REQUEST_TIMEOUT_MS, ...request });
  if (answer === undefined) {
    print.error(`no answer from ${client.url}`);
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
