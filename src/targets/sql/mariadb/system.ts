import type { TargetContext } from "../../../core/target-kind.ts";
import type { SqlContext, SqlSystem } from "../engine.ts";
import { isEncrypted } from "../server-settings.ts";
import { openServer, passwordOf, type ServerUser } from "../server-system.ts";
import type { SqlEntry } from "../settings.ts";
import { mariaDbCatalog } from "./catalog.ts";
import type { MariaDbAddress } from "./connection.ts";
import { MariaDbDatabase } from "./database.ts";
import { MariaDbUser } from "./user.ts";

const PORT = "3306";

/** Opens a system. Connects at first use. Returns undefined after problems: one for each file that cannot be read. */
export async function openMariaDb(context: SqlContext, name: string, entry: SqlEntry): Promise<SqlSystem | undefined> {
  return openServer(context, name, entry, {
    port: PORT,
    openUser(user, limits, connections) {
      const address = (): MariaDbAddress => addressOf(context, entry, user);
      const database = new MariaDbDatabase({ name, address, connections, ...limits });
      const opened = new MariaDbUser({ name: user.user, database, schema: databaseIn(entry), limits });
      return { user: opened, database };
    },
    catalogOf: (reader, writer) => mariaDbCatalog({ reader, writer, schema: databaseIn(entry) }),
  });
}

function databaseIn({ url }: SqlEntry): string {
  return decodeURIComponent(new URL(url).pathname.slice(1));
}

function addressOf(context: Pick<TargetContext, "readFile">, entry: SqlEntry, user: ServerUser): MariaDbAddress {
  const { hostname, port } = new URL(entry.url);
  const { rootCert, clientCert, clientKey } = entry.tls ?? {};
  const tls = {
    ...(rootCert !== undefined && { ca: context.readFile(rootCert) }),
    ...(clientCert !== undefined && { cert: context.readFile(clientCert) }),
    ...(clientKey !== undefined && { key: context.readFile(clientKey) }),
  };
  return {
    // An address of IPv6 has brackets in a URL.
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: Number(port || PORT),
    database: databaseIn(entry),
    user: user.user,
    password: passwordOf(context, user),
    tls: isEncrypted(entry) ? tls : undefined,
  };
}
