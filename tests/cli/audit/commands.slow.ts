import { afterAll, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { writeExportPosition } from "../../../src/audit/export/positions.ts";
import { keys, writeLog, writeWorkersLogs } from "../../audit/support/chained-log.ts";
import { entryLine, refusedLine, writeDays } from "../../support/audit-lines.ts";
import { RunningStc, runStc } from "../../support/stc.ts";
import { hasTerminals, TerminalStc } from "../../support/terminal.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-audit-commands-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const DAY = "2026-02-16";
const lines = [
  entryLine(`${DAY}T10:00:00.000Z`, { traceId: "t-1" }),
  refusedLine(`${DAY}T11:00:00.000Z`, ["INVALID_INPUT", "VALIDATION"], { traceId: "t-2" }),
  entryLine(`${DAY}T12:00:00.000Z`, { traceId: "t-3", caller: { sub: "evil\u001b[2J\u202e", permissions: [] } }),
];

function auditFolder(): string {
  const dir = mkdtempSync(join(folder, "audit-"));
  writeDays(dir, { [DAY]: lines });
  return dir;
}

const audit = (...args: readonly string[]) => runStc(["audit", ...args]);

describe.concurrent("query", () => {
  test("a table, newest first, aligned, without control sequences, uncoloured in a pipe", async () => {
    const { code, out, err } = await audit("query", "--dir", auditFolder());
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).not.toContain("\u001b");
    const rows = out.trimEnd().split("\n");
    expect(rows.map((row) => row.split(/ +/).at(-1))).toEqual(["POLICY", "t-3", "t-2", "t-1"]);
    expect(rows[1]).toContain("evil\\u001b[2J\\u202e");
    const [header = "", , refused = ""] = rows;
    expect(refused.indexOf("DENIED INVALID_INPUT")).toBe(header.indexOf("DECISION"));
    expect(refused.indexOf("agent-7")).toBe(header.indexOf("CALLER"));
  });

  // Days with 23 and 25 hours somewhere, a leap day, the turn of the year.
  test.each([
    ["America/New_York", "2026-03-08T02:30", "2026-03-08T03:00", "2026-03-08T02:45:00.000Z"],
    ["Europe/Berlin", "2026-10-25T02:00", "2026-10-25T02:30", "2026-10-25T02:15:00.000Z"],
    ["Pacific/Kiritimati", "2024-02-29", "2024-03-01", "2024-02-29T23:59:59.999Z"],
    ["Asia/Kathmandu", "2025-12-31T23:00:00Z", "2026-01-01T00:00:00Z", "2025-12-31T23:30:00.000Z"],
    ["Asia/Kathmandu", "2026-01-01T05:00+05:45", "2026-01-01T05:45+05:45", "2025-12-31T23:30:00.000Z"],
  ])("times are UTC whatever the machine's zone: %s, %s to %s", async (TZ, from, to, stamp) => {
    const dir = mkdtempSync(join(folder, "zone-"));
    const outside = [from, to].map((time) => new Date(Date.parse(time.length === 16 ? `${time}Z` : time)));
    const stamps = [new Date((outside[0]?.getTime() ?? 0) - 1).toISOString(), stamp, outside[1]?.toISOString() ?? ""];
    for (const [index, one] of stamps.entries()) {
      writeDays(dir, { [one.slice(0, 10)]: [entryLine(one, { traceId: `t-${index}` })] });
    }
    const { out } = await runStc(["audit", "query", "--json", "--dir", dir, "--from", from, "--to", to], {
      env: { TZ },
    });
    expect(
      out
        .trim()
        .split("\n")
        .map((line) => (JSON.parse(line) as { traceId: string }).traceId),
    ).toEqual(["t-1"]);
  });

  test("unchanged lines for programs; the rest by its cursor", async () => {
    const dir = auditFolder();
    const first = await audit("query", "--dir", dir, "--json", "--limit", "2", "--order", "oldest");
    expect(first.out).toBe(`${lines[0]}\n${lines[1]}\n`);
    const [, cursor = ""] = /^continue with --cursor (\S+)\n$/.exec(first.err) ?? [];
    const next = await audit("query", "--dir", dir, "--json", "--limit", "2", "--order", "oldest", "--cursor", cursor);
    expect(next.out).toBe(`${lines[2]}\n`);
  });

  test.each([
    [["--sub", "nobody"], 1, "no call matches\n"],
    [["--sub", "nobody", "--json"], 1, ""],
    [["--decision", "denied"], 64, "decision must be one of ALLOWED, DENIED, ERROR, PENDING, DRY_RUN\n"],
    [["--limit", "x"], 64, "limit must be a whole number from 1 to 1000000\n"],
    [["--cursor", "x"], 64, "cursor is not one of this query: send the filters and the order that it came with\n"],
  ])("%p ends with %d", async (args, code, err) => {
    const dir = auditFolder();
    expect(await audit("query", "--dir", dir, ...args)).toEqual({ code, out: "", err });
    expect(readdirSync(dir)).toEqual([`${DAY}.jsonl`]);
  });
});

