import { isLoopback } from "../../../core/network.ts";
import { present } from "../../../core/present.ts";
import type { TargetContext } from "../../../core/target-kind.ts";
import { type PostgresAddress, parsePostgresUrl } from "../../../database/postgres-url.ts";
import { readNamed } from "../../../egress/certificates.ts";
import { Resilience } from "../../../egress/resilience.ts";
import { resilienceOf } from "../../../egress/settings.ts";
import type { SqlContext, SqlSystem } from "../engine.ts";
import type { SqlEntry } from "../settings.ts";
import { SqlDatabase } from "./database.ts";
import { PostgresUser } from "./user.ts";

const CONNECTIONS = 4;

type Context = Pick<TargetContext, "problems" | "pathOf" | "readFile" | "random" | "newId">;
type User = NonNullable<SqlEntry["read"]>;

/** Opens a system. Connects at first use. Returns undefined after problems: one for each file that cannot be read. */
export async function openPostgres(context: SqlContext, name: string, entry: SqlEntry): Promise<SqlSystem | undefined> {
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
  const url = URL.parse(entry.url);
  const { statementMs, lockMs, cellChars, bytes } = entry.limits;
  const limits = { statementMs, lockMs, cellChars, chars: bytes };
  const databases: SqlDatabase[] = [];
  const userOf = (user: User): PostgresUser => {
    const address = (): PostgresAddress => addressOf(context, entry, user);
    const connections = entry.connections ?? CONNECTIONS;
    const database = new SqlDatabase({ name, address, connections, statementMs, lockMs });
    databases.push(database);
    return new PostgresUser({
      name: user.user,
      database,
      limits,
      caller: entry.caller,
      areFunctionsChecked: entry.checkFunctions ?? true,
      newName: () => `stc_${context.newId().replaceAll("-", "")}`,
    });
  };
  return {
    name,
    read: userOf(present(entry.read, "the user that reads")),
    write: entry.write && userOf(entry.write),
    writeSetting: "write",
    server: `${url?.hostname}:${url?.port || "5432"}`,
    resilience: new Resilience(resilienceOf(entry), context.random),
    rules: { columns: entry.columns, functions: entry.functions ?? [] },
    limits,
    dependsOnCaller: entry.caller !== undefined,
    async close() {
      await Promise.all(databases.map((database) => database.close()));
    },
  };
}

function addressOf(
  { pathOf, readFile }: Context,
  { url, tls, plaintext: isPlain }: SqlEntry,
  user: User,
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
