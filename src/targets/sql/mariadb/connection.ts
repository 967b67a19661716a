import type { Duplex } from "node:stream";
import type { AuthPlugin, Connection, FieldPacket } from "mysql2";
import { resultSoonAfter } from "../../../core/time-limits.ts";
import { StoreUnavailable } from "../../../database/pool.ts";
import { cellText, type SentValue } from "./values.ts";

/** Address of a server, and the user to connect as. */
export interface MariaDbAddress {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: string | undefined;
  /** Undefined: without TLS. */
  readonly tls: { readonly ca?: Buffer; readonly cert?: Buffer; readonly key?: Buffer } | undefined;
}

/** Limits for reading one result. */
export interface ReadBounds {
  readonly rows: number;
  /** Bytes of all cells, in UTF-8. */
  readonly bytes: number;
  /** Whether all rows are counted and none interrupts the statement, as for a change that returns rows. */
  readonly isCounted?: boolean;
}

/** The result of a statement. */
export interface StatementAnswer {
  readonly fields: readonly FieldPacket[];
  /** No more than the bounds allow. */
  readonly rows: readonly (readonly (string | null)[])[];
  /** Whether all cells together have more bytes than the bounds allow. */
  readonly isTooLarge: boolean;
  /** Rows that a change has matched. */
  readonly matched: number;
}

/** A statement that the server has prepared and not run. */
export interface PreparedOnServer {
  /** Empty for a statement that is not a query. */
  readonly columns: readonly FieldPacket[];
  readonly parameterCount: number;
}

/** Thrown when the server sends more than the limits allow: no part of the result is known. */
export class ResultTooLarge extends Error {}

const CONNECT_MS_MAX = 5_000;
/** Time that a server has to end a statement that was killed. */
const KILL_MS_MAX = 500;
/** Bytes on the wire for each byte of the cells: a short number takes more than its text. */
const WIRE_FACTOR = 4;
/** Bytes of a result in addition to its cells: descriptions of columns, lengths, numbers. */
const EXTRA_BYTES = 1_048_576;
/** Bytes that may be in transit when a statement is interrupted. */
const ARRIVING_BYTES = 8_388_608;
const INTERRUPTED = 1317;

/** Authentication methods that, without TLS, encrypt the password with a key of whoever answers. */
const refused: AuthPlugin = () => () => {
  throw new Error("the server asks for an authentication method that needs TLS: set tls in the system's entry");
};

/** One connection to a server. After an error, it is not used again. */
export class MariaDbConnection {
  readonly #connection: Connection;
  readonly #address: MariaDbAddress;
  #isBroken = false;
  /** Identity of the server: several servers may share the address. */
  #server = "";

  private constructor(connection: Connection, address: MariaDbAddress) {
    this.#connection = connection;
    this.#address = address;
    // Without a listener, the end of a connection between two statements would end the process.
    connection.on("error", () => {
      this.#isBroken = true;
    });
  }

