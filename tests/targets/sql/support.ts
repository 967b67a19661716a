import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { z } from "zod";
import { ManifestError, Refusal } from "../../../src/core/errors.ts";
import type { ServerProcessOptions } from "../../../src/core/server-process.ts";
import type {
  Binding,
  OutputFieldPolicy,
  RunContext,
  SqlTarget,
  Tool,
  ToolClassification,
} from "../../../src/core/types.ts";
import { serverProcesses } from "../../../src/targets/command/confinement/server-process.ts";
import { type Databases, openDatabases } from "../../../src/targets/sql/databases.ts";
import type { SqlContext } from "../../../src/targets/sql/engine.ts";
import { sqlSystem } from "../../../src/targets/sql/engines.ts";
import type { SqlEntries } from "../../../src/targets/sql/settings.ts";
import { type MariaDbServer, startMariaDb } from "../../support/mariadb.ts";
import { type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { runContext } from "../http/support.ts";

interface SqlToolOptions extends Partial<SqlTarget["sql"]> {
  readonly statement: string;
  /** Schemas of the arguments, in the order of the parameters. */
  readonly input?: Readonly<Record<string, z.ZodType>>;
  /** Schemas of the columns. */
  readonly columns?: Readonly<Record<string, z.ZodType>>;
  readonly outputPolicy?: OutputFieldPolicy;
  readonly classification?: ToolClassification;
}

let made = 0;

/** Returns a tool for one statement, in the form that `defineTool` returns. */
export function sqlTool({
  input = {},
  columns = {},
  outputPolicy,
  classification = "read",
  ...sql
}: SqlToolOptions): Tool {
  made += 1;
  const says = classification === "read" ? { truncated: z.boolean().optional() } : { changed: z.int() };
  const rows = z.object({ rows: z.array(z.object(columns)), ...says });
  return {
    name: `query_${made}`,
    title: "Query",
    description: "Asks the database",
    version: "1",
    classification,
    category: classification === "read" ? "read" : "network",
    permissions: { required: ["shop:read"] },
    input: z.strictObject(input),
    output: sql.one === true ? z.object(columns) : rows,
    outputPolicy: outputPolicy ?? { "rows[].*": "allow" },
    inputPolicy: {},
    scan: {},
    approval: {},
    errors: "withheld",
    target: { system: "shop", sql: { parameters: Object.keys(input).map((name) => `{${name}}`), ...sql } },
    timeoutMs: 10_000,
    limits: { outputBytesMax: 8_000_000, concurrentCallsMax: 1_000 },
    idempotent: false,
    additive: false,
    examples: { accepts: [], rejects: [] },
  };
}

/** Opens the database `shop` at a port of this host. */
export function databaseAt(
  port: number,
  settings: Readonly<Record<string, unknown>>,
  scheme = "postgres",
): Promise<Databases> {
  return openShop({ url: `${scheme}://127.0.0.1:${port}/shop`, ...settings });
}

interface OpenOptions {
  readonly problems?: string[];
  readonly confinement?: "require" | "prefer" | "off";
}

/** Opens the database `shop`, with what a service would hand in. */
export function openShop(settings: Readonly<Record<string, unknown>>, options: OpenOptions = {}): Promise<Databases> {
  const entry = sqlSystem.parse({ sql: settings });
  const context = {
    problems: options.problems ?? [],
    pathOf: (path: string) => path,
    readFile: (path: string) => readFileSync(path),
    random: () => 0,
    newId: () => randomUUID(),
    config: { commands: { confinement: options.confinement ?? "require" } },
  } as unknown as SqlContext;
  const processes = async (given: ServerProcessOptions) => serverProcesses(given);
  return openDatabases(context, { processes }, new Map([["shop", entry]]) as SqlEntries);
}

type Settings = Readonly<Record<string, unknown>>;

interface Closing {
  close(): Promise<void>;
}

interface Served {
  readonly port: number;
  end(): Promise<void>;
}

const BOTH_USERS: Settings = { read: { user: "reader" }, write: { user: "writer" } };

/** A server of its own with a database `shop`. Its users have no passwords: what is tested is what they may do. */
class Shop<S extends Served> {
  readonly #scheme: string;
  readonly #users: Settings;
  readonly #kept: Closing[] = [];
  #server: S | undefined;

  protected constructor(scheme: string, users: Settings) {
    this.#scheme = scheme;
    this.#users = users;
  }

  get server(): S {
    if (this.#server === undefined) throw new Error("the server was not started");
    return this.#server;
  }

  protected set server(server: S) {
    this.#server = server;
  }

  /** Opens the database as its users, directly or at the port of a proxy. */
  async open(settings: Settings = {}, port = this.server.port): Promise<Databases> {
    return this.keep(await databaseAt(port, { ...this.#users, ...settings }, this.#scheme));
  }

  /** Closed at the end. */
  keep<T extends Closing>(opened: T): T {
    this.#kept.push(opened);
    return opened;
  }

  async end(): Promise<void> {
    for (const one of this.#kept) await one.close();
    await this.#server?.end();
  }
}

export class PostgresShop extends Shop<PostgresServer> {
  constructor(users = BOTH_USERS) {
    super("postgres", users);
  }

  async start(native: string | undefined, tables: string): Promise<void> {
    const server = await startPostgres(native ?? "");
    this.server = server;
    await server.createDatabase("shop");
    await server.send(tables, "shop");
    await server.trust();
  }
}

export class MariaDbShop extends Shop<MariaDbServer> {
  constructor(users = BOTH_USERS) {
    super("mariadb", users);
  }

  async start(tables: readonly string[]): Promise<void> {
    const server = await startMariaDb();
    this.server = server;
    await server.send("CREATE DATABASE shop");
    await server.send(tables, "shop");
  }
}

/** Returns the errors with which a tool is not loaded; an empty list for one that is. */
export async function faultsOf(databases: Databases, tool: Tool): Promise<readonly string[]> {
  await databases.prepare([tool]);
  try {
    databases.bind(tool);
    return [];
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.faults.map(({ field, message }) => `${field} ${message}`);
  }
}

export async function loaded(databases: Databases, tool: Tool): Promise<Binding> {
  await databases.prepare([tool]);
  return databases.bind(tool);
}

export async function ask(
  binding: Binding,
  input: unknown = {},
  signal = AbortSignal.timeout(20_000),
  more: Partial<RunContext> = {},
): Promise<unknown> {
  return binding.run(await binding.plan(input, { signal }), runContext({ signal, ...more }));
}

/** Returns what an approver reads of a change besides its statement. */
export async function notesOf(binding: Binding, input: unknown = {}): Promise<unknown> {
  return binding.describe?.(await binding.plan(input, { signal: AbortSignal.timeout(20_000) })).notes;
}

/** Returns the refusal of a call. */
export async function refusal(work: Promise<unknown>): Promise<Refusal> {
  const error = await work.then(
    (result) => new Error(`answered ${JSON.stringify(result)}`),
    (thrown: unknown) => thrown,
  );
  if (error instanceof Refusal) return error;
  throw error;
}
