import { isUtf8 } from "node:buffer";
import { accessSync, constants } from "node:fs";
import { dirname, resolve } from "node:path";
import { type Document, isAlias, isCollection, isScalar, parseDocument, visit } from "yaml";
import { systemCode } from "../../core/error-text.ts";
import { isTable } from "../../core/json.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";

/** Settings files of the platform's commands, checked before such a command runs with them. */

const SETTINGS_BYTES_MAX = 4_194_304;
const DEPTH_MAX = 64;

/**
 * Characters that YAML readers interpret differently. The commands read YAML 1.1, in which some of these end a line; control
 * characters and a byte order mark inside the text are ambiguous too. One reader's comment must not be another reader's setting.
 */
const READ_DIFFERENTLY = /\r(?!\n)|[\u0085\u2028\u2029]|\ufeff|[^\t\n\r\P{Cc}]/u;

/** Keys through which a kubeconfig names a program that creates credentials. */
const PLUGIN_KEYS = /^(?:exec|auth-?provider)$/i;

/**
 * Returns the problem of the kubeconfig, or `undefined`. The file decides which cluster is called, as which user, and whether
 * programs run, so it must say so in one plain document.
 */
export function kubeconfigFault(path: string, { execPlugins }: { readonly execPlugins: boolean }): string | undefined {
  const document = settingsOf(path);
  if ("fault" in document) return document.fault;
  const { "current-context": current, contexts, clusters } = document.settings;
  if (typeof current !== "string" || current === "") return "names no current-context, so the cluster is not known";
  const context = member(named(contexts, current), "context");
  if (context === undefined) return `has no context ${JSON.stringify(current)}, which is its current-context`;
  const cluster = member(named(clusters, member(context, "cluster")), "cluster");
  const server = member(cluster, "server");
  if (typeof server !== "string" || server === "") return "names no server for its current-context";
  // Some versions of the command ignore the case of keys, so "Users" counts too.
  if (!execPlugins && hasKey(document.settings, (key) => PLUGIN_KEYS.test(key))) {
    return "names a program that makes credentials (exec or auth-provider); set systems.kubernetes.execPlugins: true to let it run";
  }
  return undefined;
}

/**
 * Returns the problem of argocd's settings, or `undefined`. In core mode, argocd calls the cluster directly and bypasses its
 * server.
 */
export function argocdConfigFault(path: string): string | undefined {
  const document = settingsOf(path);
  if ("fault" in document) return document.fault;
  const isCore = (key: string, value: unknown): boolean => key.toLowerCase() === "core" && value !== false;
  return hasKey(document.settings, isCore) ? "switches to core mode, which reaches past the server" : undefined;
}

/** Files that the commands read themselves: a token or a trusted certificate. */
const PLAIN_FILES = [
  ["loki", "bearerTokenFile"],
  ["loki", "rootCert"],
  ["argocd", "rootCert"],
] as const;

/** Checks all files that the configuration names, at start. */
export function readPlatformFiles(config: Config, problems: string[]): PlatformFiles {
  const checks = new Map<string, () => string | undefined>();
  const systems = config.systems as Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  const { kubernetes, argocd } = systems;
  for (const [system, key] of PLAIN_FILES) {
    const file = systems[system]?.[key];
    if (typeof file !== "string") continue;
    note(problems, `systems.${system}.${key}: ${file}`, readableFault(pathFrom(config, file)));
  }
  const kubeconfig = kubernetes?.["kubeconfig"];
  if (typeof kubeconfig === "string") {
    const execPlugins = kubernetes?.["execPlugins"] === true;
    checks.set("kubectl", () => kubeconfigFault(pathFrom(config, kubeconfig), { execPlugins }));
    note(problems, `systems.kubernetes.kubeconfig: ${kubeconfig}`, checks.get("kubectl")?.());
  }
  const configFile = argocd?.["configFile"];
  if (typeof configFile === "string") {
    checks.set("argocd", () => argocdConfigFault(pathFrom(config, configFile)));
    note(problems, `systems.argocd.configFile: ${configFile}`, checks.get("argocd")?.());
  }
  return checks;
}

