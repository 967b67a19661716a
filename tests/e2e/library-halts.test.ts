import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { type ApprovalCallback, defineTool, SafeToolCall, type ToolCallResult } from "../../src/index.ts";
import { journalEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";

const BY = { issuer: "https://staff.example", subject: "olga" };
const issuers = new LiveIssuers();
const runs: number[] = [];

const send = defineTool({
  name: "send",
  description: "Sends an amount",
  classification: "write",
  category: "network",
  permissions: { required: ["money:send"] },
  input: z.strictObject({ amount: z.int().min(1) }),
  output: z.object({ sent: z.number() }),
  outputPolicy: { sent: "allow" },
  handler: ({ amount }) => {
    runs.push(amount);
    return { sent: amount };
  },
});

let folder: string;
let stc: SafeToolCall;
let onToolApprove: ApprovalCallback = () => true;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stc-halts-"));
  runs.length = 0;
  onToolApprove = () => true;
  stc = SafeToolCall.create({
    ...{ tools: [send], folder, audit: { dir: "audit" }, jwt: { issuers: issuers.profiles() as never } },
    onToolApprove: (use) => onToolApprove(use),
  });
});
afterEach(async () => {
  await stc.close();
  rmSync(folder, { recursive: true, force: true });
});

async function call(amount: number): Promise<ToolCallResult> {
  return stc.call(
    "send",
    { amount },
    await issuers.token({ kind: "good", sub: "agent-7", permissions: ["money:send"] }),
  );
}

const codeOf = (result: ToolCallResult): string => ("error" in result ? result.error.code : result.status);

test("a program halts calls and lets them through again, without a store", async () => {
  expect(codeOf(await call(1))).toBe("success");
  const id = await stc.halt({ of: { tool: "send" }, reason: "INC-4711", by: BY });
  expect(codeOf(await call(2))).toBe("HALTED");
  expect(await stc.halts()).toMatchObject([{ id, target: { kind: "tool", value: "send" }, setBy: BY }]);
  expect(await stc.resume(id, BY)).toBe(true);
  expect(await stc.resume(id, BY)).toBe(false);
  expect(codeOf(await call(3))).toBe("success");
  expect(runs).toEqual([1, 3]);
  expect(journalEntries(join(folder, "audit")).map(({ type }) => type)).toContain("halt.lifted");
  // In this process only: nothing is kept for the next one.
  expect(readdirSync(join(folder, "audit"))).not.toContain("halts.json");
});

test("a call that waits for the callback ends with HALTED, and the callback's signal fires", async () => {
  const asked = Promise.withResolvers<AbortSignal>();
  onToolApprove = ({ signal }) => {
    asked.resolve(signal);
    return new Promise(() => {});
  };
  const waiting = call(1);
  const signal = await asked.promise;
  await stc.halt({
    of: { issuer: issuers.profiles()[0]?.["issuer"] as string, subject: "agent-7" },
    reason: "r",
    by: BY,
  });
  expect(codeOf(await waiting)).toBe("HALTED");
  expect(signal.aborted).toBe(true);
  expect(runs).toEqual([]);
});

test("a callback that changes the arguments during a halt runs nothing", async () => {
  onToolApprove = async () => {
    await stc.halt({ of: "all", reason: "r", by: BY });
    return { approved: true, params: { amount: 9 } };
  };
  expect(codeOf(await call(1))).toBe("HALTED");
  expect(runs).toEqual([]);
});

test("an end in the past is an error", async () => {
  const halting = stc.halt({ of: "all", reason: "r", by: BY, until: new Date(0) });
  expect(await halting.catch((error: Error) => error.message)).toBe("until: must be in the future");
  expect(codeOf(await call(1))).toBe("success");
});
