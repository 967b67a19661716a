import { afterAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { RunningStc, runStc } from "../support/stc.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-audit-")));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.concurrent("stc audit tail", () => {
  const line = (name: string): string =>
    `${JSON.stringify({ timestamp: "2026-01-02T03:04:05.006Z", traceId: name, caller: { sub: "a\u001b[2J" }, tool: { name }, decision: "DENIED", error: { code: "TOOL_NOT_FOUND" }, duration: 1.25 })}\n`;

  function auditFolder(): string {
    const dir = realpathSync(mkdtempSync(join(folder, "tail-")));
    writeFileSync(join(dir, "2026-01-01.jsonl"), line("one") + line("two"));
    writeFileSync(join(dir, "2026-01-02.jsonl"), `${line("three")}{"half a li`);
    return dir;
  }

  test("shows the latest lines, across days, without control sequences", async () => {
    const { code, out } = await runStc(["audit", "tail", "-n", "2", "--dir", auditFolder()]);
    expect(code).toBe(0);
    expect(
      out
        .trimEnd()
        .split("\n")
        .map((shown) => shown.split(/ +/).at(-1)),
    ).toEqual(["two", "three"]);
    expect(out).not.toContain("\u001b");
    expect(out).toContain("2026-01-02T03:04:05.006Z  DENIED TOOL_NOT_FOUND");
  });

  test("shows the unchanged lines for programs", async () => {
    const { out } = await runStc(["audit", "tail", "--json"], { env: { STC_AUDIT_DIR: auditFolder() } });
    expect(out).toBe(line("one") + line("two") + line("three"));
  });

  test("-f continues as lines are written", async () => {
    const dir = auditFolder();
    const tail = new RunningStc(["audit", "tail", "-f", "--json", "-n", "1", "--dir", dir]);
    await tail.printed('"three"');
    appendFileSync(join(dir, "2026-01-02.jsonl"), `ne"}\n${line("four")}`);
    writeFileSync(join(dir, "2026-01-03.jsonl"), line("five"));
    await tail.printed('"five"');
    expect(tail.out.split("\n")[1]).toBe('{"half a line"}');
    expect(tail.out.match(/"traceId":"\w+"/g)).toEqual(['"traceId":"three"', '"traceId":"four"', '"traceId":"five"']);
    await tail.end("SIGINT");
  });

  test.each(["nowhere", "a-file"])("reports that %s is not a directory", async (name) => {
    writeFileSync(join(folder, "a-file"), "");
    const { code, err } = await runStc(["audit", "tail", "--dir", join(folder, name)]);
    expect(code).toBe(66);
    expect(err).toBe(`there is no audit directory ${join(folder, name)}\n`);
  });
});
