import { errorText } from "../../core/error-text.ts";
import { Refusal } from "../../core/errors.ts";
import { EventReader, type StreamedEvent } from "../../core/event-reader.ts";
import { isTable } from "../../core/json.ts";
import { headerText } from "../../core/mcp.ts";
import type { EpochMs } from "../../core/types.ts";
import type { AssertionSigner } from "../../egress/assertion.ts";
import type { EgressClient } from "../../egress/client.ts";
import type { CredentialOwner, Credentials } from "../../egress/credentials.ts";
import { EgressError, type EgressRequest, type EgressStream } from "../../egress/request.ts";
import { retryAfterMs } from "../../egress/retry-after.ts";
import { secretsInHeaders } from "../../egress/sent-secrets.ts";
import {
  type AssertedCall,
  type McpChannel,
  type MessageReceiver,
  type OpenMcpChannel,
  type OutgoingMessage,
  UpstreamError,
} from "./channel.ts";
import { jsonIn, messageReader, type ReadMessage } from "./messages.ts";

/** Messages over Streamable HTTP: each is one POST, whose answer is one message or a stream of events. */

const JSON_TYPE = "application/json";
const EVENTS_TYPE = "text/event-stream";
const SESSION_ID_CHARACTERS_MAX = 1_024;
/** Bytes of one stream of events, as a multiple of the largest message. */
const STREAM_MESSAGES = 16;
/** Pause before the stream of a server's own messages is opened again. */
const REOPEN_MS = 5_000;
const CLOSE_TIMEOUT_MS = 2_000;
/** Time for a stream to end by itself after the answer, so that its connection can be used again. */
const END_GRACE_MS = 1_000;
/** Answers to a server's own requests that are sent at the same time. Further ones are dropped. */
const REPLIES_MAX = 16;
/** Largest answer to a message that needs none. */
const IGNORED_BYTES_MAX = 65_536;
/** Credentials whose secrets are removed from messages: former ones too, which a server may show later. */
const CREDENTIALS_KEPT_MAX = 8;
const ACCEPTED = 202;
const UNAUTHENTICATED = 401;
const NOT_FOUND = 404;
const TOO_MANY_REQUESTS = 429;
const SERVER_ERRORS_FROM = 500;

export interface HttpOptions {
  readonly system: string;
  readonly url: URL;
  /** Returns the client in use: another one after a change of certificates. */
  readonly client: () => EgressClient;
  readonly credentials: Credentials | undefined;
  /** Signs caller assertions for the calls of tools. */
  readonly sign: AssertionSigner | undefined;
  readonly messageBytesMax: number;
  readonly now: () => EpochMs;
}

export function httpChannel(options: HttpOptions): OpenMcpChannel {
  return (receiver, owner) => new HttpChannel(options, receiver, owner);
}

/** A request of the protocol, and the call that it belongs to. */
interface Requested {
  readonly message: OutgoingMessage;
  readonly id: number;
  readonly call: AssertedCall | undefined;
}

/** A request that was sent, and its answer that has not been read to its end. */
interface InProgress {
  readonly controller: AbortController;
  /** True once the whole answer was read. */
  isRead: boolean;
  /** Ends the answer when it goes on after the message that answers the request. */
  grace: ReturnType<typeof setTimeout> | undefined;
}

/** An answer, and the secrets that only its request had. */
interface Answering {
  readonly stream: EgressStream;
  readonly secrets: readonly string[];
}

class HttpChannel implements McpChannel {
  readonly ready = Promise.resolve();
  readonly ended: Promise<string>;
  readonly #options: HttpOptions;
  readonly #receiver: MessageReceiver;
  readonly #owner: CredentialOwner | undefined;
  readonly #closing = new AbortController();
  readonly #read: ReadMessage;
  /** Secrets in the credentials of this connection, by header. */
  readonly #secretsOf = new Map<string, readonly string[]>();
  #secrets: readonly string[] = [];
  #end: (reason: string) => void;
  /**
   * Exchanges by the numbers of their requests. Rejected: a listener for each on `#closing`, whose removal takes time for every
   * other one.
   */
  readonly #exchanges = new Map<number, InProgress>();
  #replies = 0;
  #sessionId: string | undefined;
  #version: string | undefined;
  #reopening: ReturnType<typeof setTimeout> | undefined;

