import { connect, createServer, type Server, type Socket } from "node:net";

interface Pair {
  readonly member: Socket;
  readonly hub: Socket;
}

/**
 * The network between members and hubs: one address, whose connections go to the hubs in turn. `break` ends all connections and
 * accepts no other; with `silence`, nothing arrives any more and no connection breaks until the network is back.
 */
export class Network {
  readonly #server: Server;
  readonly #ports: readonly number[];
  readonly #pairs = new Set<Pair>();
  #turn = 0;
  #state: "whole" | "break" | "silence" = "whole";

  private constructor(ports: readonly number[]) {
    this.#ports = ports;
    this.#server = createServer((member) => this.#forward(member));
  }

  static async open(ports: readonly number[]): Promise<Network> {
    const network = new Network(ports);
    await new Promise<void>((resolve) => network.#server.listen(0, "127.0.0.1", resolve));
    return network;
  }

  get url(): string {
    const address = this.#server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    return `https://127.0.0.1:${address.port}`;
  }

  /** Connections of members that are open now. */
  get connections(): number {
    return this.#pairs.size;
  }

  cut(how: "break" | "silence"): void {
    this.#state = how;
    if (how === "break") this.#endAll();
  }

  heal(): void {
    // These connections lack the bytes that were lost meanwhile.
    if (this.#state === "silence") this.#endAll();
    this.#state = "whole";
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#endAll();
    await closed;
  }

  #endAll(): void {
    for (const { member, hub } of this.#pairs) {
      member.destroy();
      hub.destroy();
    }
  }

  #forward(member: Socket): void {
    if (this.#state === "break") {
      member.destroy();
      return;
    }
    const hub = connect(this.#ports[this.#turn++ % this.#ports.length] ?? 0, "127.0.0.1");
    const pair = { member, hub };
    this.#pairs.add(pair);
    for (const [from, to] of [
      [member, hub],
      [hub, member],
    ] as const) {
      from.setNoDelay(true);
      from.on("data", (chunk) => {
        if (this.#state === "silence" || to.write(chunk)) return;
        from.pause();
        to.once("drain", () => from.resume());
      });
      from.on("error", () => to.destroy());
      from.on("close", () => {
        this.#pairs.delete(pair);
        to.destroySoon();
      });
    }
  }
}
