import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Server as NetServer } from "node:net";
import type { EpochMs } from "../../core/types.ts";
import { ForwardedConnections } from "../../http/connections/listening-forwarded.ts";
import { type TlsListener, type TlsSource, tlsServer } from "../../http/connections/listening-tls.ts";
import { sourceOf } from "../../http/connections/sources.ts";
import { parseBundleFact } from "../bundle-fact.ts";
import { EVENTS, HEADER_VALUE, HUB_PATH, MEMBER_HEADERS, type MemberFacts } from "../contract.ts";
import { HubRefusal, HubUnavailable } from "../errors.ts";
import { HUB_BYTES_MAX } from "../wire.ts";
import type { Identified, Members } from "./members.ts";
import { HubBusy } from "./methods.ts";
import type { RefusalLines } from "./refusal-lines.ts";
import type { HubOutcome, Served, ServedTenants } from "./served-tenants.ts";

const HEAD_BYTES_MAX = 16_384;
const HEAD_MS_MAX = 5_000;
const BODY_MS_MAX = 10_000;
/** Longer than members keep a connection that they do not use. */
const KEEP_ALIVE_MS = 72_000;
const CHECK_EVERY_MS = 500;
const REQUEST_TARGET = new RegExp(`^${HUB_PATH}([A-Za-z][A-Za-z0-9.]{0,63})$`);

export interface HubListenerOptions {
  readonly host: string;
  readonly port: number;
  readonly tls: TlsSource | undefined;
  readonly members: Members;
  readonly served: ServedTenants;
  readonly refusals: RefusalLines;
  readonly clock: () => EpochMs;
  readonly monotonic: () => number;
  readonly logError: (message: string, error: unknown) => void;
}

/** The HTTP server to which members connect. */
export class HubListener {
  readonly #options: HubListenerOptions;
  readonly #http: Server;
  #forwarded: ForwardedConnections | undefined;
  #tls: TlsListener | undefined;
  #isClosing = false;

