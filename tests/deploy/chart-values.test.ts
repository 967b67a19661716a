import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { VALUES_SCHEMA_FILE, valuesSchema } from "../../deploy/helm/values-schema.ts";
import { VERSION } from "../../src/core/version.ts";
import { schemaContent } from "./configuration-reference.ts";
import { CHART, type Document, ofKind, podTemplateOf, proxyOf, specOf } from "./documents.ts";
import { CASES, configurationOf, HELM, helm, helmTemplate, NAMES_FOR_YAML, rendered } from "./helm.ts";
import { VERSIONS, validatorOf } from "./kubernetes-schemas.ts";

describe.skipIf(HELM === undefined)("helm lint has nothing to say about", () => {
  const lint = async (...args: string[]) => {
    const { code, out } = await helm("lint", "--strict", CHART, ...args);
    return { code, said: out.split("\n").filter((line) => /^\[/.test(line) && !line.includes("icon is recommended")) };
  };

  test("the chart with its own values", async () => {
    expect(await lint()).toEqual({ code: 0, said: [] });
  });

  test.each(CASES.map((name) => [name]))("%s", async (name) => {
    expect(await lint("--values", join(CHART, "ci", `${name}-values.yaml`))).toEqual({ code: 0, said: [] });
  });
});

describe("values.schema.json", () => {
  interface Schema {
    readonly properties?: Readonly<Record<string, Schema>>;
    readonly additionalProperties?: unknown;
  }
  const schema = JSON.parse(readFileSync(VALUES_SCHEMA_FILE, "utf8")) as Schema;
  const values = parse(readFileSync(join(CHART, "values.yaml"), "utf8")) as object;

  test("is current: else run `bun run docs:configuration`", () => {
    expect(readFileSync(VALUES_SCHEMA_FILE, "utf8")).toBe(valuesSchema(schemaContent()));
  });

  test("knows exactly the values that values.yaml lists", () => {
    const known = (at: Schema): readonly string[] =>
      Object.entries(at.properties ?? {}).flatMap(([key, below]) =>
        below.additionalProperties === false ? known(below).map((rest) => `${key}.${rest}`) : [key],
      );
    const listed = (at: object, schemaAt: Schema): readonly string[] =>
      Object.entries(at).flatMap(([key, value]) => {
        const below = schemaAt.properties?.[key];
        return below?.additionalProperties === false ? listed(value, below).map((rest) => `${key}.${rest}`) : [key];
      });
    // Without a default: Helm's own, and what Kubernetes sets.
    const optional = /^(global|resources\.claims|.*Probe\..*|httpRoute\.\w+\.timeouts\..*)$/;
    const ours = (keys: readonly string[]) => keys.filter((key) => !optional.test(key)).sort();
    expect(ours(listed(values, schema))).toEqual(ours(known(schema)));
  });
});

describe.skipIf(HELM === undefined)("refused, with the value and what to do", () => {
  const set = (path: string, value: unknown): object =>
    path.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), value) as object;

  test.each([
    ["image.repositry", "x", "at '/image': additional properties 'repositry' not allowed"],
    ["replicas", 2, "additional properties 'replicas' not allowed"],
    ["replicaCount", "two", "at '/replicaCount': got string, want integer"],
    ["image.digest", "sha256:abc", "at '/image/digest'"],
    ["persistence.accessModes", ["ReadWriteMany"], "at '/persistence/accessModes/0'"],
    ["service.port", 70_000, "at '/service/port': maximum: got 70,000, want 65,535"],
    ["ingress.calls.hosts", ["*.example.com"], "at '/ingress/calls/hosts/0'"],
    ["console.publicUrl", "http://console.example", "at '/console/publicUrl'"],
    ["prometheusRule.runbookUrl", "https://wiki.example/runbooks#top", "at '/prometheusRule/runbookUrl'"],
    ["tools", { "../x.ts": "" }, "at '/tools': additional properties '../x.ts' not allowed"],
    // YAML 1.1, which Helm reads, takes an unquoted `off` for false.
    ["config.limits", { rates: { tool: false } }, "at '/config/limits/rates/tool': got boolean, want string"],
    ["config.server", { bodyByteMax: 1 }, "at '/config/server': additional properties 'bodyByteMax' not allowed"],
    ["config.servers", {}, "at '/config': additional properties 'servers' not allowed"],
    ["config.server", { port: 9000 }, "config.server.port: the chart sets this key from its other values"],
    ["config.server", { operator: { port: 1 } }, "config.server.operator.port: the chart sets this key"],
    ["config.audit", { dir: "/tmp/audit" }, "config.audit.dir: the chart sets this key"],
    ["config.approvals", { store: "sqlite://x" }, "config.approvals.store: the chart sets this key"],
    ["config.tools", [], "tools is required: manifests by file name"],
    ["image.repository", "", "image.repository is required"],
    ["replicaCount", 2, "replicaCount: 2 needs postgresql.existingSecret"],
    ["autoscaling", { enabled: true }, "autoscaling.enabled needs postgresql.existingSecret"],
    ["tls", { enabled: true }, "tls: name a Secret in existingSecret, or enable certManager"],
    ["console", { enabled: true, existingSecret: "x" }, "console.publicUrl is required"],
    ["console", { enabled: true, publicUrl: "https://x" }, "console: name a Secret in existingSecret"],
    ["ingress.console", { enabled: true, hosts: ["x"] }, "ingress.console.enabled needs console.enabled"],
    ["httpRoute.console", { enabled: true }, "httpRoute.console.enabled needs console.enabled"],
    ["ingress.calls", { enabled: true }, "ingress.calls.hosts is required"],
    ["httpRoute.calls", { enabled: true, parentRefs: [{ name: "x" }] }, "httpRoute.calls.hostnames is required"],
    ["httpRoute.calls", { enabled: true, hostnames: ["x"] }, "httpRoute.calls.parentRefs is required"],
    ["hub", { url: "http://hub" }, "at '/hub/url'"],
    ["hub", { enabled: true, existingSecret: "x" }, "hub.enabled needs config.hub.members"],
    ["config.hub", { members: [{ subject: "x" }] }, "config.hub needs hub.enabled or hub.url"],
    ["config.hub", { listen: { port: 1 } }, "config.hub.listen: the chart sets this key"],
    ["config.hub", { url: "https://hub" }, "config.hub.url: the chart sets this key"],
    ["terminationGracePeriodSeconds", 20, "terminationGracePeriodSeconds: at least 35"],
    ["mode", "sidecars", "at '/mode'"],
  ])("%s: %j", async (path, value, message) => {
    const { code, err, out } = await helmTemplate({ case: "minimal", values: set(path, value) });
    expect([code, out]).toEqual([1, ""]);
    expect(err).toContain(message);
  });

  test.each([
    ["hub.enabled", { hub: { enabled: true, existingSecret: "x" } }],
    ["postgresql.existingSecret", { postgresql: { existingSecret: "x" } }],
    ["console.enabled", { console: { enabled: true, existingSecret: "x", publicUrl: "https://x" } }],
    ["config.approvals.storeUrlFile", { config: { approvals: { storeUrlFile: "/vault/url" } } }],
  ])("a member with %s", async (name, values) => {
    const { code, err } = await helmTemplate({ case: "member", values });
    expect([code, err]).toEqual([1, expect.stringContaining(`${name}: not with hub.url`)]);
  });

  test("a hub without a certificate", async () => {
    const { code, err } = await helmTemplate({ case: "hub", values: { hub: { existingSecret: "" } } });
    expect([code, err]).toEqual([1, expect.stringContaining("hub: name a Secret in existingSecret")]);
  });

  test("what is missing, one after the other", async () => {
    const image = { repository: "registry.example/safe-tool-call" };
    const jwt = { issuers: [{ issuer: "https://idp.example", jwksUri: "https://idp.example/jwks.json" }] };
    const tools = { "none.yaml": "tools: []" };
    expect((await helmTemplate({ values: { image, tools } })).err).toContain("config.jwt is required");
    expect((await helmTemplate({ values: { image, config: { jwt } } })).err).toContain("tools is required");
    expect((await helmTemplate({ values: { tools, config: { jwt } } })).err).toContain("image.repository is required");
    expect((await helmTemplate({ values: { image, tools, config: { jwt } } })).err).toBe("");
    const tenants = { acme: { tools: ["/app/tools/acme"] } };
    expect((await helmTemplate({ values: { image, config: { jwt, tenants } } })).err).toBe("");
  });

  test("a certificate from cert-manager without an issuer, and beside an agent what is reached from outside", async () => {
    const certManager = { enabled: true };
    const issuer = await helmTemplate({ case: "minimal", values: { certManager, tls: { enabled: true } } });
    expect(issuer.err).toContain("certManager.issuerRef.name is required");
    for (const name of ["console", "autoscaling", "serviceMonitor", "ingress.calls", "httpRoute.console", "hub"]) {
      const values = { mode: "sidecar", ...set(name, { enabled: true }) };
      expect((await helmTemplate({ case: "minimal", values })).err).toContain(
        `${name}.enabled: not with mode: sidecar`,
      );
    }
  });
});

