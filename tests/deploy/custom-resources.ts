import { z } from "zod";

/** The parts of custom resources that we write, as their definitions have them: an unknown key is a misspelt one. */

const metadata = z.strictObject({ name: z.string(), namespace: z.string().optional() });
const duration = z.string().regex(/^(\d+(h|m|s))+$/);
const secretKey = z.strictObject({ name: z.string(), key: z.string() });

/** cert-manager.io/v1 */
const certificate = z.strictObject({
  apiVersion: z.literal("cert-manager.io/v1"),
  kind: z.literal("Certificate"),
  metadata,
  spec: z.strictObject({
    secretName: z.string(),
    commonName: z.string().max(64),
    dnsNames: z.array(z.string()).min(1),
    duration,
    renewBefore: duration,
    usages: z.array(z.enum(["client auth", "server auth", "digital signature"])),
    privateKey: z.strictObject({
      algorithm: z.enum(["RSA", "ECDSA", "Ed25519"]),
      size: z.int(),
      rotationPolicy: z.enum(["Never", "Always"]),
    }),
    issuerRef: z.strictObject({ name: z.string(), kind: z.enum(["Issuer", "ClusterIssuer"]), group: z.string() }),
  }),
});

const matchExpression = z.strictObject({
  key: z.string(),
  operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]),
  values: z.array(z.string()),
});

/** monitoring.coreos.com/v1 */
const podMonitor = z.strictObject({
  apiVersion: z.literal("monitoring.coreos.com/v1"),
  kind: z.literal("PodMonitor"),
  metadata,
  spec: z.strictObject({
    namespaceSelector: z.strictObject({ matchNames: z.array(z.string()) }),
    selector: z.strictObject({ matchExpressions: z.array(matchExpression) }),
    podMetricsEndpoints: z.array(
      z.strictObject({
        port: z.string(),
        path: z.string().startsWith("/"),
        interval: duration,
        oauth2: z.strictObject({
          clientId: z.strictObject({ secret: secretKey }),
          clientSecret: secretKey,
          tokenUrl: z.url({ protocol: /^https$/ }),
          scopes: z.array(z.string()),
          endpointParams: z.record(z.string(), z.string()),
        }),
      }),
    ),
  }),
});

/** monitoring.coreos.com/v1 */
const prometheusRule = z.strictObject({
  apiVersion: z.literal("monitoring.coreos.com/v1"),
  kind: z.literal("PrometheusRule"),
  metadata,
  spec: z.strictObject({
    groups: z.array(
      z.strictObject({
        name: z.string(),
        rules: z.array(
          z.strictObject({
            alert: z.string().regex(/^SafeToolCall[A-Z][A-Za-z]+$/),
            expr: z.string(),
            for: duration.optional(),
            labels: z.strictObject({ severity: z.enum(["critical", "warning"]) }),
            annotations: z.strictObject({ summary: z.string().min(20) }),
          }),
        ),
      }),
    ),
  }),
});

export const CUSTOM_RESOURCES = { Certificate: certificate, PodMonitor: podMonitor, PrometheusRule: prometheusRule };

export type CustomKind = keyof typeof CUSTOM_RESOURCES;

export function isCustom(kind: string): kind is CustomKind {
  return Object.hasOwn(CUSTOM_RESOURCES, kind);
}

export const readCertificate = (document: unknown) => certificate.parse(document);
export const readPodMonitor = (document: unknown) => podMonitor.parse(document);
export const readPrometheusRule = (document: unknown) => prometheusRule.parse(document);
