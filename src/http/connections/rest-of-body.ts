import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";

/** Of a body that nobody wants; more is cut off. */
const BYTES_MAX = 268_435_456;
/** From the answer to the end of the body. */
const TOTAL_MS = 10_000;
/** Between two pieces of the body: a client that waits for its answer sends none. */
const SILENCE_MS = 2_000;

/**
 * An answer to a request whose body is still on its way: it is sent at once, and ends, and with it the connection, when the rest
 * of the body was read and thrown away. Many clients read nothing before they have sent everything, and closing a connection
 * with unread bytes resets it: they would lose the answer. The rest is bounded in bytes and time.
 */
export function answeredWhileSending(request: IncomingMessage, answer: string): Readable {
  const answering = new Readable({ read() {} });
  answering.push(answer);
  let bytes = 0;
  const end = (): void => {
    clearTimeout(total);
    clearTimeout(silence);
    request.off("data", onData);
    if (!answering.readableEnded) answering.push(null);
  };
  const onData = (piece: Buffer): void => {
    bytes += piece.length;
    if (bytes > BYTES_MAX) end();
    else silence.refresh();
  };
  const total = setTimeout(end, TOTAL_MS);
  const silence = setTimeout(end, SILENCE_MS);
  request.on("data", onData);
  request.once("end", end).once("close", end).once("error", end);
  request.resume();
  return answering;
}
