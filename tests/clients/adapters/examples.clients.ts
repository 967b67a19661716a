import { afterAll, beforeAll, expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ApprovalService } from "../../support/approval-service.ts";
import { ModelServer } from "../../support/model-server.ts";
import { until } from "../../support/until.ts";
import { PROJECT } from "../../support/world.ts";

const EXAMPLES = join(PROJECT, "clients/typescript/examples");
/** Promise of the documentation. */
const LINES_MAX = 10;
const TASK = "Write b.";

const service = new ApprovalService();
beforeAll(async () => {
  await service.start();
});
afterAll(() => service.end());

test.each(readdirSync(EXAMPLES).sort())(
  "%s asks, waits for the approver and says what the model says",
  async (file) => {
    const token = await service.agent({ sub: file });
    const writes = { name: "do_write", args: { what: "b" } };
    const model = new ModelServer([{ calls: [writes] }, { text: "written" }], [token]);
    const before = service.deeds.length;
    const child = Bun.spawn([process.execPath, join(EXAMPLES, file), TASK], {
      cwd: PROJECT,
      env: {
        ...{ PATH: process.env["PATH"] ?? "", STC_URL: service.url, STC_TOKEN: token, MODEL: "stub" },
        ...{ OPENAI_API_KEY: "key", OPENAI_BASE_URL: `${model.url}/v1`, OPENAI_AGENTS_DISABLE_TRACING: "1" },
        ...{ ANTHROPIC_API_KEY: "key", ANTHROPIC_BASE_URL: model.url, GEMINI_API_KEY: "key", GEMINI_URL: model.url },
        ...{ MODEL_URL: `${model.url}/v1`, MODEL_KEY: "key" },
      },
      stdout: "pipe",
      stderr: "pipe",
    });
    const output = Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    const person = await service.person();
    const id = await until("the approval request", async () => {
      if (child.exitCode !== null) throw new Error((await output).join("\n"));
      return (await service.send("GET", "/approvals?state=pending", { token: person })).body.approvals[0]?.id as string;
    });
    await service.decide(id, "approve");
    const [out, err] = await output;
    await model.end();
    expect([out.trim(), await child.exited, model.problems]).toEqual(["written", 0, []]);
    expect(err).toContain("waiting");
    expect(JSON.stringify(model.heard[0]?.body)).toContain(TASK);
    expect(model.results).toEqual([{ untrusted: true, output: { done: "b" } }]);
    expect(service.deeds.slice(before)).toEqual(["b"]);
  },
);

test("each example's agent has at most ten lines", () => {
  for (const file of readdirSync(EXAMPLES)) {
    const [, agent = ""] = readFileSync(join(EXAMPLES, file), "utf8").split(/^\/\/ The agent\..*\n/m);
    const lines = agent.split("\n").filter((line) => line.trim() !== "");
    expect([file, lines.length, lines.length <= LINES_MAX]).toEqual([file, lines.length, true]);
    expect(lines.length).toBeGreaterThan(0);
  }
});
