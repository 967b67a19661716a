import { lookup } from "node:dns/promises";
import {
  Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  request as requestHttp,
} from "node:http";
import { request as requestHttps, Agent as TlsAgent } from "node:https";
import type { LookupFunction, Socket } from "node:net";
import { connect } from "node:tls";
import { brotliDecompressSync, gunzipSync, inflateSync } from "node:zlib";
import { errorName } from "../core/error-text.ts";
import {
  type AddressClass,
  type AddressRules,
  addressProblem,
  literalAddress,
  OPERATED_ADDRESSES,
} from "./addresses.ts";

/** Returns the addresses of a name. */
export type Resolve = (hostname: string) => Promise<readonly string[]>;

/** The trusted roots and the own certificate of a connection, as PEM. */
export interface EgressTls {
  /** Default: the platform's roots. */
  readonly rootCert?: Buffer | undefined;
  readonly clientCert?: Buffer | undefined;
  readonly clientKey?: Buffer | undefined;
  /** Name in the server's certificate, when it is not the URL's host. */
  readonly serverName?: string | undefined;
}

export interface EgressOptions {
  readonly addresses: AddressRules;
  readonly tls?: EgressTls | undefined;
  /** Default: the system's resolver. */
  readonly resolve?: Resolve | undefined;
  /** Maximum connections to one server; further requests wait. Default: no limit. */
  readonly connectionsMax?: number | undefined;
  /** Keeps connections for further requests. Default: true. */
  readonly keepsConnections?: boolean | undefined;
}

export interface EgressRequest {
  readonly method: string;
  readonly url: URL;
  /** Lower-case names. `host`, `content-length` and `connection` are set by the client. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | undefined;
  /** Ends the whole exchange. */
  readonly signal?: AbortSignal | undefined;
  /** Time limit for the whole exchange: lookup, connection, answer and body. */
  readonly timeoutMs?: number | undefined;
  /** Maximum size of the answer's body, as received and decompressed. */
  readonly bodyBytesMax: number;
  /** Called before the request is written to its connection. When it throws, nothing is sent. */
  readonly onSend?: (() => void) | undefined;
  /**
   * True when it is harmless if the server never sees the request because it is just closing the connection. Other requests
   * use a new connection, or one that was in use within the last second.
   */
  readonly isRepeatable: boolean;
  /** Accepts a body whose end is the end of the connection. A truncated body then looks like a whole one. */
  readonly acceptsUnboundedBody?: boolean | undefined;
}

export interface EgressAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  /** The whole body, decompressed. */
  readonly body: Buffer;
}

export interface EgressStream extends Omit<EgressAnswer, "body"> {
  /** The body while it arrives, not decompressed. Throws `EgressError`. Leaving a loop over it closes the connection. */
  readonly body: AsyncIterable<Buffer>;
  /** Reads the body instead: takes a third of the time. Rejects with `EgressError`. */
  whole(bytesMax: number): Promise<Buffer>;
  /** Closes the connection. Needed unless the body is read. */
  close(): void;
}

/**
 * A reason for a missing answer. `address`: refused address; `unreachable`: no connection, or no trust in its certificate;
 * `lost`: the connection ended; `malformed`: not HTTP, or head too large; `interim`: too many interim answers; `upgrade`: another
 * protocol; `too-large`, `encoding`, `unbounded`: the body; `aborted`: by signal or time limit, the reason is the `cause`.
 */
export type EgressFailure =
  | "address"
  | "unreachable"
  | "lost"
  | "malformed"
  | "interim"
  | "upgrade"
  | "too-large"
  | "encoding"
  | "unbounded"
  | "aborted";

/** The message contains neither the URL, which may be a secret, nor text of the server. */
export class EgressError extends Error {
  override readonly name = "EgressError";
  readonly failure: EgressFailure;
  /** Whether the server may have received the request. */
  readonly sent: boolean;
  /** Status of an answer whose head has arrived. */
  readonly status: number | undefined;

  constructor(
    failure: EgressFailure,
    message: string,
    facts: { readonly sent: boolean; readonly status?: number | undefined; readonly cause?: unknown },
  ) {
    super(message, "cause" in facts ? { cause: facts.cause } : undefined);
    this.failure = failure;
    this.sent = facts.sent;
    this.status = facts.status;
  }
}

/** Returns the reason of a failed request, without a text that may hold a URL: the name and code of its cause. */
export function egressReason(error: unknown): string {
  if (!(error instanceof EgressError)) return errorName(error);
  return error.cause === undefined ? error.failure : errorName(error.cause);
}

class ForbiddenAddress extends Error {
  override readonly name = "ForbiddenAddress";

