import { errorText } from "../../core/error-text.ts";
import { isTable } from "../../core/json.ts";
import { CHANGES, ERROR, META, MODERN } from "../../core/mcp.ts";
import { VERSION } from "../../core/version.ts";
import type { CredentialOwner } from "../../egress/credentials.ts";
import {
  type AssertedCall,
  type McpChannel,
  type MessageReceiver,
  type OpenMcpChannel,
  type OutgoingMessage,
  UpstreamError,
  type UpstreamFacts,
  unlessCallEnded,
} from "./channel.ts";
import { bounded, type Definition, definitionOf, type ServerIdentity } from "./definitions.ts";
import { ToolsSubscription } from "./subscription.ts";

/**
 * One session with an MCP server: the client's half of the protocol, as far as tools need it. Everything that the server sends is
 * untrusted. Answers are matched by the numbers of our own requests; every other message costs the server a part of its allowance.
 */

/** Versions of the protocol with `initialize`; the first is offered. */
const VERSIONS: readonly string[] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const CLIENT = { name: "safe-tool-call", version: VERSION } as const;
/** Members of `_meta` that say what `initialize` says in earlier versions. No capabilities: nothing that a server may ask for. */
const ENVELOPE = {
  [META.version]: MODERN,
  [META.capabilities]: {},
  [META.client]: CLIENT,
} as const;
/** Messages that nobody asked for, between two answers, after which a server is ended. */
const UNSOLICITED_MAX = 10_000;
/** Bytes of such messages: reading them takes processor time from every other call. */
const UNSOLICITED_BYTES_MAX = 16_777_216;
const PAGES_MAX = 100;
const TOOLS_MAX = 2_000;
/** Bytes of all pages of a list. It is read again whenever the server asks for that. */
const LIST_BYTES_MAX = 8_388_608;
const CURSOR_CHARACTERS_MAX = 4_096;
const NAME_CHARACTERS_MAX = 256;
const LOGGED_ONCE_MAX = 32;
const PING_TIMEOUT_MS = 5_000;
const PROBE_TIMEOUT_MS = 5_000;
const RECHECK_PAUSE_MS = 1_000;
const NEVER = new AbortController().signal;

export interface SessionOptions {
  readonly open: OpenMcpChannel;
  /** The caller whose own credentials the session uses. */
  readonly owner: CredentialOwner | undefined;
  readonly identity: Pick<ServerIdentity, "address" | "tls">;
  /** Time for the server to start and to list its tools. */
  readonly startTimeoutMs: number;
  readonly log: (what: string, text: string) => void;
  /** Receives every list of definitions that the server gives. */
  readonly onDefinitions: (listed: Listed) => void;
}

/** The tools of a server at one time. */
export interface Listed {
  readonly server: { readonly name: string; readonly version: string };
  readonly definitions: ReadonlyMap<string, Definition>;
  /** Problems with definitions that cannot be used, by tool name. */
  readonly unusable: ReadonlyMap<string, string>;
}

interface Answer {
  readonly result: unknown;
  readonly bytes: number;
}

interface Pending {
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: UpstreamError) => void;
}

