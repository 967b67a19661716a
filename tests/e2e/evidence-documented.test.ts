import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SafeToolCall } from "../../src/index.ts";
import { echo } from "../cases/tools/answers.ts";
import { auditEntries } from "../support/audit-files.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { type Ended, run, STC } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-evidence-")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const dir = join(folder, "audit-logs");
const page = readFileSync(join(PROJECT, "docs/audit.md"), "utf8");
const [, section = ""] = page.split("\n## Has anybody touched the log?\n");
const [[printKey = "", verify = ""] = [], [prove = "", verifyProof = ""] = []] = [
  ...(section.split("\n## ")[0] ?? "").matchAll(/^```sh\n([\s\S]*?)^```/gm),
].map(([, block = ""]) => block.trim().split("\n"));

/** A command of the guide, in a folder whose log is the guide's. */
async function paste(command: string): Promise<Ended> {
  const stc = STC.map((word) => `'${word}'`).join(" ");
  return run(["sh", "-c", command.replace(/^stc /, `${stc} `)], { cwd: folder });
}

test("the guide's commands verify a log that the service signed with its own key, and prove one of its calls", async () => {
  const stc = SafeToolCall.create({
    tools: [echo],
    audit: { dir },
    jwt: { issuers: new LiveIssuers().profiles() as never },
  });
  await stc.call("echo", {}, "no token");
  await stc.close();
  expect(await paste(printKey)).toMatchObject({ code: 0, err: "" });
  const verified = await paste(verify);
  expect(verified).toMatchObject({ code: 0, err: "" });
  expect(verified.out).toMatch(/\ncheckpoints: \d+ \(\d+ signed\)\nok\n$/);
  const [traceId = ""] = auditEntries(dir).map((entry) => entry.traceId);
  expect(await paste(prove.replace(/[0-9a-f]{8}-[\w-]+/, traceId))).toMatchObject({ code: 0, err: "" });
  expect((await paste(verifyProof)).out).toStartWith("proved: ");
});

test("a line from elsewhere has no proof", async () => {
  const file = join(folder, "proof.json");
  writeFileSync(file, readFileSync(file, "utf8").replace("UNAUTHENTICATED", "PERMISSION_DENIED"));
  expect(await paste(verifyProof)).toMatchObject({ code: 1, out: "" });
});