  constructor(problem: AddressClass) {
    super(`the host has a ${problem} address, which is not allowed`);
  }
}

const HEAD_BYTES_MAX = 32_768;
const IDLE_MS = 15_000;
/** A server rarely closes a connection this soon after an answer. */
const FRESH_MS = 1_000;
/** Maximum age of a connection: later ones go to the addresses that the name has then. */
const CONNECTION_AGE_MAX_MS = 300_000;
const IDLE_CONNECTIONS_MAX = 256;
/** With TLS 1.3, a server refuses a client certificate after the client's side of the handshake has ended. */
const REFUSAL_GRACE_MS = 250;
const USER_AGENT = "safe-tool-call";

/**
 * Sends HTTP requests over connections of its own, to checked addresses only. Follows no redirects and uses no proxy. Verifies
 * certificates whatever the environment says. Rejected: `fetch`, which resolves names itself, obeys proxy variables and repeats
 * requests.
 */
export class EgressClient {
  readonly #options: EgressOptions;
  readonly #agents = new Map<string, Agent>();
  readonly #lookup: LookupFunction;
  /** The host of the last request: most clients have one, and its verdict depends only on its text and the rules. */
  #host: Host | undefined;

  constructor(options: EgressOptions) {
    this.#options = options;
    this.#lookup = checkedLookup(options.addresses, options.resolve ?? systemResolve);
  }

  /** Returns the number of connections, in use or idle. */
  get connections(): number {
    return [...this.#agents.values()].reduce(
      (sum, { sockets, freeSockets }) => sum + countOf(sockets) + countOf(freeSockets),
      0,
    );
  }

