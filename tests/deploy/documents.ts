import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { IDeployment } from "kubernetes-models/apps/v1";
import { parse, parseAllDocuments } from "yaml";

export const PROJECT = resolve(import.meta.dir, "../..");
export const CHART = join(PROJECT, "deploy/helm/safe-tool-call");

/** One object as it is rendered. */
export interface Document {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: unknown;
  readonly data?: Readonly<Record<string, string>>;
}

export type PodTemplate = NonNullable<IDeployment["spec"]>["template"];
export type PodSpec = NonNullable<PodTemplate["spec"]>;
export type Container = PodSpec["containers"][number];

/** Every object of a text of YAML documents. A key that stands twice is a mistake here, not the last one's luck. */
export function documentsOf(text: string): readonly Document[] {
  return parseAllDocuments(text, { uniqueKeys: true }).flatMap((document) => {
    if (document.errors.length > 0 || document.warnings.length > 0) throw new Error(String(document.errors[0] ?? ""));
    const value: unknown = document.toJS();
    return value === null ? [] : [value as Document];
  });
}

export const ofKind = (documents: readonly Document[], kind: string): readonly Document[] =>
  documents.filter((document) => document.kind === kind);

/** Returns the `spec` of the first object of a kind. */
export function specOf<T>(documents: readonly Document[], kind: string): T {
  const [found] = ofKind(documents, kind);
  if (found === undefined) throw new Error(`no ${kind}`);
  return found.spec as T;
}

/** Returns the template of the only workload, or undefined where there is none. */
export function podTemplateOf(documents: readonly Document[]): PodTemplate | undefined {
  const [workload] = documents.filter(({ kind }) => kind === "StatefulSet" || kind === "Deployment");
  return (workload?.spec as { readonly template: PodTemplate } | undefined)?.template;
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

interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}

/** The alert rules of the chart. */
export function alertRules(): readonly AlertRule[] {
  const { groups } = parse(readFileSync(join(CHART, "files/alert-rules.yaml"), "utf8")) as {
    readonly groups: readonly { readonly rules: readonly AlertRule[] }[];
  };
  return groups.flatMap(({ rules }) => rules);
}
