import { present } from "../../core/present.ts";
import type { TargetContext } from "../../core/target-kind.ts";
import { readNamed } from "../../egress/certificates.ts";
import { Resilience } from "../../egress/resilience.ts";
import { resilienceOf } from "../../egress/settings.ts";
import type { Catalog, DatabaseUser, ResultLimits, SqlContext, SqlSystem } from "./engine.ts";
import type { SqlEntry } from "./settings.ts";

const CONNECTIONS = 4;

/** A user in a system's entry. */
export type ServerUser = NonNullable<SqlEntry["read"]>;

export interface ServerLimits extends ResultLimits {
  readonly statementMs: number;
  readonly lockMs: number;
}

interface OpenedUser<Database> {
  readonly user: DatabaseUser;
  readonly database: Database;
}

interface Server<Database extends { close(): Promise<void> }> {
  /** Port for a URL without one. */
  readonly port: string;
  readonly openUser: (user: ServerUser, limits: ServerLimits, connections: number) => OpenedUser<Database>;
  /** Returns the tables that the reading user may see. `writer`: the database of the user of changes. */
  readonly catalogOf: (reader: Database, writer: Database | undefined) => Catalog;
}

/** Opens a database that is a server with users. Returns undefined after problems: one for each file that cannot be read. */
export function openServer<Database extends { close(): Promise<void> }>(
  context: SqlContext,
  name: string,
  entry: SqlEntry,
  { port, openUser, catalogOf }: Server<Database>,
): SqlSystem | undefined {
  const field = `systems.${name}.sql`;
  const files = [
    [`${field}.read.passwordFile`, entry.read?.passwordFile],
    [`${field}.write.passwordFile`, entry.write?.passwordFile],
    [`${field}.tls.rootCert`, entry.tls?.rootCert],
    [`${field}.tls.clientCert`, entry.tls?.clientCert],
    [`${field}.tls.clientKey`, entry.tls?.clientKey],
  ] as const;
  const unreadable = files.filter(([key, path]) => path !== undefined && readNamed(context, path, key) === undefined);
  if (unreadable.length > 0) return undefined;
  const { statementMs, lockMs, cellChars, bytes } = entry.limits;
  const limits = { statementMs, lockMs, cellChars, bytes };
  const opened = (user: ServerUser): OpenedUser<Database> => openUser(user, limits, entry.connections ?? CONNECTIONS);
  const read = opened(present(entry.read, "the user that reads"));
  const write = entry.write && opened(entry.write);
  const url = URL.parse(entry.url);
  return {
    name,
    read: read.user,
    write: write?.user,
    writeSetting: "write",
    server: `${url?.hostname}:${url?.port || port}`,
    resilience: new Resilience(resilienceOf(entry), context.random),
    rules: { columns: entry.columns, functions: entry.functions ?? [] },
    limits,
    notes: [],
    catalog: catalogOf(read.database, write?.database),
    dependsOnCaller: entry.caller !== undefined,
    async close() {
      await Promise.all([read.database.close(), write?.database.close()]);
    },
  };
}

/** Returns the password of a user; undefined for one without. */
export function passwordOf({ readFile }: Pick<TargetContext, "readFile">, user: ServerUser): string | undefined {
  return user.passwordFile === undefined
    ? undefined
    : readFile(user.passwordFile)
        .toString("utf8")
        .replace(/\r?\n$/, "");
}