interface StatefulSet {
  readonly replicas?: number;
  readonly serviceName: string;
  readonly podManagementPolicy: string;
  readonly volumeClaimTemplates?: readonly { readonly spec: { readonly accessModes: readonly string[] } }[];
  readonly persistentVolumeClaimRetentionPolicy?: object;
}

const statefulSetOf = (documents: readonly Document[]) => specOf<StatefulSet>(documents, "StatefulSet");
const serverOf = (documents: readonly Document[]) =>
  (configurationOf(documents).written as { readonly server: Readonly<Record<string, unknown>> }).server;

describe.skipIf(HELM === undefined)("the configuration", () => {
  test("has what `config` says beside what the chart decides", async () => {
    const config = {
      // Beyond a million, Go would print 6.7108864e+07.
      server: { bodyBytesMax: 67_108_864, allowedHosts: ["stc.internal"] },
      limits: { rates: { tool: "off", caller: { calls: 1_800_000, seconds: 60 } } },
      approvals: { deployment: "payments", mode: "default" },
      reload: null,
    };
    const documents = await rendered({ case: "minimal", values: { config } });
    const { written } = configurationOf(documents);
    expect(written).toMatchObject({
      ...{ limits: config.limits, commands: { confinement: "require" } },
      approvals: { ...config.approvals, store: "sqlite:///var/lib/stc/approvals.sqlite" },
      server: { bodyBytesMax: 67_108_864, port: 8787 },
    });
    const names = ["gate-safe-tool-call", "gate-safe-tool-call.tools", "gate-safe-tool-call.tools.svc"];
    expect(serverOf(documents)["allowedHosts"]).toEqual([
      ...names,
      "gate-safe-tool-call.tools.svc.cluster.local",
      "stc.internal",
    ]);
  });

  test("has no list of tools when a bundle brings them: the service would refuse the bundle", async () => {
    const { written } = configurationOf(await rendered({ case: "bundle" }));
    expect(written).toMatchObject({ bundle: { dir: "/var/lib/stc/bundle" } });
    expect(written).not.toHaveProperty("tools");
  });

  test("names the database and shares limits with PostgreSQL, also by a file of one's own", async () => {
    const approvals = { storeUrlFile: "/vault/url" };
    const own = await rendered({ case: "minimal", values: { replicaCount: 3, config: { approvals } } });
    expect(configurationOf(own).written).toMatchObject({ approvals, limits: { shared: true } });
    const secret = await rendered({ case: "replicas" });
    expect(configurationOf(secret).written).toMatchObject({
      approvals: { storeUrlFile: "/etc/stc-postgresql/url", deployment: "tools/gate-safe-tool-call" },
      limits: { shared: true },
    });
  });

  test("knows every name under which it is reached, and certificates have them", async () => {
    const documents = await rendered({ case: "autoscaling" });
    const server = serverOf(documents) as { allowedHosts: string[]; console: { allowedHosts: string[] } };
    expect(server.allowedHosts).toContain("stc.example");
    expect(server.console.allowedHosts).toContain("console.stc.example");
    const certified = Object.fromEntries(
      ofKind(documents, "Certificate").map(({ spec }) => {
        const { secretName, dnsNames } = spec as { secretName: string; dnsNames: string[] };
        return [secretName, dnsNames.sort()];
      }),
    );
    expect(certified).toEqual({
      "gate-safe-tool-call-tls": server.allowedHosts.sort(),
      "gate-safe-tool-call-console-tls": server.console.allowedHosts.sort(),
    });
  });
});

