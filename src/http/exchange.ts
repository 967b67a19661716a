import type { challenges } from "./answers.ts";
import { DISCARDED_BYTES_MAX, onceBodyEnds } from "./body-readers.ts";
import type { LoadGuards } from "./connections/load.ts";
import type { EndpointAnswer, EventSink, Exchange } from "./endpoint.ts";
import type { AnswerHeaders, AnswerOrder, ReceivedRequest, ServerAnswer } from "./messages.ts";

/** What an exchange needs of its request, in addition to what the request itself says. */
export interface RequestParts<Request extends ReceivedRequest>
  extends Pick<Exchange, "params" | "query" | "source" | "scheme"> {
  readonly raw: Request;
}

/** State and settings that the exchanges of one listener share. */
export interface ExchangeListener<Request extends ReceivedRequest> {
  readonly pending: AnswerOrder<Request>;
  readonly load: LoadGuards | undefined;
  readonly isEnding: () => boolean;
  readonly challenge: ReturnType<typeof challenges>;
  /** Headers of every answer, unless the endpoint sets them. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Answers a request. Rejects with a `Refusal` that is the answer. */
export type AnswerFunction = (exchange: HttpExchange) => Promise<EndpointAnswer>;

/** One request and its answer. */
export class HttpExchange<Request extends ReceivedRequest = ReceivedRequest> implements Exchange {
  readonly raw: Request;
  /** The values of the path's parameters. A tenant that answers the request sets those of its own route. */
  params: Exchange["params"];
  readonly #request: RequestParts<Request>;
  readonly #response: ServerAnswer;
  readonly #listener: ExchangeListener<Request>;
  #closesConnection = false;
  /** Called when the client disconnects; created with the one listener that the response needs for all of them. */
  #onDisconnect: (() => void)[] | undefined;

  constructor(request: RequestParts<Request>, response: ServerAnswer, listener: ExchangeListener<Request>) {
    this.raw = request.raw;
    this.params = request.params;
    this.#request = request;
    this.#response = response;
    this.#listener = listener;
  }

  get query() {
    return this.#request.query;
  }

  get source() {
    return this.#request.source;
  }

  get scheme() {
    return this.#request.scheme;
  }

  get disconnected() {
    return this.#response.destroyed && !this.#response.writableFinished;
  }

  listen(listener: () => void): () => void {
    if (this.#onDisconnect === undefined) {
      this.#onDisconnect = [];
      this.#response.on("close", () => this.#closed());
    }
    const listeners = this.#onDisconnect;
    listeners.push(listener);
    return () => {
      const at = listeners.indexOf(listener);
      if (at !== -1) listeners.splice(at, 1);
    };
  }

  #closed(): void {
    if (this.#response.writableFinished) return;
    for (const listener of this.#onDisconnect?.splice(0) ?? []) listener();
  }

  closeConnection(): void {
    this.#closesConnection = true;
    this.#listener.pending.willEndWith(this.raw);
  }

  /** Sends a whole answer. Throws when a header cannot be sent, or when an answer has begun. */
  send({ status, headers, cookies, body }: EndpointAnswer): void {
    const { raw } = this;
    const response = this.#response;
    const { load, challenge } = this.#listener;
    const bytes = body === undefined ? 0 : Buffer.byteLength(body);
    const head: AnswerHeaders = { ...this.#listener.headers, ...headers, "x-content-type-options": "nosniff" };
    if (cookies !== undefined) head["set-cookie"] = [...cookies];
    if (body !== undefined || status !== 204) head["content-length"] = bytes;
    if (status === 401 || status === 403) {
      const { authorization } = raw.headers;
      const changed = challenge({ status, authorization, wwwAuthenticate: headers["www-authenticate"] });
      if (changed !== undefined) head["www-authenticate"] = changed;
    }
    const isLate = endsLate(raw);
    if (this.#isLast(isLate)) {
      head["connection"] = "close";
      this.#listener.pending.endsWith(raw);
    }
    response.writeHead(status, head);
    const sent = load?.answering(raw, response, bytes);
    if (!isLate) {
      response.end(body, sent);
      return;
    }
    response.write(body ?? "");
    onceBodyEnds(raw, () => response.end(sent));
  }

  /** Sends the head, then the events. The connection ends with the stream: requests that follow on it are ignored. */
  async follow({ status, headers, stream }: EndpointAnswer): Promise<void> {
    const { raw } = this;
    const response = this.#response;
    this.#listener.pending.willEndWith(this.raw);
    try {
      const all = { ...this.#listener.headers, ...headers, "x-content-type-options": "nosniff" };
      response.writeHead(status, { ...all, connection: "close" });
    } finally {
      // The client must read the rest of an ended stream in time, like any answer.
      const sent = this.#listener.load?.answering(raw, response, 0);
      // The stream holds slots until it has run.
      await stream?.(sinkOf(response, sent));
    }
  }

  /** Ends the connection without an answer, or in the middle of one. */
  destroy(): void {
    this.#response.destroy();
  }

  #isLast(isLate: boolean): boolean {
    const { isEnding, pending } = this.#listener;
    // The framework sets the header on the response when the listener is closing.
    if (this.#closesConnection || isLate || this.#response.hasHeader("connection")) return true;
    return isEnding() && pending.isLatest(this.raw);
  }
}

export function sinkOf(response: ServerAnswer, sent?: () => void): EventSink {
  return {
    write: (text) => response.write(text),
    onceDrained(listener) {
      response.once("drain", listener);
      return () => response.removeListener("drain", listener);
    },
    onDisconnect(listener) {
      // A client may have disconnected before its stream began.
      if (response.destroyed) return listener();
      response.once("close", listener);
      // Writing after the client disconnected raises an error.
      response.on("error", listener);
    },
    end: () => void response.end(sent),
    destroy: () => void response.destroy(),
  };
}

/**
 * Returns true when a large or chunked body is incomplete: a client that was answered early must not keep sending
 * indefinitely.
 */
function endsLate(raw: ReceivedRequest): boolean {
  if (raw.complete) return false;
  const { headers } = raw;
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > DISCARDED_BYTES_MAX;
}