  constructor(options: HttpOptions, receiver: MessageReceiver, owner: CredentialOwner | undefined) {
    const { promise, resolve } = Promise.withResolvers<string>();
    this.ended = promise;
    this.#end = (reason) => {
      clearTimeout(this.#reopening);
      this.#closing.abort();
      for (const { controller } of this.#exchanges.values()) controller.abort();
      resolve(reason);
    };
    this.#options = options;
    this.#receiver = receiver;
    this.#owner = owner;
    this.#read = messageReader(receiver, this.#end);
  }

  get hasSession(): boolean {
    return this.#sessionId !== undefined;
  }

  negotiated(version: string): void {
    this.#version = version;
  }

  async send(message: OutgoingMessage, call?: AssertedCall): Promise<void> {
    const { id, method } = message;
    if (method !== undefined && typeof id === "number") {
      void this.#exchange({ message, id, call });
      return;
    }
    if (method === undefined) {
      await this.#reply(message);
      return;
    }
    await this.#deliver(message);
    // The session exists from here on, with messages of the server's own.
    if (method === "notifications/initialized") void this.#listen();
  }

  settled(id: number, isAnswered: boolean): void {
    const exchange = this.#exchanges.get(id);
    if (exchange === undefined || exchange.isRead) return;
    // The answer may have come in another stream: this one could stay open for ever.
    if (isAnswered) exchange.grace ??= setTimeout(() => exchange.controller.abort(), END_GRACE_MS);
    else exchange.controller.abort();
  }

  async close(): Promise<void> {
    const id = this.#sessionId;
    this.#sessionId = undefined;
    this.#end("closed");
    if (id === undefined) return;
    const { url, client } = this.#options;
    try {
      const signal = AbortSignal.timeout(CLOSE_TIMEOUT_MS);
      const headers = { ...this.#headers(), ...(await this.#credentials(signal)), "mcp-session-id": id };
      await client().send({
        method: "DELETE",
        url,
        headers,
        signal,
        bodyBytesMax: IGNORED_BYTES_MAX,
        isRepeatable: true,
      });
    } catch {
      // The server forgets the session by itself.
    }
  }

  #headers(message?: OutgoingMessage): Readonly<Record<string, string>> {
    const headers: Record<string, string> = {};
    if (message !== undefined) {
      const { method, params } = message;
      const name = params?.["name"];
      headers["content-type"] = JSON_TYPE;
      headers["accept"] = `${JSON_TYPE}, ${EVENTS_TYPE}`;
      if (method !== undefined) headers["mcp-method"] = method;
      if (method === "tools/call" && typeof name === "string") headers["mcp-name"] = headerText(name);
    }
    if (this.#version !== undefined) headers["mcp-protocol-version"] = this.#version;
    if (this.#sessionId !== undefined) headers["mcp-session-id"] = this.#sessionId;
    return headers;
  }

  /** Answers a request of the server. */
  async #reply(message: OutgoingMessage): Promise<void> {
    if (this.#replies === REPLIES_MAX) return;
    this.#replies += 1;
    await this.#deliver(message);
    this.#replies -= 1;
  }

  /** Sends a message that has no answer. A server that cannot be reached is noticed by the next request. */
  async #deliver(message: OutgoingMessage): Promise<void> {
    const { url, client } = this.#options;
    const body = JSON.stringify({ jsonrpc: "2.0", ...message });
    const { signal } = this.#closing;
    const common = { bodyBytesMax: IGNORED_BYTES_MAX, isRepeatable: true, timeoutMs: CLOSE_TIMEOUT_MS };
    // The session may have another id, or be closed, once the credentials are there.
    const headers = this.#headers(message);
    try {
      const credentials = await this.#credentials(signal);
      await client().send({ ...common, method: "POST", url, headers: { ...headers, ...credentials }, body, signal });
    } catch {}
  }

  async #credentials(signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    const added = (await this.#options.credentials?.header({ ...this.#owner, signal })) ?? {};
    for (const header of Object.values(added)) if (!this.#secretsOf.has(header)) this.#remember(header);
    return added;
  }

  #remember(header: string): void {
    this.#secretsOf.set(header, secretsInHeaders([header]));
    const [oldest] = this.#secretsOf.keys();
    if (this.#secretsOf.size > CREDENTIALS_KEPT_MAX && oldest !== undefined) this.#secretsOf.delete(oldest);
    this.#secrets = [...this.#secretsOf.values()].flat();
  }

  /** Opens a request with credentials, and once more with others when the server refuses them: a 401 is a definite refusal. */
  async #open(request: EgressRequest & { readonly signal: AbortSignal }, call?: AssertedCall): Promise<Answering> {
    const { credentials } = this.#options;
    if (credentials === undefined) return await this.#send(request, {}, call);
    const held = await this.#credentials(request.signal);
    const answering = await this.#send(request, held, call);
    if (answering.stream.status !== UNAUTHENTICATED) return answering;
    const isRenewed = await credentials.renew(held, { ...this.#owner, signal: request.signal }).catch(() => false);
    if (!isRenewed) return answering;
    answering.stream.close();
    return await this.#send(request, await this.#credentials(request.signal), call);
  }

  async #send(
    request: EgressRequest,
    credentials: Readonly<Record<string, string>>,
    call: AssertedCall | undefined,
  ): Promise<Answering> {
    const assertion = call === undefined ? undefined : await this.#assertion(request, call);
    const asserted = assertion !== undefined && { "x-caller-assertion": assertion };
    const headers = { ...request.headers, ...asserted, ...credentials };
    const stream = await this.#options.client().open({ ...request, headers, onSend: call?.begin });
    return { stream, secrets: assertion === undefined ? NO_SECRETS : secretsInHeaders([assertion]) };
  }

  /** Returns undefined when assertions are not sent. */
  #assertion({ url, body }: EgressRequest, call: AssertedCall): Promise<string> | undefined {
    const { sign, system } = this.#options;
    if (sign === undefined) return undefined;
    const { tool, caller, traceId } = call;
    const message = Buffer.from(body ?? "");
    return sign({ system, caller, tool, traceId, method: `POST ${url.pathname}${url.search}`, message });
  }

  async #exchange(request: Requested): Promise<void> {
    const { id } = request;
    const exchange: InProgress = { controller: new AbortController(), isRead: false, grace: undefined };
    this.#exchanges.set(id, exchange);
    try {
      await this.#post(request, exchange);
      if (this.#receiver.isWaiting(id)) throw new UpstreamError("invalid", "its answer holds no answer to the request");
    } catch (error) {
      const failed = upstreamError(error);
      if (failed.failure === "tooLarge") this.#receiver.log("ended", failed.message);
      this.#receiver.lost(id, failed);
    } finally {
      this.#exchanges.delete(id);
      clearTimeout(exchange.grace);
    }
  }

  async #post({ message, id, call }: Requested, exchange: InProgress): Promise<void> {
    const { url, messageBytesMax } = this.#options;
    const request = {
      method: "POST",
      url,
      headers: this.#headers(message),
      signal: exchange.controller.signal,
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      bodyBytesMax: STREAM_MESSAGES * messageBytesMax,
      isRepeatable: message.method !== "tools/call",
    };
    const answering = await this.#open(request, call);
    try {
      await this.#answer(answering, { message, id, exchange });
    } catch (error) {
      answering.stream.close();
      throw error;
    }
  }

