import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { defineTool, SafeToolCall } from "../../src/index.ts";
import { journalEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { PROJECT } from "../support/world.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-void-"));
mkdirSync(join(folder, "work"));
const issuers = new LiveIssuers();
const word = z
  .string()
  .regex(/^[a-z]+$/)
  .max(20);
const say = defineTool({
  ...{ name: "say_word", description: "Prints a word", classification: "write", category: "command" },
  permissions: { required: ["workspace:bash"] },
  input: z.strictObject({ word, style: z.enum(["plain", "loud"]) }),
  output: z.strictObject({ text: z.string() }),
  outputPolicy: { text: "allow" },
  approval: { grants: { runs: 9, minutes: 9, arguments: { word: "any" } } },
  target: {
    system: "words",
    cli: { command: "echo", argsBuilder: (input) => [input.style, input.word], parse: "text" },
  },
});
const stc = SafeToolCall.create({
  folder,
  tools: [join(PROJECT, "tools/workspace/bash.ts"), join(PROJECT, "tools/workspace/fs-write.ts"), say],
  audit: { dir: "audit" },
  jwt: { issuers: issuers.profiles() as never },
  commands: { allowed: ["bash", "echo"], confinement: "off", unconfinedBash: true },
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

test.skipIf(Bun.which("bash") === null)(
  "a write to the workspace ends bounded grants of commands, and a shell has none",
  async () => {
    const token = await tokenOf("three", "agent-3");
    const asked = await stc.call("say_word", { word: "hello", style: "plain" }, token);
    if (asked.status !== "pending") throw new Error(`not asked but ${asked.status}`);
    await stc.decide({ id: asked.approval.id, by, decision: "approve", scope: "bounded" });
    const ran = await stc.call("say_word", { word: "other", style: "plain" }, token);
    expect(ran).toMatchObject({ status: "success", result: { text: "plain other\n" } });
    expect((await stc.call("say_word", { word: "other", style: "loud" }, token)).status).toBe("pending");
    await stc.call("fs_write", { path: "@project/more.txt", content: "x\n" }, token);
    expect((await stc.call("say_word", { word: "again", style: "plain" }, token)).status).toBe("pending");
    const shell = await stc.call("bash", { command: "echo other" }, token);
    expect(shell).toMatchObject({ status: "pending", approval: { options: ["cancel", "once", "session"] } });
  },
);
