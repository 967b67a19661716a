import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { CHART, type Document, documentsOf } from "../deploy/documents.ts";
import { CASES, memberValues, NAMES_FOR_YAML, rendered, renderedAgent } from "../deploy/helm.ts";
import type { Loose } from "../support/asking-service.ts";
import { auditEntries } from "../support/audit-files.ts";
import { manifest } from "../support/reload-service.ts";
import { RunningStc } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { buildKubernetes, Kubernetes } from "./kubernetes.ts";

/** What the case `everything-else` expects of its cluster. */
const PRIORITY = {
  apiVersion: "scheduling.k8s.io/v1",
  kind: "PriorityClass",
  metadata: { name: "high" },
  value: 1_000,
};
/** Definitions of others that the chart's objects are instances of. */
const CUSTOM = {
  "cert-manager.io": { Certificate: "certificates" },
  "monitoring.coreos.com": {
    PodMonitor: "podmonitors",
    ServiceMonitor: "servicemonitors",
    PrometheusRule: "prometheusrules",
  },
  "gateway.networking.k8s.io": { HTTPRoute: "httproutes", BackendTLSPolicy: "backendtlspolicies" },
};
const CERTIFIED_HUB = {
  hub: { existingSecret: "" },
  certManager: { enabled: true, issuerRef: { name: "internal-ca" } },
};
const BUILD_MS = 7_200_000;
const AUDIENCE = "safe-tool-call";

const cluster = new Kubernetes();
const took: (readonly [what: string, ms: number])[] = [];

beforeAll(async () => {
  await timed("build", buildKubernetes);
  await timed("start of the control plane and three nodes", () => cluster.start());
  await cluster.apply(
    Object.entries(CUSTOM).flatMap(([group, kinds]) =>
      Object.entries(kinds).map(([kind, plural]) => definitionOf(group, kind, plural)),
    ),
  );
  await cluster.apply([PRIORITY]);
  await cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s");
}, BUILD_MS);
afterAll(async () => {
  await cluster.end();
  console.log(took.map(([what, ms]) => `${(ms / 1000).toFixed(1).padStart(8)} s  ${what}`).join("\n"));
});

async function timed<T>(what: string, run: () => Promise<T>): Promise<T> {
  const started = performance.now();
  try {
    return await run();
  } finally {
    took.push([what, performance.now() - started]);
  }
}

/** A namespace in which only restricted pods are admitted. */
async function restricted(name: string): Promise<string> {
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" };
  await cluster.apply([{ apiVersion: "v1", kind: "Namespace", metadata: { name, labels } }]);
  return name;
}

/** A release of the chart with the values of a case, in a namespace of its own. */
class Release {
  readonly namespace: string;
  readonly #values: readonly string[];

  constructor(name: string, namespace = `ci-${name}`) {
    this.namespace = namespace;
    this.#values = ["--values", join(CHART, "ci", `${name}-values.yaml`)];
  }

  helm(command: string, ...more: readonly string[]): Promise<string> {
    return cluster.helm(command, "stc", "--namespace", this.namespace, ...more);
  }