  /** Returns the answer, whatever its status. Rejects with `EgressError`. */
  send(request: EgressRequest): Promise<EgressAnswer> {
    return new Promise((resolve, reject) => {
      new Exchange(this.#agent(request), this.#hostOf(request.url), { request, reject }).whole(resolve);
    });
  }

  /** Returns the answer as soon as its head has arrived. Rejects with `EgressError`. */
  open(request: EgressRequest): Promise<EgressStream> {
    return new Promise((resolve, reject) => {
      new Exchange(this.#agent(request), this.#hostOf(request.url), { request, reject }).streamed(resolve);
    });
  }

  /** Returns whether a connection with TLS can be made. Sends no request. */
  async canConnect(url: URL, timeoutMs: number): Promise<boolean> {
    const { addresses, tls } = this.#options;
    const literal = literalAddress(url.hostname);
    if (literal !== undefined && addressProblem(literal, addresses) !== undefined) return false;
    const host = literal ?? url.hostname;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const name = literal === undefined ? { servername: host } : {};
    const socket = connect({
      host,
      port: Number(url.port || 443),
      lookup: this.#lookup,
      ...name,
      ...tlsOptions(tls),
    });
    let grace: ReturnType<typeof setTimeout> | undefined;
    socket.once("secureConnect", () => {
      grace = setTimeout(() => resolve(true), REFUSAL_GRACE_MS);
    });
    for (const event of ["error", "close"]) socket.once(event, () => resolve(false));
    const timer = setTimeout(() => resolve(false), timeoutMs);
    return promise.finally(() => {
      clearTimeout(timer);
      clearTimeout(grace);
      socket.on("error", () => {});
      socket.destroy();
    });
  }

  /** Closes idle connections now, and those in use after their answers. */
  retire(): void {
    for (const agent of this.#agents.values()) {
      agent.keepSocketAlive = () => false;
      for (const socket of Object.values(agent.freeSockets).flatMap((sockets) => sockets ?? [])) socket.destroy();
    }
  }

  /** Closes all connections. */
  close(): void {
    for (const agent of this.#agents.values()) agent.destroy();
  }

  #hostOf({ hostname }: URL): Host {
    if (this.#host?.hostname !== hostname) this.#host = judgedHost(hostname, this.#options.addresses);
    return this.#host;
  }

  #agent({ url: { protocol }, isRepeatable }: EgressRequest): Agent {
    const key = `${protocol} ${isRepeatable}`;
    const known = this.#agents.get(key);
    if (known !== undefined) return known;
    const agent = this.#newAgent(protocol === "https:", isRepeatable ? IDLE_MS : FRESH_MS);
    this.#agents.set(key, agent);
    return agent;
  }

  #newAgent(isTls: boolean, timeout: number): Agent {
    const { tls, connectionsMax = Number.POSITIVE_INFINITY, keepsConnections = true } = this.#options;
    const common = {
      keepAlive: keepsConnections,
      timeout,
      maxSockets: connectionsMax,
      maxFreeSockets: IDLE_CONNECTIONS_MAX,
      lookup: this.#lookup,
      family: 0,
    };
    const agent = isTls ? new TlsAgent({ ...common, ...tlsOptions(tls) }) : new Agent(common);
    return limitAge(agent);
  }
}

function tlsOptions(tls: EgressTls | undefined): object {
  return {
    // Set explicitly, because an environment variable could disable the check.
    rejectUnauthorized: true,
    ...(tls?.rootCert !== undefined && { ca: tls.rootCert }),
    ...(tls?.clientCert !== undefined && { cert: tls.clientCert, key: tls.clientKey }),
    ...(tls?.serverName !== undefined && { servername: tls.serverName }),
  };
}

/** Makes an agent close connections of a certain age instead of using them again. */
function limitAge(agent: Agent): Agent {
  const known = new WeakSet<object>();
  const old = new WeakSet<object>();
  const keep = agent.keepSocketAlive.bind(agent);
  agent.keepSocketAlive = (socket) => {
    if (!known.has(socket)) {
      known.add(socket);
      const timer = setTimeout(() => old.add(socket), CONNECTION_AGE_MAX_MS).unref();
      socket.once("close", () => clearTimeout(timer));
    }
    return !old.has(socket) && keep(socket);
  };
  return agent;
}

function countOf(sockets: NodeJS.ReadOnlyDict<readonly Socket[]>): number {
  return Object.values(sockets).reduce((sum, list) => sum + (list?.length ?? 0), 0);
}

async function systemResolve(hostname: string): Promise<readonly string[]> {
  return (await lookup(hostname, { all: true })).map(({ address }) => address);
}

/** Resolves the name for a new connection and checks exactly the addresses that it uses. One forbidden address refuses all. */
function checkedLookup(rules: AddressRules, resolve: Resolve): LookupFunction {
  return (hostname, _options, callback) => {
    resolve(hostname)
      .then((addresses) => {
        assertAllowed(addresses, rules);
        callback(
          null,
          addresses.map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
        );
      })
      .catch((error: NodeJS.ErrnoException) => callback(error, []));
  };
}

function assertAllowed(addresses: readonly string[], rules: AddressRules): void {
  if (addresses.length === 0) throw new Error("the name has no address");
  for (const address of addresses) {
    const problem = addressProblem(address, rules);
    if (problem !== undefined) throw new ForbiddenAddress(problem);
  }
}

interface Host {
  readonly hostname: string;
  /** The address, if the host is one, without brackets; otherwise the name. */
  readonly name: string;
  /** The class of an address that no connection may go to; undefined for an allowed one, and for a name. */
  readonly problem: AddressClass | undefined;
}

function judgedHost(hostname: string, rules: AddressRules): Host {
  const literal = literalAddress(hostname);
  const problem = literal === undefined ? undefined : addressProblem(literal, rules);
  return { hostname, name: literal ?? hostname, problem };
}

interface Parts {
  readonly request: EgressRequest;
  readonly reject: (error: EgressError) => void;
}

/** One request and its answer. Settles once, and ignores later events. */
class Exchange {
  readonly #request: EgressRequest;
  #sent: ClientRequest | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isSent = false;
  #isOver = false;
  #status: number | undefined;
  #onHead: (response: IncomingMessage) => void = () => {};
  /** Receives a failure after the head of a stream was handed out. */
  #onFailure: (error: EgressError) => void;

  constructor(agent: Agent, host: Host, { request, reject }: Parts) {
    this.#request = request;
    this.#onFailure = reject;
    this.#begin(agent, host);
  }

