import { connect, createServer, type Server, type Socket } from "node:net";

/** A way to the database that can lose what goes through it. */
export class Wire {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Called with what the client sends; true: the connection is cut, and the server has received this. */
  loses: (sent: Buffer) => boolean = () => false;

  constructor(port: number) {
    this.#server = createServer((client) => {
      const server = connect(port, "127.0.0.1");
      for (const socket of [client, server]) {
        this.#sockets.add(socket);
        socket.on("error", () => {});
        socket.on("close", () => this.#sockets.delete(socket));
      }
      client.on("data", (sent: Buffer) => {
        const isLost = this.loses(sent);
        server.write(sent);
        if (isLost) client.destroy();
      });
      server.on("data", (answer) => {
        if (!client.destroyed) client.write(answer);
      });
      client.on("end", () => server.end());
      server.on("close", () => client.destroy());
    });
  }

  async open(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return (this.#server.address() as { readonly port: number }).port;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}
