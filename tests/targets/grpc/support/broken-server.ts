import { createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";

/** How a connection, or another server at the address of the service, fails a call. */
export type Break = "reset" | "refused" | "calm" | "drop" | "half" | "http 503" | "UNAVAILABLE" | "answer";

export interface BrokenServer {
  readonly port: number;
  requests(): number;
  /** Sets the result of the next requests, in this order; the last applies to all further ones. */
  play(...breaks: readonly Break[]): void;
  close(): void;
}

const RST = { reset: 2, refused: 7, calm: 11 } as const;
const HEADERS = { ":status": 200, "content-type": "application/grpc" } as const;
/** An empty message: not compressed, no bytes. */
const EMPTY_MESSAGE = Buffer.alloc(5);

/** Starts an HTTP/2 server without gRPC that breaks the protocol. */
export async function startBrokenServer(): Promise<BrokenServer> {
  let plays: readonly Break[] = ["answer"];
  let requests = 0;
  const sessions = new Set<ServerHttp2Session>();
  const server: Http2Server = createServer();
  server.on("session", (session) => sessions.add(session));
  server.on("stream", (stream) => {
    const play = plays[Math.min(requests, plays.length - 1)] ?? "answer";
    requests += 1;
    stream.on("error", () => {});
    act(stream as ServerHttp2Stream, play);
  });
  const port = await new Promise<number>((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
  return {
    port,
    requests: () => requests,
    play: (...breaks) => {
      plays = breaks;
      requests = 0;
    },
    close: () => {
      for (const session of sessions) session.destroy();
      server.close();
    },
  };
}

function act(stream: ServerHttp2Stream, play: Break): void {
  if (play === "reset" || play === "refused" || play === "calm") stream.close(RST[play]);
  else if (play === "drop") stream.session?.destroy();
  else if (play === "http 503") stream.respond({ ":status": 503, "content-type": "text/html" }, { endStream: true });
  else if (play === "UNAVAILABLE") stream.respond({ ...HEADERS, "grpc-status": "14" }, { endStream: true });
  else answer(stream, play === "half");
}

function answer(stream: ServerHttp2Stream, isHalf: boolean): void {
  stream.respond(HEADERS, { waitForTrailers: true });
  if (isHalf) {
    stream.write(EMPTY_MESSAGE.subarray(0, 3), () => stream.session?.destroy());
    return;
  }
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.end(EMPTY_MESSAGE);
}
