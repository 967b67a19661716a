import { isUtf8 } from "node:buffer";
import { accessSync, constants } from "node:fs";
import { dirname, resolve } from "node:path";
import { type Document, isAlias, isCollection, isScalar, parseDocument, visit } from "yaml";
import { z } from "zod";
import { systemCode } from "../../core/error-text.ts";
import { isTable } from "../../core/json.ts";
import { hasPort, NO_PORT } from "../../core/network.ts";
import type { TargetContext } from "../../core/target-kind.ts";
import type { SystemAccess } from "./confinement/profile.ts";

/** The systems of the shipped platform tools: schemas of their entries, and checks of their settings files. */

const LABEL_CHARACTERS_MAX = 63;
const SUBDOMAIN_CHARACTERS_MAX = 253;

const text = z.string().min(1);

/** Returns whether the text is a label of RFC 1123: lower-case letters, digits and inner dashes. */
const isLabel = (part: string): boolean =>
  part.length <= LABEL_CHARACTERS_MAX && /^[a-z0-9-]+$/.test(part) && !part.startsWith("-") && !part.endsWith("-");

const namespace = z
  .string()
  .refine(isLabel, "must be a namespace's name as RFC 1123 has it: at most 63 of a-z, 0-9 and -, no - at an end");

const application = z
  .string()
  .refine(
    (name) => name.length <= SUBDOMAIN_CHARACTERS_MAX && name.split(".").every(isLabel),
    "must be an application's name as RFC 1123 has it: a-z, 0-9, - and ., without a namespace before it",
  );

const kubernetes = z.strictObject({
  kubeconfig: text.optional().describe("File that names the cluster and the user."),
  namespaces: z.array(namespace).default([]).describe("Namespaces that tools may read."),
  execPlugins: z
    .boolean()
    .default(false)
    .describe(
      "Whether the kubeconfig may name programs that create credentials. They run with the rights of the service.",
    ),
});

