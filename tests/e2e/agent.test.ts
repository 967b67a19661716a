import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { KNOWN_CUSTOMERS } from "../../src/cli/development/customers.ts";
import { type RunningService, startService } from "../../src/cli/service.ts";
import { auditEntries } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { Recorder } from "../support/recorder.ts";
import { openWorld, PROJECT, type World } from "../support/world.ts";

interface ListedTool {
  readonly name: string;
  readonly description: string;
  readonly classification: string;
  readonly inputSchema: {
    readonly required?: readonly string[];
    readonly properties: Readonly<Record<string, { readonly enum?: readonly string[]; readonly type?: string }>>;
  };
}

interface Answer {
  readonly status: string;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: string };
  readonly filteredFields?: readonly string[];
  readonly traceId: string;
}

const PERMISSIONS = [
  ...["customer-data:read", "platform:git:read", "platform:logs:read", "platform:argocd:read", "platform:k8s:read"],
];

const KUBECONFIG = {
  "current-context": "a",
  contexts: [{ name: "a", context: { cluster: "c", user: "u" } }],
  clusters: [{ name: "c", cluster: { server: "https://cluster:6443" } }],
  users: [{ name: "u", user: { token: "CLUSTER-TOKEN" } }],
};

const POD = {
  metadata: { name: "web-1", annotations: { a: "ANNOTATION-SECRET" } },
  spec: { nodeName: "node-1", containers: [{ name: "web", env: [{ name: "A", value: "ENV-SECRET" }] }] },
  status: {
    phase: "Running",
    containerStatuses: [{ name: "web", ready: true, restartCount: 0, state: { running: {} } }],
  },
};

let world: World;
let service: RunningService;
let tools: readonly ListedTool[];
const programs = { kubectl: new Recorder("kubectl"), logcli: new Recorder("logcli"), argocd: new Recorder("argocd") };

beforeAll(async () => {
  world = await openWorld();
  writeFileSync(join(world.folder, "kubeconfig"), JSON.stringify(KUBECONFIG));
  const { systems, commands } = world.targets;
  const written = {
    server: { port: 0 },
    tools: [join(PROJECT, "tools")],
    audit: { dir: join(world.folder, "audit") },
    jwt: { issuers: world.issuers.profiles() },
    log: { level: "silent" },
    systems: {
      ...systems,
      kubernetes: { kubeconfig: "kubeconfig", namespaces: ["payments", "ledger"] },
      loki: { address: "http://loki.logging:3100", namespaces: ["payments", "ledger"] },
      argocd: { server: "argocd.internal:443", applications: ["payments-api"] },
    },
    // The recorded programs keep what they were asked beside themselves, which nothing that is confined could.
    commands: {
      ...commands,
      confinement: "off",
      allowed: ["git", ...Object.values(programs).map(({ program }) => program)],
    },
  };
  const environment = { PATH: process.env["PATH"] };
  service = await startService(readConfig(written, { folder: world.folder, environment, origin: "agent" }));
  programs.kubectl.answers(JSON.stringify({ items: [POD] }));
  programs.logcli.answers(
    `${JSON.stringify({ labels: { pod: "web-1" }, line: "timeout", timestamp: "2024-01-01T00:00:00Z" })}\n`,
  );
  programs.argocd.answers("");
  tools = await listing();
});

afterAll(async () => {
  await service?.drain();
  await world?.close();
});

const authorization = async (): Promise<string> =>
  `Bearer ${await world.issuers.token({ kind: "good", sub: "scripted-agent", permissions: PERMISSIONS })}`;

async function listing(): Promise<readonly ListedTool[]> {
  const response = await fetch(`${service.url}/tools`, { headers: { authorization: await authorization() } });
  return ((await response.json()) as { readonly tools: readonly ListedTool[] }).tools;
}

async function call(tool: string, args: unknown): Promise<Answer> {
  const response = await fetch(`${service.url}/call`, {
    method: "POST",
    headers: { authorization: await authorization(), "content-type": "application/json" },
    body: JSON.stringify({ tool, args }),
  });
  return (await response.json()) as Answer;
}

interface Question {
  readonly asks: string;
  /** Words that the tool's description must hold. */
  readonly about: readonly string[];
  /** What the question itself says, by argument. */
  readonly says: Readonly<Record<string, unknown>>;
  readonly holds: string;
}

