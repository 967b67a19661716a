import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { Refusal } from "../../../src/core/errors.ts";
import type { CliTarget, StderrMeaning, ToolClassification } from "../../../src/core/types.ts";
import type { Survivors } from "../../../src/targets/command/handler.ts";
import { STDERR_HEAD_BYTES, statusOfStderr, stderrTail } from "../../../src/targets/command/pipe.ts";
import { until } from "../../support/until.ts";
import { call, gone, pidIn, programs, refusalFrom, stand, standTool } from "./stand.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

type Cli = CliTarget<never>["cli"];

interface Row {
  readonly cause: string;
  readonly cli: Cli;
  readonly timeoutMs?: number;
  readonly signal?: () => AbortSignal;
  /** Codes for a tool that reads and for one that changes. */
  readonly codes: readonly [string, string];
  readonly operatorText: string;
}

const cli = (command: string, ...argv: readonly string[]): Cli => ({ command, argsBuilder: () => argv });
const pidFile = (): string => join(temporaryDirectory(), "pid");

const ROWS: readonly Row[] = [
  {
    cause: "exited",
    cli: cli("exit-with", "3", "out", "err"),
    codes: ["TARGET_FAILED", "TARGET_FAILED"],
    operatorText: "exit 3, 3 bytes on stderr",
  },
  {
    cause: "signalled",
    cli: cli("kill-itself"),
    codes: ["TARGET_FAILED", "OUTCOME_UNKNOWN"],
    operatorText: "signal, 0 bytes on stderr",
  },
  {
    cause: "timed out",
    cli: cli("hang", pidFile()),
    timeoutMs: 200,
    codes: ["DEADLINE_EXCEEDED", "OUTCOME_UNKNOWN"],
    operatorText: "deadline, 0 bytes on stderr",
  },
  {
    cause: "spawn failed",
    cli: cli("gone"),
    codes: ["TARGET_UNAVAILABLE", "TARGET_UNAVAILABLE"],
    operatorText: "spawnError, 0 bytes on stderr",
  },
  {
    cause: "cancelled",
    cli: cli("hang", pidFile()),
    signal: () => AbortSignal.abort(),
    codes: ["CANCELLED", "CANCELLED"],
    operatorText: "cancelled, 0 bytes on stderr",
  },
];

const CLASSES: readonly ToolClassification[] = ["read", "write"];

test.each(ROWS.flatMap((row) => CLASSES.map((made, index) => [row.cause, made, row.codes[index] ?? "", row] as const)))(
  "%s (%s): %s",
  async (_cause, classification, code, { cli: target, timeoutMs, signal, operatorText }) => {
    const { handler } = stand({ commands: new Map([...programs, ["gone", "/nonexistent/program"]]) });
    const tool = standTool(target, undefined, { classification });
    const limits = { ...(timeoutMs !== undefined && { timeoutMs }), ...(signal !== undefined && { signal: signal() }) };
    const got = await refusalFrom(call(tool, { handler, ...limits }));
    expect(got.code).toBe(code as typeof got.code);
    expect(String(got.cause)).toBe(`Error: ${operatorText}`);
  },
);

describe("survivors of a killed group", () => {
  const watched = () => {
    const reports: Survivors[] = [];
    return { reports, handler: stand({ onSurvivors: (one) => reports.push(one) }).handler };
  };

  test("are killed one by one, counted and reported; those in the group are not among them", async () => {
    const file = pidFile();
    const { handler, reports } = watched();
    const client = new AbortController();
    const work = refusalFrom(call(standTool(cli("leave-group", file)), { handler, signal: client.signal }));
    const pids = await until("three descendants", () => pidsIn(file, 3));
    client.abort();
    const refusal = await work;
    expect(refusal.code).toBe("CANCELLED");
    expect(String(refusal.cause)).toContain(", 2 processes survived the kill of its group");
    expect(reports).toEqual([{ command: "leave-group", count: 2 }]);
    for (const pid of pids) await gone(pid);
  });

  test("a survivor that holds the pipes of an ended program", async () => {
    const { handler, reports } = watched();
    const file = pidFile();
    expect(await call(standTool(cli("daemon", file)), { handler })).toEqual({ text: "done\n" });
    expect(reports).toEqual([{ command: "daemon", count: 1 }]);
    await gone(await pidIn(file));
  });

  test.each([
    ["nobody left", "argv"],
    ["a child that stays in the group", "hold-stdout"],
  ])("%s: no report", async (_title, command) => {
    const { handler, reports } = watched();
    await call(standTool(cli(command, pidFile())), { handler });
    expect(reports).toEqual([]);
  });
});

function pidsIn(file: string, count: number): readonly number[] | undefined {
  try {
    const pids = readFileSync(file, "utf8").split("\n").filter(Boolean).map(Number);
    return pids.length === count ? pids : undefined;
  } catch {
    return undefined;
  }
}

