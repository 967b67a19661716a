import type { TargetContext } from "../../../core/target-kind.ts";
import { type PostgresAddress, parsePostgresUrl } from "../../../database/postgres-url.ts";
import type { SqlContext, SqlSystem } from "../engine.ts";
import { isEncrypted } from "../server-settings.ts";
import { openServer, passwordOf, type ServerUser } from "../server-system.ts";
import type { SqlEntry } from "../settings.ts";
import { postgresCatalog } from "./catalog.ts";
import { SqlDatabase } from "./database.ts";
import { PostgresUser } from "./user.ts";

/** Opens a system. Connects at first use. Returns undefined after problems: one for each file that cannot be read. */
export async function openPostgres(context: SqlContext, name: string, entry: SqlEntry): Promise<SqlSystem | undefined> {
  return openServer(context, name, entry, {
    port: "5432",
    openUser(user, limits, connections) {
      const address = (): PostgresAddress => addressOf(context, entry, user);
      const database = new SqlDatabase({ name, address, connections, ...limits });
      const opened = new PostgresUser({
        name: user.user,
        database,
        limits,
        caller: entry.caller,
        areFunctionsChecked: entry.checkFunctions ?? true,
        newName: () => `stc_${context.newId().replaceAll("-", "")}`,
      });
      return { user: opened, database };
    },
    catalogOf: (reader) => postgresCatalog(reader, entry.write?.user),
  });
}

function addressOf(
  context: Pick<TargetContext, "pathOf" | "readFile">,
  entry: SqlEntry,
  user: ServerUser,
): PostgresAddress {
  const { tls } = entry;
  const address = new URL(entry.url);
  address.username = encodeURIComponent(user.user);
  address.password = encodeURIComponent(passwordOf(context, user) ?? "");
  const path = (file: string | undefined): string | undefined =>
    file === undefined ? undefined : context.pathOf(file);
  return {
    ...parsePostgresUrl(address.href),
    sslMode: isEncrypted(entry) ? ("verify-full" as const) : ("disable" as const),
    rootCert: path(tls?.rootCert),
    cert: path(tls?.clientCert),
    key: path(tls?.clientKey),
  };
}