describe.skipIf(!hasTerminals)("on a terminal", () => {
  test.each([
    [{}, "\u001b[33mDENIED INVALID_INPUT"],
    [{ NO_COLOR: "1" }, "  DENIED INVALID_INPUT"],
  ])("with %p", async (env, shown) => {
    const screen = new TerminalStc(["audit", "query", "--dir", auditFolder()], { env, columns: 200 });
    await screen.shows(shown);
    expect(await screen.ends()).toBe(0);
    expect(screen.out).not.toContain("\u001b[2J");
    screen.close();
  });
});

describe.concurrent("the others", () => {
  test.each(["query", "tail", "stats", "show t-1", "export --format csv", "prune --keep 1d"])(
    "%s: 66 without a directory",
    async (command) => {
      const { code, err } = await audit(...command.split(" "), "--dir", join(folder, "nowhere"));
      expect({ code, err }).toEqual({ code: 66, err: `there is no audit directory ${join(folder, "nowhere")}\n` });
    },
  );

  test.each([
    ["show t-9", 1],
    ["show a\u0001b", 64],
    ["stats --sub nobody", 1],
    ["stats --compare soon", 64],
    ["tail --stage NOWHERE", 64],
    ["export --format xml", 64],
    ["export --format jsonl --sub nobody", 1],
    ["export --format jsonl --to soon", 64],
    ["prune --keep forever", 64],
    ["prune --keep 9999w", 1],
  ])("%s ends with %d", async (command, code) => {
    expect((await audit(...command.split(" "), "--dir", auditFolder())).code).toBe(code);
  });

  test.each(["query", "tail", "stats", "show t-9", "export --format csv"])(
    "%s says which file cannot be read",
    async (command) => {
      const dir = auditFolder();
      mkdirSync(join(dir, "2026-02-17.jsonl"));
      const { code, err } = await audit(...command.split(" "), "--dir", dir);
      expect({ code, err }).toEqual({
        code: 66,
        err: `cannot read ${join(dir, "2026-02-17.jsonl")}: it is not a regular file: move it away\n`,
      });
    },
  );

  test("show prints the sequence in order, who decided and why, and the whole line", async () => {
    const dir = auditFolder();
    writeDays(join(dir, "journal"), {
      [DAY]: [JSON.stringify({ timestamp: `${DAY}T09:59:59.000Z`, type: "intent", traceId: "t-1" })],
    });
    const { out } = await audit("show", "t-1", "--dir", dir);
    expect(out.indexOf("intent")).toBeLessThan(out.indexOf("call ALLOWED"));
    expect(out).toContain("asked to run get_customer.\nEvery policy allowed the call, and no approval was needed.\n");
    expect(out).toContain("\nThe call ran and was answered.\n");
    expect(out).toContain('"argsHash": "aaaa');
    const asLines = await audit("show", "t-1", "--json", "--dir", dir);
    expect(asLines.out.trimEnd().split("\n").at(-1)).toBe(lines[0] ?? "");
  });

  test("stats for people and for programs", async () => {
    const dir = auditFolder();
    const { out } = await audit("stats", "--dir", dir);
    expect(out).toContain("3 calls\n");
    expect(out).toMatch(/INVALID_INPUT VALIDATION get_customer +1\n/);
    const json = JSON.parse((await audit("stats", "--json", "--dir", dir)).out) as { calls: number };
    expect(json.calls).toBe(3);
  });

  test("export creates a new file for its owner alone, and overwrites none", async () => {
    const dir = auditFolder();
    const file = join(dir, "out.jsonl");
    const first = await audit("export", "--format", "jsonl", "-o", file, "--dir", dir, "--to", `${DAY}T12:00`);
    expect(first).toEqual({ code: 0, out: "", err: `2 calls in ${file}\n` });
    expect(readFileSync(file, "utf8")).toBe(`${lines[0]}\n${lines[1]}\n`);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect((await audit("export", "--format", "csv", "-o", file, "--dir", dir)).code).toBe(73);
    expect(readFileSync(file, "utf8")).toBe(`${lines[0]}\n${lines[1]}\n`);
  });

  test("prune lists what would be deleted, then deletes it", async () => {
    const dir = auditFolder();
    writeDays(dir, { "2026-02-01": lines, "2026-02-02": lines });
    const dry = await audit("prune", "--keep", "1d", "--dry-run", "--dir", dir);
    expect(dry.out.match(/would be deleted/g)).toHaveLength(2);
    expect(dry.out).toContain("kept: the log goes on from its newest file");
    expect(existsSync(join(dir, "2026-02-01.jsonl"))).toBe(true);
    const real = await audit("prune", "--keep", "1d", "--dir", dir);
    expect(real.code).toBe(0);
    expect(readdirSync(dir).sort()).toEqual([`${DAY}.jsonl`, "pruned.jsonl"]);
  });
});

