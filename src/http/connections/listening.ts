import { chmodSync, lstatSync, renameSync, unlinkSync } from "node:fs";
import { connect, createServer as createSocketServer, type Server } from "node:net";
import type { FastifyInstance } from "fastify";
import { systemCode } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import { createOperatorServer, createServer, KEEP_ALIVE_MS, type ServerOptions } from "../server.ts";
import { CarriedConnections } from "./listening-carried.ts";
import { type TlsSource, tlsServer } from "./listening-tls.ts";

/** How long idle connections stay when the service ends: a client that sends its next request meanwhile gets an answer, not a reset. */
const IDLE_GRACE_MS = 500;

/** Where a door is. */
interface Place {
  readonly host: string;
  readonly port: number;
}

interface DoorPlaces {
  readonly host: string;
  readonly port: number | "off";
  /** Of the port. */
  readonly tls?: TlsSource | undefined;
  readonly socket?: SocketPlace | undefined;
  /** Of health and metrics alone. */
  readonly operator?: Place | undefined;
}

/** Doors that are open. */
interface Listening {
  /** `http://host:port`, as it is really listened on; `unix:path` where there is the socket alone. */
  readonly url: string;
  readonly operatorUrl: string | undefined;
  /** Takes nobody more at the calls' doors; resolves when those who are there have been answered. */
  close(): Promise<void>;
  /** Ends what is still open there. */
  cutOff(): void;
  closeOperators(): Promise<void>;
}

/**
 * The doors of the calls first: who is told by the operators' that calls are taken may send one.
 *
 * @throws {StartupError} when a place is taken; whatever was opened is closed by then
 */
export async function openDoors(options: ServerOptions, places: DoorPlaces): Promise<Listening> {
  const app = createServer(options);
  const calls = new CallDoors(app, options);
  try {
    const url = await calls.open(places);
    if (places.operator === undefined) return { ...calls.ends(url), operatorUrl: undefined, closeOperators };
    const operators = createOperatorServer(options);
    const operatorUrl = await listen(operators, places.operator, "server.operator");
    return { ...calls.ends(url), operatorUrl, closeOperators: () => closeAtOnce(operators) };
  } catch (error) {
    await calls.close();
    throw error;
  }
}

async function closeOperators(): Promise<void> {}

async function closeAtOnce(app: FastifyInstance): Promise<void> {
  app.server.closeAllConnections();
  await app.close();
}

/** A plain port is the HTTP server's own; TLS and the socket are servers of their own that hand their connections on. */
class CallDoors {
  readonly #app: FastifyInstance;
  readonly #options: ServerOptions;
  readonly #closings: (() => void)[] = [];
  #carried: CarriedConnections | undefined;

  constructor(app: FastifyInstance, options: ServerOptions) {
    this.#app = app;
    this.#options = options;
  }