  /** Reads the whole body. */
  whole(resolve: (answer: EgressAnswer) => void): void {
    this.#onHead = (response) => {
      const { statusCode: status = 0, headers } = response;
      this.#collect(response, this.#request.bodyBytesMax, (bytes) => {
        const body = this.#decompressed(bytes, headers["content-encoding"]);
        if (body === undefined || this.#isOver) return;
        this.#end();
        resolve({ status, headers, body });
      });
    };
  }

  #collect(response: IncomingMessage, bytesMax: number, done: (bytes: Buffer) => void): void {
    const chunks: Buffer[] = [];
    let length = 0;
    response.on("data", (chunk: Buffer) => {
      length += chunk.length;
      if (length > bytesMax) this.#fail("too-large", "the body is too large");
      else chunks.push(chunk);
    });
    response.on("end", () => {
      if (!response.complete) return this.#fail("lost", "the body is incomplete");
      const [first = Buffer.alloc(0)] = chunks;
      done(chunks.length > 1 ? Buffer.concat(chunks) : first);
    });
  }

  /** Hands out the body while it arrives. */
  streamed(resolve: (answer: EgressStream) => void): void {
    this.#onHead = (response) => {
      const { statusCode: status = 0, headers } = response;
      let failure: EgressError | undefined;
      this.#onFailure = (error) => {
        failure = error;
        response.destroy(error);
      };
      const close = (): void => {
        this.#end();
        this.#sent?.destroy();
      };
      const whole = (bytesMax: number): Promise<Buffer> =>
        new Promise((read, reject) => {
          if (failure !== undefined) return reject(failure);
          this.#onFailure = reject;
          this.#collect(response, bytesMax, (bytes) => {
            this.#end();
            read(bytes);
          });
        });
      resolve({ status, headers, body: this.#chunks(response, () => failure), whole, close });
    };
  }

  async *#chunks(response: IncomingMessage, failure: () => EgressError | undefined): AsyncGenerator<Buffer> {
    let length = 0;
    try {
      for await (const chunk of response as AsyncIterable<Buffer>) {
        length += chunk.length;
        if (length > this.#request.bodyBytesMax) this.#fail("too-large", "the body is too large");
        const failed = failure();
        if (failed !== undefined) throw failed;
        yield chunk;
      }
      if (!response.complete) this.#fail("lost", "the body is incomplete");
    } catch (error) {
      if (!(error instanceof EgressError)) this.#fail("lost", "the connection ended within the body", error);
    } finally {
      const isWhole = response.complete;
      this.#end();
      if (!isWhole) this.#sent?.destroy();
    }
    const failed = failure();
    if (failed !== undefined) throw failed;
  }

  #begin(agent: Agent, { name, problem }: Host): void {
    const { url, method, headers, body, signal, timeoutMs } = this.#request;
    if (problem !== undefined) {
      this.#failed(new ForbiddenAddress(problem));
      return;
    }
    if (signal?.aborted) {
      this.#abort();
      return;
    }
    const isTls = url.protocol === "https:";
    const sent = (isTls ? requestHttps : requestHttp)({
      agent,
      method,
      maxHeaderSize: HEAD_BYTES_MAX,
      insecureHTTPParser: false,
      host: name,
      port: url.port || (isTls ? 443 : 80),
      path: `${url.pathname}${url.search}`,
      headers: {
        host: url.host,
        "user-agent": USER_AGENT,
        "accept-encoding": "identity",
        ...headers,
        ...((body !== undefined || !BODILESS.has(method)) && {
          "content-length": `${body === undefined ? 0 : Buffer.byteLength(body)}`,
        }),
      },
    });
    this.#sent = sent;
    boundInterimAnswers(sent);
    sent.on("socket", (socket) => this.#follow(sent, socket, isTls));
    sent.on("upgrade", (_response, socket) => {
      socket.destroy();
      this.#fail("upgrade", "the server switched to another protocol");
    });
    sent.on("error", (error) => this.#failed(error));
    sent.on("response", (response) => this.#answered(response));
    signal?.addEventListener("abort", this.#abort, { once: true });
    // The lookup has started: the signal may have fired meanwhile.
    if (signal?.aborted) this.#abort();
    if (timeoutMs !== undefined && !this.#isOver) {
      const timeout = (): void => this.#aborted(new DOMException("The operation timed out.", "TimeoutError"));
      this.#timer = setTimeout(timeout, timeoutMs);
    }
    if (!this.#isOver) sent.end(body);
  }

  /** The request is written once the connection is there. */
  #follow(sent: ClientRequest, socket: Socket, isTls: boolean): void {
    if (sent.reusedSocket) this.#connected();
    else socket.once(isTls ? "secureConnect" : "connect", () => this.#connected());
  }

  #connected(): void {
    if (this.#isOver) return;
    try {
      this.#request.onSend?.();
      this.#isSent = true;
    } catch (error) {
      this.#aborted(error);
    }
  }

  #answered(response: IncomingMessage): void {
    const { statusCode: status = 0, headers } = response;
    this.#status = status;
    this.#isSent = true;
    response.on("error", (error) => this.#fail("lost", "the connection ended within the body", error));
    response.on("close", () => {
      if (!response.complete) this.#fail("lost", "the connection ended within the body");
    });
    const coding = headers["transfer-encoding"]?.toLowerCase();
    const isBounded = coding !== undefined || headers["content-length"] !== undefined;
    const hasNoBody = this.#request.method === "HEAD" || status === 204 || status === 304;
    if (coding !== undefined && coding !== "chunked") {
      this.#fail("encoding", "the transfer encoding is unknown");
    } else if (!isBounded && !hasNoBody && this.#request.acceptsUnboundedBody !== true) {
      this.#fail("unbounded", "only the end of the connection bounds the body");
    } else {
      this.#onHead(response);
    }
  }

  #decompressed(bytes: Buffer, encoding: string | undefined): Buffer | undefined {
    const name = encoding?.trim().toLowerCase() ?? "identity";
    if (name === "identity" || name === "" || bytes.length === 0) return bytes;
    const decompress = DECOMPRESSORS.get(name);
    if (decompress === undefined) {
      this.#fail("encoding", "the content encoding is unknown");
      return undefined;
    }
    try {
      return decompress(bytes, { maxOutputLength: this.#request.bodyBytesMax });
    } catch (error) {
      const isTooLarge = error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";
      if (isTooLarge) this.#fail("too-large", "the decompressed body is too large");
      else this.#fail("encoding", "the compressed body is malformed", error);
      return undefined;
    }
  }

  readonly #abort = (): void => this.#aborted(this.#request.signal?.reason);

  #aborted(reason: unknown): void {
    this.#fail("aborted", "the request was aborted", reason);
  }

  /** Handles an error of the connection. */
  #failed(error: unknown): void {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (error instanceof ForbiddenAddress) this.#fail("address", error.message, error);
    else if (error instanceof InterimAnswers) this.#fail("interim", error.message, error);
    else if (code.startsWith("HPE_")) this.#fail("malformed", `not a valid answer (${code})`, error);
    else if (this.#isSent) this.#fail("lost", `the connection ended (${code})`, error);
    else this.#fail("unreachable", `no connection (${code})`, error);
  }

  #fail(failure: EgressFailure, message: string, cause?: unknown): void {
    if (this.#isOver) return;
    this.#end();
    this.#onFailure(new EgressError(failure, message, { sent: this.#isSent, status: this.#status, cause }));
    this.#sent?.destroy();
  }

  #end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.#request.signal?.removeEventListener("abort", this.#abort);
  }
}

/** Methods whose requests have no body unless one is given. */
const BODILESS = new Set(["GET", "HEAD", "DELETE", "OPTIONS"]);

const DECOMPRESSORS: ReadonlyMap<string, (bytes: Buffer, bounds: { readonly maxOutputLength: number }) => Buffer> =
  new Map([
    ["gzip", gunzipSync],
    ["x-gzip", gunzipSync],
    ["deflate", inflateSync],
    ["br", brotliDecompressSync],
  ]);

/** Maximum interim responses (1xx) per request: each takes processor time, and the runtime does not limit them. */
const INTERIM_ANSWERS_MAX = 16;

class InterimAnswers extends Error {
  override readonly name = "InterimAnswers";

  constructor() {
    super("too many interim answers");
  }
}

/** Aborts a request whose server keeps sending interim responses and never the final one. */
function boundInterimAnswers(request: ClientRequest): void {
  let count = 0;
  request.on("information", () => {
    count += 1;
    if (count === INTERIM_ANSWERS_MAX) request.destroy(new InterimAnswers());
  });
}

declare module "node:http" {
  interface Agent {
    /** Called for every request that uses the agent. */
    addRequest(request: ClientRequest, options: object): void;
  }
}

/**
 * Returns an agent for a library that sends its requests itself: to servers of the operator, and ending in time whatever the
 * server does.
 */
export function libraryAgent(protocol: string, timeoutMs: number): Agent {
  const lookup = checkedLookup(OPERATED_ADDRESSES, systemResolve);
  const common = { keepAlive: true, lookup, family: 0 };
  const agent = protocol === "https:" ? new TlsAgent({ ...common, ...tlsOptions(undefined) }) : new Agent(common);
  const add = agent.addRequest.bind(agent);
  agent.addRequest = (request, target) => {
    boundRequest(request, timeoutMs);
    const literal = literalAddress(request.host);
    const problem = literal === undefined ? undefined : addressProblem(literal, OPERATED_ADDRESSES);
    if (problem === undefined) add(request, target);
    else request.destroy(new ForbiddenAddress(problem));
  };
  return agent;
}

function boundRequest(request: ClientRequest, timeoutMs: number): void {
  boundInterimAnswers(request);
  // An upgrade is never requested, and the runtime reports no error for it.
  request.on("upgrade", (_response, socket) => {
    socket.destroy();
    request.emit("error", new Error("another protocol"));
  });
  const deadline = setTimeout(() => request.destroy(new Error(`no complete answer within ${timeoutMs} ms`)), timeoutMs);
  deadline.unref();
  request.once("close", () => clearTimeout(deadline));
}
