import { connect, createServer, type Server, type Socket } from "node:net";

/** `open`; `cut`: every connection ends; `deaf`: what servers send is lost, and nobody notices. */
export type NetworkState = "open" | "cut" | "deaf";

/** A TCP proxy to servers that share a name: each new connection goes to the next one that accepts it. */
export class CutNetwork {
  readonly #ports: () => readonly number[];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #turn = 0;
  #state: NetworkState = "open";
  port = 0;
  /** Bytes that were on their way to clients and were lost. */
  lostBytes = 0;

  constructor(ports: () => readonly number[]) {
    this.#ports = ports;
    this.#server = createServer((client) => this.#forward(client));
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    this.port = address.port;
  }

  become(state: NetworkState): void {
    this.#state = state;
    if (state === "cut") this.#destroyAll();
  }

  /** Opens the network; connections that have lost something end. */
  heal(): void {
    if (this.#state === "deaf") this.#destroyAll();
    this.#state = "open";
  }

  async end(): Promise<void> {
    this.#destroyAll();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #destroyAll(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  #forward(client: Socket): void {
    this.#keep(client);
    if (this.#state === "cut") return void client.destroy();
    const ports = this.#ports();
    this.#turn += 1;
    const server = connect({ host: "127.0.0.1", port: ports[this.#turn % ports.length] ?? 1 });
    this.#keep(server);
    client.on("data", (piece) => server.write(piece));
    server.on("data", (piece) => {
      if (this.#state === "deaf") this.lostBytes += piece.length;
      else client.write(piece);
    });
    client.on("close", () => server.destroy());
    server.on("close", () => client.destroy());
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on("error", () => socket.destroy());
    socket.on("close", () => this.#sockets.delete(socket));
  }
}