  async #answer(
    answering: Answering,
    { message, id, exchange }: Pick<Requested, "message" | "id"> & { readonly exchange: InProgress },
  ): Promise<void> {
    const { stream, secrets } = answering;
    const { status, headers } = stream;
    const encoding = headers["content-encoding"];
    if (encoding !== undefined && encoding !== "identity") {
      throw new UpstreamError("invalid", "its answer has an encoding that was not asked for");
    }
    const type = headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase();
    if (status === 200 && message.method === "initialize") this.#sessionId = sessionIdOf(headers["mcp-session-id"]);
    if (status === 200 && type === EVENTS_TYPE) {
      await this.#events(answering);
      return;
    }
    if (status === NOT_FOUND && this.#sessionId !== undefined) {
      this.#sessionId = undefined;
      this.#receiver.lost(id, new UpstreamError("expired", "its session has ended"));
      this.#end("the server ended the session");
      throw statusError(status);
    }
    if (type === JSON_TYPE) {
      const body = await stream.whole(this.#options.messageBytesMax);
      exchange.isRead = true;
      // Only an answer with status 200 can be a success.
      const isError = status >= 400 && status !== TOO_MANY_REQUESTS && holdsError(body);
      if (status === 200 || isError) this.#message(body, secrets);
    }
    if (this.#receiver.isWaiting(id)) throw statusError(status, retryAfterMs(headers, this.#options));
  }

  #message(body: Uint8Array, secrets: readonly string[]): void {
    if (body.byteLength > 0) this.#read(body, secrets.length === 0 ? this.#secrets : [...this.#secrets, ...secrets]);
  }

  /** Reads events until the stream ends. */
  async #events({ stream, secrets }: Answering): Promise<void> {
    const { messageBytesMax } = this.#options;
    const reader = new EventReader(messageBytesMax);
    for await (const chunk of stream.body) {
      for (const { bytes } of readEvents(reader, chunk)) this.#message(bytes, secrets);
    }
  }

  /** Reads the messages that the server sends by itself, such as changes of its definitions, while it offers such a stream. */
  async #listen(): Promise<void> {
    const { url, messageBytesMax } = this.#options;
    const { signal } = this.#closing;
    try {
      const answering = await this.#open({
        method: "GET",
        url,
        headers: { ...this.#headers(), accept: EVENTS_TYPE },
        signal,
        bodyBytesMax: STREAM_MESSAGES * messageBytesMax,
        isRepeatable: true,
      });
      const { status, headers, close } = answering.stream;
      if (status !== 200 || headers["content-type"]?.startsWith(EVENTS_TYPE) !== true) {
        close();
        return;
      }
      await this.#events(answering);
    } catch {
      // A server that cannot be reached is noticed by the next call.
    }
    if (signal.aborted) return;
    this.#reopening = setTimeout(() => void this.#listen(), REOPEN_MS);
    this.#reopening.unref();
  }
}

