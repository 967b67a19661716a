import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Ajv from "ajv";
import { parse } from "yaml";
import { run } from "../../deploy/release/run.ts";
import type { Document } from "./documents.ts";

/**
 * Checks objects as a strict API server does: unknown fields and wrong types are errors. The schemas are those that each version of
 * Kubernetes publishes, cut down to the kinds of this project. `bun tests/deploy/kubernetes-schemas.ts` fetches them as Go modules and
 * writes them again; it needs Go.
 */
const FOLDER = join(import.meta.dir, "kubernetes-schemas");
export const VERSIONS = ["v1.35.4", "v1.36.3", "v1.37.2"] as const;

/** By definition: a kind that the chart renders. */
const KINDS: Readonly<Record<string, string>> = {
  "apps/v1 StatefulSet": "io.k8s.api.apps.v1.StatefulSet",
  "apps/v1 Deployment": "io.k8s.api.apps.v1.Deployment",
  "autoscaling/v2 HorizontalPodAutoscaler": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
  "networking.k8s.io/v1 Ingress": "io.k8s.api.networking.v1.Ingress",
  "networking.k8s.io/v1 NetworkPolicy": "io.k8s.api.networking.v1.NetworkPolicy",
  "policy/v1 PodDisruptionBudget": "io.k8s.api.policy.v1.PodDisruptionBudget",
  "v1 ConfigMap": "io.k8s.api.core.v1.ConfigMap",
  "v1 Pod": "io.k8s.api.core.v1.Pod",
  "v1 Secret": "io.k8s.api.core.v1.Secret",
  "v1 Service": "io.k8s.api.core.v1.Service",
  "v1 ServiceAccount": "io.k8s.api.core.v1.ServiceAccount",
};

/** Custom kinds: the module and the file of each definition. */
const CUSTOM: readonly (readonly [module: string, file: string])[] = [
  ["github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds/cert-manager.io_certificates.yaml"],
  [
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
  ],
  [
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
  ],
  [
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
  ],
  ["sigs.k8s.io/gateway-api@v1.6.3", "config/crd/standard/gateway.networking.k8s.io_backendtlspolicies.yaml"],
  ["sigs.k8s.io/gateway-api@v1.6.3", "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"],
];

type Schema = Readonly<Record<string, unknown>>;

interface Distilled {
  /** By `apiVersion kind`. */
  readonly kinds: Readonly<Record<string, Schema>>;
  readonly definitions: Readonly<Record<string, Schema>>;
}

export type Validator = (document: Document) => readonly string[];

const validators = new Map<string, Validator>();

/** Returns the check of one version of Kubernetes, with the custom kinds. It returns what is wrong with an object, in words. */
export function validatorOf(version: (typeof VERSIONS)[number]): Validator {
  const validator = validators.get(version) ?? makeValidator(version);
  validators.set(version, validator);
  return validator;
}

function makeValidator(version: string): Validator {
  const { kinds, definitions } = readDistilled(version);
  // References stay calls of functions: copied into each other, these schemas take seconds to compile.
  const ajv = new Ajv({
    strict: false,
    allErrors: true,
    validateFormats: false,
    inlineRefs: false,
    addUsedSchema: false,
    validateSchema: false,
    code: { optimize: false },
  });
  const all = { ...kinds, ...readDistilled("custom").kinds };
  ajv.addSchema({ $id: "kubernetes", definitions: { ...definitions, ...all } });
  return (document) => {
    const { apiVersion, kind, metadata } = document;
    const name = `${apiVersion} ${kind}`;
    if (!Object.hasOwn(all, name)) return [`${name}: no such kind in ${version}`];
    const check = ajv.getSchema(`kubernetes#/definitions/${encodeURIComponent(name.replaceAll("/", "~1"))}`);
    if (check === undefined || check(document) === true) return [];
    return (check.errors ?? []).map(
      ({ instancePath, message, params }) =>
        `${kind}/${metadata.name} ${instancePath}: ${message} ${JSON.stringify(params)}`,
    );
  };
}

function readDistilled(name: string): Distilled {
  const packed = readFileSync(join(FOLDER, `${name}.json.gz`));
  return JSON.parse(new TextDecoder().decode(Bun.gunzipSync(packed))) as Distilled;
}