  private constructor(options: HubListenerOptions) {
    this.#options = options;
    this.#http = createServer(
      { maxHeaderSize: HEAD_BYTES_MAX, keepAliveTimeout: KEEP_ALIVE_MS, connectionsCheckingInterval: CHECK_EVERY_MS },
      (request, response) => void this.#serve(request, response),
    );
    this.#http.headersTimeout = HEAD_MS_MAX;
    this.#http.requestTimeout = HEAD_MS_MAX + BODY_MS_MAX;
    this.#http.on("clientError", (_error, socket) => socket.destroy());
  }

  /** Rejects with the system's error when the address cannot be listened at. */
  static async open(options: HubListenerOptions): Promise<{ readonly listener: HubListener; readonly port: number }> {
    const listener = new HubListener(options);
    return { listener, port: await listener.#listen() };
  }

  /** Returns when the hub's certificate expires; undefined without TLS. */
  certificateExpiresAt(): EpochMs | undefined {
    return this.#tls?.expiresAt();
  }

  /** Ends the streams, answers what runs, and closes. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#options.served.close();
    this.#tls?.close();
    this.#tls?.server.close();
    await this.#forwarded?.emptyWithin(CHECK_EVERY_MS);
    this.#forwarded?.destroyAll();
    this.#http.closeAllConnections();
    this.#http.close();
    await this.#options.refusals.close().catch(() => {});
  }

  async #listen(): Promise<number> {
    const { host, port, tls, logError } = this.#options;
    let server: NetServer = this.#http;
    if (tls !== undefined) {
      this.#forwarded = new ForwardedConnections(this.#http, {
        headersTimeoutMs: HEAD_MS_MAX,
        keepAliveMs: KEEP_ALIVE_MS,
      });
      this.#tls = tlsServer(this.#forwarded, {
        field: "hub",
        source: tls,
        handshakeTimeoutMs: HEAD_MS_MAX,
        handshakes: { refused: () => {} },
        logError: (error) => logError("hub.tls", error),
      });
      server = this.#tls.server;
    }
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    server.once("error", reject);
    server.listen({ host, port }, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : port);
    });
    return promise;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { served, monotonic } = this.#options;
    const startMs = monotonic();
    const [, method] = REQUEST_TARGET.exec(request.url ?? "") ?? [];
    request.on("error", () => {});
    response.on("error", () => {});
    let outcome: HubOutcome = "answered";
    let tenant = served.own;
    try {
      if (method === undefined || request.method !== (method === EVENTS ? "GET" : "POST")) throw routeNotFound();
      const identified = await this.#identify(request);
      if (this.#isClosing) throw new HubBusy("the hub is shutting down");
      tenant = served.of(identified.member);
      const exchange = { request, response, ...identified };
      await (method === EVENTS ? sendStream(tenant, exchange) : answer(tenant, method, exchange));
    } catch (error) {
      outcome = this.#refuse(error, response);
    }
    // Any other name would create a label in the metrics.
    const known = method !== undefined && (method === EVENTS || tenant.methods.has(method)) ? method : "other";
    // The duration of a stream is not a measure of the hub's speed.
    if (known !== EVENTS || outcome !== "answered") tenant.observe?.(known, outcome, monotonic() - startMs);
  }

  async #identify(request: IncomingMessage): Promise<Identified> {
    const { members, refusals } = this.#options;
    try {
      return await members.identify(request);
    } catch (error) {
      if (error instanceof HubRefusal && error.status === 401) {
        const source = sourceOf(request.socket);
        // An answer that could not be recorded is not given.
        await refusals.note({ source, reason: error.message }).catch((cause: unknown) => {
          throw new HubUnavailable("the refusal could not be recorded", { cause });
        });
      }
      throw error;
    }
  }

  #refuse(error: unknown, response: ServerResponse): HubOutcome {
    // The rest of an unread request must not be taken for the next request.
    const headers = { connection: "close" };
    if (error instanceof HubRefusal) {
      const { status, code, message } = error;
      send(response, status, JSON.stringify({ error: { code, message } }), headers);
      return status === 401 ? "unauthenticated" : "refused";
    }
    if (error instanceof HubBusy) {
      const { message, retryAfterMs } = error;
      send(response, 429, JSON.stringify({ error: { code: "HUB_BUSY", message, retryAfterMs } }), {
        ...headers,
        "retry-after": "1",
      });
      return "busy";
    }
    const isKnown = error instanceof HubUnavailable;
    this.#options.logError("a request of a member failed", isKnown ? (error.cause ?? error) : error);
    const message = isKnown ? error.message : "the hub failed";
    send(response, 503, JSON.stringify({ error: { code: "HUB_UNAVAILABLE", message } }), headers);
    return "unavailable";
  }
}

interface Exchange extends Identified {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

async function sendStream({ methods, connected, streams }: Served, exchange: Exchange): Promise<void> {
  const { request, response, member, untilMs } = exchange;
  const release = methods.enterStream(member);
  const leave = connected.enter(member, factsOf(request), "stream");
  await streams.send(response, untilMs).finally(() => {
    release();
    leave();
  });
}

async function answer({ methods, connected }: Served, method: string, exchange: Exchange): Promise<void> {
  const { request, response, member } = exchange;
  const release = methods.enter(member, method);
  const held: (() => void)[] = [];
  const leave = methods.isProbe(method) ? undefined : connected.enter(member, factsOf(request), "request");
  try {
    const body = await bodyOf(request, (bytes) => held.push(methods.hold(member, bytes)));
    const left = new AbortController();
    response.on("close", () => {
      if (!response.writableEnded) left.abort();
    });
    send(response, 200, await methods.answer(method, body, { member, signal: left.signal }));
  } finally {
    for (const free of held) free();
    release();
    leave?.();
  }
}

function routeNotFound(): HubRefusal {
  return new HubRefusal(
    404,
    "ROUTE_NOT_FOUND",
    `the hub answers POST ${HUB_PATH}<method> and GET ${HUB_PATH}${EVENTS}`,
  );
}

function factsOf({ headers }: IncomingMessage): MemberFacts {
  const fact = (name: string): string | undefined => {
    const value = headers[name];
    return typeof value === "string" && HEADER_VALUE.test(value) ? value : undefined;
  };
  const bundle = fact(MEMBER_HEADERS.bundle);
  return {
    version: fact(MEMBER_HEADERS.version),
    policyVersion: fact(MEMBER_HEADERS.policyVersion),
    bundle: bundle === undefined ? undefined : parseBundleFact(bundle),
  };
}

/** Reads the body. `hold` takes room for bytes, or throws. */
async function bodyOf(request: IncomingMessage, hold: (bytes: number) => void): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let length = 0;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const tooSlow = setTimeout(
    () => reject(new HubRefusal(400, "REQUEST_TIMEOUT", "the body was not complete in time")),
    BODY_MS_MAX,
  );
  request.on("data", (chunk: Buffer) => {
    length += chunk.length;
    try {
      if (length > HUB_BYTES_MAX)
        throw new HubRefusal(413, "PAYLOAD_TOO_LARGE", `the body is over ${HUB_BYTES_MAX} bytes`);
      hold(chunk.length);
      chunks.push(chunk);
    } catch (error) {
      reject(error);
    }
  });
  request.on("end", resolve);
  request.on("close", () => reject(new HubRefusal(400, "CANCELLED", "the member disconnected")));
  try {
    await promise;
  } finally {
    clearTimeout(tooSlow);
  }
  return chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
}

function send(response: ServerResponse, status: number, body: string, headers: Record<string, string> = {}): void {
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  response.writeHead(status, {
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    ...headers,
  });
  response.end(body);
}
