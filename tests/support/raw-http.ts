import { connect, type Socket } from "node:net";

/**
 * How a request is sent. `slow`: its body never ends; `late`: the body follows once the service has asked for it
 * (100-continue) and `between` is done; `gone`: the connection is cut after `between`, without waiting for an answer.
 */
export const SEND_MODES = ["whole", "chunked", "slow", "late", "gone"] as const;
export type SendMode = (typeof SEND_MODES)[number];

export interface RawRequest {
  readonly url: string;
  readonly method: string;
  readonly path: string;
  /** Lines as they are: a name may stand twice. */
  readonly headers: readonly string[];
  readonly body: Uint8Array;
  readonly send?: SendMode;
  readonly between?: () => Promise<void>;
}

export interface RawAnswer {
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

const CHUNK_BYTES = 65_536;
const CONTINUE = "HTTP/1.1 100 Continue\r\n\r\n";

/** Sends exactly these bytes; the answer, or nothing when the connection ended without one. */
export function sendRaw(request: RawRequest): Promise<RawAnswer | undefined> {
  const { hostname, port } = new URL(request.url);
  const { send = "whole", body, between = async () => {} } = request;
  const socket = connect(Number(port), hostname);
  let received = "";
  return new Promise((resolve, reject) => {
    const cut = (error: unknown): void => {
      socket.destroy();
      reject(error);
    };
    socket.on("connect", () => {
      socket.write(headOf(request));
      if (send === "chunked") writeChunks(socket, body);
      else if (send === "slow") socket.write(body.subarray(0, 1));
      else if (send !== "late") socket.write(body);
      if (send === "gone") between().then(() => socket.destroy(), cut);
    });
    socket.on("data", (bytes) => {
      received += bytes.toString("latin1");
      if (send !== "late" || !received.startsWith(CONTINUE)) return;
      received = received.slice(CONTINUE.length);
      between().then(() => socket.write(body), cut);
    });
    // A service that has answered may cut us off while we still send.
    socket.on("error", () => {});
    socket.on("close", () => resolve(received === "" ? undefined : parseAnswer(received)));
  });
}

function headOf({ method, path, headers, body, send }: RawRequest): string {
  const size = send === "chunked" ? "Transfer-Encoding: chunked" : `Content-Length: ${body.length}`;
  const expect = send === "late" ? ["Expect: 100-continue"] : [];
  const sized = body.length > 0 && !headers.some((line) => /^content-length:/i.test(line)) ? [size] : [];
  return [`${method} ${path} HTTP/1.1`, ...headers, ...sized, ...expect, "Connection: close", "", ""].join("\r\n");
}

function writeChunks(socket: Socket, body: Uint8Array): void {
  for (let at = 0; at < body.length; at += CHUNK_BYTES) {
    const chunk = body.subarray(at, at + CHUNK_BYTES);
    socket.write(`${chunk.length.toString(16)}\r\n`);
    socket.write(chunk);
    socket.write("\r\n");
  }
  socket.write("0\r\n\r\n");
}

function parseAnswer(received: string): RawAnswer {
  const end = received.indexOf("\r\n\r\n");
  const [statusLine = "", ...lines] = received.slice(0, end).split("\r\n");
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]),
  );
  const body = Buffer.from(received.slice(end + 4), "latin1").toString("utf8");
  return { status: Number(statusLine.split(" ")[1]), headers, body };
}