/** Keeps what decides whether an object is valid, and refuses what no schema names. */
function distilled(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(distilled);
  if (typeof schema !== "object" || schema === null) return schema;
  const written = schema as Schema;
  if (written["x-kubernetes-preserve-unknown-fields"] === true) return {};
  if (written["x-kubernetes-int-or-string"] === true || written["format"] === "int-or-string") {
    return { type: ["integer", "string"] };
  }
  const kept = Object.entries(written).filter(
    ([key, value]) =>
      !(/^(description|default|format|pattern)$/.test(key) && typeof value !== "object") &&
      !/^x-/.test(key) &&
      key !== "default",
  );
  const properties = written["properties"] as Schema | undefined;
  return {
    ...Object.fromEntries(kept.map(([key, value]) => [key, key === "properties" ? mapped(value) : distilled(value)])),
    ...(properties !== undefined && { additionalProperties: false }),
  };
}

/** The members of `properties` are names, not keywords. */
function mapped(properties: unknown): unknown {
  return Object.fromEntries(Object.entries(properties as Schema).map(([name, schema]) => [name, distilled(schema)]));
}

function distilledNative(definitions: Readonly<Record<string, Schema>>): Distilled {
  const wanted = new Map<string, Schema>();
  const visit = (name: string): void => {
    if (wanted.has(name)) return;
    const found = definitions[name];
    if (found === undefined) throw new Error(`the schema has no ${name}`);
    const schema = distilled(shortened(name, found)) as Schema;
    wanted.set(name, schema);
    for (const [, next = ""] of JSON.stringify(schema).matchAll(/"#\/definitions\/([^"]+)"/g)) visit(next);
  };
  const kinds = Object.entries(KINDS).map(([kind, name]) => {
    visit(name);
    return [kind, { $ref: `#/definitions/${name}` }] as const;
  });
  return { kinds: Object.fromEntries(kinds), definitions: Object.fromEntries([...wanted].sort()) };
}

/** What the server writes, and what is a number or a text. */
function shortened(name: string, schema: Schema): Schema {
  if (name.endsWith(".Quantity")) return { type: ["number", "string"] };
  if (name.endsWith(".ObjectMeta")) {
    const { managedFields: _, ...properties } = schema["properties"] as Schema;
    return { ...schema, properties };
  }
  const { status: _, ...properties } = (schema["properties"] ?? {}) as Schema;
  return schema["x-kubernetes-group-version-kind"] === undefined ? schema : { ...schema, properties };
}

interface Definition {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: Schema } }[];
  };
}

function distilledCustom(definition: Definition): readonly (readonly [kind: string, schema: Schema])[] {
  const { group, names, versions } = definition.spec;
  return versions.map(({ name, schema }) => {
    const { status: _, ...properties } = schema.openAPIV3Schema["properties"] as Schema;
    const metadata = { $ref: "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" };
    const whole = distilled({ ...schema.openAPIV3Schema, properties }) as Schema & { readonly properties: Schema };
    return [`${group}/${name} ${names.kind}`, { ...whole, properties: { ...whole.properties, metadata } }];
  });
}

/** Fetches a Go module and returns its folder. */
async function moduleFolder(module: string): Promise<string> {
  // Outside any module, so that nothing else decides the version.
  const cwd = mkdtempSync(join(tmpdir(), "stc-schemas-"));
  try {
    return (JSON.parse(await run(["go", "mod", "download", "-json", module], { cwd })) as { Dir: string }).Dir;
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

async function write(name: string, content: Distilled): Promise<void> {
  const path = join(FOLDER, `${name}.json.gz`);
  await Bun.write(path, Bun.gzipSync(new TextEncoder().encode(JSON.stringify(content)), { level: 9 }));
  console.log(`${path}${existsSync(path) ? "" : " (new)"}`);
}

if (import.meta.main) {
  for (const version of VERSIONS) {
    const file = join(await moduleFolder(`k8s.io/kubernetes@${version}`), "api/openapi-spec/swagger.json");
    const { definitions } = JSON.parse(readFileSync(file, "utf8")) as { definitions: Record<string, Schema> };
    await write(version, distilledNative(definitions));
  }
  const kinds: (readonly [string, Schema])[] = [];
  for (const [module, file] of CUSTOM) {
    const definition = parse(readFileSync(join(await moduleFolder(module), file), "utf8")) as Definition;
    kinds.push(...distilledCustom(definition));
  }
  await write("custom", { kinds: Object.fromEntries(kinds), definitions: {} });
}