test("show indents no line more deeply than our own", async () => {
  const depth = 2_000;
  const dir = mkdtempSync(join(folder, "audit-"));
  const line = entryLine(`${DAY}T10:00:00.000Z`, { traceId: "t-1" }).replace(
    '"args":{',
    `"args":{"deep":${'{"a":'.repeat(depth)}1${"}".repeat(depth)},`,
  );
  writeDays(dir, { [DAY]: [line] });
  const { code, out } = await audit("show", "t-1", "--dir", dir);
  expect(code).toBe(0);
  expect(out.endsWith(`\n${line}\n`)).toBe(true);
});

describe.concurrent("tail", () => {
  test("its filters apply to existing and new lines, across midnight", async () => {
    const dir = auditFolder();
    const tail = new RunningStc(["audit", "tail", "-f", "--json", "-n", "5", "--decision", "DENIED", "--dir", dir]);
    await tail.printed("t-2");
    appendFileSync(join(dir, `${DAY}.jsonl`), `${entryLine(`${DAY}T13:00:00.000Z`, { traceId: "t-4" })}\n`);
    const next = refusedLine("2026-02-17T00:00:00.000Z", ["INVALID_INPUT", "VALIDATION"], { traceId: "t-5" });
    writeDays(dir, { "2026-02-17": [next] });
    await tail.printed("t-5");
    expect(tail.out.match(/"traceId":"t-\d"/g)).toEqual(['"traceId":"t-2"', '"traceId":"t-5"']);
    await tail.end("SIGINT");
  });

  test("a worker that starts later", async () => {
    const dir = auditFolder();
    const tail = new RunningStc(["audit", "tail", "-f", "--json", "--dir", dir]);
    await tail.printed("t-1");
    mkdirSync(join(dir, "worker-1"));
    writeDays(join(dir, "worker-1"), { [DAY]: [entryLine(`${DAY}T13:00:00.000Z`, { traceId: "t-late" })] });
    await tail.printed("t-late");
    await tail.end("SIGINT");
  });

  test("a directory that begins empty", async () => {
    const dir = join(folder, "empty");
    mkdirSync(dir);
    const tail = new RunningStc(["audit", "tail", "-f", "--dir", dir]);
    writeFileSync(join(dir, `${DAY}.jsonl`), `${lines[0]}\n`);
    await tail.printed("t-1");
    await tail.end("SIGINT");
  });
});