  /** Runs a command that renders the chart. */
  render(command: "template" | "install" | "upgrade", ...more: readonly string[]): Promise<string> {
    return this.helm(command, CHART, ...this.#values, ...more);
  }

  read(kind: string): Promise<readonly Loose[]> {
    return cluster.read(kind, this.namespace);
  }

  async claims(): Promise<readonly string[]> {
    return (await this.read("persistentvolumeclaims")).map(({ metadata }) => metadata.name);
  }

  /** Waits until each StatefulSet has all its pods, also those that an autoscaler adds. */
  async whole(): Promise<readonly number[]> {
    const atLeast = (await this.read("horizontalpodautoscalers"))[0]?.spec.minReplicas ?? 1;
    return until("all pods", async () => {
      const sets = (await this.read("statefulsets")).map(({ spec, status }) => ({ spec, ...status }));
      const isWhole = sets.every(
        ({ spec, readyReplicas = 0, updatedReplicas, observedGeneration, currentRevision, updateRevision }) =>
          observedGeneration > 0 &&
          spec.replicas >= atLeast &&
          readyReplicas === spec.replicas &&
          (updatedReplicas === spec.replicas || currentRevision === updateRevision),
      );
      return isWhole ? sets.map(({ readyReplicas }) => readyReplicas) : undefined;
    });
  }
}

const REPLICAS: Readonly<Record<string, readonly number[]>> = {
  ...{ autoscaling: [3], replicas: [3], sidecar: [], hub: [2], member: [2] },
};

const WITHOUT_CLAIMS = new Set(["everything-else", "sidecar"]);

describe.each(CASES)("the chart with the values of ci/%s", (name) => {
  const release = new Release(name);

  beforeAll(async () => {
    await restricted(release.namespace);
    const shared = { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: "shared" } };
    await cluster.apply([shared], "--namespace", release.namespace);
  });

  test("every object is accepted by the API server, field by field", async () => {
    const objects = documentsOf(await release.render("template")).filter((each) => !isHook(each));
    expect(objects.length).toBeGreaterThan(0);
    const { code, err } = await cluster.tryApply(objects, "--namespace", release.namespace, "--dry-run=server");
    expect({ code, err }).toEqual({ code: 0, err: "" });
  });

  test("it is installed where only restricted pods are admitted, and all its pods become ready", async () => {
    await release.render("install", "--dry-run=server");
    const pods = await timed(`${name}: helm install until all pods are ready`, async () => {
      await release.render("install");
      return release.whole();
    });
    expect(pods).toEqual(REPLICAS[name] ?? [1]);
    for (const { status } of await release.read("persistentvolumeclaims")) expect(status.phase).toBe("Bound");
  });

  test("helm test passes, and uninstalling leaves the claims with the audit", async () => {
    await timed(`${name}: helm test`, () => release.helm("test", "--timeout", "60s"));
    const before = await release.claims();
    const [pods = 0] = REPLICAS[name] ?? [1];
    expect(before.length).toBe(WITHOUT_CLAIMS.has(name) ? 0 : pods);
    await release.helm("uninstall");
    expect(await release.claims()).toEqual(before);
    expect(await release.read("statefulsets")).toEqual([]);
  });
});

test.each([
  [
    "names that YAML would take for numbers or booleans",
    { case: "autoscaling", release: "007", values: NAMES_FOR_YAML },
  ],
  ["a release with a long name", { case: "hub", release: "a".repeat(53) }],
  ["a hub whose certificate cert-manager makes", { case: "hub", values: CERTIFIED_HUB }],
])("%s: every object is accepted by the API server, field by field", async (_what, options) => {
  const namespace = await restricted("variants");
  const objects = (await rendered({ ...options, namespace })).filter((each) => !isHook(each));
  const { code, err } = await cluster.tryApply(objects, "--dry-run=server");
  expect({ code, err }).toEqual({ code: 0, err: "" });
});

