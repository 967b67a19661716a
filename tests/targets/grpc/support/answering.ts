import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";

/** An HTTP/2 server without gRPC, with configurable answers. */
export interface AnsweringServer {
  readonly port: number;
  /** Sets how the next requests are answered. */
  answer(how: (stream: ServerHttp2Stream) => void): void;
  close(): void;
}

export const GRPC_HEADERS = { ":status": 200, "content-type": "application/grpc" } as const;

/** Returns a message with its prefix; `length` may be false. */
export function framed(bytes: Uint8Array, { flag = 0, length = bytes.length } = {}): Buffer {
  const prefix = Buffer.alloc(5);
  prefix.writeUInt8(flag, 0);
  prefix.writeUInt32BE(length, 1);
  return Buffer.concat([prefix, bytes]);
}

export interface Answer {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  readonly trailers?: Readonly<Record<string, string>>;
}

export function answered({ headers = {}, body = framed(Buffer.alloc(0)), trailers = { "grpc-status": "0" } }: Answer) {
  return (stream: ServerHttp2Stream): void => {
    stream.on("wantTrailers", () => stream.sendTrailers(trailers));
    stream.respond({ ...GRPC_HEADERS, ...headers }, { waitForTrailers: true });
    stream.end(body);
  };
}

export async function startAnswering(): Promise<AnsweringServer> {
  let answer: (stream: ServerHttp2Stream) => void = answered({});
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on("session", (session) => sessions.add(session));
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.on("error", () => {});
    answer(stream);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    port: (server.address() as AddressInfo).port,
    answer: (how) => {
      answer = how;
    },
    close: () => {
      for (const session of sessions) session.destroy();
      server.close();
    },
  };
}
