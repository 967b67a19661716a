import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SafeToolCall } from "../../src/index.ts";
import { journalEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { PROJECT } from "../support/world.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-void-"));
mkdirSync(join(folder, "work"));
const issuers = new LiveIssuers();
const stc = SafeToolCall.create({
  folder,
  tools: [join(PROJECT, "tools/workspace/bash.ts"), join(PROJECT, "tools/workspace/fs-write.ts")],
  audit: { dir: "audit" },
  jwt: { issuers: issuers.profiles() as never },
  commands: { allowed: ["bash"], confinement: "off", unconfinedBash: true },
  workspace: { project: "work" },
  approvals: { store: "sqlite://./approvals.sqlite", mode: "autoEdit" },
});

afterAll(async () => {
  await stc.close();
  rmSync(folder, { recursive: true, force: true });
});

const permissions = ["workspace:bash", "workspace:fs:write"];
const tokenOf = (sid: string, sub: string) => issuers.token({ kind: "good", sub, permissions, claims: { sid } });
const by = { issuer: "https://people.test", subject: "alice" };

async function grantFor(session: string, sub = "agent-7"): Promise<string> {
  const token = await tokenOf(session, sub);
  await stc.call("bash", { command: "echo hi" }, token);
  const [asked] = await stc.pendingApprovals();
  await stc.decide({ id: asked?.id ?? "", by, decision: "approve", scope: "session" });
  expect((await stc.call("bash", { command: "echo hi" }, token)).status).toBe("success");
  return token;
}

test.skipIf(Bun.which("bash") === null)(
  "a write to the workspace voids every remembered approval of a command, whoever wrote and in which session",
  async () => {
    const one = await grantFor("one");
    const two = await grantFor("two", "agent-8");
    const nowhere = await issuers.token({ kind: "good", sub: "agent-9", permissions });
    expect((await stc.call("fs_write", { path: "@project/../notes.txt", content: "x\n" }, nowhere)).status).not.toBe(
      "success",
    );
    expect((await stc.call("bash", { command: "echo hi" }, one)).status).toBe("success");
    const written = await stc.call("fs_write", { path: "@project/notes.txt", content: "x\n" }, nowhere);
    expect(written.status).toBe("success");
    expect((await stc.call("bash", { command: "echo hi" }, one)).status).toBe("pending");
    expect((await stc.call("bash", { command: "echo hi" }, two)).status).toBe("pending");
    const revoked = journalEntries(join(folder, "audit")).filter(({ type }) => type === "grant.revoked");
    expect(revoked.map((line) => line["session"]).toSorted()).toEqual(["sid:one", "sid:two"]);
  },
);
