import { EgressConnection } from "./connection.ts";
import type { EgressExchange } from "./exchange.ts";

export interface PoolOptions {
  readonly port: number;
  /** Present for https. */
  readonly tls: Bun.TLSOptions | undefined;
  /** Time that an unused connection stays open; 0 when connections are not kept. */
  readonly idleMs: number;
  readonly connectionsMax: number;
  /** Keeps a connection that is still being made when its exchange ends early. */
  readonly keepsUnfinished: boolean;
  /** Returns exactly the addresses that a new connection may use. Rejects when one of them is forbidden. */
  readonly addresses: () => Promise<readonly string[]>;
}

const IDLE_CONNECTIONS_MAX = 256;
/**
 * Maximum attempts to connect that nobody waits for. The runtime cannot cancel an attempt, and the system gives it up after two
 * minutes.
 */
const ABANDONED_MAX = 256;

/** Connections to one server, and the exchanges that wait for one. */
export class Pool {
  readonly #options: PoolOptions;
  readonly #connections = new Set<EgressConnection>();
  /** The most recently used one is last; those that are still being made are first. */
  readonly #unused: EgressConnection[] = [];
  readonly #waiting = new Set<EgressExchange>();
  #abandoned = 0;
  #isRetired = false;
  #isClosing = false;

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  /** Number of connections, in use or not. */
  get size(): number {
    return this.#connections.size;
  }

  get port(): number {
    return this.#options.port;
  }

  get tls(): Bun.TLSOptions | undefined {
    return this.#options.tls;
  }

  get idleMs(): number {
    return this.#isRetired ? 0 : this.#options.idleMs;
  }

  addresses(): Promise<readonly string[]> {
    return this.#options.addresses();
  }

  /** Sends the request of an exchange as soon as there is a connection. */
  take(exchange: EgressExchange): void {
    if (this.#isClosing) {
      exchange.failed(clientClosed());
      return;
    }
    const unused = this.#unused.pop();
    if (unused !== undefined) {
      unused.use(exchange);
    } else if (this.#hasSpace()) {
      this.#open(exchange);
    } else {
      exchange.owner = this;
      this.#waiting.add(exchange);
    }
  }

  drop(exchange: EgressExchange): void {
    this.#waiting.delete(exchange);
  }

  returned(connection: EgressConnection): void {
    const next = this.#nextWaiting();
    if (next !== undefined) connection.use(next);
    else if (this.#unused.length < IDLE_CONNECTIONS_MAX) this.#unused.push(connection);
    else connection.close();
  }

  released(connection: EgressConnection): void {
    const keeps = this.#options.keepsUnfinished && this.idleMs > 0;
    const next = keeps ? this.#nextWaiting() : undefined;
    if (next !== undefined) connection.use(next);
    else if (keeps && this.#unused.length < IDLE_CONNECTIONS_MAX) this.#unused.unshift(connection);
    else connection.close();
  }

  closed(connection: EgressConnection): void {
    this.#connections.delete(connection);
    const at = this.#unused.indexOf(connection);
    if (at >= 0) this.#unused.splice(at, 1);
    if (connection.isConnecting) this.#abandoned += 1;
    while (this.#waiting.size > 0 && this.#hasSpace()) {
      const next = this.#nextWaiting();
      if (next !== undefined) this.#open(next);
    }
  }

  attemptEnded(): void {
    this.#abandoned -= 1;
  }

  /** Closes the unused connections now, and each of the others after its answer. */
  retire(): void {
    this.#isRetired = true;
    for (const connection of this.#unused.splice(0)) connection.close();
  }

  /** Closes all connections. Requests that are not sent yet fail; connections for later ones are not kept. */
  close(): void {
    this.retire();
    this.#isClosing = true;
    for (const exchange of [...this.#waiting]) exchange.failed(clientClosed());
    for (const connection of [...this.#connections]) connection.destroy();
    this.#isClosing = false;
  }

  #hasSpace(): boolean {
    return this.#connections.size < this.#options.connectionsMax;
  }

  #nextWaiting(): EgressExchange | undefined {
    const [next] = this.#waiting;
    if (next !== undefined) this.#waiting.delete(next);
    return next;
  }

  #open(exchange: EgressExchange): void {
    if (this.#abandoned >= ABANDONED_MAX) {
      exchange.failed(Object.assign(new Error("too many attempts without an answer"), { code: "ETIMEDOUT" }));
      return;
    }
    const connection = new EgressConnection(this);
    this.#connections.add(connection);
    void connection.open(exchange);
  }
}

function clientClosed(): Error {
  return Object.assign(new Error("the client was closed"), { code: "ECONNABORTED" });
}