export class McpSession {
  readonly ended: Promise<string>;
  readonly #options: SessionOptions;
  readonly #channel: McpChannel;
  readonly #pending = new Map<number, Pending>();
  readonly #logged = new Set<string>();
  #nextId = 1;
  #unsolicited = 0;
  #unsolicitedBytes = 0;
  #endReason: string | undefined;
  #isForgotten = false;
  #probing: Promise<boolean> | undefined;
  #server = { name: "", version: "" };
  /** True for a server that announces changes of its tools to those who ask for it. */
  #announcesTools = false;
  /** Members of `_meta` of every request. */
  #envelope: Readonly<Record<string, unknown>> | undefined;
  #listed: Listed | undefined;
  #listing: Promise<Listed> | undefined;
  /** True after the server announced other definitions that have not been read. */
  #isOutdated = false;
  #recheck: ReturnType<typeof setTimeout> | undefined;
  readonly #subscription = new ToolsSubscription({
    listen: (params) => this.#request(CHANGES.listen, params, NEVER),
    mayContinue: () => this.isOpen,
    missed: () => this.#outdate(),
  });

  private constructor(options: SessionOptions) {
    this.#options = options;
    const receiver: MessageReceiver = {
      message: (value, bytes) => this.#receive(value, bytes),
      isWaiting: (id) => this.#pending.has(id),
      lost: (id, error) => this.#settle(id, (pending) => pending.reject(error)),
      tooLarge: () => {
        const waiting = this.#pending.size - (this.#subscription.isOpen ? 1 : 0);
        this.#rejectAll(waiting === 1 ? "tooLarge" : "lost", "a message was too large");
      },
      log: (what, text) => options.log(what, text),
    };
    this.#channel = options.open(receiver, options.owner);
    this.ended = this.#channel.ended.then((reason) => {
      this.#endReason ??= reason;
      this.#stopTimers();
      this.#rejectAll("lost", `the connection ended: ${reason}`);
      return reason;
    });
  }

  /**
   * Starts a session: connects, introduces itself, and reads all definitions.
   *
   * @throws {UpstreamError}
   */
  static async start(options: SessionOptions): Promise<McpSession> {
    const signal = AbortSignal.timeout(options.startTimeoutMs);
    let session: McpSession | undefined;
    try {
      session = new McpSession(options);
      await session.#introduce(signal);
      await session.definitions(signal);
      if (session.#announcesTools) void session.#subscription.follow();
      return session;
    } catch (error) {
      await session?.close();
      const reason = signal.aborted ? `it did not start within ${options.startTimeoutMs} ms` : errorText(error);
      throw new UpstreamError("notSent", reason, refusalIn(error));
    }
  }

  get isOpen(): boolean {
    return this.#endReason === undefined;
  }

  /** Whether a call may use it: false also once the server no longer knows the session, while earlier calls are in progress. */
  get isUsable(): boolean {
    return this.isOpen && !this.#isForgotten;
  }

  close(): Promise<void> {
    this.#endReason ??= "closed";
    this.#stopTimers();
    this.#rejectAll("lost", "the connection was closed");
    return this.#channel.close();
  }

  /**
   * Returns the definitions, read again when the server announced a change.
   *
   * @throws {UpstreamError} `notSent`: a call that needs them was not sent
   */
  async definitions(signal: AbortSignal): Promise<Listed> {
    if (this.#listed !== undefined && !this.#isOutdated) return this.#listed;
    try {
      const listed = await unlessCallEnded(this.readDefinitions(), signal);
      // The reading may have begun before the announcement.
      return this.#isOutdated ? await unlessCallEnded(this.readDefinitions(), signal) : listed;
    } catch (error) {
      throw new UpstreamError("notSent", errorText(error), refusalIn(error));
    }
  }

  /**
   * Reads the definitions again. Concurrent callers share one reading, which has a time limit of its own.
   *
   * @throws {UpstreamError}
   */
  readDefinitions(): Promise<Listed> {
    this.#listing ??= this.#list(AbortSignal.timeout(this.#options.startTimeoutMs)).finally(() => {
      this.#listing = undefined;
    });
    return this.#listing;
  }

  /**
   * Calls a tool. When the signal fires, the server is notified, and a server that does not answer a ping either is ended.
   *
   * @returns the result, unchecked
   * @throws {UpstreamError}
   */
  async call(tool: string, args: unknown, options: ToolCallOptions): Promise<unknown> {
    const { signal, meta, call } = options;
    const params = { name: tool, arguments: args, ...(meta !== undefined && { _meta: meta }) };
    try {
      return await this.#request("tools/call", params, signal, call);
    } catch (error) {
      if (signal.aborted && this.isOpen) void this.#checkAlive();
      if (this.#mayBeForgotten(error) && !(await this.#knowsSession())) {
        throw new UpstreamError("expired", "its session has ended");
      }
      throw error;
    }
  }

  /** Returns whether an error may mean that the server no longer knows the session. By the specification, only status 404 says so. */
  #mayBeForgotten(error: unknown): boolean {
    const isAnswer = error instanceof UpstreamError && error.failure === "error" && !error.isRefused;
    return isAnswer && error.code !== ERROR.urlElicitationRequired && this.#channel.hasSession === true;
  }

  /** Asks for the first page of the tools, which a server gives only in a session. Concurrent callers share one request. */
  #knowsSession(): Promise<boolean> {
    if (this.#isForgotten) return Promise.resolve(false);
    this.#probing ??= this.#request("tools/list", {}, AbortSignal.timeout(PROBE_TIMEOUT_MS))
      .then(
        () => true,
        (error: unknown) => error instanceof UpstreamError && (error.failure === "notSent" || error.isRefused),
      )
      .then((isKnown) => {
        this.#isForgotten ||= !isKnown;
        return isKnown;
      })
      .finally(() => {
        this.#probing = undefined;
      });
    return this.#probing;
  }

  /** Agrees on a version of the protocol: first with `initialize`, then, if that is refused, without it. */
  async #introduce(signal: AbortSignal): Promise<void> {
    await unlessCallEnded(this.#channel.ready, signal);
    let result: unknown;
    try {
      const params = { protocolVersion: VERSIONS[0], capabilities: {}, clientInfo: CLIENT };
      result = await this.#request("initialize", params, signal);
    } catch (error) {
      if (!(error instanceof UpstreamError) || error.failure !== "error" || error.isRefused) throw error;
      await this.#discover(signal);
      return;
    }
    const { protocolVersion, serverInfo } = isTable(result) ? result : {};
    if (typeof protocolVersion !== "string" || !VERSIONS.includes(protocolVersion)) throw unknownVersion();
    this.#identify(serverInfo);
    this.#channel.negotiated?.(protocolVersion);
    await this.#channel.send({ method: "notifications/initialized" });
  }

  async #discover(signal: AbortSignal): Promise<void> {
    this.#envelope = ENVELOPE;
    this.#channel.negotiated?.(MODERN);
    const result = await this.#request("server/discover", {}, signal);
    const { supportedVersions, capabilities, serverInfo, _meta: meta } = isTable(result) ? result : {};
    if (!Array.isArray(supportedVersions) || !supportedVersions.includes(MODERN)) throw unknownVersion();
    const tools = isTable(capabilities) ? capabilities["tools"] : undefined;
    this.#announcesTools = isTable(tools) && tools["listChanged"] === true;
    this.#identify(serverInfo ?? (isTable(meta) ? meta[META.server] : undefined));
  }

  #identify(serverInfo: unknown): void {
    const { name, version } = isTable(serverInfo) ? serverInfo : {};
    this.#server = { name: shortText(name), version: shortText(version) };
  }

  async #list(signal: AbortSignal): Promise<Listed> {
    this.#isOutdated = false;
    try {
      return await this.#readPages(signal);
    } catch (error) {
      // The next call tries again, in another session if the server refuses the list in this one.
      this.#isOutdated = true;
      this.#isForgotten ||= this.#mayBeForgotten(error);
      throw error;
    }
  }

  async #readPages(signal: AbortSignal): Promise<Listed> {
    const identity = { ...this.#options.identity, name: this.#server.name };
    const definitions = new Map<string, Definition>();
    const unusable = new Map<string, string>();
    const cursors = new Set<string>();
    let cursor: string | undefined;
    let count = 0;
    let listBytes = 0;
    for (let page = 0; page === 0 || cursor !== undefined; page += 1) {
      if (page === PAGES_MAX) throw new UpstreamError("invalid", `its list of tools has more than ${PAGES_MAX} pages`);
      const { result, bytes } = await this.#ask("tools/list", cursor === undefined ? {} : { cursor }, signal);
      const { tools, nextCursor } = isTable(result) ? result : {};
      listBytes += bytes;
      if (listBytes > LIST_BYTES_MAX) {
        throw new UpstreamError("invalid", `its list of tools is longer than ${LIST_BYTES_MAX} bytes`);
      }
      if (!Array.isArray(tools)) throw new UpstreamError("invalid", "its list of tools is not a list");
      count += tools.length;
      if (count > TOOLS_MAX) throw new UpstreamError("invalid", `it lists more than ${TOOLS_MAX} tools`);
      const isNew = this.#envelope !== undefined;
      for (const tool of tools) readDefinition(tool, { identity, definitions, unusable, isNew });
      cursor = cursorOf(nextCursor);
      // Versions with `initialize` end a list also with an empty cursor.
      const endsHere = cursor !== undefined && (cursors.has(cursor) || (cursor === "" && !isNew));
      if (endsHere) {
        this.#logOnce("list of tools", `page ${page + 1} names a next page that it cannot have: the list ends there`);
        break;
      }
      if (cursor !== undefined) cursors.add(cursor);
    }
    this.#listed = { server: this.#server, definitions, unusable };
    this.#options.onDefinitions(this.#listed);
    return this.#listed;
  }

  async #request(
    method: string,
    params: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
    call?: AssertedCall,
  ): Promise<unknown> {
    return (await this.#ask(method, params, signal, call)).result;
  }

  async #ask(
    method: string,
    params: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
    call?: AssertedCall,
  ): Promise<Answer> {
    if (!this.isOpen) throw new UpstreamError("notSent", `the connection ended: ${this.#endReason}`);
    if (signal.aborted) throw new UpstreamError("notSent", "the call ended before it was sent");
    const id = this.#nextId;
    this.#nextId += 1;
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    this.#pending.set(id, { resolve, reject });
    const cancel = (): void => {
      this.#settle(id, (pending) => pending.reject(new UpstreamError("lost", "no answer came in time")));
      if (method !== "initialize") this.#notify({ method: "notifications/cancelled", params: { requestId: id } });
    };
    signal.addEventListener("abort", cancel, { once: true });
    const envelope = this.#envelope;
    const sent =
      envelope === undefined
        ? params
        : { ...params, _meta: { ...(isTable(params["_meta"]) && params["_meta"]), ...envelope } };
    this.#channel.send({ id, method, params: sent }, call).catch((error: unknown) => {
      const lost = error instanceof UpstreamError ? error : new UpstreamError("lost", errorText(error));
      this.#settle(id, (pending) => pending.reject(lost));
    });
    try {
      return await promise;
    } finally {
      signal.removeEventListener("abort", cancel);
    }
  }

  #notify(message: OutgoingMessage): void {
    // A server that cannot be written to has ended, which is noticed elsewhere.
    if (this.isOpen) this.#channel.send(message).catch(() => {});
  }

  /** Returns whether the request was still waiting. */
  #settle(id: number, settle: (pending: Pending) => void, isAnswered = false): boolean {
    const pending = this.#pending.get(id);
    if (pending === undefined) return false;
    this.#pending.delete(id);
    this.#channel.settled?.(id, isAnswered);
    settle(pending);
    return true;
  }

  #rejectAll(failure: "lost" | "tooLarge", reason: string): void {
    for (const id of [...this.#pending.keys()]) {
      this.#settle(id, ({ reject }) => reject(new UpstreamError(failure, reason)));
    }
  }

  async #checkAlive(): Promise<void> {
    try {
      await this.#request("ping", {}, AbortSignal.timeout(PING_TIMEOUT_MS));
    } catch (error) {
      if (error instanceof UpstreamError && error.failure === "error") return;
      this.#end("it no longer answers");
    }
  }

  #end(reason: string): void {
    if (!this.isOpen) return;
    this.#endReason = reason;
    this.#options.log("ended", reason);
    this.#rejectAll("lost", reason);
    void this.#channel.close(true);
  }

  #receive(value: unknown, bytes: number): boolean {
    if (!isTable(value) || value["jsonrpc"] !== "2.0") return false;
    const { method, id, result, error } = value;
    const answered = (method ?? null) === null && isGiven(result, error) ? requestIdOf(id) : undefined;
    const isAnswer = answered !== undefined;
    if (isAnswer && this.#settle(answered, (pending) => settleWith(pending, value, bytes), true)) {
      this.#unsolicited = 0;
      this.#unsolicitedBytes = 0;
      return true;
    }
    this.#unsolicited += 1;
    this.#unsolicitedBytes += bytes;
    if (this.#unsolicited > UNSOLICITED_MAX) this.#end(`it sent more than ${UNSOLICITED_MAX} messages unasked`);
    if (this.#unsolicitedBytes > UNSOLICITED_BYTES_MAX) {
      this.#end(`it sent more than ${UNSOLICITED_BYTES_MAX} bytes of messages unasked`);
    }
    if (!this.isOpen) return true;
    if (isAnswer) this.#logOnce("answer", "an answer to a request that does not wait for one");
    else if (typeof method !== "string") return false;
    else if (typeof id === "number" || typeof id === "string") this.#refuse(method, id);
    else if (method === CHANGES.tools) this.#outdate();
    else if (method === CHANGES.acknowledged) this.#subscription.acknowledged(value["params"]);
    return true;
  }

  /** Answers a request of the server. Nothing that it may ask for is offered: no sampling, elicitation or roots. */
  #refuse(method: string, id: number | string): void {
    if (method === "ping") {
      this.#notify({ id, result: {} });
      return;
    }
    this.#logOnce("refused request", bounded(method));
    this.#notify({ id, error: { code: ERROR.methodNotFound, message: "This client offers no such method." } });
  }

  #stopTimers(): void {
    clearTimeout(this.#recheck);
    this.#subscription.stop();
  }

  #outdate(): void {
    this.#isOutdated = true;
    if (this.#recheck !== undefined || this.#listed === undefined) return;
    const recheck = (): void => {
      this.#recheck = undefined;
      if (this.isOpen && this.#isOutdated) this.readDefinitions().catch(() => {});
    };
    this.#recheck = setTimeout(recheck, RECHECK_PAUSE_MS);
    this.#recheck.unref();
  }

  #logOnce(what: string, text: string): void {
    const line = `${what}: ${text}`;
    if (this.#logged.has(line) || this.#logged.size >= LOGGED_ONCE_MAX) return;
    this.#logged.add(line);
    this.#options.log(what, text);
  }
}

