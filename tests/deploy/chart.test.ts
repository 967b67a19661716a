import { describe, expect, test } from "bun:test";
import { dirname } from "node:path";
import { withPolicy } from "../../src/bundles/policy.ts";
import { readConfig } from "../support/build.ts";
import {
  alertRules,
  type Container,
  containersOf,
  type Document,
  ofKind,
  type PodSpec,
  podTemplateOf,
  proxyOf,
  specOf,
} from "./documents.ts";
import { CASES, configurationOf, HELM, memberValues, rendered, renderedAgent } from "./helm.ts";
import { VERSIONS, validatorOf } from "./kubernetes-schemas.ts";

const AGENT = "examples/agent";
const MEMBER = "examples/agent, a member";
const objects: Readonly<Record<string, readonly Document[]>> = Object.fromEntries(
  HELM === undefined
    ? []
    : await Promise.all([
        ...CASES.map(async (name) => [name, await rendered({ case: name })] as const),
        (async () => [AGENT, await renderedAgent()] as const)(),
        (async () => [MEMBER, await renderedAgent(memberValues())] as const)(),
      ]),
);
const of = (name: string): readonly Document[] => objects[name] ?? expect.unreachable(name);

/** Folder of the bundle that brings the tools of the case `bundle`. */
const BUNDLE = { folder: "/var/lib/stc/bundle/current", contracts: new Map<string, string>() };
const workloads = Object.entries(objects).flatMap(([name, documents]) => {
  const template = podTemplateOf(documents);
  if (template?.spec === undefined) return [];
  const pod = template.spec;
  const { written } = configurationOf(documents);
  const config = readConfig(name === "bundle" ? withPolicy(written, { tools: ["tools"] }, BUNDLE) : written, {
    folder: "/etc/stc",
    environment: {},
    origin: "stc.yaml",
  });
  return [{ name, documents, template, pod, config, proxy: proxyOf(pod), isSidecar: name.startsWith(AGENT) }];
});
const workload = (name: string) => workloads.find((found) => found.name === name) ?? expect.unreachable(name);

describe.skipIf(HELM === undefined)("objects have the shape that Kubernetes knows", () => {
  test.each(VERSIONS.map((version) => [version]))("in %s", (version) => {
    const faults = validatorOf(version);
    for (const documents of Object.values(objects)) {
      expect(documents.length).toBeGreaterThan(1);
      expect(documents.flatMap(faults)).toEqual([]);
    }
  });

  test("every kind of the chart is among them", () => {
    const kinds = new Set(Object.values(objects).flatMap((documents) => documents.map(({ kind }) => kind)));
    expect([...kinds].sort()).toEqual([
      "BackendTLSPolicy",
      "Certificate",
      "ConfigMap",
      "Deployment",
      "HTTPRoute",
      "HorizontalPodAutoscaler",
      "Ingress",
      "NetworkPolicy",
      "Pod",
      "PodDisruptionBudget",
      "PodMonitor",
      "PrometheusRule",
      "Service",
      "ServiceAccount",
      "ServiceMonitor",
      "StatefulSet",
    ]);
  });

  test.each([
    ["a misspelt field of a container", "readOnlyRootFilesystem", "readOnlyRootFileSystem"],
    ["a text in place of a number", '"containerPort":8787', '"containerPort":"8787"'],
    ["a value that is not one of the known", '"type":"ClusterIP"', '"type":7'],
    ["a misspelt field of a custom kind", '"renewBefore"', '"renewbefore"'],
    ["a kind that does not exist", '"apiVersion":"policy/v1"', '"apiVersion":"policy/v1beta1"'],
  ])("%s is found in each version", (_title, find, replace) => {
    const text = JSON.stringify(of("standalone"));
    expect(text).toContain(find);
    for (const version of VERSIONS) {
      const faults = (JSON.parse(text.replaceAll(find, replace)) as Document[]).flatMap(validatorOf(version));
      expect(faults.length).toBeGreaterThan(0);
    }
  });

  test("each is in the namespace of the release, under a name of its own", () => {
    for (const [name, documents] of Object.entries(objects)) {
      const own = documents.filter(({ metadata }) => !/-(dashboard|notes)$/.test(metadata.name));
      const spaces = own.map(({ metadata }) => metadata.namespace);
      expect([...new Set(spaces)]).toEqual([name.startsWith(AGENT) ? "agents" : "tools"]);
      const names = documents.map(({ kind, metadata }) => `${kind}/${metadata.name}`);
      expect(new Set(names).size).toBe(names.length);
    }
  });
});

