import { afterAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { defineTool, SafeToolCall } from "../../src/index.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { run, runStc, SIGNATURES_NOT_CHECKED } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-restore-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const issuers = new LiveIssuers();
const [, backUp = ""] = /`(sqlite3 [^`]+)`/.exec(readFileSync(join(PROJECT, "docs/operating.md"), "utf8")) ?? [];
const note = defineTool({
  name: "keep_note",
  description: "Keeps a note",
  classification: "write",
  category: "write",
  permissions: { required: ["notes:use"] },
  input: z.strictObject({ text: z.string().max(100) }),
  handler: () => ({ kept: true }),
  output: z.strictObject({ kept: z.boolean() }),
  outputPolicy: { kept: "allow" },
});

const open = () =>
  SafeToolCall.create({
    ...{ folder, tools: [note], audit: { dir: "./audit" }, jwt: { issuers: [...issuers.profiles()] as never } },
    approvals: { store: "sqlite://./approvals.sqlite" },
  });

test.skipIf(Bun.which("sqlite3") === null)(
  "copies made as the guide says, while calls run, can be restored: the log verifies, the approval request is still pending",
  async () => {
    const token = await issuers.token({ kind: "good", sub: "agent-7", permissions: ["notes:use"] });
    const before = open();
    const asked = await before.call("keep_note", { text: "a" }, token);
    if (asked.status !== "pending") throw new Error(asked.status);
    cpSync(join(folder, "audit"), join(folder, "copy"), { recursive: true });
    expect((await run(["sh", "-ec", backUp], { cwd: folder })).code).toBe(0);
    await before.call("keep_note", { text: "b" }, token);
    await before.close();

    for (const lost of ["audit", "approvals.sqlite", "approvals.sqlite-wal", "approvals.sqlite-shm"]) {
      rmSync(join(folder, lost), { recursive: true, force: true });
    }
    renameSync(join(folder, "copy"), join(folder, "audit"));
    renameSync(join(folder, "copy.sqlite"), join(folder, "approvals.sqlite"));
    expect((await runStc(["audit", "verify", "--dir", join(folder, "audit")])).code).toBe(SIGNATURES_NOT_CHECKED);

    const after = open();
    const { id } = asked.approval;
    const by = { issuer: "https://people.test", subject: "alice" };
    expect(await after.decide({ id, by, decision: "approve" })).toMatchObject({ outcome: "decided" });
    expect(await after.call("keep_note", { text: "a" }, token, { approvalId: id })).toMatchObject({
      status: "success",
    });
    await after.close();
    expect((await runStc(["audit", "verify", "--dir", join(folder, "audit")])).code).toBe(SIGNATURES_NOT_CHECKED);
  },
);
