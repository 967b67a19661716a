import { statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { canonicalJson, sha256Hex } from "../../core/digest.ts";
import type { Fault } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { present } from "../../core/present.ts";
import { toJson } from "../../core/tool-export.ts";
import { inputJsonSchema } from "../../core/tool-formats.ts";
import type { Json, Tool } from "../../core/types.ts";
import type { Config } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";

const FILES_MAX = 1_000;
export const CODE = /\.[cm]?[jt]sx?$/;
const typescript = new Bun.Transpiler({ loader: "ts" });

interface Import {
  readonly specifier: string;
  readonly path: string;
}

interface Source {
  readonly sha256: string;
  /** Undefined for code, which the runtime reads itself. */
  readonly text: string | undefined;
  readonly imports: readonly Import[];
}

/** The manifests as of their first access: every file is read once. */
export class Sources {
  /** The tenant whose modules they are; undefined: the service itself. */
  readonly tenant: string | undefined;
  readonly #read = new Map<string, Source>();
  readonly #digests = new Map<string, string>();

  constructor(tenant?: string) {
    this.tenant = tenant;
  }

  /**
   * Returns the hex SHA-256 over a file and all its direct and indirect relative imports: the digest changes when any of them
   * does.
   */
  digest(file: string): string {
    const known = this.#digests.get(file);
    if (known !== undefined) return known;
    const digest = sha256Hex(
      this.closure(file)
        .map((path) => this.#source(path).sha256)
        .join("\n"),
    );
    this.#digests.set(file, digest);
    return digest;
  }

  closure(file: string): readonly string[] {
    const found = new Set<string>();
    const visit = (path: string): void => {
      if (found.has(path) || found.size >= FILES_MAX) return;
      found.add(path);
      for (const imported of this.imports(path)) visit(imported.path);
    };
    visit(file);
    return [...found];
  }

  imports(file: string): readonly Import[] {
    return this.#source(file).imports;
  }

  /** Returns the text of a file that is not code: the one that `digest` covers. */
  text(file: string): string {
    return present(this.#source(file).text, "the text of the file");
  }

  #source(path: string): Source {
    const known = this.#read.get(path);
    if (known !== undefined) return known;
    const code = readPlainFile(path).toString("utf8");
    const imports = importsOf(path, code).flatMap((specifier) => {
      const found = sourceAt(join(dirname(path), specifier));
      return found === undefined ? [] : [{ specifier, path: found }];
    });
    const source = { sha256: sha256Hex(code), text: CODE.test(path) ? undefined : code, imports };
    this.#read.set(path, source);
    return source;
  }
}

export function sourceAt(path: string): string | undefined {
  return [path, `${path}.ts`, join(path, "index.ts"), path.replace(/\.js$/, ".ts")].find(isFile);
}

/** Returns the relative imports of a file. Invalid code has none here: loading it reports the problem. */
function importsOf(path: string, code: string): readonly string[] {
  if (!CODE.test(path)) return [];
  try {
    return typescript
      .scanImports(code)
      .flatMap(({ path: specifier }) => (specifier.startsWith(".") ? [specifier] : []));
  } catch {
    return [];
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

const LIMITS = { depthMax: 256, nodesMax: 1_000_000, bytesMax: 67_108_864 } as const;

interface IdentityParts {
  readonly config: Config;
  readonly loaded: LoadedTools;
  /** Version of the rules and policies about the tool. */
  readonly policy: string;
  /** Sections of the configuration that decide what the tool does. */
  readonly sections: readonly "workspace"[];
}

/**
 * Returns the digest of the deployment, and of the tool's manifest, policy and settings, which must not change between an approval
 * and its run. Settings of other tools are no part of it.
 */
export function identityOf(tool: Tool, { config, loaded, policy, sections }: IdentityParts): string {
  const origin = loaded.origins.get(tool);
  const manifest = origin === undefined ? valueDigest(tool) : loaded.sources.digest(resolve(config.folder, origin));
  const { deployment } = config.approvals;
  const { name, version, target } = tool;
  const settings = {
    system: config.systems[target.system],
    read: loaded.settingsRead.get(tool),
    ...Object.fromEntries(sections.map((section) => [section, config[section]])),
  };
  // Settings are JSON, except that absent ones may be undefined.
  const written = JSON.parse(JSON.stringify(settings)) as Json;
  return sha256Hex(
    canonicalJson({ t: "stc/tool/v2", deployment, name, version, manifest, policy, settings: written }, LIMITS),
  );
}

const ARGS_DIGEST_CHARACTERS = 16;

/**
 * Returns the digest of what decides whether arguments are accepted, and which of them the audit holds: two calls with equal
 * digests are parsed and logged alike. Undefined for a tool given as a value, whose schema may contain functions.
 */
export function argsDigestOf(
  tool: Tool,
  { config, loaded }: { readonly config: Config; readonly loaded: LoadedTools },
) {
  const origin = loaded.origins.get(tool);
  if (origin === undefined) return undefined;
  const code = loaded.lines.has(tool) ? null : loaded.sources.digest(resolve(config.folder, origin));
  const { inputPolicy } = tool;
  const input = inputJsonSchema(tool.input, "draft-2020-12");
  return sha256Hex(canonicalJson({ t: "stc/args/v1", code, input, inputPolicy }, LIMITS)).slice(
    0,
    ARGS_DIGEST_CHARACTERS,
  );
}

/** Returns the digest of a tool given as a value: its JSON form and the source text of its functions. */
function valueDigest(tool: Tool): string {
  const target: readonly unknown[] = Object.values(tool.target);
  const functions = [
    tool.permissions.elevatedIf?.when,
    tool.approval.needsApproval,
    tool.approval.answer?.choices,
    ...target,
    ...target.flatMap((part) => (isTable(part) ? Object.values(part) : [])),
  ]
    .filter((member) => typeof member === "function")
    .map(String);
  const { classification, category, permissions, outputPolicy, approval, additive } = tool;
  const { required, elevatedIf } = permissions;
  const declared = { classification, category, required, elevated: elevatedIf?.required, outputPolicy, functions };
  // JSON leaves the functions out.
  const data = JSON.parse(JSON.stringify({ approval, target: tool.target })) as Json;
  return sha256Hex(canonicalJson({ tool: toJson(tool), ...declared, additive, data }, LIMITS));
}

export interface LoadedTools {
  readonly tools: readonly Tool[];
  /** Maps a tool to its file, for messages. Tools given as values are missing. */
  readonly origins: ReadonlyMap<Tool, string>;
  /** Maps a tool without code to the function that returns the line of an error in its file. */
  readonly lines: ReadonlyMap<Tool, (fault: Fault) => number | undefined>;
  /** Maps a tool to the settings that its manifest read while it was loaded, by `<system>.<key>`. */
  readonly settingsRead: ReadonlyMap<Tool, Readonly<Record<string, unknown>>>;
  /** Tools whose target is not configured, with the reason. */
  readonly notRegistered: readonly string[];
  /** All problems, each with file, tool and field. */
  readonly problems: readonly string[];
  /** The files as they were loaded. */
  readonly sources: Sources;
  /** The runtime's names of the loaded modules. */
  readonly modules: ReadonlySet<string>;
}