  static async open(address: MariaDbAddress): Promise<MariaDbConnection> {
    const { createConnection } = await import("mysql2");
    const { tls, password, ...at } = address;
    const connection = createConnection({
      ...at,
      ...(password !== undefined && { password }),
      // An object of its own for each connection: the driver keeps sessions by it, and does not verify the name of a resumed one.
      ...(tls !== undefined && { ssl: { ...tls, rejectUnauthorized: true, verifyIdentity: true } }),
      ...(tls === undefined && { authPlugins: { caching_sha2_password: refused, sha256_password: refused } }),
      connectTimeout: CONNECT_MS_MAX,
      charset: "utf8mb4",
      // `FOUND_ROWS`: a change counts the rows that it matches, not only those that become different.
      flags: ["-LOCAL_FILES", "-MULTI_STATEMENTS", "FOUND_ROWS"],
      multipleStatements: false,
      dateStrings: true,
      supportBigNumbers: true,
      bigNumberStrings: true,
      jsonStrings: true,
      disableEval: true,
    });
    const opened = new MariaDbConnection(connection, address);
    await new Promise<void>((resolve, reject) => {
      connection.once("error", reject);
      connection.once("connect", () => resolve());
    }).catch((error: unknown) => {
      opened.destroy();
      throw error;
    });
    const [[server] = []] = await opened.command("SELECT CONCAT_WS('/', @@hostname, @@port, @@server_id, @@pid_file)");
    opened.#server = String(server);
    return opened;
  }

  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** Number of the connection on its server, as in its logs. */
  get id(): number {
    return Number(this.#connection.threadId);
  }

  /** Runs a command of the service itself. It has no values. */
  async command(text: string): Promise<readonly (readonly SentValue[])[]> {
    const query = this.#connection.query({ sql: text, rowsAsArray: true });
    const rows: (readonly SentValue[])[] = [];
    await this.#settled(query, (row) => void (Array.isArray(row) && rows.push(row as SentValue[])));
    return rows;
  }

  /** Has the server describe a statement, without running it. */
  async prepare(sql: string): Promise<PreparedOnServer> {
    const prepared = await new Promise<unknown>((resolve, reject) => {
      this.#connection.prepare(sql, (error, statement) => {
        if (error) reject(error);
        else resolve(statement);
      });
    });
    // The driver's types do not have these members.
    const { columns, parameters } = prepared as {
      readonly columns: readonly FieldPacket[];
      readonly parameters: readonly unknown[];
    };
    return { columns, parameterCount: parameters.length };
  }

  /**
   * Runs one statement as a prepared one, in which `;` separates nothing, with values that are texts. Keeps no more than the bounds
   * allow, and interrupts the statement on the server then. When the signal fires, the connection is killed there.
   * @throws {ResultTooLarge}
   */
  async run(
    sql: string,
    values: readonly (string | null)[],
    bounds: ReadBounds,
    signal: AbortSignal,
  ): Promise<StatementAnswer> {
    if (signal.aborted) throw new StoreUnavailable("the call has ended");
    const fields: FieldPacket[] = [];
    const rows: (readonly (string | null)[])[] = [];
    let bytes = 0;
    let matched = 0;
    let interrupting: Promise<void> | undefined;
    const guard = this.#guard(WIRE_FACTOR * bounds.bytes + EXTRA_BYTES);
    const query = this.#connection.execute({ sql, values: [...values], rowsAsArray: true });
    query.on("fields", (sent: FieldPacket[] | undefined) => {
      if (sent !== undefined) fields.push(...sent);
    });
    const read = (row: unknown): void => {
      if (interrupting !== undefined) return;
      if (!Array.isArray(row)) {
        matched = Number((row as { readonly affectedRows?: number }).affectedRows ?? 0);
        return;
      }
      const texts = (row as SentValue[]).map((value, at) => cellText(value, fields[at] as FieldPacket));
      for (const text of texts) bytes += text === null ? 0 : Buffer.byteLength(text);
      if (rows.length < bounds.rows && bytes <= bounds.bytes) rows.push(texts);
      else if (bounds.isCounted !== true) interrupt();
      if (bounds.isCounted === true) matched += 1;
    };
    const interrupt = (): void => {
      guard.extend(ARRIVING_BYTES);
      skipRows(query);
      // The server holds the remaining rows until the statement is interrupted.
      this.#stream?.pause();
      interrupting = this.#kill("QUERY").finally(() => this.#stream?.resume());
    };
    const settled = this.#settled(query, read).catch((error: unknown) => {
      if (interrupting === undefined || (error as { readonly errno?: number }).errno !== INTERRUPTED) throw error;
    });
    try {
      await this.#unlessSilent(Promise.race([settled, guard.exceeded]), signal);
      // Before the next statement: it would be the one that is interrupted.
      await interrupting;
    } catch (error) {
      this.#isBroken = true;
      throw error;
    } finally {
      guard.end();
    }
    return { fields, rows, isTooLarge: bytes > bounds.bytes, matched };
  }

  /** Resets the connection to its initial state: without settings, variables, locks, statements and temporary tables. */
  reset(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#connection.reset((error: Error | null | undefined) => {
        if (error) reject(error);
        else resolve();
      });
    });
  }

  /** Closes the connection immediately. */
  destroy(): void {
    this.#isBroken = true;
    this.#connection.destroy();
    // The driver ends its side only, and reads on until the server does.
    this.#stream?.destroy();
  }

  /** The stream that the driver reads; with TLS, the decrypted one. The driver's types do not have it. */
  get #stream(): Duplex | undefined {
    return (this.#connection as unknown as { readonly stream?: Duplex }).stream;
  }

  /** Settles like `work`. When the signal fires, the connection is killed on the server, which would go on until it has something to send. */
  async #unlessSilent<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
    const abort = (): void => void this.#kill("CONNECTION").finally(() => this.destroy());
    signal.addEventListener("abort", abort, { once: true });
    try {
      return await resultSoonAfter(work, signal, KILL_MS_MAX, () => new StoreUnavailable("the server does not answer"));
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** Sends KILL by another connection. */
  async #kill(what: "QUERY" | "CONNECTION"): Promise<void> {
    let another: MariaDbConnection | undefined;
    try {
      another = await MariaDbConnection.open(this.#address);
      // Behind a balancer, another server may have a connection of the same number.
      const isSame = another.#server === this.#server;
      if (isSame) await another.command(`KILL ${what} ${this.id}`);
    } catch {
      // The connection ends in any case, and the statement by its own time limit.
    } finally {
      another?.destroy();
    }
  }

  /** Ends the connection when more bytes arrive: the driver would keep a row of any size in memory. */
  #guard(bytes: number): { readonly exceeded: Promise<never>; extend(more: number): void; end(): void } {
    const stream = this.#stream;
    if (stream === undefined) throw new StoreUnavailable("the driver does not show what it receives");
    const exceeded = Promise.withResolvers<never>();
    exceeded.promise.catch(() => {});
    let left = bytes;
    const count = (chunk: Buffer): void => {
      left -= chunk.length;
      if (left >= 0) return;
      exceeded.reject(new ResultTooLarge());
      void this.#kill("CONNECTION");
      this.destroy();
    };
    stream.prependListener("data", count);
    return {
      exceeded: exceeded.promise,
      extend(more) {
        left += more;
      },
      end: () => void stream.removeListener("data", count),
    };
  }

  #settled(query: NodeJS.EventEmitter, read: (row: unknown) => void): Promise<void> {
    const ended = Promise.withResolvers<void>();
    query.on("result", (row) => {
      try {
        read(row);
      } catch (error) {
        ended.reject(error);
      }
    });
    query.once("error", ended.reject);
    query.once("end", () => ended.resolve());
    // Connection errors are not reported to statements without a callback. A closed connection has reported its error before this.
    this.#connection.once("error", ended.reject);
    if (this.#isBroken) ended.reject(new StoreUnavailable("the connection has ended"));
    return ended.promise.finally(() => void this.#connection.off("error", ended.reject));
  }
}

/** A command of the driver. Its types do not have this method. */
interface DriverCommand {
  /** Takes a packet; returns whether the command has ended. */
  execute(packet: { isEOF(): boolean; isError(): boolean }, connection: unknown): boolean;
}

/** Makes the driver ignore the rows that still arrive: it would misread their values. */
function skipRows(query: object): void {
  const command = query as DriverCommand;
  const execute = command.execute.bind(command);
  command.execute = (packet, connection) => (packet.isEOF() || packet.isError()) && execute(packet, connection);
}
