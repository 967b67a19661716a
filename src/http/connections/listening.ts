import { chmodSync, lstatSync, renameSync, unlinkSync } from "node:fs";
import { connect, createServer as createSocketServer, type Server } from "node:net";
import { systemCode } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import type { Endpoint, ListenerName, ListenerState } from "../endpoint.ts";
import type { ConsoleListener, ServerOptions } from "../server-options.ts";
import type { ListenAddress, ListenerServer } from "./listening-forwarded.ts";
import { type TlsListener, type TlsSource, tlsServer } from "./listening-tls.ts";

/** Where the agents' listener or the console's listens: a port, plain or with TLS, a socket, or both. */
interface ServedAddress {
  readonly host: string;
  readonly port: number | "off";
  readonly tls?: TlsSource | undefined;
  readonly socket?: SocketAddress | undefined;
  /** True when other processes of the service listen at the same port. */
  readonly isShared?: boolean | undefined;
}

interface ListenerAddresses extends ServedAddress {
  /** True in a process whose workers have the listener for calls. */
  readonly isWithoutAgents?: boolean | undefined;
  readonly endpoints: readonly Endpoint[];
  readonly console?: { readonly address: ServedAddress; readonly parts: ConsoleListener } | undefined;
  readonly operator?: ListenAddress | undefined;
}

interface Listening {
  /** `http://host:port` with the actual port, or `unix:path` when there is only the socket. */
  readonly url: string;
  readonly consoleUrl: string | undefined;
  readonly operatorUrl: string | undefined;
  states(): readonly ListenerState[];
  /** Stops accepting connections for calls and the console; resolves when open requests have been answered. */
  close(): Promise<void>;
  /** Ends the connections on which no request waits for its answer. */
  endIdle(): void;
  cutOff(): void;
  closeOperators(): Promise<void>;
}

/**
 * Opens the operator listener last: a client that it reports as ready may call at once.
 *
 * @throws {StartupError} when an address is taken; every listener that was opened is closed by then
 */
