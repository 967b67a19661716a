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
  withoutCredentials,
} from "./argocd.ts";

const Source = z.strictObject({
  repository: z.string(),
  path: z.string(),
  chart: z.string(),
  targetRevision: z.string(),
});

export const argocdGetApp = defineTool((config: ToolConfig) => {
  return {
    ...applicationTool(config, application),
    name: "argocd_get_app",
    description: "Show a known Argo CD application: where it comes from, where it runs, its state and its resources.",
    output: z.strictObject({
      app: z.string(),
      project: z.string(),
      destination: z.strictObject({ cluster: z.string(), namespace: z.string() }),
      sources: z.array(Source),
      sync: z.string(),
      revisions: z.array(z.string()),
      health: z.string(),
      operation: Operation,
      conditions: z.array(z.string()).describe("Kinds of what Argo CD complains about"),
      images: z.array(z.string()),
      resources: z.array(Resource).max(RESOURCES_MAX),
      omittedResources: z.int(),
    }),
    outputPolicy: {
      ...{ app: "allow", project: "allow", "destination.*": "allow", "sources.*": "allow", sync: "allow" },
      ...{ revisions: "allow", health: "allow", "operation.*": "allow", conditions: "allow", images: "allow" },
      ...{ "resources.*": "allow", omittedResources: "allow" },
    },
    examples: {
      accepts: [{ app: config.sample("argocd", "applications") }],
      rejects: [{ app: `argocd/${config.sample("argocd", "applications")}` }, { app: "--server=evil.example" }],
    },
  };
});

function application(stdout: string) {
  const read = applicationOf(stdout);
  const { metadata, spec, status } = read;
  const sources = spec.source ? [spec.source] : spec.sources;
  const resources = resourcesOf(read);
  return {
    app: metadata.name,
    project: spec.project,
    destination: { cluster: spec.destination.name, namespace: spec.destination.namespace },
    sources: sources.map(({ repoURL, ...source }) => ({ repository: withoutCredentials(repoURL), ...source })),
    sync: status.sync.status,
    revisions: revisionsOf(read),
    health: status.health.status,
    operation: status.operationState,
    conditions: status.conditions.map(({ type }) => type),
    images: status.summary.images,
    resources: resources.slice(0, RESOURCES_MAX),
    omittedResources: Math.max(0, resources.length - RESOURCES_MAX),
  };
}
