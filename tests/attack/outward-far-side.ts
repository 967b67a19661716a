import { type AddressInfo, createServer, type Socket } from "node:net";

/** What it does with a connection on which a whole request has come. */
export type Behaviour = (socket: Socket) => void;

export const OK: Behaviour = (socket) => socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");

/** The same text for as long as somebody reads. */
export function forEver(text: string): Behaviour {
  return (socket) => {
    const more = (): void => {
      while (!socket.destroyed && socket.write(text));
    };
    socket.on("drain", more);
    more();
  };
}

/** Begins so, and says a little more again and again. */
export function drips(beginning: string, more: string): Behaviour {
  return (socket) => {
    socket.write(beginning);
    const dripping = setInterval(() => socket.write(more), 50);
    socket.once("close", () => clearInterval(dripping));
  };
}

/** A far side over bare TCP, which need not speak HTTP well. */
export class FarSide {
  behaviour: Behaviour = OK;
  /** Whole requests, each with its head. */
  readonly requests: string[] = [];
  readonly #open = new Set<Socket>();
  readonly #server = createServer((socket) => this.#take(socket));

  static async start(): Promise<FarSide> {
    const far = new FarSide();
    await new Promise<void>((resolve) => far.#server.listen(0, "127.0.0.1", resolve));
    return far;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/place?token=s3cret`;
  }

  /** Connections. */
  get open(): number {
    return this.#open.size;
  }

  close(): void {
    for (const socket of this.#open) socket.destroy();
    this.#server.close();
  }

  #take(socket: Socket): void {
    this.#open.add(socket);
    socket.on("error", () => {}).once("close", () => this.#open.delete(socket));
    let come = "";
    socket.on("data", (bytes) => {
      come += bytes.toString("latin1");
      const end = come.indexOf("\r\n\r\n") + 4;
      const length = Number(/content-length: (\d+)/i.exec(come)?.[1] ?? 0);
      if (end < 4 || come.length < end + length) return;
      this.requests.push(come.slice(0, end + length));
      come = come.slice(end + length);
      this.behaviour(socket);
    });
  }
}