const NO_SECRETS: readonly string[] = [];

function holdsError(body: Buffer): boolean {
  const message = jsonIn(body.toString("utf8"));
  // A member that is null is absent.
  return isTable(message) && (message["error"] ?? null) !== null && (message["result"] ?? null) === null;
}

/** @throws {UpstreamError} when an event is too large */
function* readEvents(reader: EventReader, chunk: Uint8Array): Generator<StreamedEvent, void> {
  try {
    yield* reader.read(chunk);
  } catch {
    throw new UpstreamError("tooLarge", "its answer is too large");
  }
}

function sessionIdOf(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  const isValid = typeof header === "string" && /^[\x21-\x7e]+$/.test(header);
  if (isValid && header.length <= SESSION_ID_CHARACTERS_MAX) return header;
  throw new UpstreamError("invalid", "its session id is not valid");
}

/** Returns the failure for a status without a message in the body. */
function statusError(status: number, waitMs?: number): UpstreamError {
  const reason = `it answered with HTTP status ${status}`;
  if (status === TOO_MANY_REQUESTS) return new UpstreamError("notSent", reason, { retryAfterMs: waitMs });
  if (status >= SERVER_ERRORS_FROM) return new UpstreamError("lost", reason, { retryAfterMs: waitMs });
  if (status === ACCEPTED || (status >= 200 && status < 300)) return new UpstreamError("invalid", reason);
  return new UpstreamError("error", reason, { code: status });
}

/** Returns why there are no credentials, for operators. */
function noCredentials({ message, cause }: Refusal): string {
  const because = isTable(cause) ? cause["because"] : undefined;
  return typeof because === "string" ? `no credentials: ${because}` : message;
}

function upstreamError(error: unknown): UpstreamError {
  if (error instanceof UpstreamError) return error;
  if (error instanceof Refusal) return new UpstreamError("notSent", noCredentials(error), { refusal: error });
  if (!(error instanceof EgressError)) return new UpstreamError("notSent", errorText(error));
  const { failure, sent, message } = error;
  if (!sent) return new UpstreamError("notSent", message);
  if (failure === "too-large") return new UpstreamError("tooLarge", message);
  return new UpstreamError(failure === "lost" || failure === "aborted" ? "lost" : "invalid", message);
}
