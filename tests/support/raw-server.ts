import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TlsOptions } from "node:tls";

/** One request as its bytes arrived, and the connection to answer on. */
export interface RawRequest {
  /** Head and body. */
  readonly text: string;
  /** Number of the connection, from 1. */
  readonly connection: number;
  readonly socket: Socket;
}

/** A server on a loopback port that answers each request with any bytes. */
export class RawServer {
  readonly requests: RawRequest[] = [];
  connections = 0;
  /** Answers one request; a text is written. */
  answer: (request: RawRequest) => unknown = () => "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(tls: TlsOptions | undefined) {
    const accept = (socket: Socket): void => this.#accept(socket);
    this.#server = tls === undefined ? createServer(accept) : createTlsServer(tls, accept);
  }

  static async start(tls?: TlsOptions): Promise<RawServer> {
    const raw = new RawServer(tls);
    await new Promise<void>((resolve) => raw.#server.listen(0, "127.0.0.1", resolve));
    return raw;
  }

  get port(): number {
    const address = this.#server.address();
    return typeof address === "object" && address !== null ? address.port : 0;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #accept(socket: Socket): void {
    this.connections += 1;
    const connection = this.connections;
    this.#sockets.add(socket);
    let text = "";
    socket.on("error", () => {});
    socket.on("close", () => this.#sockets.delete(socket));
    socket.on("data", (bytes) => {
      text += bytes.toString("latin1");
      const end = text.indexOf("\r\n\r\n");
      const [, length = "0"] = /\r\ncontent-length: (\d+)\r\n/i.exec(text) ?? [];
      if (end === -1 || text.length < end + 4 + Number(length)) return;
      const request = { text, connection, socket };
      text = "";
      this.requests.push(request);
      const answer = this.answer(request);
      if (typeof answer === "string") socket.write(Buffer.from(answer, "latin1"));
    });
  }
}