describe("the meaning of stderr", () => {
  const MEANS: readonly StderrMeaning[] = [
    { starts: "Error from server (NotFound): ", means: "NOT_FOUND" },
    { contains: "code = AlreadyExists desc", means: "ALREADY_EXISTS" },
  ];
  const failing = (code: number, stderr: string, exitCodes: Cli["exitCodes"] = {}): Cli => ({
    ...cli("exit-with", `${code}`, "", stderr),
    exitCodes,
    stderrMeans: MEANS,
  });

  test.each([
    [
      "a line that starts so",
      1,
      "warning: x\nError from server (NotFound): pods SECRET",
      "TARGET_REFUSED",
      "NOT_FOUND",
    ],
    ["not in the middle of one", 1, "SECRET Error from server (NotFound): ", "TARGET_FAILED", undefined],
    ["anywhere", 20, "rpc error: code = AlreadyExists desc = SECRET", "TARGET_REFUSED", "ALREADY_EXISTS"],
    ["a literal in other case", 1, "error from server (notfound): SECRET", "TARGET_FAILED", undefined],
    [
      "the first literal that matches",
      1,
      "Error from server (NotFound): code = AlreadyExists desc",
      "TARGET_REFUSED",
      "NOT_FOUND",
    ],
    ["an empty stderr", 1, "", "TARGET_FAILED", undefined],
  ] as const)("%s", async (_title, exitCode, stderr, code, status) => {
    const got = await refusalFrom(call(standTool(failing(exitCode, stderr))));
    expect([got.code, got.details?.["status"]]).toEqual([code, status]);
    expect(JSON.stringify([got.message, got.details, String(got.cause)])).not.toContain("SECRET");
  });

  test("a declared exit code takes precedence, and an answer stays an answer", async () => {
    const stderr = "Error from server (NotFound): x";
    const declared = await refusalFrom(call(standTool(failing(1, stderr, { 1: "OUT_OF_RANGE" }))));
    expect(declared.details).toEqual({ status: "OUT_OF_RANGE", exitCode: 1 });
    expect(await call(standTool(failing(0, stderr)))).toEqual({ text: "" });
  });

  test("only the beginning is read, and no text makes it throw", () => {
    const late = `${"x".repeat(STDERR_HEAD_BYTES)}\nError from server (NotFound): x`;
    expect(statusOfStderr(Buffer.from(late).subarray(0, STDERR_HEAD_BYTES), MEANS)).toBeUndefined();
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (before) => {
        const said = Buffer.concat([before, Buffer.from("\nError from server (NotFound): ")]);
        return statusOfStderr(said, MEANS) !== undefined && statusOfStderr(said, []) === undefined;
      }),
    );
  });

  test.each([
    ["too short", [{ starts: "Error", means: "NOT_FOUND" }], "target.cli.stderrMeans[0]"],
    ["too long", [{ starts: "x".repeat(129), means: "NOT_FOUND" }], "target.cli.stderrMeans[0]"],
    ["no text", [{ contains: 12345678, means: "NOT_FOUND" }], "target.cli.stderrMeans[0]"],
    ["a pattern", [{ contains: /NotFound/, means: "NOT_FOUND" }], "target.cli.stderrMeans[0]"],
    ["both", [{ starts: "x".repeat(9), contains: "x".repeat(9), means: "NOT_FOUND" }], "target.cli.stderrMeans[0]"],
    ["declared to mean OK", [{ starts: "x".repeat(9), means: "OK" }], "target.cli.stderrMeans[0]"],
    ["a line end", [{ starts: "12345678\n", means: "NOT_FOUND" }], "target.cli.stderrMeans[0]"],
    ["no list", { starts: "x".repeat(9), means: "NOT_FOUND" }, "target.cli.stderrMeans"],
    ["too many", Array.from({ length: 17 }, () => MEANS[0]), "target.cli.stderrMeans"],
  ])("a manifest whose literals are invalid does not load: %s", (_title, stderrMeans, field) => {
    const tool = standTool({ ...cli("argv"), stderrMeans: stderrMeans as never });
    expect(() => stand().handler.bind(tool)).toThrow(
      expect.objectContaining({ faults: [expect.objectContaining({ field })] }) as Error,
    );
  });
});

describe("a program's text about its failure", () => {
  const said = async (errors: "withheld" | "filtered", words: string, exitCodes: Cli["exitCodes"] = {}) => {
    const tool = standTool({ ...cli("exit-with", "3", "", words), exitCodes }, undefined, { errors });
    return Refusal.targetTextOf(await refusalFrom(call(tool)));
  };

  test("is kept only where the manifest says so", async () => {
    expect(await said("withheld", "no such thing")).toBeUndefined();
    expect(await said("filtered", "no such thing")).toBe("no such thing");
    expect(await said("filtered", "no such thing", { 3: "NOT_FOUND" })).toBe("no such thing");
    expect(await said("filtered", "")).toBeUndefined();
  });

  test("is kept as its last whole lines", async () => {
    const words = `${"first\n".repeat(5_000)}last`;
    const kept = (await said("filtered", words)) ?? "";
    expect(kept.length).toBeLessThanOrEqual(16_384);
    expect(kept.length).toBeGreaterThan(16_000);
    expect(kept).toMatch(/^(first\n)+last$/);
    expect(await said("filtered", "x".repeat(20_000))).toBeUndefined();
  });
});

test.each([[1], [7], [4_096], [100_000]])("the end of a stream in chunks of %i bytes", (size) => {
  const all = Buffer.from(Array.from({ length: 4_000 }, (_, at) => `line ${at}`).join("\n"));
  const tail = stderrTail();
  for (let at = 0; at < all.length; at += size) tail.add(all.subarray(at, at + size));
  const kept = Buffer.from(tail.lines()).toString();
  expect(kept.length).toBeGreaterThan(16_000);
  expect(kept.length).toBeLessThanOrEqual(16_384);
  expect(all.toString().endsWith(`\n${kept}`)).toBe(true);
});
