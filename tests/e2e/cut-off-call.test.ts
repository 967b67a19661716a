import { afterAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { historyIn, readCallHistory } from "../../src/audit/query/call-history.ts";
import { defineTool, SafeToolCall, type SafeToolCallOptions } from "../../src/index.ts";
import { LiveIssuers } from "../support/live-tokens.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-cut-off-")));
const issuers = new LiveIssuers();
const open: SafeToolCall[] = [];

afterAll(async () => {
  await Promise.all(open.map((stc) => stc.close()));
  rmSync(folder, { recursive: true, force: true });
});

/** A change that was approved and is under way, and a copy of its audit at that moment: what a `kill -9` leaves. */
async function cutOff(name: string) {
  const started = Promise.withResolvers<void>();
  const end = Promise.withResolvers<{ readonly paid: number }>();
  const pay = defineTool({
    ...({ name: "pay", description: "Pays", classification: "write", category: "network" } as const),
    permissions: { required: ["money:pay"] },
    input: z.strictObject({ amount: z.int().min(1).max(1_000), note: z.string().max(100) }),
    output: z.object({ paid: z.number() }),
    outputPolicy: { paid: "allow" },
    handler: () => {
      started.resolve();
      return end.promise;
    },
  });
  const dir = join(folder, name);
  const stc = SafeToolCall.create(optionsOf(dir, [pay]));
  open.push(stc);
  const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["money:pay"] });
  const args = { amount: 5, note: "rent" };
  const options = { callId: "call-1", session: "s-1" };
  const asked = await stc.call("pay", args, token, options);
  const approvalId = asked.status === "pending" ? asked.approval.id : "";
  const by = { issuer: "https://idp.example/people", subject: "alice" };
  await stc.decide({ id: approvalId, decision: "approve", by });
  const running = stc.call("pay", args, token, { ...options, approvalId });
  await started.promise;
  const left = `${dir}-left`;
  cpSync(dir, left, { recursive: true });
  end.resolve({ paid: 5 });
  const finished = await running;
  return { left, approvalId, finished, entry: lastEntry(dir), startAgain: () => startAgain(left, [pay]) };
}

function optionsOf(dir: string, tools: SafeToolCallOptions["tools"]): SafeToolCallOptions {
  return {
    ...{ tools, folder, audit: { dir }, jwt: { issuers: issuers.profiles() as never } },
    approvals: { store: `sqlite://${dir}.sqlite` },
  };
}

function lastEntry(dir: string): Record<string, unknown> {
  const file = readdirSync(dir).findLast((name) => name.endsWith(".jsonl")) ?? "";
  return JSON.parse(readFileSync(join(dir, file), "utf8").trimEnd().split("\n").at(-1) ?? "{}");
}

/** Starts on the copy, as after the crash, and stops. */
async function startAgain(dir: string, tools: SafeToolCallOptions["tools"]): Promise<void> {
  const stc = SafeToolCall.create(optionsOf(dir, tools));
  await stc.ready();
  await stc.close();
}

test("an approved change that a crash cut off is found by its approval, with the contents of its own entry", async () => {
  const { left, approvalId, finished, entry, startAgain } = await cutOff("approved");
  expect(finished.status).toBe("success");
  await startAgain();
  const { calls, journal } = await readCallHistory(historyIn({ logs: [{ dir: left }] }), approvalId);
  expect(journal.map(({ line }) => JSON.parse(line).type)).toContain("intent");
  const recovered = JSON.parse(calls.at(-1)?.line ?? "{}");
  expect(recovered).toMatchObject({ decision: "ERROR", error: { code: "OUTCOME_UNKNOWN" } });
  expect(approvalId).not.toBe("");
  expect(recovered.approval).toEqual({ by: "human:https://idp.example/people|alice", id: approvalId });
  // Recovered or not, the call is described alike.
  const said = ["traceId", "caller", "tool", "request", "approval", "plan", "trace"];
  const of = (line: Record<string, unknown>) => said.map((member) => line[member]);
  expect(of(recovered)).toEqual(of(entry));
  expect(recovered.request).toMatchObject({ args: { amount: 5, note: "[not logged]" }, callId: "call-1" });
  expect(recovered.request.argsHash).toMatch(/^[0-9a-f]{64}$/);
});