/** Why a container would not be let run where the policy is strict; more than the profile `restricted` asks. */
function faultsOf(container: Container, pod: PodSpec): readonly string[] {
  const { name, image = "", resources, securityContext: own = {} } = container;
  const both = { ...pod.securityContext, ...own };
  const rules: Readonly<Record<string, boolean>> = {
    "runs as another user than root": both.runAsNonRoot === true && (both.runAsUser ?? 0) > 0,
    "cannot gain privileges": own.allowPrivilegeEscalation === false && own.privileged !== true,
    "writes no image": own.readOnlyRootFilesystem === true,
    "has no capability": own.capabilities?.drop?.join() === "ALL" && own.capabilities.add === undefined,
    "is filtered": both.seccompProfile?.type === "RuntimeDefault",
    "asks for what it needs": resources?.requests?.["cpu"] !== undefined && resources.requests["memory"] !== undefined,
    "has an end of memory": resources?.limits?.["memory"] !== undefined,
    "is pinned": !/:latest$/.test(image) && /[:@]/.test(image),
    "sees no variables of Services": pod.enableServiceLinks === false,
    "has no token of the API server": pod.automountServiceAccountToken === false,
    "stays in its pod": pod.hostNetwork !== true && pod.hostPID !== true && pod.hostIPC !== true,
    "mounts nothing of the node": (pod.volumes ?? []).every(({ hostPath }) => hostPath === undefined),
  };
  return Object.entries(rules).flatMap(([rule, holds]) => (holds ? [] : [`${name}: not so: ${rule}`]));
}

describe.skipIf(HELM === undefined)("the rules for containers apply", () => {
  const worsened: readonly (readonly [rule: string, find: string, replace: string])[] = [
    ["runs as another user than root", '"runAsUser":65532', '"runAsUser":0'],
    ["cannot gain privileges", '"allowPrivilegeEscalation":false', '"allowPrivilegeEscalation":true'],
    ["writes no image", '"readOnlyRootFilesystem":true', '"readOnlyRootFilesystem":false'],
    ["has no capability", '{"drop":["ALL"]}', '{"drop":["ALL"],"add":["NET_ADMIN"]}'],
    ["is filtered", '"seccompProfile":{"type":"RuntimeDefault"}', '"seccompProfile":{"type":"Unconfined"}'],
    ["asks for what it needs", '"cpu":"100m",', ""],
    ["has an end of memory", '"limits":{"memory":"512Mi"}', '"limits":{}'],
    ["is pinned", /"image":"[^"]*"/.source, '"image":"registry.example/safe-tool-call:latest"'],
    ["sees no variables of Services", '"enableServiceLinks":false,', ""],
    ["has no token of the API server", '"automountServiceAccountToken":false,', ""],
    ["stays in its pod", '"enableServiceLinks":false', '"enableServiceLinks":false,"hostPID":true'],
    ["mounts nothing of the node", '"emptyDir":{"medium":"Memory","sizeLimit":"64Mi"}', '"hostPath":{"path":"/"}'],
  ];
  test.each(worsened)("%s", (rule, find, replace) => {
    const written = JSON.stringify(workload("standalone").pod);
    const pattern = rule === "is pinned" ? new RegExp(find, "g") : find;
    expect(written).toMatch(pattern);
    const bad = JSON.parse(written.replaceAll(pattern, replace)) as PodSpec;
    expect(faultsOf(proxyOf(bad), bad)).toEqual([`safe-tool-call: not so: ${rule}`]);
  });
});

