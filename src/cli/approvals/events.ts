import { setTimeout as pause } from "node:timers/promises";
import { type Client, readAnswer, type ServiceAnswer } from "../client.ts";

/** One event of a stream in the server-sent events format of the HTML standard. */
export interface StreamEvent {
  readonly type: string;
  readonly data: string;
}

export type StreamUpdate =
  /** The stream is open; events from before that may have been missed. */
  | { readonly kind: "connected" }
  | { readonly kind: "event"; readonly event: StreamEvent }
  /** The stream broke or could not be opened; the client connects again. */
  | { readonly kind: "lost" }
  /** The service refuses the stream, and would refuse it again. */
  | { readonly kind: "refused"; readonly answer: ServiceAnswer };

const EVENT_CHARACTERS_MAX = 65_536;
const REFUSAL_BYTES_MAX = 65_536;
/** Three heartbeat intervals of the service. */
const SILENCE_MS_MAX = 45_000;
const BACKOFF_MS = { first: 500, most: 15_000 } as const;
const EVENT_ID = /^\d{1,20}$/;

/** Parses events from text that arrives in arbitrary pieces. */
export class EventReader {
  lastId: string | undefined;
  #text = "";
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
    this.#text += piece;
    const events: StreamEvent[] = [];
    let from = 0;
    for (let end = lineEnd(this.#text, from); end !== undefined; end = lineEnd(this.#text, from)) {
      const event = this.#take(this.#text.slice(from, end.at));
      from = end.next;
      if (event !== undefined) events.push(event);
    }
    this.#text = this.#text.slice(from);
    if (this.#text.length + this.#size > this.#charactersMax) throw new RangeError("an event without an end");
    return events;
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

interface LineEnd {
  readonly at: number;
  readonly next: number;
}

/** Finds the end of a line. A carriage return at the end of the text may be the first half of a line end. */
function lineEnd(text: string, from: number): LineEnd | undefined {
  const offset = text.slice(from).search(/[\r\n]/);
  if (offset === -1) return undefined;
  const at = from + offset;
  if (text[at] === "\n") return { at, next: at + 1 };
  if (at + 1 === text.length) return undefined;
  return { at, next: text[at + 1] === "\n" ? at + 2 : at + 1 };
}

/** Follows the service's events until the signal aborts. After a disconnect, continues from the last event. */
export async function* followEvents(
  client: Pick<Client, "open">,
  signal: AbortSignal,
): AsyncGenerator<StreamUpdate, void> {
  let backoffMs: number = BACKOFF_MS.first;
  let lastId: string | undefined;
  while (!signal.aborted) {
    const connection = openConnection(signal);
    const headers = { accept: "text/event-stream", ...(lastId !== undefined && { "last-event-id": lastId }) };
    const response = await client.open("/events", { headers, signal: connection.signal }).catch(() => undefined);
    if (response?.ok && response.body !== null) {
      yield { kind: "connected" };
      const reader = new EventReader();
      for await (const events of readEvents(response.body, reader, connection)) {
        backoffMs = BACKOFF_MS.first;
        lastId = reader.lastId ?? lastId;
        for (const event of events) yield { kind: "event", event };
      }
    } else if (response !== undefined && isPermanent(response.status)) {
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

/** Opens a connection that is aborted when it stays silent for too long. */
function openConnection(signal: AbortSignal): Connection {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  let timer = setTimeout(abort, SILENCE_MS_MAX);
  signal.addEventListener("abort", abort, { once: true });
  return {
    signal: controller.signal,
    received() {
      clearTimeout(timer);
      timer = setTimeout(abort, SILENCE_MS_MAX);
    },
    close() {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      controller.abort();
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
    // Broken, silent for too long, or not an event stream: the next connection continues from the last complete event.
  }
}

/** Returns whether a refusal is permanent. Temporary errors: too many requests, or a service that starts or drains. */
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
