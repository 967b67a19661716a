import { readdirSync, readFileSync, statSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { sha256Hex } from "../../core/digest.ts";
import { isTable } from "../../core/json.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { namedPaths } from "../config/own-paths.ts";
import { fieldOf } from "../config/problems.ts";
import { OTHER_NAMES } from "../config/tenants.ts";
import { manifestTree } from "../manifests/loader.ts";
import { Sources } from "../manifests/sources.ts";

/** Returns whether a key is one of `live`, which a reload adopts, or below one. */
export function isLive(key: string, live: readonly string[]): boolean {
  return live.some((each) => key === each || key.startsWith(`${each}.`) || key.startsWith(`${each}[`));
}

export function restartProblems(before: Config, after: Config, live: readonly string[]): readonly string[] {
  const keys = changedKeys(before, after, []).filter((key) => !isLive(key, live));
  const hasOtherTenants = !Bun.deepEquals(tenantNames(before), tenantNames(after));
  return [...keys.map((key) => `${key}: needs a restart`), ...(hasOtherTenants ? [OTHER_NAMES] : [])];
}

function tenantNames({ tenants }: Config): readonly string[] {
  return Object.keys(tenants ?? {}).sort();
}

function changedKeys(before: unknown, after: unknown, path: readonly string[]): readonly string[] {
  if (isTable(before) && isTable(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => changedKeys(before[key], after[key], [...path, key]));
  }
  return Bun.deepEquals(before, after, true) ? [] : [fieldOf(path)];
}

/** The fingerprint of all inputs of a configuration snapshot, as they are on disk. */
export interface Fingerprint {
  /**
   * Hex, over what decides calls: values, files and manifests, without what each replica has of its own (`OWN`). Replicas with one
   * policy have the same, wherever their files are.
   */
  readonly sha256: string;
  /** Hex, over the three digests below: changes whenever an input does. */
  readonly inputsSha256: string;
  /** Digest of the configuration values, with defaults and overrides applied. */
  readonly configurationSha256: string;
  /**
   * Digest of the files that the configuration names, without manifests and without certificates, which are replaced
   * separately.
   */
  readonly filesSha256: string;
  /** One digest for each path in `tools`: its files and all their relative imports. */
  readonly manifests: readonly { readonly source: string; readonly sha256: string }[];
  /** Digests of the files that settings name, by configuration key. */
  readonly settingFiles: ReadonlyMap<string, string>;
  readonly files: readonly string[];
}

const DEPTH_MAX = 16;
const FILES_MAX = 10_000;
/** Maximum size of a file whose content is hashed; for a larger file, size and modification time are used. */
const FILE_BYTES_MAX = 16_777_216;
/**
 * Keys whose files are not hashed: files that change all the time (the audit, databases) or that are watched where they are
 * used.
 */
const NOT_HASHED =
  /^(?:the configuration|tools\[.*|audit\.dir|approvals\.store|server\.(?:console\.)?tls\..*|.*\.(?:rootCert|clientCert|clientKey|revocationFile|caFile|tokenFile)|bundle\..*)$/;
const NAMES_FILE = /File$/;
/**
 * Values and files of one replica, which decide no call: its name, its audit and that audit's key, its addresses, and from where it
 * has its bundle.
 */
const OWN =
  /^(?:instance|bundle|audit\.(?:dir|checkpointKeyFile)|server\.(?:(?:console|operator)\.)?(?:host|port|socket|publicUrl))$/;

export function fingerprintOf(config: Config): Fingerprint {
  const sources = new Sources();
  const named = namedPaths(config).filter(({ field }) => !NOT_HASHED.test(field));
  const digests = named.map(({ field, path }) => ({ field, ...digestAt(path) }));
  const paths = config.tools.filter((source) => typeof source === "string");
  const sets = paths.map((source) => ({ source, ...manifestsAt(pathFrom(config, source), sources) }));
  const { folder: _, origin, searchPath: __, tools: ___, worker: ____, ...values } = config;
  const configurationSha256 = sha256Hex(JSON.stringify({ ...values, tools: paths }));
  const filesSha256 = sha256Hex(digests.map(({ field, sha256 }) => `${field} ${sha256}`).join("\n"));
  const manifests = sets.map(({ source, sha256 }) => ({ source, sha256 }));
  const manifestDigests = manifests.map(({ sha256 }) => sha256);
  const deciding = digests.filter(({ field }) => !OWN.test(field)).map(({ field, sha256 }) => `${field} ${sha256}`);
  const policy = JSON.stringify(withoutOwn({ ...values, tools: paths }, []));
  const settingFiles = digests.filter(({ field }) => NAMES_FILE.test(field));
  return {
    sha256: sha256Hex([policy, ...deciding, ...manifestDigests].join("\n")),
    inputsSha256: sha256Hex([configurationSha256, filesSha256, ...manifestDigests].join("\n")),
    configurationSha256,
    filesSha256,
    manifests,
    settingFiles: new Map(settingFiles.map(({ field, sha256 }) => [field, sha256])),
    files: [
      ...new Set([
        ...(isAbsolute(origin) ? [origin] : []),
        ...digests.flatMap(({ files }) => files),
        ...sets.flatMap(({ files }) => files),
      ]),
    ],
  };
}

/** Returns the values without those of one replica. */
function withoutOwn(value: unknown, path: readonly string[]): unknown {
  if (!isTable(value)) return value;
  const kept = Object.entries(value).filter(([key]) => !OWN.test(fieldOf([...path, key])));
  return Object.fromEntries(kept.map(([key, inner]) => [key, withoutOwn(inner, [...path, key])]));
}

/** Returns the files that are read only at startup and have changed. */
export function startupFileProblems(
  before: Fingerprint,
  after: Fingerprint,
  live: readonly string[],
): readonly string[] {
  return [...after.settingFiles].flatMap(([field, sha256]) =>
    !isLive(field, live) && before.settingFiles.has(field) && before.settingFiles.get(field) !== sha256
      ? [`${field}: the file has changed, which needs a restart`]
      : [],
  );
}

interface HashedPath {
  readonly sha256: string;
  readonly files: readonly string[];
}

function manifestsAt(path: string, sources: Sources): HashedPath {
  try {
    const isFolder = statSync(path).isDirectory();
    const { files: found, folders } = isFolder ? manifestTree(path) : { files: [path], folders: [] };
    const rows = found.map((file) => `${relative(path, file)} ${orUndefined(() => sources.digest(file))}`);
    const files = found.flatMap((file) => orUndefined(() => sources.closure(file)) ?? [file]);
    return { sha256: sha256Hex(rows.join("\n")), files: [...folders, ...files] };
  } catch {
    return { sha256: "missing", files: [path] };
  }
}

function digestAt(path: string): HashedPath {
  const files = filesAt(path, 0).slice(0, FILES_MAX);
  const digests = files.map((file) => `${relative(path, file)} ${orUndefined(() => contentOf(file)) ?? "missing"}`);
  return { sha256: sha256Hex(digests.join("\n")), files: [path, ...files] };
}

/** Returns a digest of the content. A pipe is not read: that would empty it or block. */
function contentOf(file: string): string {
  const stat = statSync(file);
  if (!stat.isFile()) return "no file";
  return stat.size > FILE_BYTES_MAX ? `${stat.size} ${stat.mtimeMs}` : sha256Hex(readFileSync(file));
}

function filesAt(path: string, depth: number): readonly string[] {
  if (orUndefined(() => statSync(path).isDirectory()) !== true) return [path];
  if (depth >= DEPTH_MAX) return [];
  const names = orUndefined(() => readdirSync(path).sort()) ?? [];
  return names.filter((name) => !name.startsWith(".")).flatMap((name) => filesAt(join(path, name), depth + 1));
}

function orUndefined<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
