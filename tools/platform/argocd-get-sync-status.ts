import { defineTool, type ToolConfig } from "safe-tool-call";
import { z } from "zod";
import {
  applicationOf,
  applicationTool,
  Operation,
  RESOURCES_MAX,
  Resource,
  resourcesOf,
  revisionsOf,
} from "./argocd.ts";

export const argocdGetSyncStatus = defineTool((config: ToolConfig) => {
  return {
    ...applicationTool(config, syncStatus),
    name: "argocd_get_sync_status",
    description:
      "Tell whether a known Argo CD application is in sync and healthy, and which resources are not in sync.",
    output: z.strictObject({
      app: z.string(),
      sync: z.string(),
      revisions: z.array(z.string()),
      health: z.string(),
      operation: Operation,
      outOfSync: z.array(Resource).max(RESOURCES_MAX),
      omittedResources: z.int(),
    }),
    outputPolicy: {
      ...{ app: "allow", sync: "allow", revisions: "allow", health: "allow", "operation.*": "allow" },
      ...{ "outOfSync.*": "allow", omittedResources: "allow" },
    },
    examples: {
      accepts: [{ app: config.sample("argocd", "applications") }],
      rejects: [{ app: `${config.sample("argocd", "applications")} --core` }, { app: "" }],
    },
  };
});

function syncStatus(stdout: string) {
  const read = applicationOf(stdout);
  const outOfSync = resourcesOf(read).filter(({ sync }) => sync !== "Synced" && sync !== "");
  return {
    app: read.metadata.name,
    sync: read.status.sync.status,
    revisions: revisionsOf(read),
    health: read.status.health.status,
    operation: read.status.operationState,
    outOfSync: outOfSync.slice(0, RESOURCES_MAX),
    omittedResources: Math.max(0, outOfSync.length - RESOURCES_MAX),
  };
}
