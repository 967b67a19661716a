import { statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { canonicalJson, sha256Hex } from "../../core/digest.ts";
import { toJson } from "../../core/tool-formats.ts";
import type { Tool } from "../../core/types.ts";
import type { Config } from "../config/config.ts";
import { readPlainFile } from "../config/plain-file.ts";

const FILES_MAX = 1_000;
const typescript = new Bun.Transpiler({ loader: "ts" });

/** A file that another imports by a relative path. */
interface Import {
  /** As it is written there. */
  readonly named: string;
  readonly path: string;
}

interface Source {
  readonly sha256: string;
  readonly imports: readonly Import[];
}

/** Manifests as they stood when each was first asked for: every file is read once. */
export class Sources {
  readonly #read = new Map<string, Source>();
  readonly #digests = new Map<string, string>();

  /** Hex SHA-256 over a file and every file that it imports by a relative path: what it says cannot change without it. */
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

  /** The file, and every file that it imports by a relative path, however far away. */
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

  #source(path: string): Source {
    const known = this.#read.get(path);
    if (known !== undefined) return known;
    const code = readPlainFile(path).toString("utf8");
    const imports = importsOf(path, code).flatMap((named) => {
      const found = sourceAt(join(dirname(path), named));
      return found === undefined ? [] : [{ named, path: found }];
    });
    const source = { sha256: sha256Hex(code), imports };
    this.#read.set(path, source);
    return source;
  }
}

/** The file that a relative import means. */
export function sourceAt(path: string): string | undefined {
  return [path, `${path}.ts`, join(path, "index.ts"), path.replace(/\.js$/, ".ts")].find(isFile);
}

/** What cannot be read as code imports nothing: loading it says what is wrong with it. */
function importsOf(path: string, code: string): readonly string[] {
  if (!/\.[cm]?[jt]sx?$/.test(path)) return [];
  try {
    return typescript.scanImports(code).flatMap(({ path: named }) => (named.startsWith(".") ? [named] : []));
  } catch {
    return [];
  }
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

const LIMITS = { depthMax: 256, nodesMax: 1_000_000, bytesMax: 67_108_864 } as const;
const IDENTITY_LIMITS = { depthMax: 4, nodesMax: 16, bytesMax: 65_536 } as const;

/** What must not change between a yes and its run, whatever the plan says: deployment, manifest, policy. */
export function identityOf(
  tool: Tool,
  { config, loaded, policy }: { readonly config: Config; readonly loaded: LoadedTools; readonly policy: string },
): string {
  const origin = loaded.origins.get(tool);
  const manifest = origin === undefined ? valueDigest(tool) : loaded.sources.digest(resolve(config.folder, origin));
  const { deployment } = config.approvals;
  const { name, version } = tool;
  return sha256Hex(canonicalJson({ t: "stc/tool/v1", deployment, name, version, manifest, policy }, IDENTITY_LIMITS));
}

/** Of a tool that came as a value: what can be said of it as JSON, and the text of its functions. */
function valueDigest(tool: Tool): string {
  const target = "cli" in tool.target ? tool.target.cli : tool.target;
  const functions = [
    tool.permissions.elevatedIf?.when,
    tool.approval.needsApproval,
    tool.approval.answer?.choices,
    ...Object.values(target),
  ]
    .filter((member) => typeof member === "function")
    .map(String);
  const { classification, category, permissions, outputPolicy } = tool;
  const said = { classification, category, required: permissions.required, outputPolicy, functions };
  return sha256Hex(canonicalJson({ tool: toJson(tool), ...said }, LIMITS));
}

export interface LoadedTools {
  readonly tools: readonly Tool[];
  /** Which file a tool came from, for messages. Tools that were given as values are not in it. */
  readonly origins: ReadonlyMap<Tool, string>;
  /** Tools that the configuration leaves nothing to do for, and why. */
  readonly notRegistered: readonly string[];
  /** Everything that is wrong, each line with file, tool and field. */
  readonly problems: readonly string[];
  /** The files as they were loaded. */
  readonly sources: Sources;
  /** What the runtime calls the modules that were loaded. */
  readonly modules: ReadonlySet<string>;
}
