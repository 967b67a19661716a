import { join } from "node:path";
import type { Environment } from "../../runtime/config/config.ts";
import { KNOWN_CUSTOMERS } from "./customers.ts";
import { PROJECT } from "./environment.ts";
import { KNOWN_BUYER } from "./shop.ts";

export interface Sample {
  readonly shows: string;
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** The agent of the examples. */
export const DEMO_AGENT = {
  sub: "demo-agent",
  permissions: ["customer-data:read", "orders:read", "platform:git:read", "workspace:fs:read", "workspace:bash"],
} as const;

/** First calls for a new user: two with masked data, one plain, one refused by permission, one refused by validation. */
const SAMPLES: readonly Sample[] = [
  {
    shows: "allowed: the policy masks the name and removes the other personal data",
    tool: "get_customer",
    args: { customerId: KNOWN_CUSTOMERS.johnSmith },
  },
  {
    shows: "allowed: a query of a database, one fixed statement; the rows show the address masked",
    tool: "orders_of_customer",
    args: { customer: KNOWN_BUYER },
  },
  { shows: "allowed: the history of this repository", tool: "git_log", args: { repo: "self", count: 3 } },
  {
    shows: "refused by permission: this token may read customers, not change them",
    tool: "update_customer_status",
    args: { customerId: KNOWN_CUSTOMERS.johnSmith, status: "DORMANT" },
  },
  {
    shows: "refused by validation: an option passed as a branch name",
    tool: "git_diff_branches",
    args: { repo: "self", base: "--output=/tmp/stolen", head: "main" },
  },
];

const STC = "npx -y bun@1.4.5 run --silent stc";

/** Variables that a command needs to find what the service found by them. */
const SERVICE_ADDRESS = ["STC_HOST", "STC_PORT"];
const AUDIT_DIRECTORY = ["STC_AUDIT_DIR"];
const PLAIN_WORD = /^[\w./:@%+=-]+$/;

/** Returns how `stc` is run with the same values of these variables; those that are not set need no mention. */
function stcWith(names: readonly string[], environment: Environment): string {
  const given = names.flatMap((name) => {
    const value = environment[name];
    return value === undefined || value === "" ? [] : [`${name}=${quoted(value)}`];
  });
  return [...given, STC].join(" ");
}

function quoted(value: string): string {
  return PLAIN_WORD.test(value) ? value : `'${value.replaceAll("'", String.raw`'\''`)}'`;
}

interface WelcomeOptions {
  readonly url: string;
  /** Opens the console once, within a minute. */
  readonly consoleLink: string;
  readonly auditDir: string;
  /** True when this folder is a git repository that the service offers; otherwise samples that use git are left out. */
  readonly hasGit: boolean;
  readonly hasBash: boolean;
  readonly environment: Environment;
}

/** Returns the text that `stc serve --dev` prints once it listens. */
export function welcome({ url, consoleLink, auditDir, hasGit, hasBash, environment }: WelcomeOptions): string {
  const samples = SAMPLES.filter(({ tool }) => hasGit || !tool.startsWith("git_"));
  const { sub, permissions } = DEMO_AGENT;
  const token = [STC, `token --sub ${sub}`, ...permissions.map((name) => `--permission ${name}`)].join(" ");
  return [
    "",
    `Safe Tool Call is ready on ${url} (development mode, loopback only).`,
    "",
    "Paste into another terminal, in this folder. First a token, then calls:",
    "",
    `  TOKEN=$(${token})`,
    ...samples.flatMap(({ shows, tool, args }) => ["", `  # ${shows}`, `  ${curl(url, { tool, args })}`]),
    "",
    "Each call, even a refused one, was recorded in the audit before it was answered:",
    "",
    `  ${stcWith(AUDIT_DIRECTORY, environment)} audit tail`,
    ...(hasBash ? approvalSteps(url) : []),
    "",
    "The operators' console, in a browser. The link signs in once, within a minute; the command makes another:",
    "",
    `    ${consoleLink}`,
    `    ${stcWith(SERVICE_ADDRESS, environment)} console --dev`,
    "",
    "An MCP client (Claude Code, Cursor, VS Code) calls the same tools with this .mcp.json, and needs no token:",
    "",
    `  ${mcpJson(url)}`,
    "",
    `The audit is in ${auditDir}. Ctrl-C stops the service.`,
    "",
  ].join("\n");
}

/** Returns the instructions for a call that waits for approval, and for approving it. */
function approvalSteps(url: string): readonly string[] {
  return [
    "",
    "A command runs only when a person approves it. Be that person, in a third terminal:",
    "",
    `    ${STC} token --operator --sub me > var/operator.token`,
    `    STC_URL=${url} STC_TOKEN_FILE=var/operator.token ${STC} approvals watch`,
    "",
    "and call as the agent; the answer comes after your decision:",
    "",
    `    ${curl(url, { tool: "bash", args: { command: "ls -la" } })} -H "Prefer: wait=50"`,
  ];
}

/** Returns the client configuration that starts `stc mcp`. Absolute paths: clients start programs in folders of their own. */
function mcpJson(url: string): string {
  const flags = ["--no-env-file", `--config=${join(PROJECT, "bunfig.toml")}`, "--no-install"];
  const args = [...flags, join(PROJECT, "src/cli/main.ts"), "mcp", "--dev", "--url", url];
  return JSON.stringify({ mcpServers: { "safe-tool-call": { command: process.execPath, args } } });
}

function curl(url: string, body: unknown): string {
  return `curl -s ${url}/call -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d '${JSON.stringify(body)}'`;
}
