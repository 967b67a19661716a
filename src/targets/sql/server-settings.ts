import { isLoopback } from "../../core/network.ts";
import type { SettingFault } from "./engine.ts";
import type { SqlEntry } from "./settings.ts";

const KEY_PAIR = "clientCert and clientKey go together";

/** Returns what is wrong with the entry of a database that is a server with users. @param scheme of its URL, without the colon */
export function serverFaults(entry: SqlEntry, scheme: string): readonly SettingFault[] {
  const { url, tls, plaintext: isPlain, read } = entry;
  const host = URL.parse(url)?.hostname ?? "";
  const fault = (path: string, message: string | undefined | false): readonly SettingFault[] =>
    message === undefined || message === false ? [] : [{ path: [path], message }];
  return [
    ...fault("url", urlProblem(url, scheme)),
    ...fault("read", read === undefined && "is missing: the user of tools that read"),
    ...fault("tls", isPlain === true && tls !== undefined && "is not for plaintext: true"),
    ...fault("plaintext", isPlain === true && isLoopback(host) && "is only for a server on another host"),
    ...fault("tls", (tls?.clientCert === undefined) !== (tls?.clientKey === undefined) && KEY_PAIR),
  ];
}

function urlProblem(value: string, scheme: string): string | undefined {
  const url = URL.parse(value);
  if (url === null || url.hostname === "") return `must be a ${scheme}:// URL`;
  if (url.username !== "" || url.password !== "") return "has a user: set read";
  if (/[?#]/.test(value)) return "must not have a query or a fragment: set tls";
  return /^\/[^/]+$/.test(url.pathname) ? undefined : "must name one database after the host";
}

/** The users of such a database, in plans. */
export const serverUsers = {
  userOf: ({ read, write }: SqlEntry, isChange: boolean): string | undefined => (isChange ? write : read)?.user,
  mayChange: ({ write }: SqlEntry): boolean => write !== undefined,
} as const;

/** Returns whether connections are encrypted. */
export function isEncrypted({ url, tls, plaintext: isPlain }: SqlEntry): boolean {
  return tls !== undefined || (isPlain !== true && !isLoopback(URL.parse(url)?.hostname ?? ""));
}