const loki = z.strictObject({
  address: z
    .url({ protocol: /^https?$/, error: "must be a URL that begins with http:// or https://" })
    .refine(isPlainUrl, "must hold no user, password, query or fragment: name the token in bearerTokenFile")
    .optional()
    .describe("URL of Loki's API."),
  namespaces: z.array(namespace).default([]).describe("Namespaces whose logs tools may query."),
  bearerTokenFile: text.optional().describe("File with a token for Loki, read by the command."),
  tenant: z
    .string()
    .regex(/^[A-Za-z0-9!._*'()|-]{1,150}$/, "must be a tenant id of Loki")
    .optional()
    .describe("Tenant id, sent as X-Scope-OrgID."),
  rootCert: text.optional().describe("Certificate authority to trust, when it is not one of the machine's."),
});

const argocd = z.strictObject({
  server: z
    .string()
    .regex(
      /^(?:[A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/,
      "must be host or host:port, with no scheme before it and no path after it",
    )
    .refine(hasPort, NO_PORT)
    .optional()
    .describe("Address as `host` or `host:port`."),
  applications: z.array(application).default([]).describe("Applications that tools may read."),
  configFile: text.optional().describe("Settings file that `argocd login` writes; it holds the token."),
  revisions: z
    .array(z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._/-]{0,254}$/, "must be a branch or tag"))
    .default([])
    .describe("Branches and tags that a diff may be requested for, in addition to full commit ids."),
  grpcWeb: z.boolean().default(false).describe("Set this when a proxy in front of Argo CD needs gRPC-Web."),
  rootCert: text.optional().describe("File with the trusted root certificates, PEM."),
});

export const PLATFORM_SYSTEMS = { kubernetes, loki, argocd } as const;

/** Returns whether the URL has no user, password, query or fragment. Invalid URLs pass: they are reported already. */
function isPlainUrl(address: string): boolean {
  const url = URL.parse(address);
  return url === null || [url.username, url.password, url.search, url.hash].every((part) => part === "");
}

const SETTINGS_BYTES_MAX = 4_194_304;
const DEPTH_MAX = 64;

/** Characters that YAML readers interpret differently, such as the further line ends of YAML 1.1. */
const AMBIGUOUS_CHARACTER = /\r(?!\n)|[\u0085\u2028\u2029]|\ufeff|[^\t\n\r\P{Cc}]/u;

/** Keys of a kubeconfig that name a program that creates credentials. */
const PLUGIN_KEYS = /^(?:exec|auth-?provider)$/i;

/** Returns the problem of the kubeconfig, or `undefined`. It must name cluster, user and programs unambiguously. */
export function kubeconfigFault(
  path: string,
  readFile: ReadFile,
  { execPlugins }: { readonly execPlugins: boolean },
): string | undefined {
  const document = settingsOf(path, readFile);
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
    return "names a program that creates credentials (exec or auth-provider); set systems.kubernetes.execPlugins: true to let it run";
  }
  return undefined;
}

/** Returns the problem of argocd's settings, or `undefined`. In core mode, argocd calls the cluster directly. */
export function argocdConfigFault(path: string, readFile: ReadFile): string | undefined {
  const document = settingsOf(path, readFile);
  if ("fault" in document) return document.fault;
  const isCore = (key: string, value: unknown): boolean => key.toLowerCase() === "core" && value !== false;
  return hasKey(document.settings, isCore) ? "switches to core mode, which bypasses the server" : undefined;
}

type ReadFile = TargetContext["readFile"];
export type PlatformContext = Pick<TargetContext, "systems" | "pathOf" | "readFile" | "problems">;

/** Files that the commands read: tokens and trusted certificates. */
const PLAIN_FILES = [
  ["loki", "bearerTokenFile"],
  ["loki", "rootCert"],
  ["argocd", "rootCert"],
] as const;

export function readPlatformFiles({ systems, pathOf, readFile, problems }: PlatformContext): PlatformFiles {
  const checks = new Map<string, () => string | undefined>();
  const { kubernetes, argocd } = entriesIn(systems);
  for (const [system, key] of PLAIN_FILES) {
    const file = entriesIn(systems)[system][key];
    if (typeof file !== "string") continue;
    addProblem(problems, `systems.${system}.${key}: ${file}`, readableFault(pathOf(file)));
  }
  const { kubeconfig, execPlugins } = kubernetes;
  if (typeof kubeconfig === "string") {
    const options = { execPlugins: execPlugins === true };
    checks.set("kubectl", () => kubeconfigFault(pathOf(kubeconfig), readFile, options));
    addProblem(problems, `systems.kubernetes.kubeconfig: ${kubeconfig}`, checks.get("kubectl")?.());
  }
  const { configFile } = argocd;
  if (typeof configFile === "string") {
    checks.set("argocd", () => argocdConfigFault(pathOf(configFile), readFile));
    addProblem(problems, `systems.argocd.configFile: ${configFile}`, checks.get("argocd")?.());
  }
  return checks;
}

function entriesIn(systems: TargetContext["systems"]): Readonly<Record<keyof typeof PLATFORM_SYSTEMS, Settings>> {
  const entry = (name: string): Settings => (systems.get(name) ?? {}) as Settings;
  return { kubernetes: entry("kubernetes"), loki: entry("loki"), argocd: entry("argocd") };
}

/** Checks by command. They run before each call, because mounted files may change. */
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

function addProblem(problems: string[], field: string, fault: string | undefined): void {
  if (fault !== undefined) problems.push(`${field}: ${fault}`);
}

type Settings = Readonly<Record<string, unknown>>;

function settingsOf(path: string, readFile: ReadFile): { readonly settings: Settings } | { readonly fault: string } {
  let bytes: Buffer;
  try {
    bytes = readFile(path);
  } catch (error) {
    return { fault: unreadable(error) };
  }
  if (bytes.byteLength > SETTINGS_BYTES_MAX) return { fault: `is larger than ${SETTINGS_BYTES_MAX} bytes` };
  if (!isUtf8(bytes)) return { fault: "is not UTF-8" };
  const source = bytes.toString("utf8").replace(/^\ufeff/, "");
  const ambiguous = AMBIGUOUS_CHARACTER.exec(source);
  if (ambiguous !== null) return { fault: ambiguousCharacterFault(source, ambiguous) };
  const document = parseDocument(source, { uniqueKeys: true });
  // A tag that is unknown here may be known to the command.
  if (document.errors.length + document.warnings.length > 0) return { fault: "is not one YAML document" };
  const fault = yamlFeatureFault(document);
  if (fault !== undefined) return { fault };
  const settings: unknown = document.toJS({ maxAliasCount: 0 });
  if (!isTable(settings)) return { fault: "is not a table of settings" };
  if (hasKey(settings, (key) => key === "<<")) return { fault: "contains YAML merges (<<): write the values out" };
  return { settings };
}

function ambiguousCharacterFault(source: string, { index, 0: found }: RegExpExecArray): string {
  const line = source.slice(0, index).split("\n").length;
  const character = `U+${(found.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
  return `contains the character ${character} in line ${line}, which some YAML readers treat as a line end, or refuse: remove it`;
}

/** Returns an error for YAML features that the command's own reader might interpret differently. */
function yamlFeatureFault(document: Document): string | undefined {
  let fault: string | undefined;
  visit(document, (_key, node) => {
    if (isAlias(node)) fault = "contains YAML aliases (*name): write the values out";
    // Some readers take `!!binary ZXhlYw==` for the key exec.
    else if ((isScalar(node) || isCollection(node)) && node.tag !== undefined)
      fault = "contains YAML tags (!name): remove them";
    return fault === undefined ? undefined : visit.BREAK;
  });
  const { yaml, tags } = document.directives ?? {};
  const hasDirectives = yaml?.explicit === true || Object.keys(tags ?? {}).some((handle) => handle !== "!!");
  return hasDirectives ? "contains YAML directives (%): remove them" : fault;
}

function named(list: unknown, name: unknown): unknown {
  return Array.isArray(list) ? list.find((item) => member(item, "name") === name) : undefined;
}

function member(value: unknown, key: string): unknown {
  return isTable(value) && Object.hasOwn(value, key) ? value[key] : undefined;
}

/** Returns whether such a key occurs anywhere, or the value is too deep to search. */
function hasKey(value: unknown, matches: (key: string, value: unknown) => boolean, depthLeft = DEPTH_MAX): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (depthLeft === 0) return true;
  return Object.entries(value).some(
    ([key, inner]) => (!Array.isArray(value) && matches(key, inner)) || hasKey(inner, matches, depthLeft - 1),
  );
}

const HTTPS_PORT = 443;
const HTTP_PORT = 80;

/** Returns the files and ports of each system. Leaves out unreadable files, which their own check reports. */
export function platformAccess({
  systems,
  pathOf,
  readFile,
}: Omit<PlatformContext, "problems">): ReadonlyMap<string, SystemAccess> {
  const { kubernetes, loki, argocd } = entriesIn(systems);
  const file = (system: Settings, key: string): readonly string[] =>
    typeof system[key] === "string" ? [pathOf(system[key])] : [];
  return new Map([
    ["kubernetes", kubernetesAccess(file(kubernetes, "kubeconfig"), readFile)],
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
function kubernetesAccess([kubeconfig]: readonly string[], readFile: ReadFile): SystemAccess {
  const document = kubeconfig === undefined ? undefined : settingsOf(kubeconfig, readFile);
  if (kubeconfig === undefined || document === undefined || "fault" in document) return { reads: [], ports: [] };
  const { settings } = document;
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

function members(list: unknown, key: string): readonly Settings[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((item: unknown) => (isTable(item) && isTable(item[key]) ? [item[key]] : []));
}
