import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditLog } from "../../src/audit/audit-log.ts";
import { UNSTAMPED } from "../../src/audit/entry.ts";
import { run } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const page = readFileSync(join(PROJECT, "docs/audit.md"), "utf8");
const [check = ""] = [...page.matchAll(/^```sh\n([\s\S]*?)^```/gm)]
  .map(([, text = ""]) => text)
  .filter((text) => text.includes("sha256sum"));

const folder = mkdtempSync(join(tmpdir(), "stc-auditor-"));
const log = join(folder, "audit-logs");
const DAYS = [Date.UTC(2026, 1, 15, 23), Date.UTC(2026, 1, 16, 1)];

const draft = (traceId: string) => ({
  ...UNSTAMPED,
  ...{ traceId, caller: { sub: 'a"b\\', permissions: [] }, decision: "ALLOWED" as const, duration: 1 },
  tool: { name: "x", classification: "read" as const, targetSystem: "y" },
  request: { args: { text: ',"hash":"' }, argsHash: "", hashAlg: "sha256" },
});

beforeAll(async () => {
  let [now = 0] = DAYS;
  const audit = openAuditLog({
    dir: log,
    instance: "here",
    clock: () => now,
    durability: "write",
    queueEntriesMax: 16,
  });
  for (const at of DAYS) {
    now = at;
    await audit.append(draft(`t-${at}`));
    await audit.append(draft(`u-${at}`));
    await audit.journal({ type: "service.started" });
  }
  await audit.close();
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const ask = async (lines: string): Promise<string> => (await run(["sh", "-c", lines], { cwd: folder })).out;

test("an auditor's own tools follow the chain across days, in both streams", async () => {
  expect(readdirSync(log).filter((name) => name.endsWith(".jsonl"))).toHaveLength(2);
  expect(await ask(check)).toBe("sound\n");
  const journal = check.replace("ncalls", "njournal").replace("audit-logs/", "audit-logs/journal/");
  expect(await ask(journal)).toBe("sound\n");
});

test("and find a line that was changed", async () => {
  const file = join(log, "2026-02-15.jsonl");
  const before = readFileSync(file, "utf8");
  writeFileSync(file, before.replace('"duration":1', '"duration":2'));
  expect(await ask(check)).toStartWith('does not follow: {"timestamp":"2026-02-15T23:00:00.000Z"');
  writeFileSync(file, before.split("\n").slice(1).join("\n"));
  expect(await ask(check)).toStartWith("does not follow: ");
  writeFileSync(file, before);
});

test("each field of a line is explained, and no other", () => {
  const [, section = ""] = page.split("\n## What a line holds\n");
  const explained = [...section.matchAll(/^\| (`[a-zA-Z`]+(?: `\w+`)*) \|/gm)].flatMap(
    ([, cell = ""]) => cell.match(/\w+/g) ?? [],
  );
  const [, type = ""] =
    readFileSync(join(PROJECT, "src/audit/entry.ts"), "utf8").match(/interface AuditEntry {\n(.*?)\n}\n/s) ?? [];
  const written = [...type.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, name = ""]) => name);
  expect(explained.sort()).toEqual(written.sort());
});
