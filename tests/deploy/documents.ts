import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { IDeployment } from "kubernetes-models/apps/v1";
import { parseAllDocuments } from "yaml";

export const PROJECT = resolve(import.meta.dir, "../..");
export const DEPLOY = join(PROJECT, "deploy");

/** Folders that are applied whole. */
export const BASES = ["monitoring", "sidecar", "standalone"] as const;

/** One object as it is written. */
export interface Document {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [key: string]: unknown };
  readonly spec?: unknown;
  readonly [key: string]: unknown;
}

export type Deployment = Document & IDeployment;
export type PodSpec = NonNullable<NonNullable<NonNullable<IDeployment["spec"]>["template"]>["spec"]>;
export type Container = PodSpec["containers"][number];

/** Every object of a text of YAML documents. A key that stands twice is a mistake here, not the last one's luck. */
export function documentsOf(text: string): readonly Document[] {
  return parseAllDocuments(text, { uniqueKeys: true }).flatMap((document) => {
    if (document.errors.length > 0 || document.warnings.length > 0) throw new Error(String(document.errors[0] ?? ""));
    const value: unknown = document.toJS();
    return value === null ? [] : [value as Document];
  });
}

/** The objects of a folder's files: what is neither a kustomization nor the service's own configuration. */
export function writtenDocuments(base: string): readonly Document[] {
  return readdirSync(join(DEPLOY, base))
    .filter((name) => name.endsWith(".yaml") && name !== "kustomization.yaml" && name !== "stc.yaml")
    .flatMap((name) => documentsOf(readFileSync(join(DEPLOY, base, name), "utf8")));
}

export function deployments(documents: readonly Document[]): readonly Deployment[] {
  return documents.filter((document): document is Deployment => document.kind === "Deployment");
}

export function podSpecOf({ spec }: Deployment): PodSpec {
  const pod = spec?.template.spec;
  if (pod === undefined) throw new Error("a deployment without pods");
  return pod;
}

/** Init containers count: they run beside the others when they are sidecars. */
export function containersOf(pod: PodSpec): readonly Container[] {
  return [...(pod.initContainers ?? []), ...pod.containers];
}

/** The container of ours. */
export function proxyOf(pod: PodSpec): Container {
  const [found] = containersOf(pod).filter(({ name }) => name === "safe-tool-call");
  if (found === undefined) throw new Error("no container safe-tool-call");
  return found;
}
