import { cpSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { parse } from "yaml";
import { findHelm } from "../support/kubectl.ts";
import { type Ended, run } from "../support/stc.ts";
import { CHART, type Document, documentsOf, ofKind } from "./documents.ts";

export const HELM = findHelm();

/** The cases of the chart: `ci/<name>-values.yaml`. */
export const CASES: readonly string[] = readdirSync(join(CHART, "ci"))
  .map((file) => basename(file, "-values.yaml"))
  .sort();

/** Values with names that YAML would take for numbers or booleans. */
export const NAMES_FOR_YAML: object = {
  ...{ secrets: ["123"], configMaps: ["0x10"], postgresql: { existingSecret: "1e3", key: "1" } },
  ...{ priorityClassName: "yes", persistence: { storageClass: "1.5" }, image: { repository: "9" } },
  ...{ serviceAccount: { name: "null" }, certManager: { issuerRef: { name: "12" } } },
  ingress: { calls: { enabled: true, className: "true", hosts: ["1.2"] } },
};

interface Options {
  readonly release?: string;
  readonly namespace?: string;
  readonly chart?: string;
  /** Name of a case, whose values are used. */
  readonly case?: string;
  /** Values that replace those of the case. */
  readonly values?: object;
}

/** Runs Helm with its files in a folder of the run. */
export async function helm(...args: readonly string[]): Promise<Ended> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "stc-helm-"));
  try {
    const homes = { HELM_CACHE_HOME: folder, HELM_CONFIG_HOME: folder, HELM_DATA_HOME: folder };
    return await run([HELM ?? "helm", ...args], { env: homes });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function helmTemplate({ release = "gate", namespace = "tools", chart = CHART, ...of }: Options): Promise<Ended> {
  const values = [
    ...(of.case === undefined ? [] : ["--values", join(CHART, "ci", `${of.case}-values.yaml`)]),
    ...(of.values === undefined ? [] : ["--set-json", JSON.stringify(of.values)]),
  ];
  return helm("template", release, chart, "--namespace", namespace, ...values);
}

/** Returns the objects that the chart renders. */
export async function rendered(options: Options): Promise<readonly Document[]> {
  const { code, out, err } = await helmTemplate(options);
  if (code !== 0) throw new Error(err);
  return documentsOf(out);
}

/** The example's values for a sidecar that is a member of a fleet. */
export const memberValues = (): object =>
  parse(readFileSync(join(CHART, "../examples/agent/member-values.yaml"), "utf8")) as object;

/** Returns the objects of the example: an agent's chart, which includes this one's templates. */
export async function renderedAgent(values: object = {}): Promise<readonly Document[]> {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), "stc-agent-"));
  try {
    cpSync(join(CHART, ".."), folder, { recursive: true });
    const chart = join(folder, "examples/agent");
    const { code, err } = await helm("dependency", "build", "--skip-refresh", chart);
    if (code !== 0) throw new Error(err);
    return await rendered({ release: "researcher", namespace: "agents", chart, values });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Returns the service's configuration among the objects, as it is written and as a file. */
export function configurationOf(documents: readonly Document[]): { readonly written: unknown; readonly text: string } {
  const texts = ofKind(documents, "ConfigMap").flatMap(({ data }) => data?.["stc.yaml"] ?? []);
  const [text] = texts;
  if (text === undefined || texts.length > 1) throw new Error(`${texts.length} configurations`);
  return { written: parse(text), text };
}
