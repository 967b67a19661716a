import { afterAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { blockNamed } from "../support/documented.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { run, runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-keys-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The shell lines of a page that make a key. */
function linesOf(page: string, says: string): readonly string[] {
  return readFileSync(join(PROJECT, page), "utf8")
    .split("\n")
    .filter((line) => line.startsWith(says));
}

async function type(lines: readonly string[]): Promise<void> {
  expect(lines.length).toBeGreaterThan(0);
  const { code, err } = await run(["sh", "-ec", lines.join("\n")], { cwd: folder });
  expect({ code, err }).toEqual({ code: 0, err: "" });
}

async function problemsWith(approvals: object): Promise<string> {
  const config = {
    tools: ["."],
    audit: { dir: "./audit" },
    jwt: { issuers: new LiveIssuers().profiles() },
    approvals: { store: "sqlite://./approvals.sqlite", ...approvals },
  };
  writeFileSync(join(folder, "stc.yaml"), stringify(config));
  const { code, err } = await runStc(["check", "--config", join(folder, "stc.yaml")]);
  return code === 0 ? "" : err;
}

describe.skipIf(Bun.which("openssl") === null)("docs/messages.md", () => {
  const [first = "", ...rest] = linesOf("docs/messages.md", "openssl ");
  const [, other = ""] = /# or (-algorithm .*)$/.exec(first) ?? [];

  test.each([
    ["Ed25519", first],
    ["P-256", first.replace("-algorithm ed25519", other)],
  ])("its %s key signs receipts", async (_title, making) => {
    await type([making, ...rest]);
    expect(readFileSync(join(folder, "receipts.pub.pem"), "utf8")).toStartWith("-----BEGIN PUBLIC KEY-----");
    expect(await problemsWith({ receiptKeyFile: "./receipts.pem" })).toBe("");
    expect(await problemsWith({ receiptKeyFile: "./receipts.pub.pem" })).toContain("approvals.receiptKeyFile: ");
  });
});

test("the key of docs/webhooks.md signs notifications", async () => {
  await type(blockNamed('docs/webhooks.md: echo "whsec_').text.trim().split("\n"));
  const webhook = { name: "chat", url: "https://hooks.example/x" };
  expect(await problemsWith({ webhooks: [{ ...webhook, secretFile: "./chat-key" }] })).toBe("");
});
