import { isTable } from "../../core/json.ts";
import type { Json } from "../../core/types.ts";
import { labelOf } from "../../detection/labels.ts";
import { filterSecrets } from "../../detection/sensitive.ts";
import { withoutPaths } from "../../pipeline/target-text.ts";
import type { Config, SystemConfig } from "../config/config.ts";
import { FILE_URL, PATH_KEY } from "../config/own-paths.ts";

/** The configuration as operators may read it: no secret, no path of a file. Hidden values keep their key. */

const PATH = "[path]";
const HIDDEN = "[hidden]";
const LOOKS_LIKE_PATH = /^(?:[~/]|\.{1,2}(?:\/|$)|[A-Za-z]:[\\/])/;
/** Further keys whose texts are paths, in addition to those of the service's own files. */
const OTHER_PATHS: ReadonlySet<string> = new Set(["project", "pkg", "state", "reads", "writes", "workspace", "cwd"]);
/** Keys whose values may be credentials, or hold them: only their names, or their number, are shown. */
const VALUES_HIDDEN: ReadonlySet<string> = new Set(
  ["headers", "metadata", "env", "environment", "args", "matches", "misses", "jwks", "publicKey"], //
);
const WEBHOOKS = "webhooks";
const DEPTH_MAX = 64;

/**
 * Returns the values in use, with their defaults. Tools that an embedder passed as values are shown by their names.
 *
 * @param ofKinds the names of the systems that are of a kind; the others hold lists and settings of manifests
 */
export function shownConfig(config: Config, ofKinds: ReadonlyMap<string, string>): Readonly<Record<string, Json>> {
  const { folder: _, origin: __, searchPath: ___, worker: ____, tools, systems, ...sections } = config;
  const sources = tools.map((source) => (typeof source === "string" ? PATH : nameOf(source)));
  const entries = Object.entries(systems).map(([name, entry]): [string, Json] => [
    shownText(name),
    shownValue(ofKinds.has(name) ? entry : withoutDirectories(entry)),
  ]);
  const shownSections = shownValue<Readonly<Record<string, Json>>>(sections);
  return { ...shownSections, tools: sources, systems: Object.fromEntries(entries) };
}

/** Returns the lists and settings of manifests without paths: names with directories, and texts with a slash. */
function withoutDirectories(entry: SystemConfig): SystemConfig {
  const setting = (value: unknown): unknown => {
    if (isTable(value)) return Object.fromEntries(Object.keys(value).map((name) => [name, PATH]));
    return typeof value === "string" && value.includes("/") && !URL.canParse(value) ? PATH : value;
  };
  return Object.fromEntries(Object.entries(entry).map(([key, value]) => [key, setting(value)]));
}

/** Returns a value as operators may read it. Functions are left out, patterns become texts; the caller states the type of the rest. */
export function shownValue<Shown = Json>(value: unknown): Shown {
  return (shown(value, { key: "", depth: 0 }) ?? null) as Shown;
}

/** Does the same for the part of a manifest that describes requests, whose texts with slashes are not paths of files. */
export function shownRequest(value: object): Readonly<Record<string, Json>> {
  return shown(value, { key: "", depth: 0, isRequest: true }) as Readonly<Record<string, Json>>;
}

/** Returns a text of the service for operators, such as a problem, without secrets and without paths of files. */
export function shownText(text: string): string {
  return withoutPaths(filterSecrets(text).text);
}

interface Place {
  /** The key that holds the value, or the list that it is in. */
  readonly key: string;
  readonly depth: number;
  readonly isRequest?: true;
  /** In `when` of a rule: `args` there are conditions, which say what the rule is about. */
  readonly isCondition?: true;
  /** Whether the value is in a webhook: its URL is a credential for posting there, and the path is the secret part. */
  readonly isWebhook?: true;
}

function shown(value: unknown, place: Place): Json | undefined {
  const { key, depth } = place;
  if (value instanceof RegExp) return filterSecrets(value.source).text;
  if (depth > DEPTH_MAX) return HIDDEN;
  if (VALUES_HIDDEN.has(key) && place.isCondition !== true) return hidden(value);
  if (typeof value === "string") return place.isRequest ? shownInRequest(value, key) : shownAt(value, place);
  if (typeof value === "number" || typeof value === "boolean" || value === null) return value as Json;
  if (Array.isArray(value)) return value.map((each) => shown(each, { ...place, depth: depth + 1 }) ?? null);
  if (!isTable(value)) return undefined;
  const members = Object.entries(value).flatMap(([name, inner]): [string, Json][] => {
    const inWhen = key === "when" && name === "args" ? ({ isCondition: true } as const) : undefined;
    const inWebhook = key === WEBHOOKS ? ({ isWebhook: true } as const) : undefined;
    const part = shown(inner, { ...place, ...inWhen, ...inWebhook, key: name, depth: depth + 1 });
    return part === undefined ? [] : [[shownText(name), part]];
  });
  return Object.fromEntries(members);
}

function hidden(value: unknown): Json {
  if (Array.isArray(value)) return value.map(() => HIDDEN);
  return isTable(value) ? Object.fromEntries(Object.keys(value).map((name) => [shownText(name), HIDDEN])) : HIDDEN;
}

/** A placeholder such as `{token}` is filled by the call: only a text that the manifest itself holds can be a secret. */
function shownInRequest(value: string, key: string): string {
  const isOwn = !/\{[^{}]+\}/.test(value);
  return isOwn && labelOf(key).secret !== undefined ? HIDDEN : filterSecrets(value).text;
}

function shownAt(value: string, { key, isWebhook }: Place): string {
  if (PATH_KEY.test(key) || OTHER_PATHS.has(key) || LOOKS_LIKE_PATH.test(value) || FILE_URL.test(value)) return PATH;
  if (labelOf(key).secret !== undefined) return HIDDEN;
  const url = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? URL.parse(value) : null;
  if (url === null) return shownText(value);
  const { protocol, host, pathname, username, password, search, hash } = url;
  if (isWebhook) return pathname === "/" && search === "" ? `${protocol}//${host}` : `${protocol}//${host} ${HIDDEN}`;
  const isPlain = username === "" && password === "" && search === "" && hash === "";
  return filterSecrets(isPlain ? value : `${protocol}//${host}${pathname === "/" ? "" : pathname} ${HIDDEN}`).text;
}

function nameOf(source: unknown): string {
  const name = typeof source === "object" && source !== null && "name" in source ? source.name : undefined;
  return typeof name === "string" ? name : "(a tool)";
}