/** Knows nothing but the list: finds a tool by its description, and fills in what its schema requires. */
function decide({ about, says }: Question): {
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
} {
  const tool = tools.find(({ description }) => about.every((word) => description.toLowerCase().includes(word)));
  if (tool === undefined) throw new Error(`no tool is about ${about}`);
  const { required = [], properties } = tool.inputSchema;
  const names = [...new Set([...required, ...Object.keys(says).filter((name) => name in properties)])];
  return {
    tool: tool.name,
    args: Object.fromEntries(names.map((name) => [name, says[name] ?? properties[name]?.enum?.[0]])),
  };
}

const QUESTIONS: readonly Question[] = [
  {
    asks: "Which status does this customer have?",
    about: ["customer", "by", "id"],
    says: { customerId: KNOWN_CUSTOMERS.johnSmith },
    holds: "ACTIVE",
  },
  {
    asks: "What do the logs say about timeouts?",
    about: ["search", "logs"],
    says: { contains: "timeout" },
    holds: "timeout",
  },
  {
    asks: "What changes with feature/x?",
    about: ["difference between two branches"],
    says: { base: "main", head: "feature/x" },
    holds: "+hello world",
  },
  { asks: "Do the pods run?", about: ["list the pods"], says: {}, holds: "Running" },
];

describe("an agent that knows the list", () => {
  test.each(QUESTIONS.map((question) => [question.asks, question] as const))("%s", async (_asks, question) => {
    const { tool, args } = decide(question);
    const answer = await call(tool, args);
    expect(answer).toMatchObject({ status: "success" });
    expect(JSON.stringify(answer.result)).toContain(question.holds);
    expect(JSON.stringify(answer)).not.toMatch(/SECRET|TOKEN/);
  });

  test("sees every tool that only reads, and of the platform tools no others", () => {
    expect(
      tools
        .filter(({ name }) => /^(?:git|k8s|argocd|query)_/.test(name))
        .map(({ name }) => name)
        .sort(),
    ).toEqual([
      ...["argocd_diff", "argocd_get_app", "argocd_get_sync_status", "git_diff_branches", "git_log", "git_show_file"],
      ...["k8s_get_events", "k8s_get_logs", "k8s_get_pods", "query_logs"],
    ]);
    expect(tools.filter(({ classification }) => classification !== "read").map(({ name }) => name)).toEqual([]);
  });

  test("learns no locations: neither files nor addresses nor tokens are in the list", () => {
    expect(JSON.stringify(tools)).not.toMatch(/kubeconfig|loki\.logging|argocd\.internal|CLUSTER-TOKEN|\/tmp\//);
  });
});

/** Arguments that would do, if they only were let through. */
const SOUND: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  git_diff_branches: { repo: "self", base: "main", head: "feature/x" },
  git_log: { repo: "self" },
  git_show_file: { repo: "self", ref: "main", path: "greeting.txt" },
  query_logs: { namespace: "payments" },
  argocd_get_app: { app: "payments-api" },
  argocd_get_sync_status: { app: "payments-api" },
  argocd_diff: { app: "payments-api" },
  k8s_get_pods: { namespace: "payments" },
  k8s_get_events: { namespace: "payments" },
  k8s_get_logs: { namespace: "payments", pod: "web-1" },
};

/** Whatever else a program could be talked into, as a further argument. */
const SMUGGLED = [
  ...["verb", "command", "args", "argv", "flags", "options", "shell", "env", "cwd", "kubeconfig", "context", "cluster"],
  ...["server", "address", "addr", "orgId", "token", "config", "allNamespaces", "namespaces", "force", "sync", "prune"],
  ...[
    "delete",
    "push",
    "exec",
    "portForward",
    "remote",
    "output",
    "raw",
    "local",
    "core",
    "follow",
    "approved",
    "dryRun",
  ],
];

/** Elsewhere, and other acts, in the place of a value. */
const INSTEAD = [
  ...[
    "kube-system",
    "other",
    "all",
    "*",
    "",
    "-A",
    "--all-namespaces",
    "--delete",
    "push",
    "sync",
    "exec",
    "port-forward",
  ],
  ...["../other", "/etc", "https://evil.example", "payments,ledger", "payments --context=prod", "$(id)", "a; rm -rf /"],
  ...["--server=evil", "--kubeconfig=/etc/x", "--upload-pack=x", "--output=/tmp/x", "@/etc/passwd", 'payments"} #'],
];

const UNKNOWN_TOOLS = [
  ...["kubectl", "k8s_delete_pod", "k8s_exec", "k8s_port_forward", "k8s_get_secrets", "k8s_apply", "k8s_scale", "helm"],
  ...[
    "argocd_sync",
    "argocd_delete_app",
    "argocd_rollback",
    "argocd_login",
    "git_push",
    "git_commit",
    "git_delete_branch",
  ],
  ...[
    "git_checkout",
    "git_clone",
    "logcli",
    "delete_logs",
    "bash",
    "sh",
    "exec",
    "fs_read",
    "k8s_get_pods ",
    "K8S_GET_PODS",
  ],
];