describe.concurrent("audit exports", () => {
  test("says which lines of a replica that is gone were not sent, and which were refused for good", async () => {
    const dir = mkdtempSync(join(folder, "gone-"));
    await writeLog(dir);
    expect(await audit("exports", "--dir", dir)).toMatchObject({ code: 1, err: expect.stringContaining("--exporter") });
    const calls = readFileSync(join(dir, "2026-02-17.jsonl"), "utf8");
    const offset = calls.indexOf("\n", calls.indexOf("\n") + 1) + 1;
    writeExportPosition(dir, { exporter: "loki", stream: "calls", position: { day: "2026-02-17", offset } });
    const size = statSync(join(dir, "journal/2026-02-19.jsonl")).size;
    writeExportPosition(dir, { exporter: "loki", stream: "journal", position: { day: "2026-02-19", offset: size } });
    writeFileSync(join(dir, "export/loki.dead.jsonl"), `${JSON.stringify({ exporter: "loki", stream: "journal" })}\n`);
    const found = await audit("exports", "--dir", dir, "--exporter", "archive", "--json");
    expect(found.code).toBe(1);
    const { complete, exports } = JSON.parse(found.out);
    expect(complete).toBe(false);
    const first = { seq: 7, timestamp: "2026-02-17T12:00:03.000Z" };
    const last = { seq: 14, timestamp: "2026-02-19T12:00:05.000Z" };
    const log = logIdIn(dir, "calls");
    expect(exports.slice(0, 3)).toEqual([
      { dir, exporter: "loki", stream: "calls", log, lines: 8, first, last, deadLines: 0 },
      { dir, exporter: "loki", stream: "journal", log: logIdIn(dir, "journal"), lines: 0, deadLines: 1 },
      {
        dir,
        exporter: "loki",
        stream: "checkpoints",
        lines: 2,
        ...{ first: expect.anything(), last: expect.anything() },
        deadLines: 0,
      },
    ]);
    expect(exports[3]).toMatchObject({ exporter: "archive", stream: "calls", lines: 15, first: { seq: 0 } });
    expect((await audit("exports", "--dir", dir)).out).toContain("7 to 14");
  });

  test("ends with 0 when everything was sent", async () => {
    const dir = mkdtempSync(join(folder, "sent-"));
    await writeLog(dir);
    for (const [stream, file] of [
      ["calls", "2026-02-19.jsonl"],
      ["journal", "journal/2026-02-19.jsonl"],
      ["checkpoints", "checkpoints/2026-02-19.txt"],
    ] as const) {
      const position = { day: "2026-02-19", offset: statSync(join(dir, file)).size };
      writeExportPosition(dir, { exporter: "loki", stream, position });
    }
    const { code, out } = await audit("exports", "--dir", dir, "--json");
    expect([code, JSON.parse(out).complete]).toEqual([0, true]);
  });
});

