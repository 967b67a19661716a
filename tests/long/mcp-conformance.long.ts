import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import type { Loose } from "../support/asking-service.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { environmentOf } from "../support/stc.ts";
import { TokenProxy } from "../support/token-proxy.ts";

/** The protocol's official conformance suite against the real service, with the tools that it asks for. */
const SUITE = dirname(fileURLToPath(import.meta.resolve("@modelcontextprotocol/conformance/package.json")));

const TRIGGER = "test_trigger_tool_change";

/** Bodies of the tools' handlers, by name. */
const TOOLS: Readonly<Record<string, string>> = {
  test_simple_text: 'return { said: "This is a simple text response for testing." };',
  test_error_handling: 'throw new Error("This tool intentionally returns an error for testing");',
  test_tool_with_progress: 'return { said: "done" };',
  // The suite checks what these do not send: log messages, and requests to the client.
  test_logging_tool: 'return { said: "nothing is logged" };',
  test_streaming_elicitation: 'return { said: "nothing is asked" };',
  // The list changes when it is called, by a reload.
  [TRIGGER]: 'return { said: "changed" };',
};

/** Tools of the suite's scenarios about tasks. A change waits for an approver, and is then a task. */
const TASK_TOOLS: Readonly<Record<string, { readonly body: string; readonly classification: "read" | "write" }>> = {
  greet: { body: 'return { said: "Hello, " + input.name + "!" };', classification: "read" },
  slow_compute: {
    body: 'await Bun.sleep(Math.min(input.seconds, 2) * 100); return { said: "computed" };',
    classification: "write",
  },
  confirm_delete: { body: 'return { said: "deleted" };', classification: "write" },
  failing_job: { body: 'throw new Error("This job intentionally fails");', classification: "write" },
};

function taskManifest(name: string): string {
  return manifest({ name, ...TASK_TOOLS[name] })
    .replace(
      "z.strictObject({})",
      'z.strictObject({ name: z.string().default(""), label: z.string().default(""), seconds: z.number().default(0) })',
    )
    .replace("async () =>", "async (input) =>");
}

/** Reasons for failures, with the scenarios (or single checks of a scenario) that must fail for them. */
const MISSING: Readonly<Record<string, readonly string[]>> = {
  resources: [
    ...["resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read"],
    ...["resources-subscribe", "resources-unsubscribe", "tools-call-embedded-resource"],
    ...["sep-2164-resource-not-found:sep-2164-error-code", "sep-2164-resource-not-found:sep-2164-data-uri"],
    ...["caching:sep-2549-resources-list-caching-hints", "caching:sep-2549-resources-templates-list-caching-hints"],
  ],
  prompts: [
    ...["prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource"],
    ...["prompts-get-with-image", "caching:sep-2549-prompts-list-caching-hints"],
    "input-required-result-non-tool-request",
  ],
  completion: ["completion-complete"],
  sampling: [
    ...["tools-call-sampling", "input-required-result-basic-sampling", "input-required-result-capability-check"],
    // The probe is a tool that cannot work without the client's model.
    ...["server-stateless:sep-2575-server-rejects-undeclared-capability"],
    ...["server-stateless:sep-2575-missing-capability-http-400"],
  ],
  roots: ["input-required-result-basic-list-roots", "input-required-result-multiple-input-requests"],
  "forms that the client fills in: its word is never an approval": [
    ...["tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"],
    ...["input-required-result-basic-elicitation", "input-required-result-request-state"],
    ...["input-required-result-multi-round", "input-required-result-result-type"],
    "input-required-result-tampered-state",
    "input-required-result-missing-input-response:sep-2322-missing-response-rerequests",
    "input-required-result-ignore-extra-params:sep-2322-ignore-unexpected-params",
  ],
  "results other than JSON": ["tools-call-image", "tools-call-audio", "tools-call-mixed-content"],
  // Deprecated since 2026-07-28 (SEP-2577). Before, the level is set once and remembered, and the service keeps no sessions.
  "log messages to the client": ["logging-set-level", "tools-call-with-logging"],
};

/** Checks of the scenarios about tasks that must fail, by reason. No revision requires these scenarios. */
const TASKS_MISSING: Readonly<Record<string, readonly string[]>> = {
  "forms that the client fills in": [
    ...[
      "sep-2663-tasks-get-status-input-required",
      "tasks-mrtr-tasks-update-resumes",
      "tasks-mrtr-partial-fulfillment",
    ],
    "sep-2663-mrtr-synchronous-before-task-creation",
  ],
  "tools that only clients with tasks can call": ["sep-2663-server-returns-missing-capability-when-required"],
  "results other than JSON": ["tasks-headers-tolerate-mcp-method-on-tools-call"],
  "tools that end with an error of the protocol": ["sep-2663-tasks-get-status-failed"],
};

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-conformance-")));
const REVISIONS = ["2026-07-28", "2025-11-25"] as const;
type Revision = (typeof REVISIONS)[number];

const proxies = new Map<Revision, TokenProxy>();
let service: ReloadService;

