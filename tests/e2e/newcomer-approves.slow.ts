import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { auditEntries } from "../support/audit-files.ts";
import { freePorts } from "../support/ports.ts";
import { RunningStc, runStc } from "../support/stc.ts";
import { hasTerminals, TerminalStc } from "../support/terminal.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-approving-")));
const port = freePorts();
const STC_URL = `http://127.0.0.1:${port}`;
const canTry = hasTerminals && Bun.which("bash") !== null;

let service: RunningStc;
let watch: TerminalStc;

beforeAll(async () => {
  if (!canTry) return;
  service = new RunningStc(["serve", "--dev"], {
    env: {
      STC_PORT: String(port),
      STC_AUDIT_DIR: join(folder, "audit"),
      STC_APPROVALS_STORE: `sqlite://${join(folder, "approvals.sqlite")}`,
    },
  });
  await service.printed("Ctrl-C stops the service.");
  const operator = await tokenFor("--operator", "--sub", "alice");
  const file = join(folder, "operator.token");
  writeFileSync(file, operator, { mode: 0o600 });
  watch = new TerminalStc(["approvals", "watch"], { env: { STC_URL, STC_TOKEN_FILE: file } });
});

afterAll(async () => {
  watch?.close();
  await service?.end("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

async function tokenFor(...args: readonly string[]): Promise<string> {
  const { out, code } = await runStc(["token", ...args]);
  expect(code).toBe(0);
  return out.trim();
}

const agentName = "demo-agent";
const agent = (session: string, sub = agentName): Promise<string> =>
  tokenFor("--sub", sub, "--permission", "workspace:bash", "--session", session);

async function call(token: string, command: string, wait = 50) {
  const response = await fetch(`${STC_URL}/call`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", prefer: `wait=${wait}` },
    body: JSON.stringify({ tool: "bash", args: { command } }),
  });
  return {
    http: response.status,
    body: (await response.json()) as { readonly error?: { readonly code: string; readonly message: string } },
  };
}

/** Answers the question about a command, once it can be answered. */
async function answer(command: string, key: string): Promise<string> {
  await watch.shows(JSON.stringify(command));
  const shown = await watch.shows("Approve? ");
  // The space at the end is written when the prompt accepts answers.
  await watch.shows("[n]o: ");
  watch.type(`${key}\r`);
  return shown;
}

test.skipIf(!canTry)("a service that runs as root warns at its start", () => {
  expect(service.out.includes('"severity":"WARN"') && service.out.includes("runs as root")).toBe(
    process.geteuid?.() === 0,
  );
});

test.skipIf(!canTry)("a denial may carry a reason, which the agent reads", async () => {
  const command = "echo on production";
  const asked = call(await agent("zero", "other-agent"), command);
  await answer(command, "n use the staging cluster");
  const { http, body } = await asked;
  expect([http, body.error?.code]).toEqual([403, "APPROVAL_DENIED"]);
  expect(body.error?.message).toContain("use the staging cluster");
});

test.skipIf(!canTry)(
  "an agent asks for bash, a person sees exactly what will run, and approves once, then for the session",
  async () => {
    const token = await agent("one");
    const hello = "echo hello from the workspace";
    const first = call(token, hello);
    const shown = await answer(hello, "y");
    expect(watch.out).toContain(join(PROJECT, "workspace/project"));
    expect(shown).toBeDefined();
    expect(await first).toMatchObject({
      http: 200,
      body: { result: { output: "hello from the workspace\n", exitCode: 0 } },
    });

    const second = call(token, hello);
    await answer(hello, "s");
    expect((await second).http).toBe(200);
    expect((await call(token, hello, 0)).http).toBe(200);
    expect((await call(token, `${hello} again`, 0)).http).toBe(202);
    expect((await call(await agent("two"), hello, 0)).http).toBe(202);

    const entries = await until("the lines", () => {
      const found = auditEntries(join(folder, "audit")).filter(({ caller }) => caller.sub === agentName);
      return found.length >= 5 ? found : undefined;
    });
    expect(entries.map(({ decision }) => decision)).toEqual(["ALLOWED", "ALLOWED", "ALLOWED", "PENDING", "PENDING"]);
    expect(entries.map(({ approval }) => approval?.by?.split(":")[0])).toEqual([
      "human",
      "human",
      "grant",
      undefined,
      undefined,
    ]);
  },
);

test.skipIf(!canTry)("banned commands are refused, and nobody is asked", async () => {
  const { http, body } = await call(await agent("one"), "rm -rf / --no-preserve-root", 0);
  expect([http, body.error?.code]).toEqual([403, "POLICY_DENIED"]);
});
