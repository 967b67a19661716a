import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { dayFileNames } from "../../../src/audit/journal/day-files.ts";
import { savedPositionPath } from "../../../src/audit/journal/saved-position.ts";
import { runStc } from "../../support/stc.ts";
import { mixture, type Policy, ReplayWorld, usualPolicy } from "./replay-world.ts";

const world = new ReplayWorld();
const files = mkdtempSync(join(tmpdir(), "stc replay-"));
const env = { PATH: dirname(Bun.which("bash") ?? "") };
beforeAll(async () => {
  await world.start(usualPolicy(), "audit");
  await world.play(mixture(60, 3));
  await world.stop();
});
afterAll(async () => {
  await world.end();
  rmSync(files, { recursive: true, force: true });
});

/** Writes a configuration file of a policy. */
function configured(policy: Policy): string {
  const file = join(files, `${Bun.randomUUIDv7()}.json`);
  writeFileSync(file, JSON.stringify({ ...world.sections(policy), audit: { dir: join(world.folder, "audit") } }));
  return file;
}

test("stc replay: ends with 0 without a difference, and with 1 and a table with one", async () => {
  const same = await runStc(["replay", "--config", configured(usualPolicy())], { env });
  expect([same.code, same.err]).toEqual([0, ""]);
  expect(same.out).toContain(" unchanged, 0 changed, 0 not judged, 0 left out");
  const stricter = usualPolicy();
  for (const tool of stricter.tools) tool.required.push("nobody:has");
  const different = await runStc(["replay", "--config", configured(stricter)], { env });
  expect(different.code).toBe(1);
  expect(different.out).toMatch(/CALLS +TOOL +CALLER +ISSUER +THEN +NOW +EXAMPLES/);
  expect(different.out).toMatch(/order_get +agent-\d +https:\/\/idp\.test +allow +PERMISSION_DENIED/);
  const json = await runStc(["replay", "--config", configured(stricter), "--json"], { env });
  const report = JSON.parse(json.out);
  expect(json.code).toBe(1);
  expect(report.changed).toBe(report.changes.reduce((sum: number, { calls }: { calls: number }) => sum + calls, 0));
  expect(report.policyVersion).toMatch(/^[0-9a-f]{64}$/);
});

test("stc replay: nothing in the time, a wrong time, no audit, and a configuration that does not load", async () => {
  const config = configured(usualPolicy());
  const none = await runStc(["replay", "--config", config, "--to", "2020-01-01"], { env });
  expect([none.code, none.out.split("\n")[0]]).toEqual([0, expect.stringContaining("0 calls")]);
  expect((await runStc(["replay", "--config", config, "--from", "soon"], { env })).code).toBe(64);
  expect((await runStc(["replay", "--config", config, "--audit", join(files, "none")], { env })).code).toBe(66);
  const broken = usualPolicy();
  broken.rules.push({ name: "wrong", when: {}, verdict: "deny" });
  const refused = await runStc(["replay", "--config", configured(broken)], { env });
  expect([refused.code, refused.out]).toEqual([78, ""]);
  expect(refused.err).toContain("approvals.rules[3].when");
});

test("stc replay: says which line was changed or cut off, and ends with 65", async () => {
  const audit = join(files, "audit-changed");
  cpSync(join(world.folder, "audit"), audit, { recursive: true });
  const [name = ""] = dayFileNames(audit);
  const lines = readFileSync(join(audit, name), "utf8").trimEnd().split("\n");
  const replayed = (...more: string[]) =>
    runStc(["replay", "--config", configured(usualPolicy()), "--audit", audit, ...more], { env });
  writeFileSync(join(audit, name), `${lines.with(2, (lines[2] ?? "").replace("agent-", "agent_")).join("\n")}\n`);
  const text = await replayed();
  expect([text.code, text.err]).toEqual([65, ""]);
  expect(text.out).toContain(`${lines.length - 1} calls, judged by`);
  expect(text.out).toContain("lines of the audit were changed, removed or cut off");
  expect(text.out).toContain("1 line does not verify, and is not judged");
  expect(text.out).toContain(`changed: ${name}, line 3 (seq 2): does not agree with its own hash`);
  const json = await replayed("--json");
  expect(json.code).toBe(65);
  const damage = { kind: "changed", file: name, line: 3, seq: 2 };
  expect(JSON.parse(json.out)).toMatchObject({ changed: 0, audit: { unverified: 1, linesBefore: 0, damage } });
  writeFileSync(join(audit, name), lines.join("\n"));
  const cut = await replayed();
  expect([cut.code, cut.out]).toEqual([65, expect.stringContaining(`cut off: ${name}, line ${lines.length}`)]);
  // Without the saved position and the checkpoints, nothing shows that the last line was ever complete.
  rmSync(savedPositionPath(audit));
  rmSync(join(audit, "checkpoints"), { recursive: true });
  const torn = await replayed();
  expect([torn.code, torn.out]).toEqual([0, expect.stringContaining(`note: cut off: ${name}, line ${lines.length}`)]);
});

test("stc explain and stc check --matrix: from the configuration alone", async () => {
  const config = configured(usualPolicy());
  const asked = await runStc(["explain", "order_update", "--config", config, "--sub", "agent-1", "--args", '{"n":1}'], {
    env,
  });
  expect([asked.code, asked.err]).toEqual([1, ""]);
  expect(asked.out).toStartWith("ask: order_update for agent-1 (https://idp.test), mode default");
  expect(asked.out).toContain("ask    No rule lets this call run by itself, so a person decides.\n");
  expect(asked.out).toContain("autoEdit yolo: a session in one of these modes");
  const read = ["explain", "order_get", "--config", config, "--sub", "agent-1", "--args", '{"n":1}', "--json"];
  const allowed = await runStc(read, { env });
  expect(allowed.code).toBe(0);
  expect(JSON.parse(allowed.out)).toMatchObject({ verdict: "allow", plan: { tool: "order_get" }, changes: [] });
  const wrong = await runStc(["explain", "order_get", "--config", config], { env });
  expect([wrong.code, wrong.err]).toEqual([64, expect.stringContaining("sub: required")]);
  const matrix = await runStc(["check", "--matrix", "--csv", "--config", config], { env });
  expect([matrix.code, matrix.err]).toEqual([0, ""]);
  const [heads, ...rows] = matrix.out.trim().split("\n");
  expect(heads).toBe('"TOOL","agent-0","agent-1","agent-2","agent-3"');
  expect(rows).toEqual([
    '"bash","~","deny","~","deny"',
    '"order_delete","ask","deny","deny","ask"',
    '"order_get","~","~","~","~"',
    '"order_list","ask","ask","ask","ask"',
    '"order_note","~","~","deny","~"',
    '"order_ship","~","~","deny","~"',
    '"order_update","~","~","deny","~"',
    '"payment_send","~","~","~","~"',
  ]);
  const text = await runStc(["check", "--matrix", "--config", config], { env });
  expect(text.out).toMatch(/order_delete +ask +deny +deny +ask/);
});
