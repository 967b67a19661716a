import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { readConfig } from "../../src/config.ts";
import { ApprovalService } from "../support/approval-service.ts";
import { AGENTS_ISSUER } from "../support/tokens.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

setDefaultTimeout(30_000);

const guide = readFileSync(join(PROJECT, "docs/approvals.md"), "utf8");

function block(language: string): string {
  return new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "m").exec(guide)?.[1] ?? "";
}

const service = new ApprovalService();
mkdirSync(join(PROJECT, "var"), { recursive: true });
// Below the project's folder, so that `safe-tool-call` is found as a reader's own package would find it.
const folder = mkdtempSync(join(PROJECT, "var", "approvals-"));

beforeAll(async () => {
  await service.start();
});

afterAll(async () => {
  await service.end();
  rmSync(folder, { recursive: true, force: true });
});

async function runAgent(what: string): Promise<{ readonly out: string; readonly code: number }> {
  const child = Bun.spawn(
    [process.execPath, join(PROJECT, "docs/examples/asking-agent.ts"), "do_write", JSON.stringify({ what }), "because"],
    {
      env: { PATH: process.env["PATH"] ?? "", STC_URL: service.url, STC_TOKEN: await service.agent() },
      stdout: "pipe",
      stderr: "pipe",
    },
  );
  const [out, code] = await Promise.all([new Response(child.stdout).text(), child.exited]);
  return { out: out.trim(), code };
}

async function openQuestion(): Promise<string> {
  const token = await service.person();
  return until("the agent's question", async () => {
    const page = await service.send("GET", "/approvals?state=pending", { token });
    return page.body.approvals[0]?.id as string | undefined;
  });
}

test("the example agent asks, waits, and shows the result of a yes", async () => {
  const agent = runAgent("a");
  await service.decide(await openQuestion(), "approve");
  expect(await agent).toEqual({ out: '{"done":"a"}', code: 0 });
  expect(service.deeds).toEqual(["a"]);
});

test("and what was said with a no", async () => {
  const agent = runAgent("b");
  await service.decide(await openQuestion(), "deny", { reason: "not today" });
  const { out, code } = await agent;
  expect(JSON.parse(out)).toMatchObject({ code: "APPROVAL_DENIED", message: "Denied by user: not today" });
  expect(code).toBe(1);
  expect(service.deeds).toEqual(["a"]);
});

test("the guide's configuration is one", () => {
  const written = {
    ...(parse(block("yaml")) as object),
    tools: ["./tools"],
    audit: { dir: "./audit" },
    jwt: { issuers: service.issuers.profiles() },
  };
  const { approvals } = readConfig(written, { folder: PROJECT, environment: {}, origin: "docs/approvals.md" });
  expect(approvals.rules).toHaveLength(1);
});

test("the guide's program prints what its comments say", async () => {
  const keys = JSON.stringify({ keys: [service.issuers.agents.jwk] });
  const token = await service.issuers.token({ kind: "good", sub: "agent-7", permissions: ["workers:restart"] });
  const program = block("ts").replaceAll("https://idp.example", AGENTS_ISSUER);
  writeFileSync(join(folder, "guide.ts"), `const jwks = ${keys};\nconst token = ${JSON.stringify(token)};\n${program}`);
  const child = Bun.spawn([process.execPath, join(folder, "guide.ts")], {
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "" },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect(err).toBe("");
  expect(out.trim().split("\n")).toEqual(["success", "Command denied by user: b is busy"]);
});