describe.skipIf(HELM === undefined)("replicas", () => {
  test("each pod has a volume of its own, which one pod mounts and which stays", async () => {
    const { replicas, ...spec } = statefulSetOf(await rendered({ case: "replicas" }));
    expect(replicas).toBe(3);
    expect(spec.volumeClaimTemplates?.map(({ spec }) => spec.accessModes)).toEqual([["ReadWriteOncePod"]]);
    expect(spec.persistentVolumeClaimRetentionPolicy).toEqual({ whenDeleted: "Retain", whenScaled: "Retain" });
    // Else a pod that never becomes ready blocks the rollback.
    expect(spec.podManagementPolicy).toBe("Parallel");
  });

  test("the autoscaler decides about their number", async () => {
    const documents = await rendered({ case: "autoscaling" });
    expect(statefulSetOf(documents).replicas).toBeUndefined();
    const [scaler] = ofKind(documents, "HorizontalPodAutoscaler");
    expect(scaler?.spec).toMatchObject({
      scaleTargetRef: { kind: "StatefulSet", name: ofKind(documents, "StatefulSet")[0]?.metadata.name },
      metrics: [{ resource: { name: "cpu" } }, { resource: { name: "memory" } }],
    });
  });

  test("objects refer to Services and ports that exist", async () => {
    const names = (documents: readonly Document[]) =>
      Object.fromEntries(ofKind(documents, "Service").map(({ metadata, spec }) => [metadata.name, spec as Service]));
    const replicas = await rendered({ case: "replicas" });
    expect(Object.keys(names(replicas))).toContain(statefulSetOf(replicas).serviceName);
    for (const { spec } of ofKind(replicas, "Ingress")) {
      const { rules } = spec as { rules: { http: { paths: { backend: { service: Backend } }[] } }[] };
      const [{ service } = { service: { name: "", port: {} } }] = rules.flatMap(({ http }) =>
        http.paths.map(({ backend }) => backend),
      );
      expect(names(replicas)[service.name]?.ports.map(({ name }) => name)).toContain(service.port.name ?? "");
    }
    const autoscaling = await rendered({ case: "autoscaling" });
    const routes = ofKind(autoscaling, "HTTPRoute").flatMap(
      ({ spec }) =>
        (spec as { rules: { backendRefs: { name: string; port: number }[] }[] }).rules[0]?.backendRefs ?? [],
    );
    expect(routes).toHaveLength(2);
    const policies = ofKind(autoscaling, "BackendTLSPolicy").map(({ spec }) => spec as BackendPolicy);
    expect(policies.map(({ targetRefs: [target] }) => target.name)).toEqual(routes.map(({ name }) => name));
    const certified = ofKind(autoscaling, "Certificate").flatMap(
      ({ spec }) => (spec as { dnsNames: string[] }).dnsNames,
    );
    expect(policies.filter(({ validation }) => !certified.includes(validation.hostname))).toEqual([]);
    for (const { name, port } of routes) {
      expect(names(autoscaling)[name]?.ports.map((own) => own.port)).toContain(port);
    }
    const { selector, endpoints } = specOf<ServiceMonitor>(replicas, "ServiceMonitor");
    const scraped = ofKind(replicas, "Service").filter(({ metadata }) =>
      Bun.deepMatch(selector.matchLabels, metadata.labels ?? {}),
    );
    expect(scraped.map(({ spec }) => (spec as Service).ports.map(({ name }) => name))).toEqual([
      endpoints.map(({ port }) => port),
    ]);
  });
});