export interface ToolCallOptions {
  readonly signal: AbortSignal;
  /** Trace headers. Never a token of the caller. */
  readonly meta?: Readonly<Record<string, string>> | undefined;
  /** The content of the caller assertion. */
  readonly call: AssertedCall;
}

/** Returns what an error says about refused credentials. */
function refusalIn(error: unknown): UpstreamFacts {
  if (!(error instanceof UpstreamError)) return {};
  const { isRefused, code, refusal, retryAfterMs } = error;
  return { ...(isRefused && code !== undefined && { code }), refusal, retryAfterMs };
}

/** Returns whether a message has a member `result` or `error`, which makes it an answer even when the member is null. */
function isGiven(result: unknown, error: unknown): boolean {
  return result !== undefined || error !== undefined;
}

/** Returns the number of the request that an answer names. Some servers repeat it as text. */
function requestIdOf(id: unknown): number | undefined {
  const number = typeof id === "string" ? Number(id) : id;
  return typeof number === "number" && String(number) === String(id) ? number : undefined;
}

function settleWith({ resolve, reject }: Pending, message: Readonly<Record<string, unknown>>, bytes: number): void {
  // Some servers write null for what is absent.
  const result = message["result"] ?? undefined;
  const error = message["error"] ?? undefined;
  if (error === undefined && isTable(result)) {
    resolve({ result, bytes });
  } else if (result === undefined && isTable(error) && typeof error["code"] === "number") {
    const { code, message } = error;
    const text = typeof message === "string" ? message : "";
    reject(new UpstreamError("error", `it answered with error ${code}`, { code, text }));
  } else {
    reject(new UpstreamError("invalid", "its answer does not follow the protocol"));
  }
}

