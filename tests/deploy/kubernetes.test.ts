import { afterAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { readConfigFile } from "../support/build.ts";
import { findKubectl } from "../support/kubectl.ts";
import { run } from "../support/stc.ts";
import { CUSTOM_RESOURCES, isCustom, readCertificate, readPodMonitor } from "./custom-resources.ts";
import {
  BASES,
  type Container,
  containersOf,
  DEPLOY,
  type Deployment,
  type Document,
  deployments,
  documentsOf,
  PROJECT,
  podSpecOf,
  proxyOf,
  writtenDocuments,
} from "./documents.ts";

mkdirSync(join(PROJECT, "var"), { recursive: true });
// Below the project, so that the types are found.
const folder = mkdtempSync(join(PROJECT, "var", "deploy-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** By kind: the type of the object, and where it is declared. */
const TYPES: Readonly<Record<string, readonly [type: string, module: string]>> = {
  Deployment: ["IDeployment", "apps/v1"],
  Namespace: ["INamespace", "v1"],
  Service: ["IService", "v1"],
  ServiceAccount: ["IServiceAccount", "v1"],
  PersistentVolumeClaim: ["IPersistentVolumeClaim", "v1"],
  ConfigMap: ["IConfigMap", "v1"],
  PodDisruptionBudget: ["IPodDisruptionBudget", "policy/v1"],
  NetworkPolicy: ["INetworkPolicy", "networking.k8s.io/v1"],
};

const written = BASES.flatMap((base) => writtenDocuments(base).map((document) => ({ base, document })));
const kubectl = findKubectl();

async function rendered(base: string): Promise<readonly Document[]> {
  const { code, out, err } = await run([kubectl ?? "", "kustomize", join(DEPLOY, base)]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  return documentsOf(out);
}

/** What the type checker says of the objects, each as a literal of its type: a misspelt field is one that does not exist. */
async function typeFaults(documents: readonly Document[], name: string): Promise<string> {
  const file = join(folder, `${name}.ts`);
  const lines = documents.map((document, index) => {
    const [type, module] = TYPES[document.kind] ?? ["never", ""];
    return `export const object${index}: import("kubernetes-models/${module}").${type} = ${JSON.stringify(document)};`;
  });
  writeFileSync(file, lines.join("\n"));
  const tsc = join(PROJECT, "node_modules/.bin/tsc");
  const flags = ["--noEmit", "--strict", "--skipLibCheck", "--ignoreConfig", "--types", ""];
  const { out } = await run([tsc, ...flags, "--module", "preserve", "--moduleResolution", "bundler", file]);
  return out;
}

describe("objects have the shape that Kubernetes knows", () => {
  const builtIn = written.filter(({ document }) => !isCustom(document.kind)).map(({ document }) => document);

  test("every kind is known", () => {
    expect(builtIn.filter(({ kind }) => TYPES[kind] === undefined)).toEqual([]);
    expect(builtIn.length).toBeGreaterThan(8);
  });

  test("the type checker finds misspelt and ill-typed fields", async () => {
    expect(await typeFaults(builtIn, "written")).toBe("");
  });

  test("and it would find one", async () => {
    const misspelt = JSON.parse(
      JSON.stringify(builtIn).replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"),
    ) as Document[];
    expect(await typeFaults(misspelt, "misspelt")).toContain("readOnlyRootFileSystem");
  });

  test.each(
    written.filter(({ document }) => isCustom(document.kind)).map((row) => [`${row.base} ${row.document.kind}`, row]),
  )("%s", (_title, { document }) => {
    if (!isCustom(document.kind)) throw new Error("not a custom resource");
    expect(CUSTOM_RESOURCES[document.kind].safeParse(document).error?.issues ?? []).toEqual([]);
  });
});

describe.skipIf(kubectl === undefined)("kustomize renders", () => {
  test.each([["sidecar"], ["standalone"]])(
    "%s whole: namespaced, typed, with the configuration in it",
    async (base) => {
      const documents = await rendered(base);
      const spaces = documents.filter(({ kind }) => kind !== "Namespace").map(({ metadata }) => metadata.namespace);
      expect(new Set(spaces).size).toBe(1);
      expect(
        await typeFaults(
          documents.filter(({ kind }) => !isCustom(kind)),
          `rendered-${base}`,
        ),
      ).toBe("");
      const texts = documents
        .filter(({ kind }) => kind === "ConfigMap")
        .flatMap(({ data }) => Object.values(data ?? {}));
      expect(texts).toContain(readFileSync(join(DEPLOY, base, "stc.yaml"), "utf8"));
      const names = new Set(documents.map(({ kind, metadata }) => `${kind}/${metadata.name}`));
      for (const deployment of deployments(documents)) {
        expect(missingVolumes(deployment, names)).toEqual([]);
        expect(containersOf(podSpecOf(deployment)).flatMap((container) => faultsOf(container, deployment))).toEqual([]);
        expect(containersOf(podSpecOf(deployment)).map(({ image }) => image?.split("/")[0])).not.toContain(
          "safe-tool-call",
        );
      }
    },
  );

  test("monitoring", async () => {
    expect((await rendered("monitoring")).map(({ kind }) => kind).sort()).toEqual(["PodMonitor", "PrometheusRule"]);
  });
});

/** Made by the operator (issuers' keys) or by cert-manager; all else that a pod mounts is rendered with it. */
function missingVolumes(deployment: Deployment, names: ReadonlySet<string>): readonly string[] {
  return (podSpecOf(deployment).volumes ?? []).flatMap(({ configMap, persistentVolumeClaim }) => {
    const wanted = [
      ...(configMap?.name === undefined ? [] : [`ConfigMap/${configMap.name}`]),
      ...(persistentVolumeClaim === undefined ? [] : [`PersistentVolumeClaim/${persistentVolumeClaim.claimName}`]),
    ];
    return wanted.filter((name) => !names.has(name) && name !== "ConfigMap/cluster-jwks");
  });
}

/** Why a container would not be let run where the policy is strict; more than the profile `restricted` asks. */
function faultsOf(container: Container, deployment: Deployment): readonly string[] {
  const { name, image = "", resources, securityContext: own = {} } = container;
  const pod = podSpecOf(deployment);
  const both = { ...pod.securityContext, ...own };
  const rules: Readonly<Record<string, boolean>> = {
    "runs as another user than root": both.runAsNonRoot === true && (both.runAsUser ?? 0) > 0,
    "cannot gain privileges": own.allowPrivilegeEscalation === false && own.privileged !== true,
    "writes no image": own.readOnlyRootFilesystem === true,
    "has no capability": own.capabilities?.drop?.join() === "ALL" && own.capabilities.add === undefined,
    "is filtered": both.seccompProfile?.type === "RuntimeDefault",
    "asks for what it needs": resources?.requests?.["cpu"] !== undefined && resources.requests["memory"] !== undefined,
    "has an end of memory": resources?.limits?.["memory"] !== undefined,
    "is pinned": !/:latest$/.test(image) && (/[:@]/.test(image) || !image.includes("/")),
    "sees no variables of Services": pod.enableServiceLinks === false,
    "has no token of the API server": pod.automountServiceAccountToken === false,
    "stays in its pod": pod.hostNetwork !== true && pod.hostPID !== true && pod.hostIPC !== true,
    "mounts nothing of the node": (pod.volumes ?? []).every(({ hostPath }) => hostPath === undefined),
  };
  return Object.entries(rules).flatMap(([rule, holds]) => (holds ? [] : [`${name}: not so: ${rule}`]));
}

describe("the rules for containers apply", () => {
  const [good] = deployments(writtenDocuments("standalone"));
  const worsened: readonly (readonly [rule: string, find: string, replace: string])[] = [
    ["runs as another user than root", '"runAsUser":65532', '"runAsUser":0'],
    ["cannot gain privileges", '"allowPrivilegeEscalation":false', '"allowPrivilegeEscalation":true'],
    ["writes no image", '"readOnlyRootFilesystem":true', '"readOnlyRootFilesystem":false'],
    ["has no capability", '{"drop":["ALL"]}', '{"drop":["ALL"],"add":["NET_ADMIN"]}'],
    ["is filtered", '"seccompProfile":{"type":"RuntimeDefault"}', '"seccompProfile":{"type":"Unconfined"}'],
    ["asks for what it needs", '"cpu":"100m",', ""],
    ["has an end of memory", '"limits":{"memory":"512Mi",', '"limits":{'],
    ["is pinned", '"image":"safe-tool-call"', '"image":"registry.example/safe-tool-call:latest"'],
    ["sees no variables of Services", '"enableServiceLinks":false,', ""],
    ["has no token of the API server", '"automountServiceAccountToken":false,', ""],
    ["stays in its pod", '"enableServiceLinks":false', '"enableServiceLinks":false,"hostPID":true'],
    ["mounts nothing of the node", '"emptyDir":{"medium":"Memory","sizeLimit":"64Mi"}', '"hostPath":{"path":"/"}'],
  ];
  test.each(worsened)("%s", (rule, find, replace) => {
    const written = JSON.stringify(good);
    expect(written).toContain(find);
    const bad = JSON.parse(written.replaceAll(find, replace)) as Deployment;
    const faults = containersOf(podSpecOf(bad)).flatMap((container) => faultsOf(container, bad));
    expect(faults).toEqual([`safe-tool-call: not so: ${rule}`]);
  });
});

const workloads = (["sidecar", "standalone"] as const).map((base) => {
  const documents = writtenDocuments(base);
  const [deployment] = deployments(documents);
  if (deployment === undefined) throw new Error(`${base} has no deployment`);
  const config = readConfigFile(join(DEPLOY, base, "stc.yaml"), {});
  return { base, documents, deployment, pod: podSpecOf(deployment), config };
});

describe.each(workloads.map((workload) => [workload.base, workload] as const))("%s", (base, workload) => {
  const { deployment, documents, pod, config } = workload;
  const proxy = proxyOf(pod);

  test("every container is restricted", () => {
    expect(containersOf(pod).flatMap((container) => faultsOf(container, deployment))).toEqual([]);
  });

  test("ports are those that the configuration listens on", () => {
    const ports = Object.fromEntries((proxy.ports ?? []).map(({ name, containerPort }) => [name, containerPort]));
    expect(ports["operators"]).toBe(config.server.operator?.port);
    expect(config.server.operator?.host).toBe("0.0.0.0");
    if (base === "standalone") expect(ports["calls"]).toBe(config.server.port);
    expect(ports["console"]).toBe(config.server.console?.port);
  });

  test("probes use the operators' port, each its own route", () => {
    const asked = [proxy.startupProbe, proxy.readinessProbe, proxy.livenessProbe].map((probe) => probe?.httpGet);
    expect(asked.map((get) => get?.path)).toEqual(["/readyz", "/readyz", "/healthz"]);
    expect(asked.map((get) => get?.port)).toEqual(["operators", "operators", "operators"]);
  });

  test("every command is confined by the kernel", () => {
    expect([config.commands.confinement, config.commands.unconfinedBash]).toEqual(["require", false]);
  });

  test("there is time to drain", () => {
    const preStopMs = (proxy.lifecycle?.preStop?.sleep?.seconds ?? 0) * 1_000;
    const graceMs = (pod.terminationGracePeriodSeconds ?? 0) * 1_000;
    expect(graceMs).toBeGreaterThanOrEqual(preStopMs + config.server.drainTimeoutMs + 5_000);
  });

  test("every file that the configuration names is mounted, and every written folder is its own volume", () => {
    const mounts = proxy.volumeMounts ?? [];
    const isMounted = (path: string, writable: boolean): boolean =>
      mounts.some(({ mountPath, readOnly }) => path.startsWith(`${mountPath}/`) && (readOnly !== true || !writable));
    const [, tools = ""] = config.tools;
    const { tls } = config.systems["customer-master-service"] as { tls: Readonly<Record<string, string>> };
    const { certFile = "/etc/stc/x", keyFile = "/etc/stc/x" } = config.server.console?.tls ?? {};
    const files = [
      config.audit.checkpointKeyFile ?? "",
      certFile,
      keyFile,
      ...Object.values(tls),
      ...config.jwt.issuers.flatMap(({ jwksFile = [] }) => jwksFile),
    ];
    expect([...files, `${tools}/x.ts`, "/etc/stc/stc.yaml"].filter((path) => !isMounted(path, false))).toEqual([]);
    const store = config.approvals.store?.replace("sqlite://", "") ?? "";
    expect([config.audit.dir, store, "/tmp/x"].filter((path) => !isMounted(path, true))).toEqual([]);
    expect(mounts.filter(({ subPath }) => subPath !== undefined)).toEqual([]);
  });

  test("the audit is signed with a key that the proxy alone mounts, read-only and apart from the log", () => {
    const { dir, checkpointKeyFile = "" } = config.audit;
    const holders = containersOf(pod).filter(({ volumeMounts = [] }) =>
      volumeMounts.some(({ name }) => name === "audit-key"),
    );
    expect(holders).toEqual([proxy]);
    const mountOf = (path: string) => proxy.volumeMounts?.find(({ mountPath }) => path.startsWith(`${mountPath}/`));
    expect(mountOf(checkpointKeyFile)).toMatchObject({ name: "audit-key", readOnly: true });
    expect(mountOf(dir)?.name).toBe("state");
    expect(pod.volumes?.find(({ name }) => name === "audit-key")?.secret?.defaultMode).toBe(0o440);
    const guide = readFileSync(join(DEPLOY, base, "kustomization.yaml"), "utf8");
    const [{ metadata } = { metadata: { name: "agents" } }] = documents.filter(({ kind }) => kind === "Namespace");
    expect(guide).toContain(
      `secret generic safe-tool-call-audit-key --namespace ${metadata.name} --from-file=${basename(checkpointKeyFile)}\n`,
    );
  });

  test("the client's certificate belongs to the proxy alone, and cert-manager's", () => {
    const holders = containersOf(pod).filter(({ volumeMounts = [] }) =>
      volumeMounts.some(({ name }) => name === "client-certificate"),
    );
    expect(holders.map(({ name }) => name)).toEqual(["safe-tool-call"]);
    const [certificate] = documents.filter(({ kind }) => kind === "Certificate").map(readCertificate);
    const secret = pod.volumes?.find(({ name }) => name === "client-certificate")?.secret?.secretName;
    expect(certificate?.spec.secretName).toBe(secret ?? "");
    expect(Number.parseInt(certificate?.spec.renewBefore ?? "", 10)).toBeGreaterThan(14 * 24);
  });

  test("the network policy applies to the pod, admits nobody by omission, and names our ports", () => {
    const [policy] = documents.filter(({ kind }) => kind === "NetworkPolicy");
    const spec = policy?.spec as {
      podSelector: { matchLabels: object };
      policyTypes: string[];
      ingress: { from?: unknown[]; ports?: { port: string }[] }[];
      egress: { to?: unknown[]; ports?: unknown[] }[];
    };
    expect(deployment.spec?.template.metadata?.labels).toMatchObject(spec.podSelector.matchLabels);
    expect(spec.policyTypes.sort()).toEqual(["Egress", "Ingress"]);
    expect(spec.ingress.every(({ from = [], ports = [] }) => from.length > 0 && ports.length > 0)).toBe(true);
    expect(spec.egress.every(({ to = [], ports = [] }) => to.length > 0 && ports.length > 0)).toBe(true);
    const named = new Set((proxy.ports ?? []).map(({ name }) => name ?? ""));
    expect(spec.ingress.flatMap(({ ports = [] }) => ports.filter(({ port }) => !named.has(port)))).toEqual([]);
  });

  test("no network that reaches the calls reaches the console, and the other way round", () => {
    const [policy] = documents.filter(({ kind }) => kind === "NetworkPolicy");
    const { ingress } = (policy?.spec ?? { ingress: [] }) as {
      ingress: { from: unknown[]; ports: { port: string }[] }[];
    };
    const sourcesOf = (name: string) =>
      ingress.filter(({ ports }) => ports.some(({ port }) => port === name)).flatMap(({ from }) => from);
    const [agents, people] = [sourcesOf("calls"), sourcesOf("console")].map((from) => JSON.stringify(from));
    expect(people !== "[]").toBe(config.server.console !== undefined);
    if (people !== "[]") expect(people).not.toBe(agents);
    for (const { ports } of ingress) expect(ports.length).toBe(1);
    if (base === "standalone") expect(config.server.operatorsOnAgentPort).toBe(false);
  });

  test("the console presents a certificate of cert-manager's for its public name", () => {
    const { console } = config.server;
    if (console === undefined) return expect(base).toBe("sidecar");
    const certificates = documents.filter(({ kind }) => kind === "Certificate").map(readCertificate);
    const own = certificates.find(({ spec }) => spec.usages.includes("server auth"));
    const volume = pod.volumes?.find(({ name }) => name === "console-certificate");
    expect(own?.spec.secretName).toBe(volume?.secret?.secretName ?? "");
    expect(own?.spec.dnsNames).toEqual([new URL(console.publicUrl ?? "").hostname, ...console.allowedHosts]);
  });

  test("Prometheus scrapes a port and a pod that exist", () => {
    const [monitor] = writtenDocuments("monitoring")
      .filter(({ kind }) => kind === "PodMonitor")
      .map(readPodMonitor);
    const [endpoint] = monitor?.spec.podMetricsEndpoints ?? [];
    expect((proxy.ports ?? []).map(({ name }) => name)).toContain(endpoint?.port);
    const label = deployment.spec?.template.metadata?.labels?.["app.kubernetes.io/name"] ?? "";
    expect(monitor?.spec.selector.matchExpressions[0]?.values).toContain(label);
    const people = config.jwt.issuers.find(({ operators }) => operators);
    expect(endpoint?.oauth2.endpointParams["audience"]).toBe(String(people?.audience));
    expect(endpoint?.oauth2.scopes).toEqual(["metrics:read"]);
  });
});

describe("sidecar", () => {
  const { pod, config } = workloads[0] ?? expect.unreachable();
  const sidecar = proxyOf(pod);

  test("it is a native one that the agent waits for, and it does not end before the agent", () => {
    expect(pod.initContainers?.map(({ name, restartPolicy }) => [name, restartPolicy])).toEqual([
      ["safe-tool-call", "Always"],
    ]);
    expect(sidecar.startupProbe).toBeDefined();
    expect(sidecar.lifecycle).toBeUndefined();
  });

  test("calls come from the pod alone", () => {
    expect(sidecar.env?.find(({ name }) => name === "STC_HOST")?.value).toBe("127.0.0.1");
    expect(sidecar.ports?.map(({ name }) => name)).toEqual(["operators"]);
  });

  test("the agent shows a token that is valid here alone, with an accepted lifetime", () => {
    const [agent] = pod.containers;
    const [issuer] = config.jwt.issuers;
    const volume = pod.volumes?.find(({ name }) => name === "token")?.projected?.sources?.[0]?.serviceAccountToken;
    expect(volume?.audience).toBe(String(issuer?.audience));
    expect(volume?.expirationSeconds).toBeLessThanOrEqual(issuer?.maxLifetimeSeconds ?? 3_600);
    const mount = agent?.volumeMounts?.find(({ name }) => name === "token")?.mountPath;
    expect(agent?.env?.find(({ name }) => name === "STC_TOKEN_FILE")?.value).toBe(`${mount}/${volume?.path}`);
    expect(sidecar.volumeMounts?.map(({ name }) => name)).not.toContain("token");
    const subject = `system:serviceaccount:agents:${pod.serviceAccountName}`;
    expect(Object.keys(issuer?.subjectPermissions ?? {})).toEqual([subject]);
  });

  test("the agent runs as another user than the proxy", () => {
    const [agent] = pod.containers;
    expect(agent?.securityContext?.runAsUser).not.toBe(pod.securityContext?.runAsUser);
  });
});

describe("standalone", () => {
  const { documents, deployment, config } = workloads[1] ?? expect.unreachable();

  test("the service is known by each of its names", () => {
    const [service] = documents.filter(({ kind }) => kind === "Service");
    const name = service?.metadata.name ?? "";
    const space = documents.find(({ kind }) => kind === "Namespace")?.metadata.name;
    const names = [name, `${name}.${space}`, `${name}.${space}.svc`, `${name}.${space}.svc.cluster.local`];
    expect([...config.server.allowedHosts]).toEqual(names);
  });

  test("one pod writes the audit, and the next begins after it ended", () => {
    expect(deployment.spec?.replicas).toBe(1);
    expect(deployment.spec?.strategy?.type).toBe("Recreate");
  });

  test("selectors match the pods", () => {
    const labels = deployment.spec?.template.metadata?.labels;
    const selectors = documents
      .filter(({ kind }) => kind === "Service" || kind === "PodDisruptionBudget")
      .map(({ kind, spec }) => {
        const { selector } = spec as { selector: { matchLabels?: object } };
        return kind === "Service" ? selector : selector.matchLabels;
      });
    expect(selectors).toHaveLength(3);
    for (const selector of selectors) expect(labels).toMatchObject(selector ?? { missing: true });
  });
});
