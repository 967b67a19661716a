import { join } from "node:path";

export const CHART = join(import.meta.dir, "safe-tool-call");
export const VALUES_SCHEMA_FILE = join(CHART, "values.schema.json");

type Schema = Readonly<Record<string, unknown>>;

const text: Schema = { type: "string" };
const flag: Schema = { type: "boolean" };
const port: Schema = { type: "integer", minimum: 1, maximum: 65_535 };
const table: Schema = { type: "object" };
const texts: Schema = { type: "object", additionalProperties: text };
/** A name of a Kubernetes object, or nothing. */
const objectName: Schema = { type: "string", maxLength: 253, pattern: "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" };
const hostName: Schema = { type: "string", maxLength: 253, pattern: "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$" };
const duration: Schema = { type: "string", pattern: "^([0-9]+(h|m|s|ms))+$" };
const quantity: Schema = { type: ["string", "integer"], pattern: "^[0-9]+(\\.[0-9]+)?([EPTGMk]i?|m)?$" };
const percent: Schema = { type: "integer", minimum: 0, maximum: 1_000 };
const seconds: Schema = { type: "integer", minimum: 0, maximum: 86_400 };

const oneOf = (...values: readonly string[]): Schema => ({ type: "string", enum: values });
const list = (items: Schema): Schema => ({ type: "array", items });
const closed = (properties: Readonly<Record<string, Schema>>): Schema => ({
  type: "object",
  additionalProperties: false,
  properties,
});

const secretKey = closed({ existingSecret: objectName, key: { ...text, minLength: 1 } });
const probe = closed(
  Object.fromEntries(
    ["initialDelaySeconds", "periodSeconds", "timeoutSeconds", "failureThreshold", "successThreshold"].map((key) => [
      key,
      seconds,
    ]),
  ),
);
const ingress = closed({
  enabled: flag,
  className: text,
  annotations: texts,
  hosts: list(hostName),
  tls: list(closed({ secretName: objectName, hosts: list(hostName) })),
});
const httpRoute = closed({
  enabled: flag,
  annotations: texts,
  parentRefs: list(table),
  hostnames: list(hostName),
  timeouts: closed({ request: duration, backendRequest: duration }),
  caCertificateRefs: list(table),
});
const monitor = closed({
  enabled: flag,
  labels: texts,
  interval: duration,
  oauth2: table,
  authorization: table,
  metricRelabelings: list(table),
});
/** The kubelet accepts no shorter token; the service none that is longer valid than this. */
const tokenLifetime: Schema = { type: "integer", minimum: 600, maximum: 7_200 };
const token = closed({ audience: { ...text, minLength: 1 }, expirationSeconds: tokenLifetime });
const serviceType = oneOf("ClusterIP", "NodePort", "LoadBalancer");