beforeAll(async () => {
  for (const revision of REVISIONS) {
    let progress = 0;
    const onAnswer = (text: string): void => {
      if (!text.includes("notifications/progress")) return;
      progress += 1;
      if (progress === PROGRESS_MIN) void approveAll(revision);
    };
    const token = () => service.issuers.token({ kind: "good", sub: revision, permissions: ["hello:say"] });
    proxies.set(revision, new TokenProxy({ token, onAnswer, onRequest: changeTools }));
  }
  const allowedOrigins = [...proxies.values()].map(({ url }) => url);
  service = new ReloadService({
    server: { port: 0, allowedOrigins },
    approvals: { store: "sqlite://./approvals.sqlite" },
  });
  for (const [name, body] of Object.entries(TOOLS)) {
    // A change asks an approver, and progress is reported while it waits.
    const classification = name === "test_tool_with_progress" ? "write" : "read";
    service.write(`tools/${name}.ts`, manifest({ name, body, classification }));
  }
  for (const name of Object.keys(TASK_TOOLS)) service.write(`tools/${name}.ts`, taskManifest(name));
  await service.start();
  approving = setRealInterval(() => void approveAll("2026-07-28", ({ tool }) => tool in TASK_TOOLS), APPROVE_EVERY_MS);
  for (const proxy of proxies.values()) proxy.target = service.running.url;
});
afterAll(async () => {
  clearInterval(approving);
  intervals.mockRestore();
  for (const proxy of proxies.values()) await proxy.close();
  await service.end();
  rmSync(folder, { recursive: true, force: true });
});

let added = 0;

/** Adds a tool before the call that asks for it is sent on. */
async function changeTools(request: string): Promise<void> {
  if (!request.includes(`"${TRIGGER}"`)) return;
  added += 1;
  service.write(`tools/added_${added}.ts`, manifest({ name: `added_${added}` }));
  await service.reload();
}

/** The suite wants this many notifications of progress. */
const PROGRESS_MIN = 3;

const setRealInterval = globalThis.setInterval;
/** The suite gives up after 10 s, and the service reports progress every 15 s: its intervals pass a hundred times as fast. */
const intervals = spyOn(globalThis, "setInterval").mockImplementation(((run: () => void, ms: number) =>
  setRealInterval(run, ms / 100)) as typeof setInterval);

const APPROVE_EVERY_MS = 50;
let approving: ReturnType<typeof setInterval>;

async function approveAll(subject: string, isMeant: (asked: Loose) => boolean = () => true): Promise<void> {
  const token = await service.operator();
  const { body } = await service.send("GET", "/approvals", { token });
  const open = body.approvals.filter((asked: Loose) => {
    return asked.state === "pending" && asked.requester.sub === subject && isMeant(asked);
  });
  for (const { id } of open) {
    await service.send("POST", `/approvals/${id}/decisions`, { token, body: { decision: "approve" } });
  }
}

interface Requirements {
  readonly server: readonly string[];
}

function requirementsOf(revision: Revision): readonly string[] {
  const { server } = parse(readFileSync(join(SUITE, "requirements", `${revision}.yaml`), "utf8")) as Requirements;
  return server;
}

interface Conformance {
  readonly code: number;
  readonly passed: number;
  /** Checks of the scenarios about tasks. */
  readonly tasks: { readonly passed: number; readonly failed: readonly string[] };
  readonly out: string;
}

/** Runs what a revision requires, and what it does not; prints and returns how many checks of the required scenarios passed. */
async function conform(revision: Revision): Promise<Conformance> {
  const required = requirementsOf(revision);
  const expected = Object.values(MISSING)
    .flat()
    .filter((name) => required.includes(name.split(":")[0] ?? ""));
  const baseline = join(folder, `${revision}.yaml`);
  const results = join(folder, revision);
  writeFileSync(baseline, stringify({ server: expected }));
  const child = Bun.spawn(
    [
      ...[process.execPath, join(SUITE, "dist/index.js"), "server", "--url", `${proxies.get(revision)?.url}/mcp`],
      ...["--requirements", revision, "--expected-failures", baseline, "--output-dir", results],
    ],
    { env: environmentOf({}), stdout: "pipe", stderr: "inherit", stdin: "ignore" },
  );
  const [out, code] = await Promise.all([new Response(child.stdout).text(), child.exited]);
  const checksOf = (isMeant: (name: string) => boolean): readonly Loose[] =>
    readdirSync(results)
      .filter(isMeant)
      .flatMap((name) => JSON.parse(readFileSync(join(results, name, "checks.json"), "utf8")));
  const passedOf = (checks: readonly Loose[]) => checks.filter(({ status }) => status === "SUCCESS").length;
  const passed = passedOf(
    checksOf((name) => required.some((scenario) => new RegExp(`^server-${scenario}-\\d{4}-`).test(name))),
  );
  const aboutTasks = checksOf((name) => name.startsWith("server-tasks-"));
  const failed = aboutTasks.flatMap(({ status, id }) => (status === "FAILURE" ? [id] : [])).toSorted();
  const tasks = { passed: passedOf(aboutTasks), failed };
  console.log(
    `MCP conformance ${revision}: ${passed} checks passed, ${expected.length} expected failures; tasks: ${tasks.passed} passed, ${failed.length} expected failures`,
  );
  return { code, passed, tasks, out: out.slice(out.indexOf("=== SUMMARY ===")) };
}

test.concurrent.each<readonly [Revision, number, Conformance["tasks"]]>([
  ["2026-07-28", 77, { passed: 36, failed: Object.values(TASKS_MISSING).flat().toSorted() }],
  ["2025-11-25", 39, { passed: 0, failed: [] }],
])("the service conforms to %s, except for what it does not offer", async (revision, passed, tasks) => {
  const ended = await conform(revision);
  expect([ended.code, ended.passed, ended.tasks], ended.out).toEqual([0, passed, tasks]);
});
