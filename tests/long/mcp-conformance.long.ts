import { afterAll, beforeAll, expect, spyOn, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { McpWorld } from "../mcp/mcp-world.ts";
import type { Loose } from "../support/asking-service.ts";
import { environmentOf } from "../support/stc.ts";
import { TokenProxy } from "../support/token-proxy.ts";

/** The protocol's official conformance suite against the real service, with the tools that it asks for. */
const SUITE = dirname(fileURLToPath(import.meta.resolve("@modelcontextprotocol/conformance/package.json")));

const simple = {
  description: "A tool of the conformance suite",
  classification: "read",
  permissions: { required: ["conformance"] },
  input: z.strictObject({}),
  output: z.object({ text: z.string() }),
  outputPolicy: { text: "allow" },
  handler: () => ({ text: "This is a simple text response for testing." }),
} as const;

const TOOLS = [
  defineTool({ ...simple, name: "test_simple_text" }),
  defineTool({
    ...simple,
    name: "test_error_handling",
    handler: (): { text: string } => {
      throw new Error("This tool intentionally returns an error for testing");
    },
  }),
  // Reports progress while an approver is asked.
  defineTool({ ...simple, name: "test_tool_with_progress", classification: "write", category: "write" }),
  // The suite checks what these do not send: log messages, and requests to the client.
  defineTool({ ...simple, name: "test_logging_tool" }),
  defineTool({ ...simple, name: "test_streaming_elicitation" }),
];

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
  "log messages to the client": ["logging-set-level", "tools-call-with-logging"],
};

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-conformance-")));
const REVISIONS = ["2026-07-28", "2025-11-25"] as const;
type Revision = (typeof REVISIONS)[number];

const proxies = new Map<Revision, TokenProxy>();
let world: McpWorld;

beforeAll(async () => {
  world = new McpWorld();
  for (const revision of REVISIONS) {
    let progress = 0;
    const onText = (text: string): void => {
      if (!text.includes("notifications/progress")) return;
      progress += 1;
      if (progress === PROGRESS_MIN) void approveAll(revision);
    };
    const token = () => world.agent({ sub: revision, permissions: ["conformance"] });
    proxies.set(revision, new TokenProxy({ token, onText }));
  }
  const origins = [...proxies.values()].map(({ url }) => url);
  await world.start({ tools: TOOLS, server: { port: 0, allowedOrigins: origins } });
  for (const proxy of proxies.values()) proxy.target = world.url;
});
afterAll(async () => {
  intervals.mockRestore();
  for (const proxy of proxies.values()) await proxy.close();
  await world.end();
  rmSync(folder, { recursive: true, force: true });
});

/** The suite wants this many notifications of progress. */
const PROGRESS_MIN = 3;

const setRealInterval = globalThis.setInterval;
/** The suite gives up after 10 s, and the service reports progress every 15 s: its intervals pass a hundred times as fast. */
const intervals = spyOn(globalThis, "setInterval").mockImplementation(((run: () => void, ms: number) =>
  setRealInterval(run, ms / 100)) as typeof setInterval);

async function approveAll(subject: string): Promise<void> {
  const { body } = await world.send("GET", "/approvals", { token: await world.person() });
  const open = body.approvals.filter(({ state, requester }: Loose) => state === "pending" && requester.sub === subject);
  for (const { id } of open) await world.decide(id, "approve");
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
  ["2026-07-28", 73],
  ["2025-11-25", 39],
])("the service conforms to %s, except for what it does not offer", async (revision, passed) => {
  const ended = await conform(revision);
  expect([ended.code, ended.passed], ended.out).toEqual([0, passed]);
});