const PROPERTIES: Readonly<Record<string, Schema>> = {
  /** Helm adds it to the values of a chart that another one includes. */
  global: table,
  mode: oneOf("service", "sidecar"),
  nameOverride: text,
  fullnameOverride: objectName,
  replicaCount: { type: "integer", minimum: 0 },
  image: closed({
    repository: text,
    tag: text,
    digest: { type: "string", pattern: "^(sha256:[0-9a-f]{64})?$" },
    pullPolicy: oneOf("Always", "IfNotPresent", "Never"),
  }),
  imagePullSecrets: list(closed({ name: objectName })),
  config: { $ref: "#/definitions/configuration" },
  tools: { type: "object", patternProperties: { "^[-._a-zA-Z0-9]{1,253}$": text }, additionalProperties: false },
  secrets: list(objectName),
  configMaps: list(objectName),
  postgresql: secretKey,
  audit: closed({ signingKey: secretKey, hashKey: secretKey, store: secretKey }),
  tls: closed({ enabled: flag, existingSecret: objectName, clientCertificates: oneOf("", "request", "require") }),
  console: closed({
    enabled: flag,
    publicUrl: { type: "string", pattern: "^(https://[^/]+)?$" },
    existingSecret: objectName,
    oidc: secretKey,
    service: closed({
      type: serviceType,
      port,
      annotations: texts,
    }),
  }),
  clientCertificate: closed({ enabled: flag, existingSecret: objectName }),
  hub: closed({
    enabled: flag,
    existingSecret: objectName,
    clientCertificates: flag,
    service: closed({ type: serviceType, port, annotations: texts }),
    url: { type: "string", pattern: "^(https://[^/]+)?$" },
    caConfigMap: objectName,
    token,
    clientCertificate: closed({ enabled: flag, existingSecret: objectName }),
  }),
  certManager: closed({
    enabled: flag,
    issuerRef: closed({ name: text, kind: text, group: text }),
    duration,
    renewBefore: duration,
  }),
  ports: closed({ calls: port, console: port, operators: port, hub: port }),
  service: closed({ type: serviceType, port, annotations: texts }),
  ingress: closed({ calls: ingress, console: ingress }),
  httpRoute: closed({ calls: httpRoute, console: httpRoute }),
  persistence: closed({
    enabled: flag,
    size: quantity,
    storageClass: text,
    accessModes: list(oneOf("ReadWriteOncePod", "ReadWriteOnce")),
    annotations: texts,
    retentionPolicy: closed({ whenDeleted: oneOf("Retain", "Delete"), whenScaled: oneOf("Retain", "Delete") }),
  }),
  autoscaling: closed({
    enabled: flag,
    minReplicas: { type: "integer", minimum: 1 },
    maxReplicas: { type: "integer", minimum: 1 },
    targetCPUUtilizationPercentage: percent,
    targetMemoryUtilizationPercentage: percent,
    behavior: table,
  }),
  podDisruptionBudget: closed({
    enabled: flag,
    maxUnavailable: { type: ["integer", "string"], pattern: "^[0-9]+%$", minimum: 0 },
  }),
  networkPolicy: closed({
    enabled: flag,
    ingress: closed({ calls: list(table), console: list(table), hub: list(table), operators: list(table) }),
    dns: list(table),
    egress: list(table),
  }),
  podMonitor: monitor,
  serviceMonitor: monitor,
  prometheusRule: closed({
    enabled: flag,
    labels: texts,
    runbookUrl: { type: "string", pattern: "^(https?://[^\\s#\"']+)?$" },
    extraRules: list(table),
  }),
  grafanaDashboards: closed({ enabled: flag, labels: texts, annotations: texts }),
  serviceAccount: closed({ create: flag, name: objectName, annotations: texts, automount: flag }),
  sidecar: closed({
    tokenAudience: { ...text, minLength: 1 },
    tokenExpirationSeconds: tokenLifetime,
  }),
  commonLabels: texts,
  podAnnotations: texts,
  podLabels: texts,
  podSecurityContext: table,
  securityContext: table,
  resources: closed({ requests: table, limits: table, claims: list(table) }),
  startupProbe: probe,
  readinessProbe: probe,
  livenessProbe: probe,
  terminationGracePeriodSeconds: { type: ["integer", "null"], minimum: 1 },
  updateStrategy: table,
  revisionHistoryLimit: { type: "integer", minimum: 0 },
  nodeSelector: texts,
  tolerations: list(table),
  affinity: table,
  topologySpreadConstraints: list(table),
  priorityClassName: text,
  extraEnv: list(table),
  extraVolumes: list(table),
  extraVolumeMounts: list(table),
  extraContainers: list(table),
  initContainers: list(table),
  extraObjects: list({ type: ["object", "string"] }),
};

interface Configuration {
  readonly properties: Readonly<Record<string, Schema>>;
  readonly definitions: Schema;
}

/**
 * Returns the content of `values.schema.json`: the chart's own values, and the service's configuration (`bun run docs:configuration`
 * writes it).
 *
 * @param configuration the content of `docs/configuration.schema.json`
 */
export function valuesSchema(configuration: string): string {
  const { properties, definitions } = withoutTexts(JSON.parse(configuration)) as Configuration;
  // The chart adds the keys that are required here.
  const { required: _, ...audit } = properties["audit"] ?? {};
  const schema = {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Values of the chart safe-tool-call",
    ...closed(PROPERTIES),
    definitions: { ...definitions, configuration: closed({ ...properties, audit }) },
  };
  // The configuration is a part of this schema: references to its own properties get the path that these have here.
  const text = JSON.stringify(schema, undefined, 2);
  return `${text.replaceAll('"#/properties/', '"#/definitions/configuration/properties/')}\n`;
}

/**
 * Leaves out descriptions and defaults, because a cluster keeps the chart with each release, and patterns, some of which Go's
 * regular expressions do not take. The service itself checks them.
 */
function withoutTexts(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutTexts);
  if (typeof schema !== "object" || schema === null) return schema;
  const kept = Object.entries(schema).filter(
    ([key, value]) => key !== "default" && !(/^(description|pattern)$/.test(key) && typeof value === "string"),
  );
  return Object.fromEntries(kept.map(([key, value]) => [key, withoutTexts(value)]));
}