interface Service {
  readonly ports: readonly { readonly name: string; readonly port: number }[];
}

interface BackendPolicy {
  readonly targetRefs: readonly [{ readonly name: string }];
  readonly validation: { readonly hostname: string };
}

interface ServiceMonitor {
  readonly selector: { readonly matchLabels: Readonly<Record<string, string>> };
  readonly endpoints: readonly { readonly port: string }[];
}

interface Backend {
  readonly name: string;
  readonly port: { readonly name?: string };
}

describe.skipIf(HELM === undefined)("pods are replaced", () => {
  const annotationsOf = async (values: object) =>
    podTemplateOf(await rendered({ case: "standalone", values }))?.metadata?.annotations;

  test("when the configuration or a manifest changes, and not otherwise", async () => {
    const before = await annotationsOf({});
    expect(await annotationsOf({ podDisruptionBudget: { enabled: false } })).toEqual(before);
    const config = await annotationsOf({ config: { log: { level: "warn" } } });
    const tools = await annotationsOf({ tools: { "another.yaml": "tools: []" } });
    expect(config?.["checksum/config"]).not.toBe(before?.["checksum/config"]);
    expect(tools?.["checksum/tools"]).not.toBe(before?.["checksum/tools"]);
    expect(tools?.["checksum/config"]).toBe(before?.["checksum/config"]);
  });

  test("unless the service loads changed manifests itself", async () => {
    const reload = { trigger: "watch" };
    const before = await annotationsOf({ config: { reload } });
    expect(before?.["checksum/config"]).toBeString();
    expect(await annotationsOf({ config: { reload }, tools: { "another.yaml": "tools: []" } })).toEqual(before);
  });
});

