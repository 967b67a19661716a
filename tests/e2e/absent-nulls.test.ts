import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { defineTool, SafeToolCall } from "../../src/index.ts";
import { auditEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-nulls-"));
const issuers = new LiveIssuers();
const received: unknown[] = [];

const note = defineTool({
  name: "write_note",
  description: "Writes a note",
  classification: "write",
  category: "network",
  permissions: { required: ["notes:write"] },
  input: z.strictObject({
    text: z.string(),
    title: z.string().max(20).optional(),
    tags: z.array(z.strictObject({ name: z.string(), color: z.string().optional() })).optional(),
    extra: z.unknown().optional(),
  }),
  inputPolicy: { text: "allow", title: "allow" },
  output: z.object({}),
  outputPolicy: {},
  handler: (input) => {
    received.push(input);
    return {};
  },
});

const stc = SafeToolCall.create({
  tools: [note],
  folder,
  audit: { dir: join(folder, "audit") },
  jwt: { issuers: issuers.profiles() as never },
  approvals: { store: `sqlite://${join(folder, "approvals.db")}` },
});
const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["notes:write"] });

afterAll(async () => {
  await stc.close();
  rmSync(folder, { recursive: true, force: true });
});

const WITH_NULLS = { text: "a", title: null, tags: [{ name: "b", color: null }], extra: { kept: null } };
const WITHOUT = { text: "a", tags: [{ name: "b" }], extra: { kept: null } };

async function approve(args: object): Promise<string> {
  const asked = await stc.call("write_note", args, token);
  if (asked.status !== "pending") throw new Error(`was not asked: ${JSON.stringify(asked)}`);
  const { id } = asked.approval;
  await stc.decide({ id, decision: "approve", by: { issuer: "test", subject: "anna" } });
  return id;
}

test("arguments with null for what is optional are the same call as without: to the handler, the approval, the key and the audit", async () => {
  const approvalId = await approve(WITHOUT);
  const options = { approvalId, idempotencyKey: "key-1" };
  const done = await stc.call("write_note", WITH_NULLS, token, options);
  expect(done.status).toBe("success");
  expect(received).toEqual([WITHOUT]);
  const again = await stc.call("write_note", WITHOUT, token, { idempotencyKey: "key-1" });
  expect(again.status).toBe("success");
  expect(received).toHaveLength(1);
  const entries = auditEntries(join(folder, "audit")).filter(({ decision }) => decision !== "PENDING");
  expect(new Set(entries.map(({ request }) => request.argsHash)).size).toBe(1);
  expect(entries[0]?.request.args).toEqual(entries[1]?.request.args as never);
  expect(entries[0]?.request.args).not.toHaveProperty("title");
});

test("an approval for arguments without a member covers null for it, and not a value", async () => {
  const approvalId = await approve(WITH_NULLS);
  const other = await stc.call("write_note", { ...WITHOUT, title: "t" }, token, { approvalId });
  expect(other.status === "denied" && other.error.code).toBe("APPROVAL_MISMATCH");
  expect((await stc.call("write_note", WITHOUT, token, { approvalId })).status).toBe("success");
});

test("null for a required argument is refused, and the audit has nothing of the arguments", async () => {
  const refused = await stc.call("write_note", { text: null, title: null }, token);
  expect(refused).toMatchObject({
    status: "denied",
    error: {
      code: "INVALID_INPUT",
      message: "The arguments do not match the tool's input schema: text.",
      details: { issues: [{ path: "text", message: "Invalid input: expected string, received null" }] },
    },
  });
  expect(auditEntries(join(folder, "audit")).at(-1)).toMatchObject({ decision: "DENIED", request: { args: {} } });
});