describe("a malicious agent", () => {
  const forget = () => {
    for (const program of Object.values(programs)) program.forget();
  };
  const expectNothingRan = () => {
    expect(Object.entries(programs).filter(([, program]) => program.wasRun())).toEqual([]);
  };

  test.each(UNKNOWN_TOOLS)("has no tool %p", async (tool) => {
    expect((await call(tool, {})).error?.code).toBe("TOOL_NOT_FOUND");
  });

  test.each(Object.keys(SOUND))("%s takes no argument that its schema does not name", async (tool) => {
    forget();
    const answers = await Promise.all(SMUGGLED.map((name) => call(tool, { ...SOUND[tool], [name]: "x" })));
    expect(answers.map(({ error }) => error?.code)).toEqual(SMUGGLED.map(() => "INVALID_INPUT"));
    expectNothingRan();
  });

  test.each(Object.entries(SOUND))("%s reaches nothing else", async (tool, sound) => {
    forget();
    const closed = Object.keys(sound).filter((name) => ["repo", "namespace", "app", "pod"].includes(name));
    const tries = closed.flatMap((name) =>
      INSTEAD.filter((value) => name !== "pod" || !/^[a-z-]+$/.test(value)).map((value) => ({
        ...sound,
        [name]: value,
      })),
    );
    const answers = await Promise.all(tries.map((args) => call(tool, args)));
    expect(answers.map(({ error }) => error?.code)).toEqual(tries.map(() => "INVALID_INPUT"));
    expectNothingRan();
  });

  test("changes nothing: every platform tool only reads, by its program's own words", async () => {
    const looks = { kubectl: /^(?:get|logs)$/, logcli: /^query$/, argocd: /^app$/ };
    for (const [tool, args] of Object.entries(SOUND).filter(([name]) => !name.startsWith("git_"))) {
      forget();
      await call(tool, args);
      const ran = Object.entries(programs).filter(([, program]) => program.wasRun());
      expect(ran).toHaveLength(1);
      for (const [name, program] of ran) {
        const [verb = "", object = ""] = program.argv();
        expect(verb).toMatch(looks[name as keyof typeof looks]);
        if (name === "argocd") expect(object).toMatch(/^(?:get|diff)$/);
      }
    }
  });

  test("sees everything that the platform tools declare: no policy forgets a field", async () => {
    const application = {
      metadata: { name: "payments-api" },
      spec: { source: { repoURL: "https://git.example/a" }, destination: { namespace: "payments" } },
      status: { resources: [{ kind: "Service", name: "a", status: "OutOfSync" }], conditions: [{ type: "X" }] },
    };
    const events = { items: [{ metadata: {}, reason: "BackOff", involvedObject: { kind: "Pod", name: "web-1" } }] };
    const diff = "\n===== apps/Deployment a/b ======\n--- a\n+++ b\n@@ -1 +1 @@\n-a: 1\n+a: 2\n";
    const released = async (tool: string) => {
      const answer = await call(tool, SOUND[tool]);
      return [tool, answer.status, answer.filteredFields];
    };
    expect(await released("k8s_get_pods")).toEqual(["k8s_get_pods", "success", []]);
    expect(await released("query_logs")).toEqual(["query_logs", "success", []]);
    programs.kubectl.answers(JSON.stringify(events));
    expect(await released("k8s_get_events")).toEqual(["k8s_get_events", "success", []]);
    programs.kubectl.answers("one\n");
    expect(await released("k8s_get_logs")).toEqual(["k8s_get_logs", "success", []]);
    programs.argocd.answers(JSON.stringify(application));
    expect(await released("argocd_get_app")).toEqual(["argocd_get_app", "success", []]);
    expect(await released("argocd_get_sync_status")).toEqual(["argocd_get_sync_status", "success", []]);
    programs.argocd.answers(diff, 1);
    expect(await released("argocd_diff")).toEqual(["argocd_diff", "success", []]);
  });

  test("leaves an audit entry for every attempt", async () => {
    const { traceId } = await call("k8s_get_pods", { namespace: "kube-system" });
    const line = auditEntries(join(world.folder, "audit")).find((entry) => entry.traceId === traceId);
    expect(line).toMatchObject({
      decision: "DENIED",
      caller: { sub: "scripted-agent" },
      tool: { targetSystem: "kubernetes" },
    });
  });
});
