import { connect, type Socket } from "node:net";

/** JSON of which the tests say what they expect. */
type Loose = ReturnType<typeof JSON.parse>;

export interface PlainAnswer {
  readonly status: number;
  readonly body: Loose;
}

interface Sent {
  readonly method?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: unknown;
}

/**
 * An HTTP/1.1 client that keeps its connection and never sends a request again: what fails is seen. It opens another connection
 * only after the service has said that it closes this one, or has closed it while nothing was under way.
 */
export class PlainHttpClient {
  readonly #url: () => string;
  readonly #keeps: boolean;
  #socket: Socket | undefined;
  connections = 0;

  constructor(url: () => string, { keeps }: { readonly keeps: boolean }) {
    this.#url = url;
    this.#keeps = keeps;
  }

  /** Rejects when the connection breaks before the whole answer. */
  async send(path: string, { method = "POST", headers, body }: Sent): Promise<PlainAnswer> {
    const socket = await this.#connected();
    const text = body === undefined ? "" : JSON.stringify(body);
    const lines = Object.entries({
      host: "127.0.0.1",
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(text)),
      ...(!this.#keeps && { connection: "close" }),
      ...headers,
    }).map(([name, value]) => `${name}: ${value}\r\n`);
    const answer = readAnswer(socket);
    socket.write(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${text}`);
    const { head, content } = await answer;
    if (!this.#keeps || /^connection: *close\r$/im.test(head)) this.close();
    const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(head) ?? [];
    return { status: Number(status), body: content === "" ? undefined : JSON.parse(content) };
  }

  close(): void {
    this.#socket?.destroy();
    this.#socket = undefined;
  }

  async #connected(): Promise<Socket> {
    if (this.#socket !== undefined && !this.#socket.destroyed && !this.#socket.readableEnded) return this.#socket;
    this.close();
    const { hostname, port } = new URL(this.#url());
    const socket = connect({ host: hostname, port: Number(port), noDelay: true });
    this.connections += 1;
    socket.on("error", () => {});
    await new Promise<void>((resolve, reject) => {
      socket.once("connect", resolve);
      socket.once("close", () => reject(new Error("not connected")));
    });
    // Notices the end of an idle connection.
    socket.resume();
    this.#socket = socket;
    return socket;
  }
}

function readAnswer(socket: Socket): Promise<{ readonly head: string; readonly content: string }> {
  const { promise, resolve, reject } = Promise.withResolvers<{ head: string; content: string }>();
  let received = Buffer.alloc(0);
  const take = (bytes: Buffer): void => {
    received = Buffer.concat([received, bytes]);
    const end = received.indexOf("\r\n\r\n");
    if (end === -1) return;
    const head = received.toString("latin1", 0, end + 2);
    const [, length = "0"] = /^content-length: *(\d+)\r$/im.exec(head) ?? [];
    if (received.length < end + 4 + Number(length)) return;
    stop();
    resolve({ head, content: received.toString("utf8", end + 4, end + 4 + Number(length)) });
  };
  const lost = (): void => {
    stop();
    socket.destroy();
    reject(new Error("the connection ended before the answer"));
  };
  const stop = (): void => {
    socket.off("data", take).off("end", lost).off("close", lost);
  };
  socket.on("data", take).once("end", lost).once("close", lost);
  return promise;
}
