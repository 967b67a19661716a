import type { Approvals } from "../approvals/types.ts";
import type { EndpointServices, NotReady } from "../http/endpoint.ts";
import type { Snapshot, ToolProxy } from "../pipeline/proxy.ts";
import type { Registry } from "../pipeline/registry.ts";

/** Settings of the MCP server. */
export interface McpSettings {
  readonly resultBytesMax: number;
  readonly holdSeconds: number;
  /** Number of tools above which a caller's list holds a search instead. */
  readonly searchAbove: number | "off";
  /** URL of the page with an approval request, whose id replaces `{id}`. */
  readonly approvalPage?: string | undefined;
  /** Returns whether the same call again uses the approval that was given for it. */
  readonly attaches: () => boolean;
}

/** What the MCP server needs of the service. */
export interface McpPart {
  readonly mcp: McpSettings;
  readonly proxy: ToolProxy;
  readonly registry: Registry;
  readonly approvals: Approvals | undefined;
  /** Returns what finds secrets by the rules of the configuration in use. */
  readonly detector: () => Snapshot["detector"];
  /** Returns what follows data in the configuration in use; undefined while that is off. */
  readonly dataFlow: () => Snapshot["dataFlow"];
  readonly notReady: () => readonly NotReady[];
  readonly resourceScopes: readonly string[] | undefined;
}

export type McpServices = EndpointServices & McpPart;
