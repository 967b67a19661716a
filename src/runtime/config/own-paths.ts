import { realpathSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { parseDocument } from "yaml";
import { sha256Hex } from "../../core/digest.ts";
import { isBelow, type OwnPath } from "../../core/target-kind.ts";
import { tenantFile } from "../../core/tenant-names.ts";
import { auditDirOfService, type Config, checkpointKeyFileOf, ownCheckpointKeyFile, pathFrom } from "./config.ts";
import { readPlainFile } from "./plain-file.ts";
import { sectionsOfOthers } from "./tenants.ts";

/** Configuration keys whose values are the service's own files or directories. */
export const PATH_KEY =
  /^(?:dir|socket|proto|descriptorSet|openapi|kubeconfig|rootCert|clientCert|clientKey|[a-zA-Z]*(?:File|Dir))$/;
/** URLs of files: every `sqlite:` URL, and URLs of other schemes whose path begins with a slash or with dots. */
export const FILE_URL = /^(?:sqlite:(?:\/\/)?|[a-z][a-z0-9+.-]*:\/\/(?=\.{0,2}\/))/;
/** Entries of programs that the configuration starts. */
const OTHERS_WORDS = /^systems\.[^.]+\.mcp$/;

/** Configuration keys of documents that may refer to further files, which belong to the document. */
const DOCUMENT_KEY = /(?:^|\.)openapi$/;

/**
 * Returns all of the service's own paths that agents must not access: configuration, manifests, contracts, keys, audit, stores.
 */
export function ownPaths(config: Config): readonly OwnPath[] {
  return [...namedPaths(config), ...pathsOfOthers(config)].map(({ field, path }) => ({
    field,
    path: nearestRealPath(path),
  }));
}

/** Returns the paths of the service and its other tenants, which agents of a tenant must not access either. */
function pathsOfOthers(config: Config): readonly OwnPath[] {
  const paths = namedByOthers(config);
  // Operators of a tenant are shown its problems, which name no other tenant.
  return config.tenant === undefined ? paths : paths.map(({ path }) => ({ field: OF_OTHERS, path }));
}

const OF_OTHERS = "a path of the service or of another tenant";

function namedByOthers(config: Config): readonly OwnPath[] {
  const { tenants, ...service } = sectionsOfOthers(config);
  const dir = auditDirOfService(config);
  const others = [...(config.tenant === undefined ? [] : [undefined]), ...Object.keys(tenants)];
  return [
    ...pathsIn(config, service),
    ...Object.entries(tenants).flatMap(([name, sections]) =>
      pathsIn(config, sections).map(({ field, path }) => ({ field: `tenants.${name}.${field}`, path })),
    ),
    ...others.flatMap((name) => [
      { field: "audit.checkpointKeyFile", path: pathFrom(config, ownCheckpointKeyFile(dir, name)) },
      ...storeOf(config, name),
    ]),
  ];
}

/** Returns the path of a tenant's database in a file; that of the service itself is a value of the configuration. */
function storeOf(config: Config, tenant: string | undefined): readonly OwnPath[] {
  const { store } = config.approvals;
  if (store === undefined || tenant === undefined) return [];
  return [{ field: "approvals.store", path: tenantFile(pathFrom(config, store.replace(FILE_URL, "")), tenant) }];
}

/** Returns the same paths without resolving links. */
export function namedPaths(config: Config): readonly OwnPath[] {
  const { folder: _, searchPath: __, origin, ...sections } = config;
  const paths = [...pathsIn(config, sections), ...storeOf(config, config.tenant)];
  if (config.audit.checkpointKeyFile === undefined) {
    paths.push({ field: "audit.checkpointKeyFile", path: pathFrom(config, checkpointKeyFileOf(config)) });
  }
  if (statSync(origin, { throwIfNoEntry: false })?.isFile() === true) {
    paths.push({ field: "the configuration", path: pathFrom(config, origin) });
  }
  return paths;
}

function pathsIn(config: Pick<Config, "folder">, named: Readonly<Record<string, unknown>>): readonly OwnPath[] {
  const paths: OwnPath[] = [];
  const add = (field: string, path: string): void => {
    const absolute = pathFrom(config, path);
    const referenced = DOCUMENT_KEY.test(field) ? referencedFiles(absolute) : [];
    paths.push(...[absolute, ...referenced].map((each) => ({ field, path: each })));
  };
  const visit = (value: unknown, field: string): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      // Arguments and variables of another program name that program's files.
      if (OTHERS_WORDS.test(field) && (key === "args" || key === "env")) continue;
      const below = Array.isArray(value) ? `${field}[${key}]` : `${field}${field === "" ? "" : "."}${key}`;
      if (typeof inner === "string" && PATH_KEY.test(key)) add(below, inner);
      else if (typeof inner === "string" && FILE_URL.test(inner)) add(below, inner.replace(FILE_URL, ""));
      else visit(inner, below);
    }
  };
  // What is for agents, and sections whose keys and texts are names, patterns and claims.
  const { workspace, roles, bindings, limits, redaction, tools = [], ...sections } = named;
  for (const [index, source] of (Array.isArray(tools) ? tools : []).entries()) {
    if (typeof source === "string") add(`tools[${index}]`, source);
  }
  visit(sections, "");
  return paths;
}

