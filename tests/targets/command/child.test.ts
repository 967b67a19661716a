import { expect, test } from "bun:test";
import { join, resolve } from "node:path";
import { z } from "zod";
import { Refusal } from "../../../src/core/errors.ts";
import { CUT_MARGIN_BYTES, PartialAnswer } from "../../../src/core/partial-answer.ts";
import type { StdoutParser } from "../../../src/core/types.ts";
import { call, gone, pidIn, planOf, refusalFrom, stand, standTool } from "./stand.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

/** Time limit of a test whose child would never end by itself, long enough for a busy machine. */
const IN_TIME_MS = 60_000;

test("the answer is stdout, and the argv arrives token by token", async () => {
  const tool = standTool({ command: "argv", argsBuilder: () => ["a b", "$(id)", "", "é", "--", "-x"] });
  expect(await call(tool)).toEqual({ text: "[a b]\n[$(id)]\n[]\n[é]\n[--]\n[-x]\n" });
});

test("stdin is closed", async () => {
  expect(await call(standTool({ command: "read-stdin", argsBuilder: () => [] }))).toEqual({ text: "end\n" });
});

const writing = (bytes: number, parse: StdoutParser = "text", exitCode = 0) => {
  const argsBuilder = () => [String(exitCode), "x".repeat(bytes), ""];
  return standTool({ command: "exit-with", argsBuilder, parse }, undefined, { outputBytesMax: 80_000 });
};

test("text within the limit and its margin is complete; longer text is cut", async () => {
  const whole = 80_000 + CUT_MARGIN_BYTES;
  expect(await call(writing(whole))).toEqual({ text: "x".repeat(whole) });
  const cut = await call(writing(whole + 1));
  expect(cut).toEqual(new PartialAnswer({ text: "x".repeat(whole) }, { field: "text", bytesMax: 80_000 }));
});

test("a parser sees all of the output or nothing", async () => {
  const parse = (stdout: string) => ({ text: `${stdout.length}` });
  expect(await call(writing(80_000, parse))).toEqual({ text: "80000" });
  expect(await call(writing(80_001, parse))).toEqual(new PartialAnswer(undefined));
  expect(await call(writing(80_001, "json"))).toEqual(new PartialAnswer(undefined));
});

test("the exit code decides, however much was written", async () => {
  expect((await refusalFrom(call(writing(120_000, "text", 3)))).code).toBe("TARGET_FAILED");
});

test.each([
  ["read", [], "DEADLINE_EXCEEDED"],
  ["write", [], "OUTCOME_UNKNOWN"],
  ["read", ["stderr"], "DEADLINE_EXCEEDED"],
] as const)(
  "a flood that ignores SIGTERM is read until the deadline (%s %j: %s)",
  async (classification, argv, code) => {
    const tool = standTool({ command: "flood", argsBuilder: () => argv }, undefined, { classification });
    const refusal = await refusalFrom(call(tool, { timeoutMs: 300 }));
    expect(refusal.code).toBe(code);
    expect(String(refusal.cause).length).toBeLessThan(4_300);
  },
  IN_TIME_MS,
);

// The deadline leaves a busy machine enough time for the child to write its id.
test.concurrent.each([
  ["read", "DEADLINE_EXCEEDED"],
  ["write", "OUTCOME_UNKNOWN"],
  ["destructive", "OUTCOME_UNKNOWN"],
] as const)(
  "a child that does not end is killed at the deadline (%s: %s)",
  async (classification, code) => {
    const file = join(temporaryDirectory(), "pid");
    const tool = standTool({ command: "hang", argsBuilder: () => [file] }, undefined, { classification });
    const refusal = await refusalFrom(call(tool, { timeoutMs: 1_500 }));
    expect(refusal.code).toBe(code);
    await gone(await pidIn(file));
  },
  IN_TIME_MS,
);

test(
  "an abort kills the child",
  async () => {
    const file = join(temporaryDirectory(), "pid");
    const client = new AbortController();
    const work = refusalFrom(
      call(standTool({ command: "hang", argsBuilder: () => [file] }), { signal: client.signal }),
    );
    const pid = await pidIn(file);
    client.abort();
    expect((await work).code).toBe("CANCELLED");
    await gone(pid);
  },
  IN_TIME_MS,
);

test(
  "an abort whose reason is a timeout is a deadline",
  async () => {
    const tool = standTool({ command: "hang", argsBuilder: () => [join(temporaryDirectory(), "pid")] });
    expect((await refusalFrom(call(tool, { signal: AbortSignal.timeout(200) }))).code).toBe("DEADLINE_EXCEEDED");
  },
  IN_TIME_MS,
);

test.each(["read", "write"] as const)(
  "nothing runs after the deadline, so a %s call is certain",
  async (classification) => {
    const tool = standTool({ command: "argv", argsBuilder: () => [] }, undefined, { classification });
    expect((await refusalFrom(call(tool, { timeoutMs: 0 }))).code).toBe("DEADLINE_EXCEEDED");
  },
);

