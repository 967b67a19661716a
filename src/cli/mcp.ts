import { setTimeout as pause } from "node:timers/promises";
import { EventReader } from "../core/event-reader.ts";
import { asString, isTable } from "../core/json.ts";
import { linesIn } from "../core/lines.ts";
import { CHANGES, ERROR, headerText, META } from "../core/mcp.ts";
import { isLoopback } from "../core/network.ts";
import { followEvents } from "./approvals/events.ts";
import {
  answerOf,
  type Client,
  type ClientOptions,
  connect,
  mayHaveArrived,
  noAnswer,
  problemOf,
  readText,
} from "./client.ts";
import { print, StdoutError, wrongUsage } from "./output.ts";

interface McpOptions extends ClientOptions {
  readonly dev?: boolean;
}

/** `stc mcp`: relays between an MCP client on standard input and output and a running service, until standard input ends. */
export async function mcp({ dev, ...options }: McpOptions): Promise<void> {
  if (dev !== true && options.tokenFile === "-")
    return wrongUsage("standard input carries the protocol, not the token");
  const sign = dev === true ? await (await import("./token.ts")).developmentTokens() : undefined;
  if (dev === true && sign === undefined) return;
  const client = connect(options, sign);
  if (isExposed(client.url)) {
    return wrongUsage(`"${client.url}" sends the token unprotected: expected https://…, unix:… or a loopback address`);
  }
  await new Bridge(client).serve(Bun.stdin.stream());
}

function isExposed(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "http:" && !isLoopback(hostname);
}

/** Larger than any request that a service accepts by default, so that the service is the one that refuses. */
const LINE_BYTES_MAX = 4_194_304;
/**
 * The largest answer of a service: a result of 16 MiB (the highest `mcp.resultBytesMax`) once as JSON and once as text, where
 * quotation marks take two characters. Notifications are short.
 */
const ANSWER_CHARACTERS_MAX = 51_380_224;
const NOTIFICATION_CHARACTERS_MAX = 65_536;
const REQUESTS_MAX = 64;
/** Requests that have not been sent are tried again for ten seconds: a restart takes less. */
const ATTEMPTS = { max: 20, pauseMs: 500 } as const;
/** Time that running requests have to end after standard input has ended. Clients kill a server that takes longer. */
const ENDING_MS = 1_500;

/** The parameter that the header `Mcp-Name` repeats, by method. */
const NAMES: ReadonlyMap<unknown, string> = new Map([
  ["tools/call", "name"],
  ["prompts/get", "name"],
  ["resources/read", "uri"],
  ["tasks/get", "taskId"],
  ["tasks/update", "taskId"],
  ["tasks/cancel", "taskId"],
]);
/** Time after which a subscription that the service has ended is opened again. */
const REOPEN_MS = 5_000;
/** The service offers no stream, or not to this client. Refused tokens are no reason to give up: the file gets another one. */
const NO_STREAM: ReadonlySet<number> = new Set([400, 403, 404, 405]);

type Id = string | number;
type Message = Readonly<Record<string, unknown>>;

interface Session {
  readonly id?: string | undefined;
  readonly version?: string | undefined;
}

type Relay = (message: Message, data: string) => void;

interface Request {
  readonly id: Id;
  readonly method: string;
  readonly params: Message;
}

/**
 * Relays messages as they are. Reads only what the HTTP transport puts into headers (protocol version, method, name) and what
 * matches answers and cancellations to requests (ids). Each message is one HTTP request on a connection of its own. A request is
 * repeated only if it was not sent.
 */
class Bridge {
  readonly #client: Client;
  readonly #running = new Map<string, { readonly abort: AbortController; readonly method: string }>();
  #notifying = 0;
  /** Ends the stream of a client before 2026-07-28. */
  #following = new AbortController();
  /** Session id and version from the answer to `initialize`, for later requests. Requests since 2026-07-28 need neither. */
  #session: Session = {};

  constructor(client: Client) {
    this.#client = client;
  }

