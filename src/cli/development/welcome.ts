import { KNOWN_CUSTOMERS } from "./customers.ts";

export interface Sample {
  readonly shows: string;
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
}

const PERMISSIONS = ["customer-data:read", "platform:git:read", "workspace:fs:read", "workspace:bash"];

/** First calls for a new user: one with masked data, one plain, one refused by permission, one refused by validation. */
const SAMPLES: readonly Sample[] = [
  {
    shows: "allowed: the policy masks the name and removes the other personal data",
    tool: "get_customer",
    args: { customerId: KNOWN_CUSTOMERS.johnSmith },
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

interface WelcomeOptions {
  readonly url: string;
  readonly auditDir: string;
  /** True when this folder is a git repository that the service offers; otherwise samples that use git are left out. */
  readonly hasGit: boolean;
  readonly hasBash: boolean;
}

/** Returns the text that `stc serve --dev` prints once it listens. */
export function welcome({ url, auditDir, hasGit, hasBash }: WelcomeOptions): string {
  const samples = SAMPLES.filter(({ tool }) => hasGit || !tool.startsWith("git_"));
  const token = [STC, "token --sub demo-agent", ...PERMISSIONS.map((permission) => `--permission ${permission}`)].join(
    " ",
  );
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
    `  ${STC} audit tail`,
    ...(hasBash ? approvalSteps(url) : []),
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

function curl(url: string, body: unknown): string {
  return `curl -s ${url}/call -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" -d '${JSON.stringify(body)}'`;
}
