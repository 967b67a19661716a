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
  await service.start();
  for (const proxy of proxies.values()) proxy.target = service.running.url;
});
afterAll(async () => {
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

async function approveAll(subject: string): Promise<void> {
  const token = await service.operator();
  const { body } = await service.send("GET", "/approvals", { token });
  const open = body.approvals.filter(({ state, requester }: Loose) => state === "pending" && requester.sub === subject);
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

/** Runs what a revision requires; prints and returns how many checks of the required scenarios passed. */
async function conform(
  revision: Revision,
): Promise<{ readonly code: number; readonly passed: number; readonly out: string }> {
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
  const checks = readdirSync(results)
    .filter((name) => required.some((scenario) => new RegExp(`^server-${scenario}-\\d{4}-`).test(name)))
    .flatMap((name) => JSON.parse(readFileSync(join(results, name, "checks.json"), "utf8")) as readonly Loose[]);
  const passed = checks.filter(({ status }) => status === "SUCCESS").length;
  console.log(`MCP conformance ${revision}: ${passed} checks passed, ${expected.length} expected failures`);
  return { code, passed, out: out.slice(out.indexOf("=== SUMMARY ===")) };
}

test.concurrent.each<readonly [Revision, number]>([
  ["2026-07-28", 77],
  ["2025-11-25", 39],
])("the service conforms to %s, except for what it does not offer", async (revision, passed) => {
  const ended = await conform(revision);
  expect([ended.code, ended.passed], ended.out).toEqual([0, passed]);
});
