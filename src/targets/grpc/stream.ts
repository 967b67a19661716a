import type { ClientReadableStream, Metadata } from "@grpc/grpc-js";
import { attemptFailed, type Begun, begunBy } from "./status.ts";

/** How much of a server's stream is taken. */
export interface StreamBounds {
  readonly itemsMax: number;
  /** Bytes of all messages together, as they came over the wire. */
  readonly bytesMax: number;
}

export interface StreamedList {
  readonly items: readonly Buffer[];
  /** Whether the stream was cancelled at a bound, so that there was more, or may have been. */
  readonly truncated: boolean;
}

/** For so long a stream that has filled its bound may still end by itself, and so be known to be whole. */
const END_GRACE_MS = 250;

/**
 * A stream as a list, cancelled at the first bound it meets. Rejects with `AttemptFailed` when it ends with a status of its
 * own before that: what came until then is not given out as if it were all.
 */
export function collect(
  stream: ClientReadableStream<Buffer>,
  { itemsMax, bytesMax, signal }: StreamBounds & { readonly signal: AbortSignal },
): Promise<StreamedList> {
  return new Promise((resolve, reject) => {
    const items: Buffer[] = [];
    let bytes = 0;
    let begun: Begun = "not";
    let isOver = false;
    let grace: ReturnType<typeof setTimeout> | undefined;
    const cancel = (): void => stream.cancel();
    const end = (settle: () => void): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(grace);
      signal.removeEventListener("abort", cancel);
      settle();
    };
    const cutOff = (): void => {
      end(() => resolve({ items, truncated: true }));
      stream.cancel();
    };
    const take = (message: Buffer): void => {
      if (isOver) return;
      if (items.length >= itemsMax || bytes + message.length > bytesMax) {
        cutOff();
        return;
      }
      items.push(message);
      bytes += message.length;
      if (items.length === itemsMax) grace = setTimeout(cutOff, END_GRACE_MS);
    };
    signal.addEventListener("abort", cancel, { once: true });
    stream.once("metadata", (headers: Metadata) => {
      begun = begunBy(headers);
    });
    stream.on("data", take);
    // A status other than OK comes as an error, before the end; the status of our own cancellation comes when all is over.
    stream.on("error", (error: unknown) => end(() => reject(attemptFailed(error, begun))));
    stream.on("end", () => end(() => resolve({ items, truncated: false })));
  });
}
