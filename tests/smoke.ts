import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import type { AuditEntry } from "../src/audit/entry.ts";
import { KNOWN_CUSTOMERS } from "../src/cli/development/customers.ts";
import { startService } from "../src/cli/service.ts";
import type { ToolCallResult } from "../src/core/call-result.ts";
import { auditEntries } from "./support/audit-files.ts";
import { readConfig } from "./support/build.ts";
import { openWorld, PROJECT, type World } from "./support/world.ts";

/** What a developer wants to see once: the stand-in service and the proxy in one process, and each kind of call through it. */
interface Scene {
  readonly shows: string;
  readonly tool: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly permissions: readonly string[];
  /** Values at paths of the answer, and values at paths of the audit line. */
  readonly answer: Readonly<Record<string, unknown>>;
  readonly audited: Readonly<Record<string, unknown>>;
  /** What must not be seen of what the target said. */
  readonly unseen?: readonly string[];
}

const GIT = ["platform:git:read"];
const READ = ["customer-data:read"];

const SCENES: readonly Scene[] = [
  {
    shows: "This is what an agent sees when it calls get_customer",
    tool: "get_customer",
    args: { customerId: KNOWN_CUSTOMERS.johnSmith },
    permissions: READ,
    answer: { status: "success", "result.customer.fullName": "J*** S****", "result.customer.email": undefined },
    audited: { decision: "ALLOWED", "tool.name": "get_customer", "response.filteredFields.length": 12 },
    unseen: ["John Smith", "john.smith@example.com", "QQ000001C", "Station Road"],
  },
  {
    shows: "This is what happens when an agent tries a repository that is not its own",
    tool: "git_log",
    args: { repo: "payments" },
    permissions: GIT,
    answer: { status: "denied", "error.code": "INVALID_INPUT", "error.details.issues.0.path": "repo" },
    audited: { decision: "DENIED", "denial.stage": "VALIDATION", "request.args.repo": undefined },
  },
  {
    shows: "This is what happens to an option smuggled in as a branch",
    tool: "git_diff_branches",
    args: { repo: "self", base: "--output=/tmp/stolen", head: "main" },
    permissions: GIT,
    answer: { status: "denied", "error.code": "INVALID_INPUT", "error.details.issues.0.path": "base" },
    audited: { decision: "DENIED", "error.code": "INVALID_INPUT" },
    unseen: ["/tmp/stolen"],
  },
  {
    shows: "This is what a bounded git diff looks like through the proxy",
    tool: "git_diff_branches",
    args: { repo: "self", base: "main", head: "feature/x" },
    permissions: GIT,
    answer: {
      status: "success",
      "result.diff":
        "diff --git a/greeting.txt b/greeting.txt\nindex ce01362..3b18e51 100644\n--- a/greeting.txt\n+++ b/greeting.txt\n@@ -1 +1 @@\n-hello\n+hello world\n",
    },
    audited: { decision: "ALLOWED", "tool.targetSystem": "git", "approval.by": "category:read" },
  },
  {
    shows: "This is what a git diff over the bound looks like",
    tool: "git_diff_branches",
    args: { repo: "self", base: "main", head: "big" },
    permissions: GIT,
    answer: { status: "success", truncated: true },
    audited: { decision: "ALLOWED", "response.truncated": true },
  },
  {
    shows: "This is what happens when the token does not permit the tool",
    tool: "update_customer_status",
    args: { customerId: KNOWN_CUSTOMERS.johnSmith, status: "DORMANT" },
    permissions: READ,
    answer: {
      status: "denied",
      "error.code": "PERMISSION_DENIED",
      "error.details.missingPermissions.0": "customer-data:write",
    },
    audited: { decision: "DENIED", "denial.stage": "PERMISSION", plan: undefined },
  },
];

/** Paths of the essence of a line, as it is printed. */
const ESSENCE =
  "decision caller.sub tool.name denial.stage error.code response.filteredFields approval.by duration".split(" ");

async function main(): Promise<void> {
  const world = await openWorld();
  const written = {
    server: { port: 0 },
    tools: [join(PROJECT, "tools")],
    audit: { dir: join(world.folder, "audit") },
    jwt: { issuers: world.issuers.profiles() },
    log: { level: "silent" },
    ...world.targets,
  };
  const environment = { PATH: process.env["PATH"] };
  const service = await startService(readConfig(written, { folder: world.folder, environment, origin: "smoke" }));
  let surprises = 0;
  try {
    for (const scene of SCENES) surprises += await play(scene, world, service.url);
  } finally {
    await service.drain();
    await world.close();
  }
  console.log(surprises === 0 ? `All ${SCENES.length} as expected.` : `${surprises} surprises.`);
  process.exitCode = surprises === 0 ? 0 : 1;
}

/** Plays one scene and answers how much was not as expected. */
async function play(scene: Scene, world: World, url: string): Promise<number> {
  const { shows, tool, args, permissions } = scene;
  const token = await world.issuers.token({ kind: "good", sub: "smoke-agent", permissions });
  const response = await fetch(`${url}/call`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ tool, args }),
  });
  const answer = (await response.json()) as ToolCallResult;
  const line = auditEntries(join(world.folder, "audit")).find(({ traceId }) => traceId === answer.traceId);
  console.log(
    `\n## ${shows}\n\nPOST /call ${JSON.stringify({ tool, args })}\n${response.status} ${JSON.stringify(answer, null, 2)}`,
  );
  console.log(`audit: ${essence(line)}`);
  const faults = [
    ...differences("answer", scene.answer, answer),
    ...differences("audit", scene.audited, line),
    ...(scene.unseen ?? [])
      .filter((text) => JSON.stringify([answer, line]).includes(text))
      .map((text) => `saw ${text}`),
  ];
  for (const fault of faults) console.log(`NOT AS EXPECTED: ${fault}`);
  return faults.length;
}

function essence(line: AuditEntry | undefined): string {
  const facts = ESSENCE.map((path) => [path, at(line, path)] as const).filter(([, value]) => value !== undefined);
  return facts.map(([path, value]) => `${path}=${JSON.stringify(value)}`).join(" ");
}

function differences(where: string, wanted: Readonly<Record<string, unknown>>, seen: unknown): readonly string[] {
  return Object.entries(wanted)
    .filter(([path, value]) => !isDeepStrictEqual(at(seen, path), value))
    .map(([path, value]) => `${where}: ${path} is ${JSON.stringify(at(seen, path))}, not ${JSON.stringify(value)}`);
}

/** The value at a dotted path, or nothing. */
function at(value: unknown, path: string): unknown {
  return path.split(".").reduce((inner, key) => (inner as Record<string, unknown> | undefined)?.[key], value);
}

await main();
