import { afterAll, afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TASKS_EXTENSION } from "../../src/mcp/tasks.ts";
import type { Loose } from "../support/asking-service.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { manifest } from "../support/reload-service.ts";
import type { HostOrder, HostReport } from "../support/service-host.ts";
import { until } from "../support/until.ts";

/** Long: the service is killed between the steps of a task. */
const issuers = new LiveIssuers();
const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-tasks-")));
const RUNS = join(folder, "runs");
const CONFIGURATION = {
  server: { port: 0 },
  log: { level: "silent" },
  tools: ["./tools"],
  audit: { dir: "./audit" },
  jwt: { issuers: issuers.profiles() },
  approvals: { store: "sqlite://./approvals.sqlite", claimLeaseSeconds: 31, sweepEverySeconds: 1 },
};

let child: Bun.Subprocess | undefined;
let url: string;

async function start(): Promise<void> {
  const report = await new Promise<HostReport>((resolve) => {
    child = Bun.spawn([process.execPath, join(import.meta.dir, "../support/service-host.ts")], {
      stdio: ["ignore", "inherit", "inherit"],
      ipc: resolve,
      onExit: (_child, code) => resolve({ failed: `the host ended with ${code}` }),
    });
    child.send({ start: { service: CONFIGURATION }, folder } satisfies HostOrder);
  });
  if ("failed" in report) throw new Error(report.failed);
  url = report.urls["service"] ?? "";
}

async function kill(): Promise<void> {
  child?.kill("SIGKILL");
  await child?.exited;
}

beforeEach(() => {
  mkdirSync(join(folder, "tools"), { recursive: true });
  rmSync(RUNS, { force: true });
});
afterEach(kill);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Writes a tool that notes each run in a file, and then takes its time. */
function writeTool(name: string, takesMs: number): void {
  const before = 'import { appendFileSync } from "node:fs";';
  const body = `appendFileSync(${JSON.stringify(RUNS)}, "run\\n"); await Bun.sleep(${takesMs}); return { said: "done" };`;
  writeFileSync(join(folder, `tools/${name}.ts`), manifest({ name, before, body, classification: "write" }));
}

function runs(): number {
  return existsSync(RUNS) ? readFileSync(RUNS, "utf8").length / "run\n".length : 0;
}

async function request(method: string, params: Loose): Promise<Loose> {
  const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["hello:say"] });
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": { extensions: { [TASKS_EXTENSION]: {} } },
  };
  const response = await fetch(`${url}/mcp`, {
    method: "POST",
    headers: {
      ...{ authorization: `Bearer ${token}`, "content-type": "application/json" },
      ...{ "mcp-protocol-version": "2026-07-28", "mcp-method": method, "mcp-name": params.name ?? params.taskId },
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, _meta } }),
  });
  return ((await response.json()) as Loose).result;
}

function poll(taskId: string): Promise<Loose> {
  return request("tasks/get", { taskId });
}

/** Returns a task whose request is approved. */
async function approvedTask(name: string): Promise<string> {
  const { taskId, _meta } = await request("tools/call", { name, arguments: {} });
  const token = await issuers.token({ kind: "operator", sub: "olga", permissions: ["approvals:decide"] });
  const decided = await fetch(`${url}/approvals/${_meta["safe-tool-call/approval"].id}/decisions`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ decision: "approve" }),
  });
  expect(decided.status).toBe(200);
  return taskId;
}

test("a task survives a service that is killed before its first poll and after its answer, and runs once", async () => {
  writeTool("hello_quick", 0);
  await start();
  const taskId = await approvedTask("hello_quick");
  await kill();
  await start();
  const done = await poll(taskId);
  expect([done.status, done.result.structuredContent]).toEqual(["completed", { said: "done" }]);
  await kill();
  await start();
  expect((await poll(taskId)).result).toEqual(done.result);
  expect(runs()).toBe(1);
});

test("a task whose service is killed while it runs does not run again, and says that its outcome is unknown", async () => {
  writeTool("hello_slow", 20_000);
  await start();
  const taskId = await approvedTask("hello_slow");
  expect((await poll(taskId)).status).toBe("working");
  await until("the run", () => (runs() === 1 ? true : undefined));
  await kill();
  await start();
  expect(await poll(taskId)).toMatchObject({ status: "working", statusMessage: "The call is running." });
  const ended = await until("the end of the lease", async () => {
    await Bun.sleep(500);
    const task = await poll(taskId);
    return task.status === "working" ? undefined : task;
  });
  expect(ended.result._meta["safe-tool-call/refusal"]).toMatchObject({
    code: "APPROVAL_CONSUMED",
    message: "This approval was already used; it is not known whether the change happened.",
  });
  expect((await poll(taskId)).result).toEqual(ended.result);
  expect(runs()).toBe(1);
}, 180_000);
