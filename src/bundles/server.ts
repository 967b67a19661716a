import { statSync } from "node:fs";
import { join } from "node:path";
import { sha256Base64 } from "../core/digest.ts";
import { readPlainFile } from "../runtime/config/plain-file.ts";
import { watchFiles } from "../runtime/config/watched-files.ts";
import { ARCHIVE_BYTES_MAX } from "./archive.ts";
import { TIMESTAMP_FILE } from "./client.ts";

/** Name of the archive that is served and built. */
export const BUNDLE_FILE = "bundle.tar.gz";

const TYPES: Readonly<Record<string, string>> = {
  // The type by which clients of Open Policy Agent know a server that holds requests.
  [BUNDLE_FILE]: "application/vnd.openpolicyagent.bundles",
  [TIMESTAMP_FILE]: "application/json",
};
const WAIT_SECONDS_MAX = 300;
/** Further requests get an answer at once. */
const WAITING_MAX = 20_000;
const SECOND_MS = 1_000;
/** Time without any progress after which a connection is closed. */
const IDLE_SECONDS = 30;

export interface BundleServerOptions {
  readonly folder: string;
  readonly host: string;
  readonly port: number;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer; readonly ca?: Buffer | undefined } | undefined;
  /** Bearer token that clients must send. */
  readonly token?: string | undefined;
}

interface Served {
  /** Changes when the file is replaced or written. */
  readonly state: string;
  readonly body: Buffer;
  readonly etag: string;
}

/** A small HTTP server for the two files of a folder: ETags, and requests that are held until a file changes. */
export class BundleServer {
  readonly #options: BundleServerOptions;
  readonly #served = new Map<string, Served>();
  readonly #waiting = new Set<() => void>();
  readonly #server: Bun.Server<undefined>;
  readonly #watching: { close(): void };
  #isClosed = false;

  constructor(options: BundleServerOptions) {
    this.#options = options;
    this.#read();
    const { tls, host, port } = options;
    const files = Object.keys(TYPES).map((name) => join(options.folder, name));
    this.#watching = watchFiles(
      () => files,
      () => this.#read(),
    );
    this.#server = Bun.serve({
      hostname: host,
      port,
      maxRequestBodySize: 0,
      idleTimeout: IDLE_SECONDS,
      ...(tls && {
        tls: {
          cert: tls.cert,
          key: tls.key,
          ...(tls.ca && { ca: tls.ca, requestCert: true, rejectUnauthorized: true }),
        },
      }),
      fetch: (request) => this.#answer(request),
      error: () => new Response(null, { status: 500 }),
    });
  }

  get url(): string {
    return this.#server.url.href;
  }

  async close(): Promise<void> {
    this.#watching.close();
    this.#isClosed = true;
    this.#wake();
    await this.#server.stop(true);
  }

  async #answer(request: Request): Promise<Response> {
    const name = new URL(request.url).pathname.slice(1);
    const type = TYPES[name];
    if (request.method !== "GET" && request.method !== "HEAD")
      return new Response(null, { status: 405, headers: { allow: "GET, HEAD" } });
    const { token } = this.#options;
    if (token !== undefined && !isToken(request.headers.get("authorization"), token))
      return new Response(null, { status: 401, headers: { "www-authenticate": "Bearer" } });
    this.#read();
    const known = request.headers.get("if-none-match");
    const isKnown = (): boolean => known !== null && this.#served.get(name)?.etag === known;
    const seconds = isKnown() && this.#waiting.size < WAITING_MAX ? waitSeconds(request.headers.get("prefer")) : 0;
    if (seconds > 0) {
      this.#server.timeout(request, 0);
      await this.#change(isKnown, seconds, request.signal);
      // A client that does not read its answer is cut off.
      this.#server.timeout(request, IDLE_SECONDS);
    }
    const found = this.#served.get(name);
    if (type === undefined || found === undefined) return new Response(null, { status: 404 });
    const headers = {
      etag: found.etag,
      "content-type": type,
      "cache-control": "no-cache",
      ...(seconds > 0 && { "preference-applied": `wait=${seconds}` }),
    };
    if (isKnown()) return new Response(null, { status: 304, headers });
    const { body } = found;
    return request.method === "HEAD"
      ? new Response(null, { headers: { ...headers, "content-length": String(body.length) } })
      : new Response(body, { headers });
  }

  /** Resolves when the client's copy is not the current one any more, and after the time at the latest. */
  #change(isKnown: () => boolean, seconds: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve();
      };
      const look = (): void => {
        if (this.#isClosed || !isKnown()) end();
      };
      const timer = setTimeout(end, seconds * SECOND_MS);
      this.#waiting.add(look);
      signal.addEventListener("abort", end, { once: true });
    });
  }

  #wake(): void {
    for (const look of [...this.#waiting]) look();
  }

  /** Reads the files that have changed. */
  #read(): void {
    const before = [...this.#served.values()].map(({ etag }) => etag).join();
    for (const name of Object.keys(TYPES)) {
      const path = join(this.#options.folder, name);
      const state = stateOf(path);
      if (state !== undefined && state === this.#served.get(name)?.state) continue;
      const body = state === undefined ? undefined : contentOf(path);
      if (state === undefined || body === undefined) this.#served.delete(name);
      else this.#served.set(name, { state, body, etag: `"${sha256Base64(body)}"` });
    }
    const after = [...this.#served.values()].map(({ etag }) => etag).join();
    if (after !== before) this.#wake();
  }
}

/** Returns undefined for a file that is missing, too large or cannot be inspected. */
function stateOf(path: string): string | undefined {
  try {
    const { ino, size, mtimeNs } = statSync(path, { bigint: true });
    return size > ARCHIVE_BYTES_MAX ? undefined : `${ino} ${size} ${mtimeNs}`;
  } catch {
    return undefined;
  }
}

/** Returns undefined for a file that cannot be read: clients then get 404. */
function contentOf(path: string): Buffer | undefined {
  try {
    return readPlainFile(path);
  } catch {
    return undefined;
  }
}

/** Returns the time of `Prefer: modes=snapshot;wait=N`; 0 without one. */
function waitSeconds(prefer: string | null): number {
  const [, seconds = "0"] = /(?:^|[;,\s])wait=(\d{1,4})(?:$|[;,\s])/.exec(prefer ?? "") ?? [];
  return Math.min(Number(seconds), WAIT_SECONDS_MAX);
}

/** Compares digests, so that the duration reveals nothing about the token. */
function isToken(authorization: string | null, token: string): boolean {
  const [, given = ""] = /^Bearer (.+)$/.exec(authorization ?? "") ?? [];
  return sha256Base64(given) === sha256Base64(token);
}