export async function openListeners(options: ServerOptions, addresses: ListenerAddresses): Promise<Listening> {
  const { endpoints, console, operator } = addresses;
  const served: ServedListener[] = [];
  const close = async (): Promise<void> => void (await Promise.all(served.map((each) => each.close())));
  try {
    let url = "";
    if (addresses.isWithoutAgents !== true) {
      const agents = new ServedListener(await agentsServer(options, endpoints), options, "agents");
      served.push(agents);
      url = await agents.open(addresses);
    }
    let consoleUrl: string | undefined;
    if (console !== undefined) {
      const { createConsoleServer, FastifyListener } = await import("../server.ts");
      const app = new FastifyListener(createConsoleServer(options, endpoints, console.parts), options);
      const opened = new ServedListener(app, options, "console");
      served.push(opened);
      consoleUrl = await opened.open(console.address);
    }
    const endIdle = (): void => served.forEach((each) => void each.endIdle());
    const cutOff = (): void => served.forEach((each) => void each.cutOff());
    const states = (): readonly ListenerState[] => served.map((each) => each.state());
    const listening = { url, consoleUrl, close, endIdle, cutOff };
    if (operator === undefined) return { ...listening, operatorUrl: undefined, states, closeOperators };
    const { createOperatorServer } = await import("../server.ts");
    const operators = createOperatorServer(options, endpoints);
    const operatorUrl = await operators.listen({ ...operator }).catch((error: unknown) => {
      throw refused(error, FIELDS.operators, operator);
    });
    const plain = { tls: "none", clientCertificates: "none", certificateExpiresAt: undefined } as const;
    return {
      ...listening,
      operatorUrl,
      states: () => [...states(), { listener: "operators", addresses: [operatorUrl], ...plain }],
      async closeOperators() {
        operators.server.closeAllConnections();
        await operators.close();
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

async function closeOperators(): Promise<void> {}

/** Returns the agents' HTTP server: the built-in one, unless the configuration names fastify. Only the one in use is loaded. */
async function agentsServer(options: ServerOptions, endpoints: readonly Endpoint[]): Promise<ListenerServer> {
  if (options.http === "fastify") {
    const { createServer, FastifyListener } = await import("../server.ts");
    return new FastifyListener(createServer(options, endpoints), options);
  }
  const [{ Front }, { parserFactory }] = await Promise.all([
    import("../front/front.ts"),
    import("../../http1/parser.ts"),
  ]);
  return new Front(await parserFactory(), options, endpoints);
}

/** Configuration keys of the listeners. */
const FIELDS = {
  agents: "server",
  console: "server.console",
  operators: "server.operator",
} as const satisfies Record<ListenerName, string>;

/**
 * A listener for calls or the console. The HTTP server itself listens on a plain port; TLS and the Unix socket have their own
 * servers, which hand their connections to it.
 */
class ServedListener {
  readonly #server: ListenerServer;
  readonly #options: ServerOptions;
  readonly #name: ListenerName;
  readonly #field: string;
  readonly #closings: (() => void)[] = [];
  readonly #addresses: string[] = [];
  #tls: TlsListener | undefined;

  constructor(server: ListenerServer, options: ServerOptions, name: ListenerName) {
    this.#server = server;
    this.#options = options;
    this.#name = name;
    this.#field = FIELDS[name];
  }

  state(): ListenerState {
    return {
      listener: this.#name,
      addresses: this.#addresses,
      tls: this.#tls === undefined ? "none" : "server",
      clientCertificates: this.#tls?.clientCertificates ?? "none",
      certificateExpiresAt: this.#tls?.expiresAt(),
    };
  }

  async open({ host, port, tls, socket, isShared = false }: ServedAddress): Promise<string> {
    const urls: string[] = [];
    if (port !== "off") urls.push(await this.#openPort({ host, port, reusePort: isShared }, tls));
    this.#addresses.push(...urls);
    if (socket !== undefined) {
      urls.push(await this.#openSocket(socket));
      this.#addresses.push("Unix socket");
    }
    return urls[0] ?? "";
  }

  async close(): Promise<void> {
    for (const close of this.#closings.splice(0)) close();
    await this.#server.close();
  }

  endIdle(): void {
    this.#server.endIdle();
  }

  cutOff(): void {
    this.#server.cutOff();
  }

  /** @throws {StartupError} */
  async #openPort(address: ListenAddress, tls: TlsSource | undefined): Promise<string> {
    try {
      const port = await this.#listen(address, tls);
      return tls === undefined
        ? `http://${inUrl(usable(address.host))}:${port}`
        : `https://${inUrl(address.host)}:${port}`;
    } catch (error) {
      throw refused(error, this.#field, address);
    }
  }

  #listen(address: ListenAddress, tls: TlsSource | undefined): Promise<number> {
    if (tls !== undefined) return this.#openTls(tls, address);
    const isForwarded = address.reusePort === true && !this.#server.canShare;
    return isForwarded ? this.#openForwarded(address) : this.#server.listen(address);
  }

  async #openForwarded(address: ListenAddress): Promise<number> {
    const taker = await this.#server.taker();
    const server = createSocketServer((socket) => taker.take(socket));
    this.#closings.push(() => server.close());
    return listeningPort(taker.limited(server), address);
  }

  async #openTls(source: TlsSource, address: ListenAddress): Promise<number> {
    const { headersTimeoutMs, logError, limits, metrics } = this.#options;
    const opened = tlsServer(await this.#server.taker(), {
      field: this.#field,
      source,
      handshakeTimeoutMs: headersTimeoutMs,
      logError,
      handshakes: {
        refused: (why) => metrics.load.ended(why),
        get perSourceMax() {
          return limits?.connectionsPerSourceMax;
        },
      },
    });
    this.#tls = opened;
    this.#closings.push(
      () => opened.close(),
      () => opened.server.close(),
    );
    return listeningPort(opened.server, address);
  }

  async #openSocket(address: SocketAddress): Promise<string> {
    const taker = await this.#server.taker();
    const server = createSocketServer((socket) => taker.take(socket));
    const remove = await listenAt(taker.limited(server), address, {
      field: `${this.#field}.socket`,
      pid: process.pid,
    });
    this.#closings.push(remove, () => server.close());
    return `unix:${address.path}`;
  }
}

/** Returns an address that a client on this machine can use. */
function usable(host: string): string {
  return host === "0.0.0.0" || host === "localhost" ? "127.0.0.1" : host;
}

function inUrl(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

function listeningPort(server: Server, { host, port, reusePort = false }: ListenAddress): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  server.once("error", reject);
  server.listen({ port, host, reusePort }, () => {
    const address = server.address();
    resolve(typeof address === "object" && address !== null ? address.port : port);
  });
  return promise;
}

function refused(error: unknown, field: string, { host, port }: ListenAddress): unknown {
  if (!(error instanceof Error && "code" in error)) return error;
  if (error.code === "EADDRINUSE") return new StartupError([`${field}.port: ${port} is in use`]);
  if (error.code === "EACCES") {
    return new StartupError([`${field}.port: ${port} needs a privilege that this user lacks: use a port from 1024 on`]);
  }
  const wants = "write an address of this machine, or 0.0.0.0 for all of them";
  return new StartupError([`${field}.host: ${host} cannot be listened at (${String(error.code)}): ${wants}`]);
}

interface SocketAddress {
  readonly path: string;
  readonly mode: number;
}

/** The kernel accepts 107 bytes, and the socket is created under a longer name first. */
const PATH_BYTES_MAX = 90;

/** The configuration key of a socket, and the process that creates it. */
interface SocketCreator {
  readonly field: string;
  readonly pid: number;
}

/**
 * Listens at the path. Replaces a socket that no process listens on; refuses any other existing file. The socket is created
 * under another name and renamed once its mode is set, so that it never exists at `path` with another mode, and so that
 * closing the server, which deletes the name it was created under, cannot delete whatever is at `path` by then.
 *
 * @returns a function that removes the socket
 * @throws {StartupError}
 */
async function listenAt(
  server: Server,
  { path, mode }: SocketAddress,
  { field, pid }: SocketCreator,
): Promise<() => void> {
  if (Buffer.byteLength(path) > PATH_BYTES_MAX) throw new StartupError([`${field}: is over ${PATH_BYTES_MAX} bytes`]);
  await assertFree(path, field);
  const made = `${path}.${pid}`;
  removeStale(made, field);
  await listening(server, made, field);
  chmodSync(made, mode);
  const { dev, ino } = lstatSync(made);
  renameSync(made, path);
  return () => {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found?.dev === dev && found.ino === ino) unlinkSync(path);
  };
}

