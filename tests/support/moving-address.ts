import { connect, createServer, type Server, type Socket } from "node:net";

/** An address that moves from one server to another, as a name does. A connection stays at the server to which it was made. */
export class MovingAddress {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Port on 127.0.0.1 to which new connections go. */
  target: number;

  private constructor(target: number) {
    this.target = target;
    this.#server = createServer((client) => this.#forward(client));
  }

  static async start(target: number): Promise<MovingAddress> {
    const address = new MovingAddress(target);
    await new Promise<void>((resolve) => address.#server.listen(0, "127.0.0.1", resolve));
    return address;
  }

  get port(): number {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    return address.port;
  }

  /** Breaks all connections, and accepts no other. */
  async end(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #forward(client: Socket): void {
    const server = connect(this.target, "127.0.0.1");
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }
}
