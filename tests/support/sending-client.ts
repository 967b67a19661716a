import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/** A client that reads nothing before it has sent everything, as many simple clients do. */
export interface SendingClient {
  readonly socket: Socket;
  /** Sends; resolves when the system has taken it. Rejects when the connection is reset. */
  send(bytes: string | Uint8Array): Promise<void>;
  /** Reads from now on; resolves with all that came when the connection ends. Rejects when it is reset. */
  read(): Promise<string>;
}

/** `url` of a service: `http://…`, `https://…`, `unix:path`. */
export async function openClient(url: string): Promise<SendingClient> {
  const socket = dial(url);
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  socket.on("error", (error) => failed.reject(error));
  const ready = url.startsWith("https:") ? "secureConnect" : "connect";
  await Promise.race([new Promise<void>((resolve) => socket.once(ready, () => resolve())), failed.promise]);
  socket.pause();
  return {
    socket,
    send(bytes) {
      const sent = new Promise<void>((resolve, reject) => {
        socket.write(bytes, (error) => (error ? reject(error) : resolve()));
      });
      return Promise.race([sent, failed.promise]);
    },
    read() {
      let received = "";
      socket.on("data", (bytes) => {
        received += bytes.toString("latin1");
      });
      const ended = new Promise<string>((resolve) => {
        socket.once("end", () => resolve(received)).once("close", () => resolve(received));
      });
      socket.resume();
      return Promise.race([ended, failed.promise]);
    },
  };
}

function dial(url: string): Socket {
  if (url.startsWith("unix:")) return connect(url.slice("unix:".length));
  const { hostname, port } = new URL(url);
  if (url.startsWith("http:")) return connect(Number(port), hostname);
  return connectTls({ host: hostname, port: Number(port), rejectUnauthorized: false });
}

/** The statuses of the answers in what came. */
export function statusesIn(received: string): readonly number[] {
  return [...received.matchAll(/HTTP\/1\.1 (\d{3}) /g)].map(([, status]) => Number(status));
}