test("a release is upgraded pod by pod, comes back from an upgrade that fails, and is rolled back", async () => {
  const release = new Release("replicas", "upgrades");
  await restricted(release.namespace);
  await release.render("install");
  await release.whole();
  const revision = async () => (await release.read("statefulsets"))[0]?.status.updateRevision;
  const first = await revision();
  await timed("replicas: helm upgrade of three pods", async () => {
    await release.render("upgrade", "--set", "podAnnotations.changed=yes");
    await until("a new revision", async () => (await revision()) !== first || undefined);
    await release.whole();
  });
  expect((await release.read("pods")).map(({ metadata }) => metadata.annotations.changed)).toEqual([
    "yes",
    "yes",
    "yes",
  ]);
  const failing = ["--set", "nodeSelector.no=where", "--rollback-on-failure", "--wait", "--timeout", "10s"];
  const failed = await timed("replicas: an upgrade that fails is taken back", () =>
    release.render("upgrade", ...failing).catch(String),
  );
  expect(failed).toContain("rollback");
  await release.whole();
  await timed("replicas: helm rollback to the first revision", async () => {
    await release.helm("rollback", "1");
    await until("the first revision", async () => (await revision()) === first || undefined);
    await release.whole();
  });
  expect((await release.read("pods")).map(({ metadata }) => metadata.annotations.changed)).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

test.each([
  ["a service of its own", {}],
  ["a member of a hub", memberValues()],
])("an agent's chart with the sidecar, %s, is accepted, and its restricted pods become ready", async (what, values) => {
  const namespace = await restricted("agents");
  const objects = await renderedAgent(values);
  await timed(`the agent with its sidecar, ${what}: apply until all pods are ready`, async () => {
    await cluster.apply(objects);
    await cluster.kubectl("rollout", "status", "deployment", "--namespace", namespace, "--timeout=120s");
  });
  const [deployment] = await cluster.read("deployments", namespace);
  expect([deployment.status.readyReplicas, deployment.status.updatedReplicas]).toEqual([2, 2]);
});

test("the API server refuses a misspelt field and a pod that is not restricted", async () => {
  const namespace = await restricted("refusals");
  const misspelt = podNamed("misspelt", {
    containers: [{ name: "stc", image: "stc:1", securityContext: { readOnlyRootFileSystem: true } }],
  });
  const unknown = await cluster.tryApply([misspelt], "--namespace", namespace);
  expect([unknown.code, unknown.err]).toEqual([
    1,
    expect.stringContaining("readOnlyRootFileSystem: field not declared in schema"),
  ]);
  const loose = await cluster.tryApply(
    [podNamed("loose", { containers: [{ name: "stc", image: "stc:1" }] })],
    "--namespace",
    namespace,
  );
  expect([loose.code, loose.err]).toEqual([1, expect.stringContaining('violates PodSecurity "restricted')]);
});

function podNamed(name: string, spec: object): object {
  return { apiVersion: "v1", kind: "Pod", metadata: { name }, spec };
}

/** Hooks are for Helm alone. */
function isHook({ metadata }: Document): boolean {
  return "helm.sh/hook" in ((metadata["annotations"] as object | undefined) ?? {});
}

function definitionOf(group: string, kind: string, plural: string): object {
  const schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
  const version = {
    name: "v1",
    served: true,
    storage: true,
    schema: { openAPIV3Schema: schema },
    subresources: { status: {} },
  };
  return {
    ...{
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      metadata: { name: `${plural}.${group}`, annotations: { "api-approved.kubernetes.io": "unapproved, a stub" } },
    },
    spec: { group, scope: "Namespaced", names: { kind, plural, singular: kind.toLowerCase() }, versions: [version] },
  };
}

describe("projected tokens of the API server", () => {
  const folder = mkdtempSync(join(tmpdir(), "stc-projected-"));
  const services: RunningStc[] = [];
  /** Verifies tokens by signature and claims. */
  let url = "";
  /** Also asks the API server about them. */
  let reviewingUrl = "";

  beforeAll(async () => {
    await restricted("agents");
    const account = (name: string) => ({ apiVersion: "v1", kind: "ServiceAccount", metadata: { name } });
    await cluster.apply([account("researcher"), account("clerk"), account("safe-tool-call")], "--namespace", "agents");
    await startPod();
    mkdirSync(join(folder, "tools"));
    writeFileSync(join(folder, "tools/hello.ts"), manifest({ permission: "hello:say", says: "hello" }));
    writeFileSync(
      join(folder, "token"),
      await cluster.kubectl("create", "token", "safe-tool-call", "--namespace", "agents"),
    );
    const issuer = {
      ...{
        issuer: cluster.url,
        profile: "kubernetes",
        algorithms: ["RS256"],
        jwksUri: `${cluster.url}/openid/v1/jwks`,
      },
      ...{ caFile: cluster.caFile, tokenFile: "token" },
      subjectPermissions: { "system:serviceaccount:agents:researcher": ["hello:say"] },
    };
    url = await serve("audit", issuer);
    const tokenReview = { url: cluster.url, caFile: cluster.caFile, tokenFile: "token" };
    reviewingUrl = await serve("audit-reviewing", { ...issuer, tokenReview });
  });
  afterAll(async () => {
    await Promise.all(services.map((service) => service.end("SIGTERM")));
    rmSync(folder, { recursive: true, force: true });
  });

  async function serve(dir: string, issuer: object): Promise<string> {
    const file = join(folder, `${dir}.yaml`);
    const config = { server: { port: 0 }, tools: ["tools"], audit: { dir }, jwt: { issuers: [issuer] } };
    writeFileSync(file, stringify(config));
    const service = new RunningStc(["serve", "--config", file]);
    services.push(service);
    return /"url":"([^"]+)"/.exec(await service.printed('"msg":"listening"'))?.[1] ?? "";
  }

  async function startPod(): Promise<void> {
    const securityContext = {
      allowPrivilegeEscalation: false,
      runAsNonRoot: true,
      capabilities: { drop: ["ALL"] },
      seccompProfile: { type: "RuntimeDefault" },
    };
    const containers = [{ name: "agent", image: "agent:1", securityContext }];
    await cluster.apply(
      [podNamed("researcher-0", { serviceAccountName: "researcher", terminationGracePeriodSeconds: 0, containers })],
      "--namespace",
      "agents",
    );
    await cluster.kubectl(
      "wait",
      "--for=condition=Ready",
      "pod/researcher-0",
      "--namespace",
      "agents",
      "--timeout=60s",
    );
  }

  const tokenOf = async (account: string, audience: string, ...more: string[]): Promise<string> =>
    (
      await cluster.kubectl("create", "token", account, "--namespace", "agents", "--audience", audience, ...more)
    ).trim();
  const ofPod = () =>
    tokenOf("researcher", AUDIENCE, "--bound-object-kind", "Pod", "--bound-object-name", "researcher-0");

  async function call(token: string, at = url): Promise<readonly [status: number, body: Loose]> {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const answer = await fetch(`${at}/call`, {
      method: "POST",
      headers,
      body: JSON.stringify({ tool: "hello", args: {} }),
    });
    return [answer.status, await answer.json()];
  }

  test("call what the table allows their account, and the audit names it", async () => {
    const [status, body] = await call(await ofPod());
    expect([status, body.status]).toEqual([200, "success"]);
    const entry = auditEntries(join(folder, "audit")).find(({ traceId }) => traceId === body.traceId);
    expect(entry?.caller).toMatchObject({ sub: "system:serviceaccount:agents:researcher", iss: cluster.url });
  });

  test("are refused for another audience, and for an account that has no permission", async () => {
    const others = await tokenOf("researcher", "another-service");
    const clerk = await tokenOf("clerk", AUDIENCE);
    const codes = await Promise.all([others, clerk].map(async (token) => (await call(token))[1].error.code));
    expect(codes).toEqual(["UNAUTHENTICATED", "PERMISSION_DENIED"]);
  });

  test("of a deleted pod are valid until they expire", async () => {
    const token = await ofPod();
    await cluster.kubectl("delete", "pod", "researcher-0", "--namespace", "agents", "--wait");
    const reviewed = await until("that the API server rejects the token", async () => {
      const { authenticated = false, error } = await review(token);
      return authenticated ? undefined : error;
    });
    expect(reviewed).toContain("has been invalidated");
    expect((await call(token))[0]).toBe(200);
  });

  test("need the right to ask, where the API server is asked about them", async () => {
    const [status, body] = await call(await tokenOf("researcher", AUDIENCE), reviewingUrl);
    expect([status, body.error.code]).toEqual([503, "AUTH_UNAVAILABLE"]);
  });

  test("of a deleted pod are refused when the API server is asked; those of other pods are not", async () => {
    const account = "system:auth-delegator";
    await cluster.kubectl(
      ...["create", "clusterrolebinding", "token-review", "--clusterrole", account],
      ...["--serviceaccount", "agents:safe-tool-call"],
    );
    await startPod();
    const [token, unbound] = [await ofPod(), await tokenOf("researcher", AUDIENCE)];
    for (const one of [token, unbound]) {
      await until("the right to ask", async () => ((await call(one, reviewingUrl))[0] === 200 ? true : undefined));
    }
    await cluster.kubectl("delete", "pod", "researcher-0", "--namespace", "agents", "--wait");
    const deleted = performance.now();
    const refused = await until("that the token is refused", async () => {
      const [status, body] = await call(token, reviewingUrl);
      return status === 200 ? undefined : body;
    });
    took.push(["until the token of a deleted pod is refused", performance.now() - deleted]);
    expect(refused.error.code).toBe("UNAUTHENTICATED");
    const entry = auditEntries(join(folder, "audit-reviewing")).find(({ traceId }) => traceId === refused.traceId);
    expect(entry?.error?.code).toBe("UNAUTHENTICATED");
    for (const [one, at] of [
      [unbound, reviewingUrl],
      [token, url],
    ] as const) {
      expect((await call(one, at))[0]).toBe(200);
    }
  });

  async function review(token: string): Promise<Loose> {
    const asked = {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenReview",
      spec: { token, audiences: [AUDIENCE] },
    };
    const { out, err } = await cluster.tryKubectl(
      ["create", "--filename", "-", "--output", "json"],
      JSON.stringify(asked),
    );
    return (out === "" ? { error: err } : JSON.parse(out).status) as Loose;
  }
});
