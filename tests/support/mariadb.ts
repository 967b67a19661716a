import type { ChildProcess } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Connection, createConnection } from "mysql2/promise";
import { freePorts } from "./ports.ts";
import { ended, isGone, own, run } from "./postgres.ts";
import { until } from "./until.ts";

const SERVER = "mariadbd";
const INSTALL = "mariadb-install-db";
/** A process that is killed leaves what it wrote with the kernel: nothing here waits for a disk. */
const SETTINGS = [
  "--skip-log-bin",
  "--innodb-flush-log-at-trx-commit=0",
  "--innodb-doublewrite=0",
  "--innodb-buffer-pool-size=16M",
  "--performance-schema=OFF",
  "--skip-name-resolve",
  "--max-connections=200",
];
const INSTALL_MISSING = "these tests need a MariaDB server: apt-get install -y --no-install-recommends mariadb-server";

/** A real MariaDB of its own, in a temporary directory, over TCP on 127.0.0.1. */
export interface MariaDbServer {
  readonly port: number;
  /** Its own folder: it can write there. */
  readonly dir: string;
  /** Sends the statements one after another as the root user, in the named database. */
  send(statements: string | readonly string[], database?: string): Promise<readonly Record<string, unknown>[]>;
  start(settings?: readonly string[]): Promise<void>;
  /** Kills the server as in a power failure: the next start recovers committed changes. */
  kill(): Promise<void>;
  /** Stops all answers without breaking a connection. */
  freeze(): void;
  thaw(): void;
  /** Makes the server's user the owner of a file. */
  own(path: string): void;
  end(): Promise<void>;
}

/** Starts a server. @throws {Error} that says what to install */
export async function startMariaDb(settings: readonly string[] = []): Promise<MariaDbServer> {
  if (!isInstalled()) throw new Error(INSTALL_MISSING);
  const dir = fs.mkdtempSync(join(tmpdir(), "stc-mariadb-"));
  own(dir);
  const install = ["--no-defaults", `--datadir=${join(dir, "data")}`, "--auth-root-authentication-method=normal"];
  await ended(run(INSTALL, [...install, "--skip-test-db", "--skip-name-resolve"], dir, environmentIn(dir)));
  const server = new Server(dir, freePorts());
  await server.start(settings);
  return server;
}

class Server implements MariaDbServer {
  readonly dir: string;
  readonly port: number;
  #process: ChildProcess | undefined;

  constructor(dir: string, port: number) {
    this.dir = dir;
    this.port = port;
  }

  async start(settings: readonly string[] = []): Promise<void> {
    const places = [`--datadir=${join(this.dir, "data")}`, `--socket=${this.#socket}`, `--pid-file=${this.dir}/pid`];
    const listen = ["--bind-address=127.0.0.1", `--port=${this.port}`];
    const child = run(
      SERVER,
      ["--no-defaults", ...places, ...listen, ...SETTINGS, ...settings],
      this.dir,
      environmentIn(this.dir),
    );
    this.#process = child;
    await until("MariaDB", async () => {
      if (isGone(child)) throw new Error(`${SERVER} ended: ${fs.readFileSync(join(this.dir, "log"), "utf8")}`);
      return this.send("SELECT 1").then(
        () => true,
        () => undefined,
      );
    });
  }

  async send(statements: string | readonly string[], database?: string): Promise<readonly Record<string, unknown>[]> {
    const options = { socketPath: this.#socket, user: "root" };
    const connection: Connection = await createConnection({ ...options, ...(database !== undefined && { database }) });
    try {
      let rows: unknown;
      for (const statement of [statements].flat()) [rows] = await connection.query(statement);
      return Array.isArray(rows) ? (rows as Record<string, unknown>[]).map((row) => ({ ...row })) : [];
    } finally {
      await connection.end();
    }
  }

  freeze(): void {
    this.#signal("SIGSTOP");
  }

  thaw(): void {
    this.#signal("SIGCONT");
  }

  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || isGone(child)) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await gone;
  }

  own(path: string): void {
    own(path);
  }

  async end(): Promise<void> {
    await this.kill();
    fs.rmSync(this.dir, { recursive: true, force: true });
  }

  #signal(signal: "SIGSTOP" | "SIGCONT"): void {
    if (this.#process?.pid !== undefined) process.kill(this.#process.pid, signal);
  }

  get #socket(): string {
    return join(this.dir, "socket");
  }
}

function isInstalled(): boolean {
  return [SERVER, INSTALL].every((program) => Bun.which(program, { PATH: PROGRAMS }) !== null);
}

/** Debian keeps the server where ordinary users do not look. */
const PROGRAMS = `${process.env["PATH"] ?? ""}:/usr/sbin:/usr/local/sbin`;

function environmentIn(dir: string): Readonly<Record<string, string>> {
  return { PATH: PROGRAMS, TMPDIR: dir };
}