describe.concurrent("logs of several workers", () => {
  /** The directory's own log, and those of two workers, each written by the product with the same key. */
  async function workersFolder(): Promise<{ readonly dir: string; readonly key: string }> {
    const dir = mkdtempSync(join(folder, "workers-"));
    await writeWorkersLogs(dir);
    const key = join(folder, `${basename(dir)}.pem`);
    writeFileSync(key, keys.publicKey.export({ type: "spki", format: "pem" }));
    return { dir, key };
  }

  test("are read as one", async () => {
    const { dir } = await workersFolder();
    const found = await audit("query", "--json", "--limit", "100", "--dir", dir);
    expect(found.out.trim().split("\n")).toHaveLength(45);
    const stats = JSON.parse((await audit("stats", "--json", "--from", "2026-02-01", "--dir", dir)).out);
    expect(stats.calls).toBe(45);
    const shown = (await audit("show", "t-1-1", "--json", "--dir", dir)).out.trim().split("\n");
    expect(shown).toHaveLength(6);
    const logs = ["", "worker-1", "worker-2"].map((log) => join(dir, log));
    const logIds = logs.flatMap((log) => [logIdIn(log, "journal"), logIdIn(log, "calls")]);
    expect(shown.map((line) => /^{"log":"([0-9a-f]{32})","timestamp"/.exec(line)?.[1]).toSorted()).toEqual(
      logIds.toSorted(),
    );
    expect(found.out).toStartWith(`{"log":"${logIdIn(dir, "calls")}","timestamp"`);
    const tail = await audit("tail", "-n", "4", "--json", "--dir", dir);
    const ids = tail.out
      .trim()
      .split("\n")
      .map((line) => (JSON.parse(line) as { traceId: string }).traceId);
    expect(ids).toEqual(["t-2-3", "t-2-4", "t-2-4", "t-2-4"]);
    expect((await audit("export", "--format", "csv", "--dir", dir)).out.trim().split("\n")).toHaveLength(46);
    expect((await audit("prove", "t-2-4", "--dir", dir)).code).toBe(0);
    const old = JSON.parse((await audit("prune", "--keep", "1d", "--dry-run", "--json", "--dir", dir)).out);
    const paths = (old.files as readonly { readonly path: string }[]).map(({ path }) => path);
    expect(["worker-1", "worker-2"].map((log) => paths.some((path) => path.includes(`/${log}/`)))).toEqual([
      true,
      true,
    ]);
  });

  test("are verified each by itself, and the report names the log", async () => {
    const { dir, key } = await workersFolder();
    const sound = await audit("verify", "--dir", dir, "--key", key);
    expect(sound.code).toBe(0);
    expect(sound.out.split("\n").filter((line) => line === "ok" || line.endsWith(":"))).toEqual([
      ...["ok", "worker-1:", "ok", "worker-2:", "ok", "all logs:", "ok"],
    ]);
    const file = join(dir, "worker-2", "2026-02-17.jsonl");
    writeFileSync(file, readFileSync(file, "utf8").replace("t-1-2", "t-9-9"));
    const changed = await audit("verify", "--dir", dir, "--key", key);
    expect(changed.code).toBe(1);
    expect(changed.out.split("\nworker-2:\n")[1]).toContain("changed: 2026-02-17.jsonl, line 3");
    expect(changed.out).toEndWith("\nall logs:\nNOT SOUND\n");
    const json = JSON.parse((await audit("verify", "--json", "--dir", dir, "--key", key)).out);
    expect(json).toMatchObject({
      ok: false,
      workers: [
        { log: "worker-1", ok: true },
        { log: "worker-2", ok: false },
      ],
      logProblems: [],
    });
  });

  test("are compared with what the journal has recorded, also when only some days are verified", async () => {
    const { dir, key } = await workersFolder();
    const [one, two] = [join(dir, "worker-1"), join(dir, "worker-2")];
    expect((await audit("verify", "--dir", dir, "--from", "2026-02-17", "--to", "2026-02-17")).code).toBe(6);
    rmSync(two, { recursive: true });
    cpSync(one, two, { recursive: true });
    for (const range of [[], ["--from", "2026-02-17"], ["--to", "2026-02-16"]]) {
      const { code, out } = await audit("verify", "--dir", dir, "--key", key, ...range);
      expect(code).toBe(3);
      const [, problems = ""] = out.split("\nall logs:\n");
      expect(problems.replaceAll(/ \([^)]*\)/g, "").split("\n")).toEqual([
        "duplicate log: worker-2: has the same origin as worker-1: one is a copy of the other",
        "wrong log: worker-2: holds the log of worker-1",
        "missing log: worker-2: the journal recorded a log of this worker that is not here",
        "NOT SOUND",
        "",
      ]);
    }
    const json = JSON.parse((await audit("verify", "--json", "--dir", dir, "--key", key)).out);
    expect(json).toMatchObject({ ok: false, workers: [{ ok: true }, { ok: true }] });
    expect(json.logProblems.map(({ kind }: { kind: string }) => kind)).toEqual([
      ...["duplicate log", "wrong log", "missing log"],
    ]);
  });
});
