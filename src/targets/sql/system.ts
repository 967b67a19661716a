import { isLoopback } from "../../core/network.ts";
import type { TargetContext } from "../../core/target-kind.ts";
import { type PostgresAddress, parsePostgresUrl } from "../../database/postgres-url.ts";
import { readNamed } from "../../egress/certificates.ts";
import { Resilience } from "../../egress/resilience.ts";
import { resilienceOf } from "../../egress/settings.ts";
import type { CallerSettings } from "./caller.ts";
import type { DatabaseRules } from "./checks.ts";
import { SqlDatabase, type StatementLimits } from "./database.ts";
import type { SqlEntry } from "./settings.ts";
import type { ResultLimits } from "./statement.ts";

/** A user of a database, with connections of its own. */
export interface DatabaseUser {
  readonly name: string;
  readonly database: SqlDatabase;
}

/** A database, its limits, and what its operators say of it. */
export interface SqlSystem {
  readonly name: string;
  readonly read: DatabaseUser;
  /** Undefined where the system has no tools that change something. */
  readonly write: DatabaseUser | undefined;
  /** `host:port`, for traces. */
  readonly server: string;
  readonly resilience: Resilience;
  readonly rules: DatabaseRules;
  readonly limits: ResultLimits & StatementLimits;
  /** Settings that transactions get from the caller; undefined: none. */
  readonly caller: CallerSettings | undefined;
  readonly areFunctionsChecked: boolean;
  /** Returns names for what the service makes in a database for a moment. */
  readonly newName: () => string;
}

type Context = Pick<TargetContext, "problems" | "pathOf" | "readFile" | "random" | "newId">;

/** Opens a system. Connects at first use. Returns undefined after problems: one for each file that cannot be read. */
export function openSystem(context: Context, name: string, entry: SqlEntry): SqlSystem | undefined {
  const field = `systems.${name}.sql`;
  const files = [
    [`${field}.read.passwordFile`, entry.read.passwordFile],
    [`${field}.write.passwordFile`, entry.write?.passwordFile],
    [`${field}.tls.rootCert`, entry.tls?.rootCert],
    [`${field}.tls.clientCert`, entry.tls?.clientCert],
    [`${field}.tls.clientKey`, entry.tls?.clientKey],
  ] as const;
  const unreadable = files.filter(([key, path]) => path !== undefined && readNamed(context, path, key) === undefined);
  if (unreadable.length > 0) return undefined;
  const url = URL.parse(entry.url);
  const { statementMs, lockMs, cellChars, bytes } = entry.limits;
  const userOf = (user: SqlEntry["read"]): DatabaseUser => {
    const address = (): PostgresAddress => addressOf(context, entry, user);
    const database = new SqlDatabase({ name, address, connections: entry.connections, statementMs, lockMs });
    return { name: user.user, database };
  };
  return {
    name,
    read: userOf(entry.read),
    write: entry.write && userOf(entry.write),
    server: `${url?.hostname}:${url?.port || "5432"}`,
    resilience: new Resilience(resilienceOf(entry), context.random),
    rules: { columns: entry.columns, functions: entry.functions },
    limits: { statementMs, lockMs, cellChars, chars: bytes },
    caller: entry.caller,
    areFunctionsChecked: entry.checkFunctions,
    newName: () => `stc_${context.newId().replaceAll("-", "")}`,
  };
}

function addressOf(
  { pathOf, readFile }: Context,
  { url, tls, plaintext: isPlain }: SqlEntry,
  user: SqlEntry["read"],
): PostgresAddress {
  const address = new URL(url);
  address.username = encodeURIComponent(user.user);
  if (user.passwordFile !== undefined) address.password = encodeURIComponent(passwordIn(readFile(user.passwordFile)));
  const isEncrypted = tls !== undefined || (isPlain !== true && !isLoopback(address.hostname));
  const parsed = parsePostgresUrl(address.href);
  const path = (file: string | undefined): string | undefined => (file === undefined ? undefined : pathOf(file));
  return {
    ...parsed,
    sslMode: isEncrypted ? ("verify-full" as const) : ("disable" as const),
    rootCert: path(tls?.rootCert),
    cert: path(tls?.clientCert),
    key: path(tls?.clientKey),
  };
}

function passwordIn(file: Buffer): string {
  return file.toString("utf8").replace(/\r?\n$/, "");
}
