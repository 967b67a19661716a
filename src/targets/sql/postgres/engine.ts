import { isLoopback } from "../../../core/network.ts";
import type { SettingFault, SqlEngine } from "../engine.ts";
import type { SqlEntry } from "../settings.ts";

/** PostgreSQL 14 and later. */
export const postgres: SqlEngine = {
  schemes: ["postgres:", "postgresql:"],
  settings: ["tls", "plaintext", "read", "write", "caller", "functions", "checkFunctions", "connections"],
  faults,
  userOf: ({ read, write }, isChange) => (isChange ? write : read)?.user,
  mayChange: ({ write }) => write !== undefined,
  open: async (context, name, entry) => (await import("./system.ts")).openPostgres(context, name, entry),
};

function faults({ url, tls, plaintext: isPlain, read }: SqlEntry): readonly SettingFault[] {
  const host = URL.parse(url)?.hostname ?? "";
  const fault = (path: string, message: string | undefined | false): readonly SettingFault[] =>
    message === undefined || message === false ? [] : [{ path: [path], message }];
  return [
    ...fault("url", urlProblem(url)),
    ...fault("read", read === undefined && "is missing: the user of tools that read"),
    ...fault("tls", isPlain === true && tls !== undefined && "is not for plaintext: true"),
    ...fault("plaintext", isPlain === true && isLoopback(host) && "is only for a server on another host"),
    ...fault("tls", (tls?.clientCert === undefined) !== (tls?.clientKey === undefined) && KEY_PAIR),
  ];
}

const KEY_PAIR = "clientCert and clientKey go together";

function urlProblem(value: string): string | undefined {
  const url = URL.parse(value);
  if (url === null || url.hostname === "") return "must be a postgres:// URL";
  if (url.username !== "" || url.password !== "") return "has a user: set read";
  if (/[?#]/.test(value)) return "must not have a query or a fragment: set tls";
  return /^\/[^/]+$/.test(url.pathname) ? undefined : "must name one database after the host";
}
