import { resolve } from "node:path";
import type { Config } from "./config.ts";

/** Where a service is asked how it is, from its own machine. */
export interface ServerAddresses {
  /** `http://…`, `https://…` or `unix:<path>`. */
  readonly url: string;
  /** The certificate that answers there, PEM: the name in it is another than the address. */
  readonly certFile?: string;
}

/** What listens everywhere is asked at home. */
const AT_HOME: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };

/** The simplest of its doors; undefined when the system chose the port. */
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
