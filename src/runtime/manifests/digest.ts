import { resolve } from "node:path";
import { canonicalJson, sha256Hex } from "../../core/digest.ts";
import { toJson } from "../../core/tool-formats.ts";
import type { Tool } from "../../core/types.ts";
import type { Config } from "../config/config.ts";
import type { LoadedTools } from "./loader.ts";

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
