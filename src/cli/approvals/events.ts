import { setTimeout as pause } from "node:timers/promises";
import { type Client, readAnswer, type ServiceAnswer } from "../client.ts";

/** One event of a stream in the server-sent events format of the HTML standard. */
interface StreamEvent {
  readonly type: string;
  readonly data: string;
}

export type StreamUpdate =
  /** The stream is open. Events that were sent while it was closed may be missing. */
  | { readonly kind: "connected" }
  | { readonly kind: "event"; readonly event: StreamEvent }
  /** The stream broke or could not be opened; the client connects again. */
  | { readonly kind: "lost" }
  /** The service refuses the stream, and would refuse it again. */
  | { readonly kind: "refused"; readonly answer: ServiceAnswer };

const EVENT_CHARACTERS_MAX = 65_536;
const REFUSAL_BYTES_MAX = 65_536;
/** Time without data after which a connection counts as broken: three heartbeat intervals of the service. */
const SILENCE_MS_MAX = 45_000;
const BACKOFF_MS = { first: 500, most: 15_000 } as const;
const EVENT_ID = /^\d{1,20}$/;

/** Parses events from text that arrives in arbitrary pieces. Each character is read once. */
export class EventReader {
  lastId: string | undefined;
  /** The beginning of a line. */
  #line = "";
  /** The text so far ends with a carriage return: a line feed that follows belongs to the same line end. */
  #isAfterReturn = false;
  #data: string[] = [];
  #type = "";
  #id: string | undefined;
  #size = 0;
  readonly #charactersMax: number;

  constructor(charactersMax: number = EVENT_CHARACTERS_MAX) {
    this.#charactersMax = charactersMax;
  }

  /** @throws {RangeError} when an event is too long */
  read(piece: string): readonly StreamEvent[] {
    const events: StreamEvent[] = [];
    const text = this.#isAfterReturn && piece.startsWith("\n") ? piece.slice(1) : piece;
    if (piece !== "") this.#isAfterReturn = piece.endsWith("\r");
    let from = 0;
    for (const { index, 0: end } of text.matchAll(/\r\n|\n|\r/g)) {
      const event = this.#take(this.#grown(text.slice(from, index)));
      this.#line = "";
      from = index + end.length;
      if (event !== undefined) events.push(event);
    }
    this.#grown(text.slice(from));
    return events;
  }

  #grown(part: string): string {
    this.#line += part;
    if (this.#line.length + this.#size > this.#charactersMax) throw new RangeError("an event is too long");
    return this.#line;
  }

  #take(line: string): StreamEvent | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const field = colon === -1 ? line : line.slice(0, colon);
    const value = colon === -1 ? "" : line.slice(colon + 1).replace(/^ /, "");
    this.#size += field === "" ? 0 : line.length;
    if (field === "data") this.#data.push(value);
    if (field === "event") this.#type = value;
    if (field === "id" && EVENT_ID.test(value)) this.#id = value;
    return undefined;
  }

  #dispatch(): StreamEvent | undefined {
    const event = { type: this.#type || "message", data: this.#data.join("\n") };
    const isEmpty = this.#data.length === 0;
    this.lastId = this.#id ?? this.lastId;
    this.#data = [];
    this.#type = "";
    this.#id = undefined;
    this.#size = 0;
    return isEmpty ? undefined : event;
  }
}

interface Followed {
  readonly path: string;
  /** Headers in addition to those of every event stream. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Returns whether an answer with this status refuses the stream for good. */
  readonly isPermanent: (status: number) => boolean;
}

const APPROVAL_EVENTS: Followed = { path: "/events", isPermanent };

/** Follows a stream of the service until the signal aborts. After a disconnect, continues from the last event. */
export async function* followEvents(
  client: Pick<Client, "open">,
  signal: AbortSignal,
  followed: Followed = APPROVAL_EVENTS,
): AsyncGenerator<StreamUpdate, void> {
  let backoffMs: number = BACKOFF_MS.first;
  let lastId: string | undefined;
  while (!signal.aborted) {
    const connection = openConnection(signal);
    const headers = {
      ...followed.headers,
      accept: "text/event-stream",
      ...(lastId !== undefined && { "last-event-id": lastId }),
    };
    const init = { headers, signal: connection.signal };
    const response = await client.open(followed.path, init).catch(() => undefined);
    if (response?.ok && response.body !== null) {
      yield { kind: "connected" };
      const reader = new EventReader();
      for await (const events of readEvents(response.body, reader, connection)) {
        backoffMs = BACKOFF_MS.first;
        lastId = reader.lastId ?? lastId;
        for (const event of events) yield { kind: "event", event };
      }
    } else if (response !== undefined && followed.isPermanent(response.status)) {
      yield { kind: "refused", answer: await readRefusal(response) };
      connection.close();
      return;
    }
    connection.close();
    if (signal.aborted) return;
    yield { kind: "lost" };
    await pause(backoffMs, undefined, { signal }).catch(() => undefined);
    backoffMs = Math.min(backoffMs * 2, BACKOFF_MS.most);
  }
}

interface Connection {
  readonly signal: AbortSignal;
  received(): void;
  close(): void;
}

/** Opens a connection that is aborted when no data arrives for too long. */
function openConnection(signal: AbortSignal): Connection {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  let timer = setTimeout(abort, SILENCE_MS_MAX);
  return {
    signal: AbortSignal.any([signal, controller.signal]),
    received() {
      clearTimeout(timer);
      timer = setTimeout(abort, SILENCE_MS_MAX);
    },
    close() {
      clearTimeout(timer);
      abort();
    },
  };
}

async function* readEvents(
  body: ReadableStream<Uint8Array>,
  reader: EventReader,
  connection: Connection,
): AsyncGenerator<readonly StreamEvent[], void> {
  const decoder = new TextDecoder();
  try {
    for await (const chunk of body) {
      connection.received();
      yield reader.read(decoder.decode(chunk, { stream: true }));
    }
  } catch {
    // The connection broke, no data arrived, or the answer is not an event stream. The next connection continues from the last
    // complete event.
  }
}

/**
 * Returns whether a refusal is permanent. Refusals because of too many requests, or while the service starts or drains, are
 * temporary.
 */
function isPermanent(status: number): boolean {
  return status >= 400 && status < 500 && status !== 408 && status !== 429;
}

async function readRefusal(response: Response): Promise<ServiceAnswer> {
  try {
    return await readAnswer(response, REFUSAL_BYTES_MAX);
  } catch {
    return { status: response.status, body: undefined, servedAt: undefined };
  }
}