test("a call that has ended before its start runs nothing", async () => {
  const file = join(temporaryDirectory(), "pid");
  const binding = stand().handler.bind(standTool({ command: "hang", argsBuilder: () => [file] }));
  const { signal } = new AbortController();
  const plan = await binding.plan({}, { signal });
  const caller = { issuer: "i", subject: "s", permissions: [], actors: [], expiresAt: 0 };
  const begin = () => {
    throw new Refusal("HALTED", "over");
  };
  const work = binding.run(plan, { signal, deadline: 5_000, traceId: "t", caller, begin });
  expect((await refusalFrom(work)).code).toBe("HALTED");
  expect([await Bun.file(file).exists(), binding.callsBegin]).toEqual([false, true]);
});

test("a call that was cancelled before its start runs nothing", async () => {
  const file = join(temporaryDirectory(), "pid");
  const binding = stand().handler.bind(standTool({ command: "hang", argsBuilder: () => [file] }));
  const plan = await binding.plan({}, { signal: new AbortController().signal });
  const caller = { issuer: "i", subject: "s", permissions: [], actors: [], expiresAt: 0 };
  const work = binding.run(plan, { signal: AbortSignal.abort(), deadline: 5_000, traceId: "t", caller });
  expect((await refusalFrom(work)).code).toBe("CANCELLED");
  expect(await Bun.file(file).exists()).toBe(false);
});

test.each(["hold-stdout", "daemon"])(
  "%s: the answer does not wait for holders of stdout, and no process is left",
  async (command) => {
    const file = join(temporaryDirectory(), "pid");
    expect(await call(standTool({ command, argsBuilder: () => [file] }))).toEqual({ text: "done\n" });
    await gone(await pidIn(file));
  },
  IN_TIME_MS,
);

test(
  "closing the handler ends running commands",
  async () => {
    const file = join(temporaryDirectory(), "pid");
    const { handler } = stand();
    const work = refusalFrom(call(standTool({ command: "hang", argsBuilder: () => [file] }), { handler }));
    const pid = await pidIn(file);
    await handler.close();
    expect((await work).code).toBe("CANCELLED");
    await gone(pid);
  },
  IN_TIME_MS,
);

test("a child sees its own variables and none of the service's", async () => {
  const script = resolve(import.meta.dir, "../../support/bin/print-child-environment.ts");
  const service = Bun.spawn([process.execPath, "--no-env-file", "--config=/dev/null", script], {
    env: { PATH: "/evil", DATABASE_URL: "postgres://secret", GITHUB_PAT: "ghp_secret", LD_LIBRARY_PATH: "/evil" },
    stdout: "pipe",
    stderr: "inherit",
  });
  const answer = z.object({ text: z.string() }).parse(JSON.parse(await service.stdout.text()));
  const variables = new Map(
    answer.text
      .trim()
      .split("\n")
      .map((line) => line.split("=", 2) as [string, string]),
  );
  for (const shellsOwn of ["PWD", "SHLVL", "_", "OLDPWD"]) variables.delete(shellsOwn);
  expect([...variables.keys()].sort()).toEqual(["HOME", "LANG", "LC_ALL", "PATH", "STC_CALL_ID", "TZ"]);
  expect(variables.get("PATH")).toBe("/usr/local/bin:/usr/bin:/bin");
  expect(variables.get("TZ")).toBe("UTC");
});

test("the marker is not in the plan: two plans of one input are equal", async () => {
  const tool = standTool({ command: "argv", argsBuilder: () => ["x"] });
  const { handler, emptyDirectory } = stand();
  const plan = await planOf(tool, { handler });
  expect(plan).toEqual(await planOf(tool, { handler }));
  expect(plan).toMatchObject({ kind: "cli", argv: ["x"], cwd: emptyDirectory });
  expect(JSON.stringify(plan)).not.toContain("STC_CALL_ID");
});

test.each([
  ["a missing program", "/nonexistent/program"],
  ["a program that cannot run", "/etc/passwd"],
  ["a directory", "/tmp"],
])("%s is TARGET_UNAVAILABLE, without its path", async (_title, path) => {
  const { handler } = stand({ commands: new Map([["argv", path]]) });
  const tool = standTool({ command: "argv", argsBuilder: () => [] }, undefined, { classification: "write" });
  const refusal = await refusalFrom(call(tool, { handler }));
  expect(refusal.code).toBe("TARGET_UNAVAILABLE");
  expect(refusal.message + JSON.stringify(refusal.details)).not.toContain(path);
});

test("an argv that is too long together with its environment never runs", async () => {
  const argv = Array.from({ length: 8 }, () => "x".repeat(131_071));
  const refusal = await refusalFrom(call(standTool({ command: "argv", argsBuilder: () => argv })));
  expect(refusal).toMatchObject({ code: "TARGET_REFUSED", details: { status: "OUT_OF_RANGE" } });
});

test("many concurrent commands each get their own answer", async () => {
  const { handler } = stand();
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, index) =>
      call(standTool({ command: "argv", argsBuilder: () => [`${index}`] }), { handler }),
    ),
  );
  expect(answers).toEqual(Array.from({ length: 40 }, (_, index) => ({ text: `[${index}]\n` })));
});