  async serve(input: AsyncIterable<Uint8Array>): Promise<void> {
    const tasks = new Set<Promise<void>>();
    for await (const line of linesIn(input, LINE_BYTES_MAX)) {
      const task = this.#receive(line).finally(() => tasks.delete(task));
      tasks.add(task);
    }
    this.#following.abort();
    for (const { abort, method } of this.#running.values()) if (method === CHANGES.listen) abort.abort();
    await Promise.race([Promise.all(tasks), pause(ENDING_MS, undefined, { ref: false })]);
    for (const { abort } of this.#running.values()) abort.abort();
  }

  async #receive(line: string | undefined): Promise<void> {
    if (line?.trim() === "") return;
    const message = line === undefined ? undefined : parsed(line);
    if (line === undefined || message === undefined) {
      const problem = line === undefined ? `a line may have ${LINE_BYTES_MAX} bytes` : "the line is not JSON";
      return write(errorOf(null, ERROR.parse, problem));
    }
    if (!isTable(message))
      return write(errorOf(null, ERROR.invalidRequest, "one message per line: a batch is not accepted"));
    const { id, method } = message;
    const isRequest = typeof method === "string" && id !== undefined;
    if (isRequest && !isId(id)) return write(errorOf(null, ERROR.invalidRequest, "an id is a string or a number"));
    const params = isTable(message["params"]) ? message["params"] : {};
    if (isRequest && isId(id)) return this.#relay({ id, method, params }, line);
    if (method === "notifications/cancelled") return this.#cancel(params["requestId"]);
    if (this.#notifying >= REQUESTS_MAX) return print.error("stc mcp: too many notifications: one was dropped");
    this.#notifying += 1;
    await this.#notify(line, params);
    this.#notifying -= 1;
    if (method === "notifications/initialized" && this.#session.version !== undefined) void this.#follow();
  }

  /** Closing the connection cancels: the service cannot match a notification to a request of another connection. */
  #cancel(id: unknown): void {
    const key = JSON.stringify(id);
    this.#running.get(key)?.abort.abort();
    this.#running.delete(key);
  }

  /** Sends a notification, or the client's answer to a request of the service. */
  async #notify(body: string, params: Message): Promise<void> {
    try {
      const headers = headersOf("", params, this.#session);
      const response = await this.#client.open("/mcp", { ...POST, headers, body });
      await response.body?.cancel();
      if (!response.ok) print.error(`stc mcp: the service answered ${response.status} to a notification`);
    } catch (error) {
      print.error(`stc mcp: ${noAnswer(this.#client.url, error)}`);
    }
  }

  /** Relays the notifications that the service sends to clients before 2026-07-28 on a stream of their own. */
  async #follow(): Promise<void> {
    this.#following.abort();
    this.#following = new AbortController();
    const { version = "", id = "" } = this.#session;
    const headers = { "mcp-protocol-version": version, ...(id !== "" && { "mcp-session-id": id }) };
    const stream = { path: "/mcp", headers, isPermanent: (status: number) => NO_STREAM.has(status) };
    for await (const update of followEvents(this.#client, this.#following.signal, stream)) {
      const message = update.kind === "event" ? parsed(update.event.data) : undefined;
      if (isTable(message) && typeof message["method"] === "string" && message["id"] === undefined) {
        write(JSON.stringify(message));
      }
    }
  }

  async #relay(request: Request, body: string): Promise<void> {
    const key = JSON.stringify(request.id);
    if (this.#running.has(key)) return write(errorOf(null, ERROR.invalidRequest, "a request with this id is running"));
    if (this.#running.size >= REQUESTS_MAX) {
      return write(
        failureOf(request, `OVERLOADED: ${REQUESTS_MAX} requests are running. Try again when one has ended.`),
      );
    }
    const abort = new AbortController();
    this.#running.set(key, { abort, method: request.method });
    try {
      const { signal } = abort;
      const answer =
        request.method === CHANGES.listen
          ? await this.#listen(request, body, signal)
          : await this.#answer(request, await this.#send(request, body, signal));
      if (!abort.signal.aborted) write(answer);
    } catch (error) {
      if (abort.signal.aborted) return;
      const problem = noAnswer(this.#client.url, error);
      print.error(`stc mcp: ${request.method}: ${problem}`);
      write(failureOf(request, unanswered(request, problem, mayHaveArrived(error))));
    } finally {
      if (this.#running.get(key)?.abort === abort) this.#running.delete(key);
      // Closes the connection of an answer that has not been read to its end.
      abort.abort();
    }
  }

  /**
   * Answers a subscription only when the service refuses it. When the service ends one that it has accepted, as at a restart, the
   * same request is sent again; the list of tools may have changed meanwhile.
   */
  async #listen(request: Request, body: string, signal: AbortSignal): Promise<string> {
    let isAccepted = false;
    for (;;) {
      const isRepeated = isAccepted;
      const relay = (message: Message, data: string): void => {
        const accepted = acceptedIn(message);
        isAccepted ||= accepted !== undefined;
        write(isRepeated && accepted !== undefined ? listChanged(accepted) : data);
      };
      try {
        const answer = await this.#answer(request, await this.#send(request, body, signal), relay);
        if (!isAccepted || isFinal(answer)) return answer;
      } catch (error) {
        if (!isAccepted || signal.aborted) throw error;
      }
      await pause(REOPEN_MS, undefined, { signal });
    }
  }

  async #send({ method, params }: Request, body: string, signal: AbortSignal): Promise<Response> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#client.open("/mcp", {
          ...POST,
          headers: headersOf(method, params, this.#session),
          body,
          signal,
        });
      } catch (error) {
        if (mayHaveArrived(error) || attempt === ATTEMPTS.max || signal.aborted) throw error;
        await pause(ATTEMPTS.pauseMs, undefined, { signal });
      }
    }
  }

  /** Returns the answer to the request; relays the messages of a stream that precede it. */
  async #answer(request: Request, response: Response, relay = writeAsIs): Promise<string> {
    if (response.headers.get("content-type")?.startsWith("text/event-stream") === true) {
      const answer = await this.#relayEvents(request, response, relay);
      if (answer !== undefined) return answer;
      throw Object.assign(new Error("the stream ended without an answer"), { code: "ECONNRESET" });
    }
    const text = await readText(response, ANSWER_CHARACTERS_MAX);
    const answer = answerOf(response, text);
    const { body } = answer;
    if (isTable(body) && body["jsonrpc"] === "2.0" && ("result" in body || "error" in body)) {
      this.#remember(request, response, body);
      // The service answers without an id when it could not read the request.
      return body["id"] === request.id ? text : JSON.stringify({ ...body, id: request.id });
    }
    print.error(`stc mcp: ${request.method}: ${problemOf(answer)}`);
    return failureOf(request, problemOf(answer));
  }

  async #relayEvents(request: Request, response: Response, relay: Relay): Promise<string | undefined> {
    const reader = new EventReader(ANSWER_CHARACTERS_MAX);
    for await (const chunk of response.body ?? []) {
      for (const { data } of reader.read(chunk)) {
        const message = parsed(data);
        if (!isTable(message)) continue;
        const isAnswer = message["method"] === undefined && message["id"] === request.id;
        if (isAnswer) this.#remember(request, response, message);
        if (isAnswer) return data;
        if (data.length > NOTIFICATION_CHARACTERS_MAX) throw new RangeError("a notification is too long");
        if (this.#running.has(JSON.stringify(request.id))) relay(message, data);
      }
    }
    return undefined;
  }

  #remember({ method }: Request, { headers }: Response, { result }: Message): void {
    if (method !== "initialize" || !isTable(result)) return;
    const { protocolVersion: version } = result;
    this.#session = { id: headers.get("mcp-session-id") ?? undefined, version: asString(version) };
  }
}