async function assertFree(path: string, field: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (found.isSymbolicLink()) throw new StartupError([`${field}: ${path} is a symbolic link`]);
  if (!found.isSocket()) throw new StartupError([`${field}: ${path} exists already and is not a socket`]);
  if (found.uid !== process.getuid?.()) throw new StartupError([`${field}: ${path} is another user's socket`]);
  const answer = await probe(path);
  if (answer === "ECONNREFUSED" || answer === "ENOENT") return;
  throw new StartupError([`${field}: ${path} is in use${answer === "taken" ? "" : ` (${answer})`}`]);
}

/** Returns `taken` when a process listens at the path; otherwise the system's error code. */
function probe(path: string): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve("taken");
    });
    socket.on("error", (error) => resolve(systemCode(error)));
  });
}

/** Removes a socket that an earlier process with the same id left when it died between creating and renaming it. */
function removeStale(made: string, field: string): void {
  const found = lstatSync(made, { throwIfNoEntry: false });
  if (found === undefined) return;
  if (!found.isSocket()) throw new StartupError([`${field}: ${made} is in the way`]);
  unlinkSync(made);
}

/** Binds synchronously, and so under this umask: no other user can connect before the mode is set. */
function listening(server: Server, path: string, field: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", (error) => reject(new StartupError([`${field}: cannot be made (${systemCode(error)})`])));
  const mask = process.umask(0o177);
  try {
    server.listen(path, resolve);
  } catch (error) {
    reject(new StartupError([`${field}: cannot be made (${systemCode(error)})`]));
  } finally {
    process.umask(mask);
  }
  return promise;
}

/**
 * Checks that no process listens at the address: several of the service will share it, and the system would let another service
 * of the same user join them.
 *
 * @throws {StartupError}
 */
export async function assertPortFree(address: ListenAddress): Promise<void> {
  if (address.port === 0) return;
  const server = createSocketServer();
  try {
    await listeningPort(server, address);
  } catch (error) {
    throw refused(error, FIELDS.agents, address);
  } finally {
    server.close();
  }
}
