import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { ApprovalService } from "../support/approval-service.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

const service = new ApprovalService();
beforeAll(async () => {
  await service.start();
});

afterAll(async () => {
  await service.end();
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

test("the example agent asks, waits, and shows the result of an approval", async () => {
  const agent = runAgent("a");
  await service.decide(await openQuestion(), "approve");
  expect(await agent).toEqual({ out: '{"done":"a"}', code: 0 });
  expect(service.deeds).toEqual(["a"]);
});

test("and the reason of a denial", async () => {
  const agent = runAgent("b");
  await service.decide(await openQuestion(), "deny", { reason: "not today" });
  const { out, code } = await agent;
  expect(JSON.parse(out)).toMatchObject({ code: "APPROVAL_DENIED", message: "Denied by user: not today" });
  expect(code).toBe(1);
  expect(service.deeds).toEqual(["a"]);
});