describe.skipIf(HELM === undefined)("everything else", () => {
  test("is where it belongs", async () => {
    const documents = await rendered({ case: "everything-else" });
    const pod = podTemplateOf(documents)?.spec ?? expect.unreachable();
    expect(proxyOf(pod).image).toBe(`registry.example/safe-tool-call@sha256:${"0123456789abcdef".repeat(4)}`);
    expect(pod).toMatchObject({
      ...{ serviceAccountName: "shared", priorityClassName: "high", terminationGracePeriodSeconds: 90 },
      imagePullSecrets: [{ name: "registry" }],
      nodeSelector: { "kubernetes.io/arch": "amd64" },
      tolerations: [{ key: "dedicated" }],
      affinity: { nodeAffinity: {} },
      topologySpreadConstraints: [{ topologyKey: "topology.kubernetes.io/zone" }],
      initContainers: [{ name: "vault" }],
    });
    expect(pod.containers.map(({ name }) => name)).toEqual(["safe-tool-call", "vault-renewer"]);
    expect(proxyOf(pod).env).toContainEqual({ name: "STC_LOG_LEVEL", value: "warn" });
    const extra = documents.filter(({ metadata }) => /-(dashboard|notes)$/.test(metadata.name));
    expect(extra.map(({ metadata, data }) => [metadata.name, data])).toEqual([
      // What is not text is not a template: dashboards have braces of their own.
      ["gate-dashboard", { "dashboard.json": '{"legendFormat":"{{pod}}"}' }],
      ["tool-gate-notes", { version: VERSION }],
    ]);
    const ours = documents.filter((document) => !extra.includes(document));
    expect(ours.filter(({ kind, metadata }) => kind !== "Pod" && metadata.labels?.["team"] !== "platform")).toEqual([]);
  });

  test("names that YAML would take for numbers or booleans stay names", async () => {
    for (const name of ["minimal", "autoscaling"]) {
      const documents = await rendered({ case: name, release: "007", namespace: "1e3", values: NAMES_FOR_YAML });
      for (const version of VERSIONS) expect(documents.flatMap(validatorOf(version))).toEqual([]);
    }
  });

  test("a long release name gives names that Kubernetes takes", async () => {
    const documents = await rendered({ case: "autoscaling", release: "a".repeat(53) });
    const names = documents.filter(({ kind }) => kind !== "Certificate").map(({ metadata }) => metadata.name);
    // A label holds the StatefulSet's name, a dash and ten characters.
    expect(ofKind(documents, "StatefulSet")[0]?.metadata.name.length).toBeLessThanOrEqual(52);
    expect(names.filter((name) => name.length > 63 || !/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name))).toEqual([]);
  });
});
