import { setTimeout as pause } from "node:timers/promises";
import { EventReader, type StreamedEvent } from "../../core/event-reader.ts";
import { type Client, readAnswer, type ServiceAnswer } from "../client.ts";

export type StreamUpdate =
  /** The stream is open. Events that were sent while it was closed may be missing. */
  | { readonly kind: "connected" }
  | { readonly kind: "event"; readonly event: StreamedEvent }
  /** The stream broke or could not be opened; the client connects again. */
  | { readonly kind: "lost" }
  /** The service refuses the stream, and would refuse it again. */
  | { readonly kind: "refused"; readonly answer: ServiceAnswer };

const EVENT_BYTES_MAX = 65_536;
const REFUSAL_BYTES_MAX = 65_536;
/** Time without data after which a connection counts as broken: three heartbeat intervals of the service. */
const SILENCE_MS_MAX = 45_000;
const BACKOFF_MS = { first: 500, most: 15_000 } as const;

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
      const reader = new EventReader(EVENT_BYTES_MAX, lastId);
      for await (const events of readEvents(response.body, reader, connection)) {
        backoffMs = BACKOFF_MS.first;
        lastId = reader.lastId;
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
): AsyncGenerator<readonly StreamedEvent[], void> {
  try {
    for await (const chunk of body) {
      connection.received();
      yield [...reader.read(chunk)];
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
