import { readFileSync, statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Config } from "../config.ts";
import { canonicalJson, sha256Hex } from "../core/digest.ts";
import { toJson } from "../core/tool-formats.ts";
import type { Tool } from "../core/types.ts";
import type { LoadedTools } from "./loader.ts";

const FILES_MAX = 1_000;
const LIMITS = { depthMax: 256, nodesMax: 1_000_000, bytesMax: 67_108_864 } as const;
const IDENTITY_LIMITS = { depthMax: 4, nodesMax: 16, bytesMax: 65_536 } as const;
const typescript = new Bun.Transpiler({ loader: "ts" });

/** What must not change between a yes and its run, whatever the plan says: deployment, manifest, policy. */
export function identityOf(
  tool: Tool,
  { config, loaded, policy }: { readonly config: Config; readonly loaded: LoadedTools; readonly policy: string },
): string {
  const origin = loaded.origins.get(tool);
  const manifest = origin === undefined ? valueDigest(tool) : manifestDigest(resolve(config.folder, origin));
  const { deployment } = config.approvals;
  const { name, version } = tool;
  return sha256Hex(canonicalJson({ t: "stc/tool/v1", deployment, name, version, manifest, policy }, IDENTITY_LIMITS));
}

/** Hex SHA-256 over a manifest and every file that it imports by a relative path: what it says cannot change without it. */
function manifestDigest(file: string): string {
  const digests = new Map<string, string>();
  const visit = (path: string): void => {
    if (digests.has(path) || digests.size >= FILES_MAX) return;
    const code = readFileSync(path, "utf8");
    digests.set(path, sha256Hex(code));
    for (const { path: imported } of typescript.scanImports(code)) {
      const found = imported.startsWith(".") ? sourceAt(join(dirname(path), imported)) : undefined;
      if (found !== undefined) visit(found);
    }
  };
  visit(file);
  return sha256Hex([...digests.values()].join("\n"));
}

/** Of a tool that came as a value: what can be said of it as JSON, and the text of its functions. */
function valueDigest(tool: Tool): string {
  const target = "cli" in tool.target ? tool.target.cli : tool.target;
  const functions = [tool.permissions.elevatedIf?.when, tool.approval.needsApproval, ...Object.values(target)]
    .filter((member) => typeof member === "function")
    .map(String);
  const { classification, category, permissions, outputPolicy } = tool;
  const said = { classification, category, required: permissions.required, outputPolicy, functions };
  return sha256Hex(canonicalJson({ tool: toJson(tool), ...said }, LIMITS));
}

function sourceAt(path: string): string | undefined {
  return [path, `${path}.ts`, join(path, "index.ts")].find(isFile);
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}