  async open({ host, port, tls, socket }: DoorPlaces): Promise<string> {
    const urls: string[] = [];
    if (port !== "off" && tls === undefined) urls.push(await listen(this.#app, { host, port }, "server"));
    if (port !== "off" && tls !== undefined) urls.push(await this.#openTls(tls, { host, port }));
    if (socket !== undefined) urls.push(await this.#openSocket(socket));
    return urls[0] ?? "";
  }

  ends(url: string): Pick<Listening, "url" | "close" | "cutOff"> {
    return { url, close: () => this.close(), cutOff: () => this.#cutOff() };
  }

  /** For a moment, requests on connections that are open are still answered, with `Connection: close`. */
  async close(): Promise<void> {
    for (const close of this.#closings.splice(0)) close();
    // The HTTP server's own close ends what is idle of these, too.
    await this.#carried?.emptyWithin(IDLE_GRACE_MS);
    keepIdleConnections(this.#app.server);
    // Again and again: a connection with several requests under way may be idle after an answer that said nothing of the end.
    const idle = setInterval(() => this.#app.server.closeIdleConnections(), IDLE_GRACE_MS);
    await Promise.all([this.#app.close(), this.#carried?.close()]).finally(() => clearInterval(idle));
  }

  #cutOff(): void {
    this.#app.server.closeAllConnections();
    this.#carried?.destroyAll();
  }

  async #openTls(source: TlsSource, place: Place): Promise<string> {
    const { headersTimeoutMs, logError, limits, metrics } = this.#options;
    const door = tlsServer(await this.#carry(), {
      ...{ source, handshakeTimeoutMs: headersTimeoutMs, logError },
      handshakes: {
        refused: (why) => metrics.load.ended(why),
        get perSourceMax() {
          return limits?.connectionsPerSourceMax;
        },
      },
    });
    this.#closings.push(
      () => door.close(),
      () => door.server.close(),
    );
    const { host } = place;
    const port = await listeningPort(door.server, place).catch((error: unknown) => {
      throw refused(error, "server", place);
    });
    return `https://${host.includes(":") ? `[${host}]` : host}:${port}`;
  }

  async #openSocket(place: SocketPlace): Promise<string> {
    const carried = await this.#carry();
    const server = createSocketServer((socket) => carried.take(socket));
    const remove = await listenAt(carried.bounded(server), place, process.pid);
    this.#closings.push(remove, () => server.close());
    return `unix:${place.path}`;
  }

  async #carry(): Promise<CarriedConnections> {
    await this.#app.ready();
    const { headersTimeoutMs, limits } = this.#options;
    this.#carried ??= new CarriedConnections(this.#app.server, {
      ...{ headersTimeoutMs, keepAliveMs: KEEP_ALIVE_MS },
      get connectionsMax() {
        return limits?.connectionsMax;
      },
    });
    return this.#carried;
  }
}

/**
 * Takes from the HTTP server's `close()` what this runtime adds to it: it closes idle connections at once, and so resets the
 * requests that are on their way to them. The method that it calls for that is on an object of the runtime's own.
 */
function keepIdleConnections(server: object): void {
  for (const symbol of Object.getOwnPropertySymbols(server)) {
    const own: unknown = Reflect.get(server, symbol);
    if (typeof own !== "object" || own === null || !("closeIdleConnections" in own) || !("stop" in own)) continue;
    Object.defineProperty(own, "closeIdleConnections", { value: () => 0, configurable: true });
  }
}

function listeningPort(server: Server, { host, port }: Place): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  server.once("error", reject);
  server.listen(port, host, () => {
    const address = server.address();
    resolve(typeof address === "object" && address !== null ? address.port : port);
  });
  return promise;
}

/** `field` is the configuration's name for the place. */
async function listen(app: FastifyInstance, place: Place, field: string): Promise<string> {
  try {
    return await app.listen({ ...place });
  } catch (error) {
    throw refused(error, field, place);
  }
}

/** What the system says no to is a matter of the configuration. */
function refused(error: unknown, field: string, { host, port }: Place): unknown {
  if (!(error instanceof Error && "code" in error)) return error;
  if (error.code === "EADDRINUSE") return new StartupError([`${field}.port: ${port} is in use`]);
  if (error.code === "EACCES") {
    return new StartupError([`${field}.port: ${port} is not for this user to listen at: take one from 1024 on`]);
  }
  const wants = "write an address of this machine, or 0.0.0.0 for all of them";
  return new StartupError([`${field}.host: ${host} cannot be listened at (${String(error.code)}): ${wants}`]);
}

interface SocketPlace {
  /** Absolute. */
  readonly path: string;
  readonly mode: number;
}

/** The kernel takes 107 bytes; the socket is made under a longer name first. */
const PATH_BYTES_MAX = 90;
const FIELD = "server.socket";

/**
 * Listens at the path. A socket that nobody listens at any more is replaced; anything else that stands there is not ours to
 * take away. The socket is made under another name and moved into its place with its mode, so that it never stands there with
 * another one, and so that closing the server, which deletes the name it was made under, cannot delete what stands there then.
 *
 * @returns how to take it away
 * @throws {StartupError}
 */
async function listenAt(server: Server, { path, mode }: SocketPlace, pid: number): Promise<() => void> {
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) throw new StartupError([`${FIELD}: is over ${PATH_BYTES_MAX} bytes`]);
  await assertFree(path);
  const made = `${path}.${pid}`;
  removeStale(made);
  await listening(server, made);
  chmodSync(made, mode);
  const { dev, ino } = lstatSync(made);
  renameSync(made, path);
  return () => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.dev === dev && found.ino === ino) unlinkSync(path);
  };
}

async function assertFree(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (found.isSymbolicLink()) throw new StartupError([`${FIELD}: ${path} is a symbolic link`]);
  if (!found.isSocket()) throw new StartupError([`${FIELD}: ${path} is there already, and is no socket`]);
  if (found.uid !== process.getuid?.()) throw new StartupError([`${FIELD}: ${path} is somebody else's socket`]);
  const answer = await knock(path);
  if (answer === "ECONNREFUSED" || answer === "ENOENT") return;
  throw new StartupError([`${FIELD}: ${path} is in use${answer === "taken" ? "" : ` (${answer})`}`]);
}

/** `taken` when somebody listens; else the system's code. */
function knock(path: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve("taken");
    });
    socket.on("error", (error) => resolve(systemCode(error)));
  });
}

/** What an earlier process of the same number left behind when it died between two steps. */
function removeStale(made: string): void {
  const found = lstatSync(made, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new StartupError([`${FIELD}: ${made} is in the way`]);
  unlinkSync(made);
}

/** Bound at once, and so under this mask: nobody else can connect before the mode is set. */
function listening(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", (error) => reject(new StartupError([`${FIELD}: cannot be made (${systemCode(error)})`])));
  const mask = process.umask(0o177);
  try {
    server.listen(path, resolve);
  } catch (error) {
    reject(new StartupError([`${FIELD}: cannot be made (${systemCode(error)})`]));
  } finally {
    process.umask(mask);
  }
  return promise;
}