describe.skipIf(HELM === undefined).each(workloads.map((found) => [found.name, found] as const))(
  "%s",
  (name, found) => {
    const { config, documents, isSidecar, pod, proxy, template } = found;
    const mounts = proxy.volumeMounts ?? [];
    const mountOf = (path: string) =>
      mounts.find(({ mountPath }) => path === mountPath || path.startsWith(`${mountPath}/`));

    test("every container of ours is restricted", () => {
      const others = name === "everything-else" ? ["has no token of the API server"] : [];
      const rules = others.map((rule) => `safe-tool-call: not so: ${rule}`);
      expect(faultsOf(proxy, pod)).toEqual(rules);
      for (const { spec } of ofKind(documents, "Pod")) {
        const test = spec as PodSpec;
        expect(containersOf(test).flatMap((container) => faultsOf(container, test))).toEqual([]);
      }
    });

    test("ports are those that the configuration listens on", () => {
      const ports = Object.fromEntries((proxy.ports ?? []).map(({ name, containerPort }) => [name, containerPort]));
      expect(ports).toEqual({
        ...(!isSidecar && { calls: Number(config.server.port) }),
        ...(config.server.console !== undefined && { console: config.server.console.port }),
        ...(config.hub?.listen !== undefined && { hub: config.hub.listen.port }),
        operators: config.server.operator?.port ?? 0,
      });
      expect(config.server.operator?.host).toBe("0.0.0.0");
      const host = isSidecar ? "127.0.0.1" : "0.0.0.0";
      expect(config.server.host).toBe(host);
      // The image sets this variable, which takes precedence.
      expect(proxy.env?.find(({ name }) => name === "STC_HOST")?.value).toBe(host);
    });

    test("probes use the operators' port, each its own route", () => {
      const asked = [proxy.startupProbe, proxy.readinessProbe, proxy.livenessProbe].map((probe) => probe?.httpGet);
      expect(asked.map((get) => get?.path)).toEqual(["/readyz", "/readyz", "/healthz"]);
      expect(asked.map((get) => get?.port)).toEqual(["operators", "operators", "operators"]);
    });

    test("there is time to drain", () => {
      const { shutdownDelayMs, drainTimeoutMs } = config.server;
      const graceMs = (pod.terminationGracePeriodSeconds ?? 0) * 1_000;
      // A sidecar gets its signal after the agent has ended.
      expect(shutdownDelayMs).toBe(isSidecar || name === "everything-else" ? 0 : 5_000);
      expect(proxy.lifecycle).toBeUndefined();
      expect(graceMs).toBeGreaterThanOrEqual(shutdownDelayMs + drainTimeoutMs + 5_000);
    });

    test("every file that the configuration names is mounted read-only, and every written folder is its own volume", () => {
      const named = textsOf(config).filter((text) => /^\/(etc|vault|var)\//.test(text));
      const written = [dirname(config.audit.dir), "/tmp"];
      const read = named.filter((path) => !path.startsWith("/var/lib/stc"));
      expect(config.audit.dir).toBe("/var/lib/stc/audit-logs");
      expect([...read, "/etc/stc/stc.yaml"].filter((path) => mountOf(path)?.readOnly !== true)).toEqual([]);
      expect(
        written.filter((path) => (mountOf(path)?.readOnly ?? true) === true && mountOf(path) === undefined),
      ).toEqual([]);
      expect(mounts.filter(({ readOnly }) => readOnly !== true).map(({ mountPath }) => mountPath)).toEqual([
        "/var/lib/stc",
        "/tmp",
      ]);
      // A mount by subPath keeps the content that it began with.
      expect(mounts.filter(({ subPath }) => subPath !== undefined)).toEqual([]);
    });

    test("every mount has its volume, every volume is mounted, and every ConfigMap of the chart is there", () => {
      const claims = ofKind(documents, "StatefulSet").flatMap(
        ({ spec }) => (spec as { volumeClaimTemplates?: { metadata: { name: string } }[] }).volumeClaimTemplates ?? [],
      );
      const volumes = [...(pod.volumes ?? []).map(({ name }) => name), ...claims.map(({ metadata }) => metadata.name)];
      const mounted = containersOf(pod).flatMap(({ volumeMounts = [] }) => volumeMounts.map(({ name }) => name));
      expect([...new Set(volumes)].sort()).toEqual([...new Set(mounted)].sort());
      expect(new Set(volumes).size).toBe(volumes.length);
      const maps = (pod.volumes ?? []).flatMap(({ configMap }) => configMap?.name ?? []);
      const made = new Set(ofKind(documents, "ConfigMap").map(({ metadata }) => metadata.name));
      expect(
        maps.filter((map) => !made.has(map) && !/^(bundle-keys|cluster-jwks|internal-ca|hub-ca)$/.test(map)),
      ).toEqual([]);
    });

    test("Secrets are read by the group alone, by our container alone", () => {
      const secrets = (pod.volumes ?? []).filter(({ secret }) => secret !== undefined);
      expect(secrets.every(({ secret }) => secret?.defaultMode === 0o440)).toBe(true);
      expect(pod.securityContext?.fsGroup).toBe(65532);
      const names = new Set(secrets.map(({ name }) => name));
      const holders = containersOf(pod).filter(({ volumeMounts = [] }) =>
        volumeMounts.some(({ name }) => names.has(name)),
      );
      expect(holders.filter((holder) => holder !== proxy)).toEqual([]);
    });

    test("Services, policies and budgets select the pods, and the pod of `helm test` is none of them", () => {
      const labels = template.metadata?.labels ?? {};
      const [probe] = ofKind(documents, "Pod");
      const selectors = documents.flatMap(({ kind, spec }) => {
        const { selector, podSelector } = (spec ?? {}) as Record<"selector" | "podSelector", Selector | undefined>;
        if (kind === "Service") return [selector];
        if (kind === "NetworkPolicy") return [podSelector?.matchLabels];
        // ServiceMonitors select Services.
        return /^(PodDisruptionBudget|PodMonitor|StatefulSet|Deployment)$/.test(kind) ? [selector?.matchLabels] : [];
      });
      expect(selectors.length).toBeGreaterThan(1);
      for (const selector of selectors) {
        expect(labels).toMatchObject(selector ?? { missing: "" });
        if (probe !== undefined) expect(probe.metadata.labels).not.toMatchObject(selector ?? {});
      }
    });

    test("the network policy admits nobody by omission, names our ports, and separates calls from the console", () => {
      const [policy] = ofKind(documents, "NetworkPolicy");
      if (policy === undefined) return expect(name).toBe("everything-else");
      const spec = policy.spec as {
        policyTypes: string[];
        ingress: { from?: unknown[]; ports?: { port: string }[] }[];
        egress: { to?: unknown[]; ports?: unknown[] }[];
      };
      expect(spec.policyTypes.sort()).toEqual(["Egress", "Ingress"]);
      expect(spec.ingress.every(({ from = [], ports = [] }) => from.length > 0 && ports.length === 1)).toBe(true);
      expect(spec.egress.every(({ to = [], ports = [] }) => to.length > 0 && ports.length > 0)).toBe(true);
      const named = new Set((proxy.ports ?? []).map(({ name }) => name ?? ""));
      expect(spec.ingress.flatMap(({ ports = [] }) => ports.filter(({ port }) => !named.has(port)))).toEqual([]);
      const sourcesOf = (port: string) =>
        JSON.stringify(
          spec.ingress.filter(({ ports = [] }) => ports[0]?.port === port).flatMap(({ from = [] }) => from),
        );
      if (config.server.console !== undefined) expect(sourcesOf("console")).not.toBe(sourcesOf("calls"));
    });

    test("the console's operators' endpoints are not on the port for calls", () => {
      expect(config.server.operatorsOnAgentPort).toBe(config.server.console === undefined);
    });

    test("every command is confined by the kernel, unless the configuration says otherwise", () => {
      const own = name === "everything-else" ? "prefer" : "require";
      expect([config.commands.confinement, config.commands.unconfinedBash]).toEqual([own, false]);
    });
  },
);

describe.skipIf(HELM === undefined)("signing keys and certificates", () => {
  test.each([["standalone"], [AGENT]])("%s: the key of the audit is apart from the log", (name) => {
    const { config, pod, proxy } = workload(name);
    const mountOf = (path: string) => proxy.volumeMounts?.find(({ mountPath }) => path.startsWith(`${mountPath}/`));
    expect(mountOf(config.audit.checkpointKeyFile ?? "")).toMatchObject({ name: "stc-audit-key", readOnly: true });
    expect(mountOf(config.audit.dir)?.name).toBe("stc-state");
    const secret = pod.volumes?.find(({ name }) => name === "stc-audit-key")?.secret;
    expect(secret?.secretName).toBe("safe-tool-call-audit-key");
  });

  test("a key of another name in the Secret becomes the file that the configuration names", () => {
    const { config, pod } = workload("replicas");
    const itemsOf = (volume: string) => pod.volumes?.find(({ name }) => name === volume)?.secret?.items;
    expect(itemsOf("stc-audit-key")).toEqual([{ key: "signing.pem", path: "private.pem" }]);
    expect(itemsOf("stc-postgresql")).toEqual([{ key: "url", path: "url" }]);
    expect([config.audit.checkpointKeyFile, config.audit.hashKeyFile, config.approvals.storeUrlFile]).toEqual([
      "/etc/stc-audit-key/private.pem",
      "/etc/stc-hash-key/key",
      "/etc/stc-postgresql/url",
    ]);
    expect(itemsOf("stc-audit-store")).toEqual([{ key: "url", path: "url" }]);
    expect(config.audit).toMatchObject({
      storeUrlFile: "/etc/stc-audit-store/url",
      export: [{ type: "postgres", urlFile: "/etc/stc-audit-store/url" }],
    });
    expect(workload("standalone").config.audit.storeUrlFile).toBeUndefined();
  });

  test("cert-manager makes the Secrets that the pods mount, long before they end", () => {
    for (const { documents, pod } of workloads) {
      const secrets = (pod.volumes ?? []).flatMap(({ secret }) => secret?.secretName ?? []);
      for (const { spec } of ofKind(documents, "Certificate")) {
        const { renewBefore, secretName } = spec as { renewBefore: string; secretName: string };
        expect(secrets).toContain(secretName);
        // SafeToolCallCertificateEnds tells 14 days before.
        if (documents === of("standalone")) expect(Number.parseInt(renewBefore, 10)).toBeGreaterThan(14 * 24);
      }
    }
    expect(ofKind(of("standalone"), "Certificate").map(({ metadata }) => metadata.name)).toEqual([
      "gate-safe-tool-call-client-tls",
      "gate-safe-tool-call-console-tls",
    ]);
  });

  test("Prometheus scrapes a port that exists, with a token of the operators' audience", () => {
    for (const name of ["standalone", AGENT]) {
      const { config, documents, proxy } = workload(name);
      const { podMetricsEndpoints } = specOf<{ podMetricsEndpoints: [Endpoint] }>(documents, "PodMonitor");
      const [{ oauth2, port, relabelings }] = podMetricsEndpoints;
      expect((proxy.ports ?? []).map((own) => own.name)).toContain(port);
      const people = config.jwt.issuers.find(({ operators }) => operators);
      expect([oauth2.endpointParams["audience"], oauth2.scopes]).toEqual([String(people?.audience), ["metrics:read"]]);
      expect(relabelings).toEqual([{ action: "replace", targetLabel: "job", replacement: "safe-tool-call" }]);
    }
  });

  test("the alert rules are those of the chart's file, for the job that the monitors name", () => {
    const { groups } = specOf<{ groups: { rules: { alert: string }[] }[] }>(of("standalone"), "PrometheusRule");
    expect(groups.flatMap(({ rules }) => rules)).toEqual([...alertRules()]);
    const jobs = alertRules().flatMap(({ expr }) => [...expr.matchAll(/job="([^"]*)"/g)].map(([, job]) => job));
    expect([...new Set(jobs)]).toEqual(["safe-tool-call"]);
  });

  test("a copy of the runbooks is where every alert leads, with its own section", async () => {
    const runbookUrl = "https://wiki.example/stc/$1/runbooks";
    const extraRules = [
      { alert: "Own", expr: "vector(1)", annotations: { runbook_url: "https://own.example/runbooks.md#own" } },
    ];
    const documents = await rendered({ case: "standalone", values: { prometheusRule: { runbookUrl, extraRules } } });
    const { groups } = specOf<{ groups: { rules: ReturnType<typeof alertRules> }[] }>(documents, "PrometheusRule");
    const led = groups.flatMap(({ rules }) => rules.map(({ alert, annotations }) => [alert, annotations.runbook_url]));
    expect(led).toEqual([
      ...alertRules().map(({ alert }) => [alert, `${runbookUrl}#${alert.toLowerCase()}`]),
      ["Own", "https://own.example/runbooks.md#own"],
    ]);
  });
});

interface Endpoint {
  readonly port: string;
  readonly oauth2: { readonly endpointParams: Readonly<Record<string, string>>; readonly scopes: readonly string[] };
  readonly relabelings: readonly object[];
}

describe.skipIf(HELM === undefined)("a sidecar", () => {
  const { config, pod, proxy } = HELM === undefined ? ({} as ReturnType<typeof workload>) : workload(AGENT);

  test("is a native one that the agent waits for, and it does not end before the agent", () => {
    expect(pod.initContainers?.map(({ name, restartPolicy }) => [name, restartPolicy])).toEqual([
      ["safe-tool-call", "Always"],
    ]);
    expect(proxy.startupProbe).toBeDefined();
  });

  test("is all that its chart adds: no workload, Service or policy of its own", () => {
    expect(of("sidecar").map(({ kind }) => kind)).toEqual(["ConfigMap", "PodMonitor"]);
  });

  test("leaves the agent a token that is valid here alone, with an accepted lifetime, and nothing else", () => {
    const [agent] = pod.containers;
    const [issuer] = config.jwt.issuers;
    const volume = pod.volumes?.find(({ name }) => name === "stc-token")?.projected?.sources?.[0]?.serviceAccountToken;
    expect(volume?.audience).toBe(String(issuer?.audience));
    expect(volume?.expirationSeconds).toBeLessThanOrEqual(issuer?.maxLifetimeSeconds ?? 3_600);
    expect(agent?.volumeMounts?.map(({ name }) => name)).toEqual(["stc-token"]);
    const mount = agent?.volumeMounts?.[0]?.mountPath;
    expect(agent?.env).toEqual([
      { name: "STC_URL", value: `http://127.0.0.1:${config.server.port}` },
      { name: "STC_TOKEN_FILE", value: `${mount}/${volume?.path}` },
    ]);
    expect(proxy.volumeMounts?.map(({ name }) => name)).not.toContain("stc-token");
    const subject = `system:serviceaccount:agents:${pod.serviceAccountName}`;
    expect(Object.keys(issuer?.subjectPermissions ?? {})).toEqual([subject]);
  });

  test("runs as another user than the agent, which is restricted as well", () => {
    const [agent] = pod.containers;
    expect(agent?.securityContext?.runAsUser).not.toBe(proxy.securityContext?.runAsUser);
    expect(containersOf(pod).flatMap((container) => faultsOf(container, pod))).toEqual([]);
  });
});

describe.skipIf(HELM === undefined)("a fleet", () => {
  const hub = HELM === undefined ? ({} as ReturnType<typeof workload>) : workload("hub");
  const member = HELM === undefined ? ({} as ReturnType<typeof workload>) : workload(MEMBER);

  test("the hub has a Service for members, whose name and port are those that members connect to", () => {
    const services = ofKind(hub.documents, "Service").map(({ metadata, spec }) => ({
      host: `${metadata.name}.${metadata.namespace}.svc`,
      ...(spec as { ports: { name: string; port: number; targetPort: string }[] }),
    }));
    const found = services.find(({ ports }) => ports.some(({ targetPort }) => targetPort === "hub"));
    for (const name of [MEMBER, "member"]) {
      expect(workload(name).config.hub?.url).toBe(`https://${found?.host}:${found?.ports[0]?.port}`);
    }
    expect(hub.config.hub).toMatchObject({
      listen: { host: "0.0.0.0", port: 9789 },
      tls: {
        certFile: "/etc/stc-hub-tls/tls.crt",
        keyFile: "/etc/stc-hub-tls/tls.key",
        clientCaFile: "/etc/stc-hub-tls/ca.crt",
      },
    });
  });

  test("a member has neither a database nor a console", () => {
    for (const name of [MEMBER, "member"]) {
      const { approvals, server } = workload(name).config;
      expect([approvals.store, approvals.storeUrlFile, server.console]).toEqual([undefined, undefined, undefined]);
    }
    expect(hub.config.approvals.storeUrlFile).toBe("/etc/stc-postgresql/url");
  });

  test("a sidecar shows the hub a token of its service account, which the agent does not have and nobody else accepts", () => {
    const { config, pod, proxy } = member;
    const volume = pod.volumes?.find(({ name }) => name === "stc-hub-token")?.projected?.sources?.[0]
      ?.serviceAccountToken;
    const mount = proxy.volumeMounts?.find(({ name }) => name === "stc-hub-token");
    expect([config.hub?.tokenFile, mount?.readOnly]).toEqual([`${mount?.mountPath}/${volume?.path}`, true]);
    expect(config.hub?.tls).toEqual({ caFile: "/etc/stc-hub-ca/ca.crt" });
    expect(pod.containers.flatMap(({ volumeMounts = [] }) => volumeMounts.map(({ name }) => name))).toEqual([
      "stc-token",
    ]);
    const [accepted] = hub.config.hub?.tokens ?? [];
    expect(volume).toMatchObject({ audience: String(accepted?.audience), expirationSeconds: 3_600 });
    for (const { jwt } of [config, hub.config])
      expect(jwt.issuers.flatMap(({ audience }) => audience)).not.toContain(volume?.audience ?? "");
    expect(accepted?.maxLifetimeSeconds ?? 3_600).toBeGreaterThanOrEqual(volume?.expirationSeconds ?? 0);
  });

  test("a member with a certificate has no token", () => {
    const { config, documents, pod } = workload("member");
    expect(config.hub).toMatchObject({
      tls: {
        caFile: "/etc/stc-hub-client-tls/ca.crt",
        certFile: "/etc/stc-hub-client-tls/tls.crt",
        keyFile: "/etc/stc-hub-client-tls/tls.key",
      },
    });
    expect(config.hub?.tokenFile).toBeUndefined();
    expect(pod.volumes?.some(({ projected }) => projected !== undefined)).toBe(false);
    const [{ spec } = { spec: undefined }] = ofKind(documents, "Certificate");
    expect(spec).toMatchObject({ usages: ["client auth"], dnsNames: ["gate-safe-tool-call.tools.svc"] });
  });

  test("the hub's policy admits pods of members, which have the label, and no others to the hub's port", () => {
    const { ingress } = specOf<{ ingress: { from: { podSelector: Selector }[]; ports: { port: string }[] }[] }>(
      hub.documents,
      "NetworkPolicy",
    );
    const [peer, ...others] = ingress.filter(({ ports }) => ports[0]?.port === "hub").flatMap(({ from }) => from);
    expect(others).toEqual([]);
    const label = peer?.podSelector.matchLabels ?? { missing: "" };
    for (const name of [MEMBER, "member"]) expect(workload(name).template.metadata?.labels).toMatchObject(label);
    for (const name of [AGENT, "hub"]) expect(workload(name).template.metadata?.labels).not.toMatchObject(label);
  });

  test("cert-manager makes the hub's certificate for every name of its Service", async () => {
    const values = { hub: { existingSecret: "" }, certManager: { enabled: true, issuerRef: { name: "internal-ca" } } };
    const certificates = ofKind(await rendered({ case: "hub", values }), "Certificate").map(({ spec }) => spec);
    const name = "gate-safe-tool-call-hub";
    const names = [name, `${name}.tools`, `${name}.tools.svc`, `${name}.tools.svc.cluster.local`];
    expect(certificates).toMatchObject([{ secretName: `${name}-tls`, usages: ["server auth"], dnsNames: names }]);
  });
});

type Selector = Readonly<Record<string, string>> & { readonly matchLabels?: Readonly<Record<string, string>> };

/** Every text in a value, at any depth. */
function textsOf(value: unknown): readonly string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
}
