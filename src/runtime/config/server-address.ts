import { resolve } from "node:path";
import type { Config } from "./config.ts";

/** Address at which a service on this machine can be asked for its health. */
export interface ServerAddresses {
  /** `http://…`, `https://…` or `unix:<path>`. */
  readonly url: string;
  /** File with the certificate presented there, PEM. It is needed because the name in it differs from the address. */
  readonly certFile?: string;
}

/** Loopback addresses on which to reach a service that listens on all addresses. */
const AT_HOME: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** Returns the address of the simplest listener, or undefined when the system chose the port. */
export function placeOf(
  { operator, host, port, tls, socket }: Config["server"],
  folder: string,
): ServerAddresses | undefined {
  if (operator !== undefined && operator.port !== 0)
    return { url: `http://${addressOf(operator.host, operator.port)}` };
  const isPlain = port !== "off" && port !== 0 && tls === undefined;
  if (isPlain) return { url: `http://${addressOf(host, port)}` };
  if (socket !== undefined) return { url: `unix:${resolve(folder, socket)}` };
  if (tls === undefined || port === "off" || port === 0) return undefined;
  return { url: `https://${addressOf(host, port)}`, certFile: resolve(folder, tls.certFile) };
}

function addressOf(host: string, port: number): string {
  const own = AT_HOME[host] ?? host;
  return `${own.includes(":") ? `[${own}]` : own}:${port}`;
}
