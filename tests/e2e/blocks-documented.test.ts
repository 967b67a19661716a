import { afterAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { parseFieldPattern } from "../../src/core/output-policy/field-path.ts";
import { defineTool } from "../../src/index.ts";
import { readConfig } from "../support/build.ts";
import { BLOCKS, type Block, blockNamed, PAGES } from "../support/documented.ts";
import { run } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

/** Blocks that another test pastes. That test reads the page, or the block by its name. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  "README.md: npm i -g safe-tool-call": "tests/release/package.slow.ts",
  "README.md: cd my-service": "tests/e2e/blocks-documented.slow.ts",
  "docs/install.md: stc init my-service": "tests/release/package.slow.ts",
  "README.md: stc audit keys": "tests/e2e/blocks-documented.slow.ts",
  "README.md: TOKEN=": "tests/e2e/blocks-documented.slow.ts",
  "README.md: npx -y bun@1.4.5 run --silent stc audit tail": "tests/e2e/blocks-documented.slow.ts",
  "docs/README.md: alias stc=": "tests/e2e/blocks-documented.slow.ts",
  ...Object.fromEntries(
    [
      "npm i -g safe-tool-call",
      "cd my-service",
      "curl -s",
      "stc call search_notes",
      "stc call add_note",
      "stc plan",
      "echo",
      "export STC_TOKEN_FILE",
      "stc approvals watch",
      "stc audit query",
      "stc audit keys",
    ].map((begin) => [`docs/README.md: ${begin}`, "tests/e2e/blocks-documented.slow.ts"]),
  ),
  "docs/approvals.md: export STC_URL=": "tests/e2e/blocks-documented.slow.ts",
  ...Object.fromEntries(
    ["pg_dump", "pg_restore", "psql", "UPDATE approvals"].map((begin) => [
      `docs/operating.md: ${begin}`,
      "tests/e2e/restore-postgres-documented.slow.ts",
    ]),
  ),
  "docs/operating.md: stc check --matrix": "tests/e2e/blocks-documented.slow.ts",
  "docs/webhooks.md: stc approvals report": "tests/e2e/blocks-documented.slow.ts",
  ...Object.fromEntries(
    [
      "stc audit keys --new",
      "# policy/policy.yaml",
      "stc bundle build policy --out bundles --fleet shop --environment production --version 1",
      "stc bundle serve",
      "stc bundle build policy --out bundles --fleet shop --environment production --version 3",
      "stc bundle sign bundles --key online.key",
    ].map((begin) => [`docs/bundles.md: ${begin}`, "tests/bundles/documented.slow.ts"]),
  ),
  ...Object.fromEntries(
    [
      "image:",
      "volumes:",
      "replicaCount: 3",
      "audit:",
      "hub:",
      "safe-tool-call:",
      "dependencies:",
      "{{- $proxy",
      "helm install gate",
      "kubectl create secret generic safe-tool-call-database",
    ].map((begin) => [`docs/cluster.md: ${begin}`, "tests/deploy/cluster-documented.test.ts"]),
  ),
  "docs/webhooks.md: mkdir -m 700 slack": "tests/e2e/slack-relay.test.ts",
  "docs/webhooks.md: STC_URL=http://127.0.0.1:8787 RELAY_FILES=./slack": "tests/e2e/slack-relay.test.ts",
  "docs/audit.md: stc audit query --sub": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit query --classification": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit show 0198d000-0000-7000-8000-000000000003": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit show 0198d000-0000-7000-8000-0000000000aa": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit stats --from": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit query --stage": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit query --code": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit stats --tool": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit query --trace-id": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit tail": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit export": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit prune": "tests/e2e/audit-guide.slow.ts",
  "docs/audit.md: stc audit keys": "tests/e2e/evidence-documented.test.ts",
  "docs/audit.md: stc audit prove": "tests/e2e/evidence-documented.test.ts",
  "docs/audit.md: prev=": "tests/e2e/auditor.test.ts",
  "docs/clients.md: npx -y bun@1.4.5 run release client": "tests/clients/package.clients.ts",
  "docs/clients.md: import { SafeToolCallClient, unwrap }": "tests/clients/package.clients.ts",
  "docs/console.md: npx -y bun@1.4.5 run --silent stc console --dev": "tests/e2e/newcomer.slow.ts",
  'docs/decision-points.md: curl -s "$STC_URL/access': "tests/e2e/roles-example.test.ts",
  "docs/decision-points.md: // Everybody with": "tests/decision-points/documented.test.ts",
  "docs/decision-points.md: stc plan": "tests/decision-points/documented.test.ts",
  ...Object.fromEntries(
    [
      "mkdir -p",
      "import { defineTool } ",
      'syntax = "proto3"',
      "import { loadPackageDefinition",
      "import { defineTool, grpcMethod }",
      "tools: [",
      "stc token",
      "stc check",
      "stc plan disk_usage",
      "stc plan cancel_order",
      "echo",
      "npx -y bun@1.4.5 shop/orders.ts",
      "npx -y bun@1.4.5 run serve",
      "export STC_URL=",
      "stc call cancel_order",
      "stc call --token-file",
      "ID=$(",
      "stc audit query",
      "STC_TOKEN=",
      "import { SafeToolCall, unwrap }",
    ].map((begin) => [`docs/first-service.md: ${begin}`, "tests/e2e/first-service.slow.ts"]),
  ),
  ...Object.fromEntries(
    [
      "stc audit query",
      "stc approvals list",
      'sqlite3 approvals.sqlite "SELECT',
      'sqlite3 approvals.sqlite "DELETE',
      "stc audit prune",
    ].map((begin) => [`docs/privacy.md: ${begin}`, "tests/e2e/privacy-documented.test.ts"]),
  ),
  "docs/limits.md: stc halt --tool": "tests/e2e/limits-documented.test.ts",
  "docs/tenants.md: stc tenants": "tests/e2e/tenants-documented.test.ts",
  "docs/tenants.md: stc audit keys": "tests/e2e/tenants-documented.test.ts",
  "docs/limits.md: stc quotas list": "tests/e2e/limits-documented.test.ts",
  "docs/authoring.md: stc try": "tests/cli/authoring/try.slow.ts",
  "docs/authoring.md: stc test": "tests/cli/authoring/test.slow.ts",
  "docs/authoring.md: # yaml-language-server": "tests/cli/authoring/fixtures.test.ts",
  "docs/authoring.md: stc init": "tests/e2e/first-day.slow.ts",
  "docs/authoring.md: stc serve": "tests/e2e/first-day.slow.ts",
  "docs/authoring.md: cd my-service": "tests/e2e/first-day.slow.ts",
  "docs/authoring.md: stc call add_note": "tests/e2e/first-day.slow.ts",
  "docs/authoring.md: stc import grpc": "tests/e2e/first-day.slow.ts",
  'docs/authoring.md: eval "$(stc completion bash)"': "tests/e2e/first-day.slow.ts",
  "docs/manifests.md: # yaml-language-server": "tests/runtime/manifests/data-only.test.ts",
  "docs/manifests.md: tools/get-account.tool.yaml: line": "tests/runtime/manifests/data-only.test.ts",
  "docs/manifests.md: stc schema tool": "tests/runtime/manifests/editor-schema.test.ts",
  "docs/manifests.md: stc learn list_orders --for": "tests/cli/learn.slow.ts",
  "docs/manifests.md: # list_orders": "tests/cli/learn.slow.ts",
  "docs/mcp.md: claude mcp add": "tests/cli/mcp.slow.ts",
  "docs/mcp.md: [mcp_servers": "tests/cli/mcp.slow.ts",
  "docs/mcp.md: import { Agent, MCPServerStreamableHttp }": "tests/long/mcp-clients.long.ts",
  "docs/mcp.md: import { MultiServerMCPClient }": "tests/long/mcp-clients.long.ts",
  "docs/mcp.md: import { createMCPClient }": "tests/long/mcp-clients.long.ts",
  "docs/mcp-upstreams.md: import { defineTool, mcpTool }": "tests/e2e/mcp-upstreams-documented.test.ts",
  "docs/mcp-upstreams.md: note: tool read_note": "tests/e2e/mcp-upstreams-documented.test.ts",
  "docs/mcp-upstreams.md: target: mcpTool(": "tests/e2e/mcp-upstreams-documented.test.ts",
  "docs/graphql.md: scalar DateTime": "tests/targets/http/graphql/guide.test.ts",
  "docs/graphql.md: query OpenOrders": "tests/targets/http/graphql/guide.test.ts",
  "docs/sql.md: CREATE ROLE": "tests/targets/sql/guide.slow.ts",
  "docs/sql.md: CREATE USER": "tests/long/mariadb.long.ts",
  "docs/sql.md: select id, status, total": "tests/long/mariadb.long.ts",
  "docs/sql.md: select o.id, o.total, c.email": "tests/targets/sql/sqlite.slow.ts",
  "docs/sql.md: stc import sql shop --list": "tests/targets/sql/guide.slow.ts",
  "docs/sql.md: stc import sql shop --table": "tests/targets/sql/guide.slow.ts",
  "docs/sql.md: stc import sql shop --statement": "tests/targets/sql/guide.slow.ts",
  "docs/mcp.md: import httpx2": "tests/fleet/mcp-clients.fleet.ts",
  "docs/mcp.md: from agents import Agent": "tests/fleet/mcp-clients.fleet.ts",
  "docs/mcp.md: from langchain_mcp_adapters": "tests/fleet/mcp-clients.fleet.ts",
  "docs/messages.md: openssl ": "tests/e2e/keys-documented.slow.ts",
  'docs/webhooks.md: echo "whsec_': "tests/e2e/keys-documented.slow.ts",
  "docs/data-flow.md: # in a tool's manifest": "tests/e2e/data-flow-example.test.ts",
  "docs/redaction.md: stc filter": "tests/e2e/redaction.test.ts",
  "docs/redaction.md: FIELD ": "tests/e2e/redaction.test.ts",
  "docs/redaction.md: note: ": "tests/e2e/redaction.test.ts",
  "docs/releasing.md: ssh-keygen -Y verify": "tests/release/signing.test.ts",
  "src/README.md: agent ──► ": "tests/e2e/map-documented.test.ts",
  "src/README.md: cli · index.ts · modules.ts": "tests/e2e/map-documented.test.ts",
};

/** Blocks that no test can paste, and why. */
const NOT_RUN: Readonly<Record<string, string>> = {
  "docs/bundles.md: git -C policy checkout":
    "wants the reader's repository; tests/bundles/documented.slow.ts builds so",
  "docs/approvals.md: stc approvals approve <id> --grant":
    "needs the id of a request that offers a grant; tests/cli/approvals sends the option",
  "README.md: npx -y bun@1.4.5 run start": "installs packages; what it starts is started by many tests",
  "README.md: npx -y bun@1.4.5 run test": "is what runs this test",
  "docs/library.md: npx -y bun@1.4.5 order.ts": "runs the program before it, which is run below",
  ...Object.fromEntries(
    ["npx -y bun@1.4.5 run --silent stc check", "npx -y bun@1.4.5 run serve"].map((begin) => [
      `docs/configuration.md: ${begin}`,
      "stc.yaml is the reader's, with systems of the reader; the block before it is read as a configuration",
    ]),
  ),
  "docs/install.md: npm i -g safe-tool-call":
    "fetches from the registry; tests/release/package.slow.ts installs a file",
  "docs/library.md: bun add": "fetches from the registry; tests/release/package.slow.ts installs a file",
  "docs/install.md: bun run serve": "stc.yaml is the reader's; tests/e2e/first-service.slow.ts starts a service so",
  "docs/install.md: bun run compile": "takes a minute; tests/long/compile.long.ts builds and runs the binary",
  "docs/install.md: docker build": "wants a container runtime; tests/deploy/image.test.ts reads the image's file",
  "docs/install.md: stc health": "wants the reader's service; tests/deploy/running.test.ts has the command",
  "docs/operating.md: export DATABASE=":
    "names the reader's server; tests/e2e/restore-postgres-documented.slow.ts names its own",
  "docs/operating.md: stc doctor --config": "stc.yaml is the reader's; tests/cli/doctor/deployment.slow.ts runs it",
  "docs/operating.md: FAILED": "is what it prints; tests/cli/doctor/deployment.slow.ts has the form",
  "docs/operating.md: kubectl exec": "wants a cluster; tests/cli/doctor/deployment.slow.ts runs the command",
  "docs/operating.md: stc check --config": "stc.yaml is the reader's; tests/e2e/first-service.slow.ts checks one so",
  "docs/audit.md: stc audit query --tool bash --decision ALLOWED":
    "wants calls of the reader; tests/audit/query/line-index.test.ts has the filters",
  "docs/audit.md: stc audit query --approver":
    "wants calls of the reader; tests/audit/query/line-index.test.ts has the filter",
  "docs/audit.md: STC_CRASH_ROUNDS=64": "is a test itself, which runs for minutes: a part of test:long",
  "docs/audit.md: safe-tool-call/audit/calls/":
    "shows a file's form, shortened; tests/audit/verify/independent-verifier.ts is written from it",
  "docs/data-flow-evaluation.md: bun run eval:adaptive":
    "runs for half a minute; tests/eval/adaptive/adaptive.test.ts has most of it",
  "docs/data-flow-evaluation.md: bun run eval:agentdojo": "needs agentdojo from PyPI, and runs for minutes",
  "docs/data-flow-evaluation.md: bun run eval:injecagent":
    "runs for a minute; tests/eval/injecagent/injecagent.test.ts has a part of it",
  "docs/mcp-upstreams.md: npm install":
    "installs a package; tests/e2e/mcp-upstreams-documented.test.ts runs it from node_modules",
  ...Object.fromEntries(
    [
      "stc call update_customer_status",
      "stc explain order_update",
      "ask: order_update",
      "stc replay",
      "48211 calls",
      "lines of the audit were changed, removed or cut off: its calls are not all that were made",
    ].map((begin) => [
      `docs/policy-changes.md: ${begin}`,
      "names the reader's tools and calls; tests/runtime/replay/replay.slow.ts runs these commands",
    ]),
  ),
  "docs/policy-changes.md: stc audit query":
    "wants calls of the reader; tests/audit/query/filter.test.ts has the filter",
  ...Object.fromEntries(
    ["ssh-keygen -t ed25519", "bun run release", "bun deploy/release/verify.ts", "cosign", "docker buildx"].map(
      (begin) => [
        `docs/releasing.md: ${begin}`,
        "is a maintainer's; tests/release and tests/long/release.long.ts build, sign and verify with the same functions",
      ],
    ),
  ),
  "docs/install.md: docker run":
    "wants a container runtime and the image; tests/deploy/image.test.ts reads the image's file",
  ...Object.fromEntries(
    ["kubectl create namespace", "kubectl create configmap cluster-jwks"].map((begin) => [
      `docs/cluster.md: ${begin}`,
      "wants a cluster; tests/deploy/cluster-documented.test.ts renders the chart with the values of this page",
    ]),
  ),
  "docs/identity.md: kubectl create clusterrolebinding": "wants a cluster",
  ...Object.fromEntries(
    ["CREATE USER", "postgres://", "stc audit query", "complete until", "stc audit verify"].map((begin) => [
      `docs/audit-stores.md: ${begin}`,
      "wants a database; tests/audit/store/postgres.slow.ts runs these commands on one",
    ]),
  ),
  ...Object.fromEntries(
    ["CREATE DATABASE audit;", "clickhouse://"].map((begin) => [
      `docs/audit-stores.md: ${begin}`,
      "wants ClickHouse; tests/audit/store/clickhouse.test.ts reads such a URL, and tests/fleet runs its engine",
    ]),
  ),
  ...Object.fromEntries(
    ["stc audit import", "cat > kafka.yaml"].map((begin) => [
      `docs/audit-stores.md: ${begin}`,
      "wants a database and files of the reader; tests/audit/store/import.slow.ts runs the command",
    ]),
  ),
  ...Object.fromEntries(
    ["--from-store", "--dir"].map((option) => [
      `docs/audit-stores.md: stc audit prove 27a6cef5c42780a204cf8f47fb23e9fe:81542 ${option}`,
      "wants a log of the reader; tests/audit/store/postgres.slow.ts runs the command",
    ]),
  ),
  ...Object.fromEntries(
    ["aws_access_key_id", "stc audit fetch", "<prefix>/", "cat calls/"].map((begin) => [
      `docs/audit-stores.md: ${begin}`,
      "wants a bucket; tests/cli/audit/fetch.slow.ts fetches and verifies an archive",
    ]),
  ),
  ...Object.fromEntries(
    ["stc audit duckdb", "INSTALL httpfs;"].map((begin) => [
      `docs/audit-stores.md: ${begin}`,
      "wants DuckDB and an archive; tests/audit/store/duckdb.test.ts runs the SQL of the view",
    ]),
  ),
  "docs/cluster.md: STC_ROLL_CALLS_PER_SECOND=400": "is a test itself, which runs for minutes",
  "docs/operating.md: stc audit exports":
    "wants the volume of a replica; tests/cli/audit/commands.slow.ts runs the command",
};

/** Languages whose blocks are all run, loaded or read below. */
const HERE: ReadonlySet<string> = new Set(["ts", "javascript", "yaml", "json", "http"]);

const listedIn = (list: Readonly<Record<string, string>>, { name }: Block): string | undefined =>
  Object.entries(list).find(([begin]) => name.startsWith(begin))?.[1];
const isListed = (block: Block): boolean => (listedIn(ELSEWHERE, block) ?? listedIn(NOT_RUN, block)) !== undefined;

mkdirSync(join(PROJECT, "var"), { recursive: true });
// Below the project's folder, so that `safe-tool-call` is found; it stands for the clone, in which readers paste.
const clone = mkdtempSync(join(PROJECT, "var", "blocks-"));
symlinkSync(join(PROJECT, "tools"), join(clone, "tools"));
afterAll(() => rmSync(clone, { recursive: true, force: true }));

describe("every block of every page", () => {
  test("was found", () => {
    expect(PAGES.length).toBeGreaterThan(13);
    expect(BLOCKS.length).toBeGreaterThan(60);
  });

  test("is run, loaded or read by a test, or is listed here with the reason why it is not", () => {
    const unknown = BLOCKS.filter((block) => !HERE.has(block.language) && !isListed(block) && block !== jwksBlock);
    expect(unknown.map(({ name }) => name)).toEqual([]);
  });

  test("in the list exists, and only one block begins like it", () => {
    const begins = [...Object.keys(ELSEWHERE), ...Object.keys(NOT_RUN)];
    const found = (begin: string): number => BLOCKS.filter(({ name }) => name.startsWith(begin)).length;
    expect(begins.map((begin) => [begin, found(begin)])).toEqual(begins.map((begin) => [begin, 1]));
  });

  test("that another test runs is read by that test", () => {
    const wrong = Object.entries(ELSEWHERE).filter(([begin, file]) => {
      const [page = ""] = begin.split(": ");
      const path = join(PROJECT, file);
      return !existsSync(path) || !readFileSync(path, "utf8").includes(page.replace("src/README.md", '"README.md"'));
    });
    expect(wrong).toEqual([]);
  });
});

const inLanguage = (...languages: readonly string[]): readonly (readonly [string, Block])[] =>
  BLOCKS.filter((block) => languages.includes(block.language) && !isListed(block)).map((block) => [block.name, block]);
const code = inLanguage("ts", "javascript");
const isProgram = ({ text }: Block): boolean => text.includes("console.log(");
const isFragment = ({ text }: Block): boolean => !text.startsWith("import ");
const programs = code.filter(([, block]) => isProgram(block));
const fragments = code.filter(([, block]) => isFragment(block));
const manifests = code.filter(([, block]) => !isProgram(block) && !isFragment(block));

let files = 0;
function saved(text: string): string {
  files += 1;
  const file = join(clone, `pasted-${files}.ts`);
  writeFileSync(file, text);
  return file;
}

describe("a program", () => {
  test("is on each of these pages", () => {
    const pages = programs.map(([, { page }]) => page);
    expect(pages).toEqual(["docs/approvals.md", "docs/library.md", "docs/messages.md", "docs/workspace.md"]);
  });

  test.concurrent.each(programs)("%s: runs unchanged, and prints what its comments say", async (_, { text }) => {
    const told = [...text.matchAll(/console\.log\(.*\); +\/\/ (.*)$/gm)].map(([, comment = ""]) => comment);
    expect(told.length).toBeGreaterThan(1);
    const { code, out, err } = await run([process.execPath, saved(text)], { cwd: clone });
    expect({ code, err }).toEqual({ code: 0, err: "" });
    const said = out.trim().split("\n");
    // What stands behind a colon explains it.
    expect(said.map((line, at) => (told[at]?.startsWith(`${line}: `) ? told[at] : line))).toEqual(told);
  });
});

const config = {
  oneOf: () => z.enum(["self"]),
  sample: () => "self",
  repository: () => PROJECT,
  gitDirectory: () => PROJECT,
  setting: () => "x",
  path: () => "/x",
  has: () => false,
};

test.each(manifests)("manifest %s: loads", async (_, { text }) => {
  const exported: Record<string, unknown> = await import(saved(text));
  expect(Object.keys(exported)).toHaveLength(1);
  const [tool] = Object.values(exported) as { make?: (config: unknown) => unknown }[];
  expect(() => tool?.make?.(config)).not.toThrow();
});

test.each(fragments)("fragment %s: is a field of a manifest", async (_, { text }) => {
  const { members } = (await import(saved(`export const members = {\n${text}\n};\n`))) as {
    readonly members: { readonly outputPolicy?: Readonly<Record<string, unknown>>; readonly cli?: object };
  };
  const { outputPolicy, cli } = members;
  expect(Object.keys(members)).toHaveLength(1);
  for (const [pattern, action] of Object.entries(outputPolicy ?? {})) {
    expect(parseFieldPattern(pattern)).not.toHaveProperty("fault");
    expect(["allow", "mask", "redact"]).toContain(String(action));
  }
  if (cli === undefined) return;
  const manifest = {
    name: "print_report",
    description: "Prints a report",
    classification: "read",
    permissions: { required: ["reports:read"] },
    input: z.strictObject({ day: z.enum(["today"]) }),
    target: { system: "reports", cli },
    output: z.strictObject({ text: z.string() }),
    outputPolicy: { text: "allow" },
  };
  expect(() => defineTool(manifest as never)).not.toThrow();
});

/** What a configuration that shows a part leaves out. */
const base = {
  tools: ["."],
  audit: { dir: "audit" },
  jwt: {
    issuers: [
      { issuer: "https://idp.example", jwksFile: "x" },
      { issuer: "https://idp.example/people", audience: "people", operators: true, jwksFile: "x" },
    ],
  },
};

/** Tools in YAML are accepted by editors and by the loader: tests/runtime/manifests/editor-schema.test.ts. */
const isTool = ({ text }: Block): boolean => /^ *classification:/m.test(text);

test.each(inLanguage("yaml").filter(([, block]) => !isTool(block)))(
  "configuration %s: is valid",
  (_, { page, text }) => {
    const written = { ...base, ...(parse(text) as object) };
    expect(() => readConfig(written, { folder: "/srv", environment: {}, origin: page })).not.toThrow();
  },
);

test.each(inLanguage("json", "http"))("JSON %s: is JSON", (_, { language, text }) => {
  const [, body = ""] = language === "http" ? text.split(/\n(.*)/s) : ["", text];
  expect(JSON.parse(body)).toBeObject();
});

const jwksBlock = blockNamed("tools/README.md: npx -y bun@1.4.5 -e");

test.skipIf(Bun.which("openssl") === null)("the shell command of tools/README.md makes a JWKS of a key", async () => {
  const made = await run(["sh", "-c", "openssl genpkey -algorithm ed25519 -out assertion.pem"], { cwd: clone });
  expect(made.code).toBe(0);
  const line = jwksBlock.text.replaceAll("npx -y bun@1.4.5", `'${process.execPath}'`);
  const { code, out, err } = await run(["sh", "-ec", line], { cwd: clone });
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(JSON.parse(out)).toEqual({
    keys: [{ kty: "OKP", crv: "Ed25519", x: expect.any(String), use: "sig", kid: expect.any(String) }],
  });
});
