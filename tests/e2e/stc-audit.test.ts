import { afterAll, describe, expect, test } from "bun:test";
import { appendFileSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { entryLine, writeDays } from "../support/audit-lines.ts";
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

describe.concurrent("several --dir are read as one log", () => {
  const APPROVAL = "0198b2f6-0000-7000-8000-000000000001";
  const by = "human:https://people.test|alice";
  const [asked, ran] = ["0198d000-0000-7000-8000-000000000001", "0198d000-0000-7000-8000-000000000002"];

  /** The logs of two replicas: one was asked, on the other the approver voted and the call ran. */
  function replicas(): readonly [string, string] {
    const [one, two] = [mkdtempSync(join(folder, "one-")), mkdtempSync(join(folder, "two-"))];
    const event = (type: string, at: string, more: object): string =>
      JSON.stringify({ timestamp: `2026-02-16T10:00:0${at}Z`, type, id: APPROVAL, ...more });
    const pending = { decision: "PENDING", error: { code: "APPROVAL_REQUIRED" }, approval: { id: APPROVAL } } as const;
    writeDays(one, {
      "2026-02-16": [
        entryLine("2026-02-16T10:00:01.000Z", { traceId: asked, response: undefined, ...pending }),
        entryLine("2026-02-16T10:00:09.000Z", { traceId: "0198d000-0000-7000-8000-000000000003" }),
      ],
    });
    writeDays(join(one, "journal"), { "2026-02-16": [event("approval.asked", "1.000", { traceId: asked })] });
    writeDays(two, {
      "2026-02-16": [entryLine("2026-02-16T10:00:03.000Z", { traceId: ran, approval: { by, id: APPROVAL } })],
    });
    const decider = { issuer: "https://people.test", subject: "alice" };
    writeDays(join(two, "journal"), { "2026-02-16": [event("approval.decided", "2.000", { decider })] });
    return [one, two];
  }

  const named = (dirs: readonly string[]) => dirs.flatMap((dir) => ["--dir", dir]);

  test("stc audit show tells the whole story, in the order of time", async () => {
    const dirs = replicas();
    for (const order of [dirs, dirs.toReversed()]) {
      const { code, out } = await runStc(["audit", "show", asked, "--json", ...named(order)]);
      expect(code).toBe(0);
      const lines = out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
      expect(lines.map((line) => line.type ?? line.decision).sort()).toEqual(
        ["PENDING", "approval.asked", "approval.decided", "ALLOWED"].sort(),
      );
      expect(lines.map(({ timestamp }) => timestamp)).toEqual(lines.map(({ timestamp }) => timestamp).toSorted());
    }
    const alone = await runStc(["audit", "show", asked, "--json", ...named(dirs.slice(0, 1))]);
    expect(alone.out.trim().split("\n")).toHaveLength(2);
  });

  test("stc audit query and export merge the calls by time", async () => {
    const dirs = replicas();
    const traces = async (...args: readonly string[]) => {
      const { out } = await runStc(["audit", ...args, ...named(dirs)]);
      return out
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).traceId.slice(-1));
    };
    expect(await traces("query", "--json")).toEqual(["3", "2", "1"]);
    expect(await traces("query", "--json", "--order", "oldest", "--limit", "2")).toEqual(["1", "2"]);
    expect(await traces("query", "--json", "--approver", "alice")).toEqual(["2"]);
    expect(await traces("export", "--format", "jsonl")).toEqual(["1", "2", "3"]);
  });

  test("nobody approved a call that waits", async () => {
    const { out } = await runStc(["audit", "export", "--format", "csv", ...named(replicas())]);
    const [header = "", ...rows] = out.trim().split("\n");
    const column = header.split(",").indexOf("approvedBy");
    expect(rows.map((row) => row.match(/("(?:[^"]|"")*"|[^,]*)(?:,|$)/g)?.[column])).toEqual([",", `"${by}",`, ","]);
  });

  test("a missing directory, and a cursor for several", async () => {
    const [one, two] = replicas();
    const missing = await runStc(["audit", "query", ...named([one, join(folder, "nowhere")])]);
    expect(missing).toMatchObject({ code: 66, err: `there is no audit directory ${join(folder, "nowhere")}\n` });
    const cursor = await runStc(["audit", "query", "--cursor", "x", ...named([one, two])]);
    expect(cursor.code).toBe(64);
  });
});
