import { dirname, resolve } from "node:path";
import { parseDocument } from "yaml";
import { isTable } from "../../core/json.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";

/** What the platform's commands reach, as the configuration says: files that they read of themselves, and ports. */

const HTTPS_PORT = 443;
const HTTP_PORT = 80;

export interface Reach {
  /** Absolute. */
  readonly reads: readonly string[];
  /** TCP. */
  readonly ports: readonly number[];
}

type Settings = Readonly<Record<string, unknown>>;

/** By system. What cannot be read is left out here: whoever checks these files says what is wrong with them. */
export function platformReaches(config: Config): ReadonlyMap<string, Reach> {
  const systems = config.systems as Readonly<Record<string, Settings>>;
  const { kubernetes = {}, loki = {}, argocd = {} } = systems;
  const file = (system: Settings, key: string): readonly string[] =>
    typeof system[key] === "string" ? [pathFrom(config, system[key])] : [];
  return new Map([
    ["kubernetes", kubernetesReach(file(kubernetes, "kubeconfig"))],
    ["loki", { reads: [...file(loki, "bearerTokenFile"), ...file(loki, "rootCert")], ports: portsOf(loki["address"]) }],
    [
      "argocd",
      {
        reads: [...file(argocd, "configFile"), ...file(argocd, "rootCert")],
        ports: portsOf(typeof argocd["server"] === "string" ? `https://${argocd["server"]}` : undefined),
      },
    ],
  ]);
}

/** The kubeconfig, what it names, and where its clusters are. */
function kubernetesReach([kubeconfig]: readonly string[]): Reach {
  const settings = kubeconfig === undefined ? undefined : settingsOf(kubeconfig);
  if (kubeconfig === undefined || settings === undefined) return { reads: [], ports: [] };
  const clusters = members(settings["clusters"], "cluster");
  const users = members(settings["users"], "user");
  const files = [
    ...clusters.map((cluster) => cluster["certificate-authority"]),
    ...users.flatMap((user) => [user["client-certificate"], user["client-key"], user["tokenFile"]]),
  ].filter((path) => typeof path === "string" && path !== "");
  return {
    reads: [kubeconfig, ...files.map((path) => resolve(dirname(kubeconfig), String(path)))],
    ports: clusters.flatMap((cluster) => [...portsOf(cluster["server"]), ...portsOf(cluster["proxy-url"])]),
  };
}

function portsOf(address: unknown): readonly number[] {
  if (typeof address !== "string" || !URL.canParse(address)) return [];
  const { port, protocol } = new URL(address);
  if (port !== "") return [Number(port)];
  return [protocol === "http:" ? HTTP_PORT : HTTPS_PORT];
}

function settingsOf(path: string): Settings | undefined {
  try {
    const settings: unknown = parseDocument(readPlainFile(path).toString("utf8")).toJS({ maxAliasCount: 0 });
    return isTable(settings) ? settings : undefined;
  } catch {
    return undefined;
  }
}

function members(list: unknown, key: string): readonly Settings[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((item: unknown) => (isTable(item) && isTable(item[key]) ? [item[key]] : []));
}
