import { connect, createServer, type Server, type Socket } from "node:net";

const LOOK_EVERY_MS = 100;

/** A replica as a Service of Kubernetes sees it. */
export interface Endpoint {
  /** Where it listens now. */
  readonly url: string;
  /** The status of `/readyz`; undefined when nobody answers. */
  ready(): Promise<number | undefined>;
}

/**
 * Balances TCP connections as a Service does: each new one goes to the next endpoint that is ready, and stays there. An endpoint
 * that is not ready any more still gets new connections for some time, because nodes learn of it late.
 */
export class ServiceBalancer {
  readonly #leavesAfterMs: number;
  readonly #endpoints: readonly Endpoint[];
  readonly #chosen = new Set<Endpoint>();
  readonly #sockets = new Set<Socket>();
  readonly #server: Server;
  #isOver = false;
  #watching: Promise<unknown> | undefined;
  #turn = 0;
  url = "";

  constructor(endpoints: readonly Endpoint[], leavesAfterMs: number) {
    this.#endpoints = endpoints;
    this.#leavesAfterMs = leavesAfterMs;
    this.#server = createServer({ allowHalfOpen: true }, (client) => this.#forward(client));
  }

  async start(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    this.url = `http://127.0.0.1:${address.port}`;
    this.#watching = Promise.all(this.#endpoints.map((endpoint) => this.#watch(endpoint)));
  }

  has(endpoint: Endpoint): boolean {
    return this.#chosen.has(endpoint);
  }

  async end(): Promise<void> {
    this.#isOver = true;
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.#watching;
  }

  async #watch(endpoint: Endpoint): Promise<void> {
    while (!this.#isOver) {
      if ((await endpoint.ready()) === 200) {
        this.#chosen.add(endpoint);
      } else if (this.#chosen.has(endpoint)) {
        await Bun.sleep(this.#leavesAfterMs);
        this.#chosen.delete(endpoint);
      }
      await Bun.sleep(LOOK_EVERY_MS);
    }
  }

  #forward(client: Socket): void {
    const chosen = [...this.#chosen];
    this.#turn += 1;
    const endpoint = chosen[this.#turn % chosen.length];
    if (endpoint === undefined) {
      client.destroy();
      return;
    }
    const { hostname, port } = new URL(endpoint.url);
    const upstream = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on("error", () => other.destroy());
      socket.once("close", () => {
        this.#sockets.delete(socket);
        other.destroySoon();
      });
      socket.pipe(other);
    }
  }
}
