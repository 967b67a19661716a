import { describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, rmdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { canonicalJson, sha256Hex } from "../../../src/core/digest.ts";
import { Refusal } from "../../../src/core/errors.ts";
import { gone, pidIn, refusalFrom } from "../../targets/command/stand.ts";
import { bashStand } from "./stand.ts";

const LIMITS = { depthMax: 8, nodesMax: 10_000, bytesMax: 1_048_576 };
const digestOf = (plan: unknown): string => sha256Hex(canonicalJson(plan, LIMITS));

/** Bytes of an answer without output. */
const EMPTY_BYTES = JSON.stringify({ output: "", exitCode: 0, truncated: false }).length;

describe("a command's answer", () => {
  const stand = bashStand();
  test.each([
    ["its output", "echo hello", { output: "hello\n", exitCode: 0, truncated: false }],
    ["any exit code", "exit 3", { output: "", exitCode: 3, truncated: false }],
    ["standard error too", "echo out; echo err >&2", { exitCode: 0, truncated: false }],
    ["an error of bash itself", "if", { exitCode: 2, truncated: false }],
    ["a signal as a shell reports it", "kill -KILL $$", { output: "", exitCode: 137, truncated: false }],
    ["a fault of memory as a shell reports it", "kill -SEGV $$", { exitCode: 139 }],
    ["a broken pipe as a shell reports it", "kill -PIPE $$", { exitCode: 141 }],
    ["no input", "cat; echo end", { output: "end\n", exitCode: 0, truncated: false }],
    ["no colours", "printf '\\033[31mred\\033[0m'", { output: "red", exitCode: 0, truncated: false }],
    ["its home is the workspace", "cd && pwd", { output: `${stand.workspace}\n`, exitCode: 0 }],
    ["options behind -- are text", "-x", { exitCode: 127 }],
  ])("%s", async (_title, command, want) => {
    expect(await stand.call({ command })).toMatchObject(want);
  });

  test("both streams are in the output", async () => {
    const { output } = (await stand.call({ command: "echo out; echo err >&2" })) as { output: string };
    expect(output.trim().split("\n").sort()).toEqual(["err", "out"]);
  });

  test("only the listed environment", async () => {
    const { output } = (await stand.call({ command: "env | cut -d= -f1 | sort" })) as { output: string };
    expect(output.trim().split("\n")).toEqual(
      ["HOME", "LANG", "LC_ALL", "NO_COLOR", "PATH", "PWD", "SHLVL", "STC_CALL_ID", "TERM", "TZ", "_"].sort(),
    );
  });

  test("output over the limit is cut and marked", async () => {
    const bound = stand.tool.limits.outputBytesMax;
    const answer = (await stand.call({ command: `head -c ${bound + 1} /dev/zero | tr '\\0' x; exit 4` })) as {
      output: string;
    };
    expect(answer).toMatchObject({ exitCode: 4, truncated: true });
    expect(JSON.stringify(answer).length).toBeWithin(bound - 3, bound + 1);
  });

  test("output whose answer has exactly the limit is complete", async () => {
    const bound = stand.tool.limits.outputBytesMax;
    const answer = (await stand.call({ command: `head -c ${bound - EMPTY_BYTES} /dev/zero | tr '\\0' x` })) as {
      output: string;
    };
    expect(answer).toMatchObject({ exitCode: 0, truncated: false });
    expect(JSON.stringify(answer).length).toBeWithin(bound - 3, bound + 1);
  });

  test("many short lines over the limit are cut at exactly the limit", async () => {
    const bound = stand.tool.limits.outputBytesMax;
    const { output } = (await stand.call({ command: "seq 100000" })) as { output: string };
    expect(JSON.stringify(output).length).toBeWithin(bound - 50, bound + 1);
    expect(output.startsWith("1\n2\n3\n")).toBe(true);
  });

  test("a command continues after it has written too much", async () => {
    expect(await stand.call({ command: "head -c 5000000 /dev/zero; echo done > end" })).toMatchObject({ exitCode: 0 });
    expect(readFileSync(join(stand.workspace, "end"), "utf8")).toBe("done\n");
  });
});

/** Long enough for a busy machine to start the command. The tests below run concurrently because each waits this long. */
const LATE_MS = 2_000;

describe.concurrent("time", () => {
  const late = async (command: string) => {
    const stand = bashStand();
    const refusal = await refusalFrom(stand.run(await stand.plan({ command, timeoutMs: LATE_MS })));
    return { refusal, soFar: Refusal.outputSoFarOf(refusal)?.kept as { readonly output: string } };
  };

  test("a command that times out leaves its output so far, apart from the refusal's own fields", async () => {
    const { refusal, soFar } = await late("echo out; echo err >&2; sleep 60");
    expect(refusal).toMatchObject({
      code: "OUTCOME_UNKNOWN",
      message:
        `The command did not end within ${LATE_MS} ms, and was ended. ` +
        "It is not known whether the change happened. Check before you call again.",
      details: { timedOut: true, timeoutMs: LATE_MS },
    });
    expect(soFar as unknown).toEqual({ output: "out\nerr\n", exitCode: 137, truncated: true });
    expect(JSON.stringify(refusal)).not.toContain("err");
    expect(Object.values(refusal)).not.toContain(soFar);
  });

  test.each([
    ["a word that was not finished is left out", "printf 'first second thi'; sleep 60", "first second "],
    ["words that were finished stay", "printf 'Go on? [y/n] '; sleep 60", "Go on? [y/n] "],
    ["nothing", "sleep 60", ""],
    ["a flood", "yes", "y\n".repeat((262_144 + 16_384) / 2)],
  ])("output so far: %s", async (_title, command, want) => {
    const { output } = (await late(command)).soFar;
    expect(output === want).toBe(true);
  });

  test("a command that times out is ended with all its processes", async () => {
    const stand = bashStand();
    const plan = await stand.plan({ command: "sleep 60 & echo $! > pid; wait", timeoutMs: LATE_MS });
    const refusal = await refusalFrom(stand.run(plan));
    expect(refusal).toMatchObject({ code: "OUTCOME_UNKNOWN" });
    await gone(await pidIn(join(stand.workspace, "pid")));
  });

  test.skipIf(Bun.which("setsid") === null)(
    "processes that left the session of an ended command are ended too",
    async () => {
      const stand = bashStand();
      const command =
        "setsid sh -c 'echo $$ > pid; exec sleep 60' > /dev/null 2>&1 & until [ -s pid ]; do sleep 0.01; done";
      expect(await stand.call({ command })).toMatchObject({ exitCode: 0 });
      await gone(await pidIn(join(stand.workspace, "pid")));
    },
  );

  test("a command that times out gets SIGTERM, may write its last words, and starts nothing more", async () => {
    const { soFar } = await late("trap 'echo ended by TERM; exit' TERM; sleep 60 & wait; echo next");
    expect(soFar.output).toBe("ended by TERM\n");
  });

  test("a command that ignores SIGTERM is killed with all its processes", async () => {
    const stand = bashStand();
    const command = "trap '' TERM; sleep 60 & echo $! > pid; while :; do sleep 60; done";
    const refusal = await refusalFrom(stand.run(await stand.plan({ command, timeoutMs: LATE_MS })));
    expect(refusal).toMatchObject({ code: "OUTCOME_UNKNOWN", details: { timedOut: true } });
    await gone(await pidIn(join(stand.workspace, "pid")));
  });

  test("a command that ends in time with the code of SIGTERM has not timed out", async () => {
    expect(await bashStand().call({ command: "exit 143", timeoutMs: 5_000 })).toMatchObject({ exitCode: 143 });
  });

  test("the call's own deadline counts when it is shorter", async () => {
    const stand = bashStand();
    const plan = await stand.plan({ command: "sleep 60" });
    expect(await refusalFrom(stand.run(plan, { deadline: 200 }))).toMatchObject({ code: "OUTCOME_UNKNOWN" });
  });
});

describe("the working directory", () => {
  const stand = bashStand();
  const outside = bashStand().workspace;
  mkdirSync(join(stand.workspace, "sub/deep"), { recursive: true });
  symlinkSync(outside, join(stand.workspace, "leaves"));
  symlinkSync("sub", join(stand.workspace, "stays"));
  writeFileSync(join(stand.workspace, "file"), "");

  test.each([
    ["none", undefined, ""],
    [".", ".", ""],
    ["a folder", "sub/deep", "/sub/deep"],
    ["a link that stays inside", "stays", "/sub"],
  ])("%s", async (_title, workingDir, want) => {
    const args = workingDir === undefined ? { command: "pwd -P" } : { command: "pwd -P", workingDir };
    expect(await stand.call(args)).toMatchObject({ output: `${stand.workspace}${want}\n` });
  });

  test.each(["My Folder", "app/[id]", "(group)/größe", "日本語", ".github", "a+b=c,d", "@scope/it's", "x~1"])(
    "%j is an ordinary folder",
    async (workingDir) => {
      mkdirSync(join(stand.workspace, workingDir), { recursive: true });
      expect(await stand.call({ command: "pwd -P", workingDir })).toMatchObject({
        output: `${stand.workspace}/${workingDir}\n`,
      });
    },
  );

  test.each([
    ["a link that leaves", "leaves", "INVALID_ARGUMENT"],
    ["nothing", "missing", "NOT_FOUND"],
    ["a file", "file", "NOT_FOUND"],
  ])("%s is refused while planning", async (_title, workingDir, status) => {
    const refusal = await refusalFrom(stand.plan({ command: "pwd", workingDir }));
    expect(refusal).toMatchObject({ code: "TARGET_REFUSED", details: { status, fields: ["workingDir"] } });
  });

  test.each([
    "..",
    "../x",
    "sub/../..",
    "/etc",
    "-x",
    "a//b",
    "a\0b",
    "~",
    "$HOME",
    "sub/",
    "a\nb",
    "a\u202eb",
    "a\u200bb",
    "a\\b",
    "\ud800",
    "x".repeat(1_025),
  ])("%j is refused by the schema", (workingDir) => {
    expect(stand.tool.input.safeParse({ command: "pwd", workingDir }).success).toBe(false);
  });
});

describe("the plan", () => {
  test("is the whole of what will run", async () => {
    const { plan, workspace } = bashStand();
    expect(await plan({ command: "ls" })).toMatchObject({
      kind: "cli",
      argv: ["--noprofile", "--norc", "-c", "--", "ls"],
      cwd: workspace,
      environment: { HOME: workspace, TERM: "dumb" },
      files: {},
      unhashed: [],
      timeoutMs: 30_000,
    });
  });

  test.each([
    ["a word", "cat f.txt"],
    ["in quotes", "cat 'f'\".txt\""],
    ["in a script inside", "bash -c 'cat f.txt'"],
    ["behind cd", "cd sub && cat ../f.txt"],
    ["in a redirection", "wc -l < f.txt"],
    ["in an assignment", "x=f.txt; cat $x"],
    ["as an option's value", "grep --file=f.txt x"],
    ["in a here-document", "sh <<E\ncat f.txt\nE"],
    ["in a substitution", 'echo "$(cat ./f.txt)"'],
    ["from the home", "cat ~/f.txt"],
    ["below a folder that is entered", "cd sub; cat g.txt"],
  ])("changes with a file that the command names: %s", async (_title, command) => {
    const { plan, workspace } = bashStand();
    mkdirSync(join(workspace, "sub"));
    writeFileSync(join(workspace, "f.txt"), "before");
    writeFileSync(join(workspace, "sub/g.txt"), "before");
    const before = digestOf(await plan({ command }));
    expect(digestOf(await plan({ command }))).toBe(before);
    writeFileSync(join(workspace, command.includes("g.txt") ? "sub/g.txt" : "f.txt"), "after!");
    expect(digestOf(await plan({ command }))).not.toBe(before);
  });

  test("changes when a file that it names is created", async () => {
    const { plan, workspace } = bashStand();
    const before = digestOf(await plan({ command: "sh run.sh" }));
    writeFileSync(join(workspace, "run.sh"), "echo");
    expect(digestOf(await plan({ command: "sh run.sh" }))).not.toBe(before);
  });

  test("contains nothing of files outside, also through a link", async () => {
    const { plan, workspace } = bashStand();
    const outside = bashStand().workspace;
    writeFileSync(join(outside, "secret"), "x");
    symlinkSync(join(outside, "secret"), join(workspace, "link"));
    expect(await plan({ command: `cat link ${outside}/secret /etc/passwd` })).toMatchObject({ files: {} });
  });

  test("does not run in another directory that took its place", async () => {
    const { plan, run, workspace } = bashStand();
    const outside = bashStand().workspace;
    mkdirSync(join(workspace, "sub"));
    const planned = await plan({ command: "echo ran > sign", workingDir: "sub" });
    rmdirSync(join(workspace, "sub"));
    symlinkSync(outside, join(workspace, "sub"));
    expect(await refusalFrom(run(planned))).toMatchObject({ code: "TARGET_UNAVAILABLE" });
    expect(readdirSync(outside)).toEqual([]);
  });

  test("lists what it cannot hash: folders, patterns, too many files", async () => {
    const { plan, workspace } = bashStand();
    mkdirSync(join(workspace, "sub"));
    const names = Array.from({ length: 70 }, (_, index) => `f${index}`);
    for (const name of names) writeFileSync(join(workspace, name), name);
    const { files, unhashed } = (await plan({ command: `cat sub *.md ${names.join(" ")}` })) as {
      files?: unknown;
      unhashed?: unknown;
    };
    expect(Object.keys(files as object)).toHaveLength(64);
    expect(unhashed).toEqual(expect.arrayContaining(["sub/", "*.md"]));
    expect((unhashed as readonly string[]).length).toBe(8);
  });

  test("does not wait for a pipe", async () => {
    const { plan, call } = bashStand();
    await call({ command: "mkfifo p" });
    expect(await plan({ command: "cat p" })).toMatchObject({ files: {} });
  });

  test("is made for any command", async () => {
    const { plan } = bashStand();
    for (const command of ["if", "'", "$(", "a".repeat(8_000), "((((((((", "<<<", "\u202e", "${", "`".repeat(99)]) {
      expect(await plan({ command })).toMatchObject({ kind: "cli" });
    }
  });
});