/**
 * No kept connections: after a restart they are closed, and it would be unknown whether a request was sent. No timeout: a listening
 * client waits for hours, and clients cancel what takes them too long.
 */
const POST = { method: "POST", keepalive: false, timeout: false } as const;

function headersOf(method: string, params: Message, session: Session): Headers {
  const headers = new Headers({ "content-type": "application/json", accept: "application/json, text/event-stream" });
  const meta = params["_meta"];
  const version = isTable(meta) ? asString(meta[META.version]) : undefined;
  const name = asString(params[NAMES.get(method) ?? ""]);
  const values =
    version === undefined
      ? legacyHeaders(session)
      : { "mcp-protocol-version": version, "mcp-method": method, "mcp-name": name };
  for (const [header, value] of Object.entries(values)) if (value) headers.set(header, headerText(value));
  return headers;
}

function legacyHeaders({ id, version }: Session) {
  return { "mcp-protocol-version": version, "mcp-session-id": id };
}

function unanswered({ method }: Request, problem: string, wasSent: boolean): string {
  if (!wasSent) return `SERVICE_UNREACHABLE: ${problem}. The request was not sent: try again later.`;
  const advice =
    method === "tools/call" ? "may have taken effect. Check whether it did before you call again" : "got no answer";
  return `OUTCOME_UNKNOWN: ${problem}. The request was sent and ${advice}.`;
}

/**
 * Returns the answer to a request that got none from the service: for a call, a result that the model can read. The text begins
 * with a code, as in the service's own refusals.
 */
function failureOf({ id, method, params }: Request, text: string): string {
  if (method !== "tools/call") return errorOf(id, ERROR.refused, text);
  const meta = params["_meta"];
  const isLatest = isTable(meta) && META.version in meta;
  const result = { content: [{ type: "text", text }], isError: true, ...(isLatest && { resultType: "complete" }) };
  return JSON.stringify({ jsonrpc: "2.0", id, result });
}

/** Returns the parameters of a message with which the service accepts a subscription to changes of the list. */
function acceptedIn({ method, params }: Message): Message | undefined {
  const notifications = method === CHANGES.acknowledged && isTable(params) ? params["notifications"] : undefined;
  return isTable(notifications) && notifications["toolsListChanged"] === true ? (params as Message) : undefined;
}

function listChanged({ _meta }: Message): string {
  return JSON.stringify({ jsonrpc: "2.0", method: CHANGES.tools, params: { _meta } });
}

/** Returns whether the service refuses a subscription for good, and not because of a token, a limit or a restart. */
function isFinal(answer: string): boolean {
  const message = parsed(answer);
  const error = isTable(message) ? message["error"] : undefined;
  return isTable(error) && error["code"] !== ERROR.refused;
}

function errorOf(id: Id | null, code: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } });
}

function isId(id: unknown): id is Id {
  return typeof id === "string" || typeof id === "number";
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Writes one message of JSON as one line. Ends the process when nobody reads it. */
function write(message: string): void {
  try {
    // A line end in JSON is whitespace: inside a string it is escaped.
    print.line(message.replace(/[\r\n]/g, " "));
  } catch (error) {
    if (!(error instanceof StdoutError)) throw error;
    process.exit(error.exitCode);
  }
}

function writeAsIs(_: Message, data: string): void {
  write(data);
}