/** Maps each command to a check that runs before each call: mounted files may change. */
type PlatformFiles = ReadonlyMap<string, () => string | undefined>;

function readableFault(path: string): string | undefined {
  try {
    accessSync(path, constants.R_OK);
    return undefined;
  } catch (error) {
    return unreadable(error);
  }
}

function unreadable(error: unknown): string {
  return `cannot be read (${systemCode(error)})`;
}

function note(problems: string[], field: string, fault: string | undefined): void {
  if (fault !== undefined) problems.push(`${field}: ${fault}`);
}

type Settings = Readonly<Record<string, unknown>>;

function settingsOf(path: string): { readonly settings: Settings } | { readonly fault: string } {
  let bytes: Buffer;
  try {
    bytes = readPlainFile(path);
  } catch (error) {
    return { fault: unreadable(error) };
  }
  if (bytes.byteLength > SETTINGS_BYTES_MAX) return { fault: `is larger than ${SETTINGS_BYTES_MAX} bytes` };
  if (!isUtf8(bytes)) return { fault: "is not UTF-8" };
  const source = bytes.toString("utf8").replace(/^\ufeff/, "");
  const different = READ_DIFFERENTLY.exec(source);
  if (different !== null) return { fault: readDifferently(source, different) };
  const document = parseDocument(source, { uniqueKeys: true });
  // A tag that is unknown here may have a meaning for the command.
  if (document.errors.length + document.warnings.length > 0) return { fault: "is not one YAML document" };
  const fault = unplainFault(document);
  if (fault !== undefined) return { fault };
  const settings: unknown = document.toJS({ maxAliasCount: 0 });
  if (!isTable(settings)) return { fault: "is not a table of settings" };
  if (hasKey(settings, (key) => key === "<<")) return { fault: "holds YAML merges (<<): write the values out" };
  return { settings };
}

function readDifferently(source: string, { index, 0: found }: RegExpExecArray): string {
  const line = source.slice(0, index).split("\n").length;
  const character = `U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  return `holds the character ${character} in line ${line}, which some YAML readers take for the end of a line, or refuse: remove it`;
}

/** Returns the YAML features that the command's own reader might interpret differently. */
function unplainFault(document: Document): string | undefined {
  let fault: string | undefined;
  visit(document, (_key, node) => {
    if (isAlias(node)) fault = "holds YAML aliases (*name): write the values out";
    // Some readers take `!!binary ZXhlYw==` for the key exec.
    else if ((isScalar(node) || isCollection(node)) && node.tag !== undefined)
      fault = "holds YAML tags (!name): remove them";
    return fault === undefined ? undefined : visit.BREAK;
  });
  const { yaml, tags } = document.directives ?? {};
  const hasDirectives = yaml?.explicit === true || Object.keys(tags ?? {}).some((handle) => handle !== "!!");
  return hasDirectives ? "holds YAML directives (%): remove them" : fault;
}

function named(list: unknown, name: unknown): unknown {
  return Array.isArray(list) ? list.find((item) => member(item, "name") === name) : undefined;
}

function member(value: unknown, key: string): unknown {
  return isTable(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** Returns whether such a key occurs anywhere; true as well when the value is too deep to search. */
function hasKey(value: unknown, isIt: (key: string, value: unknown) => boolean, depthLeft = DEPTH_MAX): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (depthLeft === 0) return true;
  return Object.entries(value).some(
    ([key, inner]) => (!Array.isArray(value) && isIt(key, inner)) || hasKey(inner, isIt, depthLeft - 1),
  );
}

/** The files that the platform's commands read themselves and the ports that they connect to, from the configuration. */

const HTTPS_PORT = 443;
const HTTP_PORT = 80;

interface Reach {
  /** Absolute paths. */
  readonly reads: readonly string[];
  /** TCP ports. */
  readonly ports: readonly number[];
}

/** Returns files and ports by system. Unreadable files are omitted here: the check of these files reports them. */
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

/** Returns the kubeconfig, the files that it names, and the ports of its clusters. */
function kubernetesReach([kubeconfig]: readonly string[]): Reach {
  const settings = kubeconfig === undefined ? undefined : readSettings(kubeconfig);
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

function readSettings(path: string): Settings | undefined {
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