/** Returns the real path of the nearest existing directory, with the names below it that do not exist yet appended. */
function nearestRealPath(path: string): string {
  const absolute = resolve(path);
  try {
    return realpathSync(absolute);
  } catch {
    const above = dirname(absolute);
    return above === absolute ? absolute : join(nearestRealPath(above), absolute.slice(above.length));
  }
}

const REFERENCED_MAX = 10_000;
/** Larger documents are refused by their readers. */
const DOCUMENT_BYTES_MAX = 33_554_432;
const YAML_CHARACTERS_MAX = 8_388_608;
const DOCUMENTS_KNOWN_MAX = 1_000;
const ALIASES_MAX = 100;

/**
 * Returns the files that a JSON or YAML document refers to with `$ref`, directly and through other files, whether they exist or
 * not. Like the documents' readers, it follows no reference out of the document's folder.
 */
function referencedFiles(document: string): readonly string[] {
  const folder = dirname(document);
  const found = new Set([document]);
  // The loop visits the files that it adds.
  for (const file of found) {
    for (const reference of referencesIn(file)) {
      const path = join(dirname(file), reference);
      if (found.size < REFERENCED_MAX && isBelow(path, folder) && !isDirectory(path)) found.add(path);
    }
  }
  found.delete(document);
  return [...found];
}

/** Maps the digest of a document to its references to other files: each configuration snapshot reads the same documents. */
const knownReferences = new Map<string, readonly string[]>();

/** Returns the relative paths in a document's references to other files; none for a file that cannot be read. */
function referencesIn(file: string): readonly string[] {
  try {
    if (statSync(file).size > DOCUMENT_BYTES_MAX) return [];
    const bytes = readPlainFile(file);
    const digest = sha256Hex(bytes);
    const references = knownReferences.get(digest) ?? referencesOf(bytes.toString());
    if (knownReferences.size >= DOCUMENTS_KNOWN_MAX) knownReferences.clear();
    knownReferences.set(digest, references);
    return references;
  } catch {
    return [];
  }
}

/** Matches the beginning of a reference to a part of the same file. */
const SAME_FILE = /\$ref["']?\s*:\s*["']#/g;
/** Matches a reference on a line of its own, as most documents write it: in quotes without escapes, or as plain text of YAML. */
const OWN_LINE =
  /^[ \t]*(?:-[ \t]+)*(["']?)\$ref\1[ \t]*:[ \t]+(?:"([^"\\\r\n$]*)"[ \t]*,?[ \t]*$|'([^'\r\n$]*)'[ \t]*$|([\w./~][\w./~%-]*(?:#[\w./~%-]*)?)[ \t]*$(?=\s*(?:-\s|["']?[\w$./{}~-]+["']?:(?:\s|$)|[}\]#]|(?![\s\S]))))/gm;
/** Matches any other `$ref`, and the escapes that may write one. */
const OTHER_REFERENCE = /\$ref|\\(?:x|u00|U000000)(?:24|72|65|66)|\\\r?\n/;

/** Parses only texts with unusual references: a large document in YAML takes seconds, and its reader parses it again. */
function referencesOf(text: string): readonly string[] {
  const references = new Set<string>();
  const rest = text
    .replace(SAME_FILE, "")
    .replace(OWN_LINE, (_, _quote, double?: string, single?: string, plain?: string) => {
      references.add(double ?? single ?? plain ?? "");
      return "";
    });
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      if (key === "$ref" && typeof inner === "string") references.add(inner);
      else visit(inner);
    }
  };
  if (OTHER_REFERENCE.test(rest)) visit(parsed(text));
  return [...new Set([...references].flatMap((reference) => relativePath(reference) ?? []))];
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    if (text.length > YAML_CHARACTERS_MAX) return undefined;
    const document = parseDocument(text, {
      version: "1.2",
      schema: "core",
      merge: false,
      uniqueKeys: false,
      logLevel: "error",
    });
    return document.toJS({ maxAliasCount: ALIASES_MAX });
  }
}

/** Returns the path in a reference; undefined for one to the same file, to an absolute path or to an address. */
function relativePath(reference: string): string | undefined {
  const [encoded = ""] = reference.split("#");
  if (encoded === "" || /^[a-z][a-z0-9+.-]*:|[\\?]/i.test(encoded)) return undefined;
  const path = decoded(encoded);
  return path.startsWith("/") || path.includes("\0") ? undefined : path;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