interface Reading {
  readonly identity: ServerIdentity;
  readonly definitions: Map<string, Definition>;
  readonly unusable: Map<string, string>;
  /** True for the version in which a schema may ask for arguments in headers. */
  readonly isNew: boolean;
}

function unknownVersion(): UpstreamError {
  return new UpstreamError("invalid", "it speaks no version of the protocol that is known here");
}

function readDefinition(tool: unknown, { identity, definitions, unusable, isNew }: Reading): void {
  const name = isTable(tool) ? tool["name"] : undefined;
  // Nothing can name such a tool.
  if (!isTable(tool) || typeof name !== "string" || name === "" || name.length > NAME_CHARACTERS_MAX) return;
  if (definitions.has(name) || unusable.has(name)) {
    definitions.delete(name);
    unusable.set(name, "the server lists it more than once");
    return;
  }
  try {
    const definition = definitionOf(tool, identity);
    const asksForHeaders = isNew && JSON.stringify(definition.pinned["inputSchema"] ?? null).includes('"x-mcp-header"');
    if (asksForHeaders) unusable.set(name, "it asks for arguments in headers, which is not supported");
    else definitions.set(name, definition);
  } catch (error) {
    unusable.set(name, `its definition cannot be used: ${errorText(error)}`);
  }
}

function cursorOf(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value === "string" && value.length <= CURSOR_CHARACTERS_MAX) return value;
  throw new UpstreamError("invalid", "its list of tools names a next page that is not a text");
}

function shortText(value: unknown): string {
  return typeof value === "string" ? value.slice(0, NAME_CHARACTERS_MAX).toWellFormed() : "";
}
