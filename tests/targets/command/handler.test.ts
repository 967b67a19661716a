import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import { z } from "zod";
import { ManifestError } from "../../../src/core/errors.ts";
import type { CliTarget, Tool } from "../../../src/core/types.ts";
import { call, planOf, refusalFrom, stand, standTool } from "./stand.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

type Cli = CliTarget<never>["cli"];
const none = () => [];

function faultsOf(tool: Tool, commands?: ReadonlyMap<string, string>): readonly string[] {
  try {
    stand(commands === undefined ? {} : { commands }).handler.bind(tool);
    return [];
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.faults.map(({ field }) => field);
  }
}

describe("bind", () => {
  const refused: readonly [string, Cli, string][] = [
    ["a command that the configuration does not allow", { command: "curl", argsBuilder: none }, "target.cli.command"],
    ["a prototype's name as command", { command: "constructor", argsBuilder: none }, "target.cli.command"],
    ["an option that is none", { command: "argv", argsBuilder: none, options: ["x"] }, "target.cli.options[0]"],
    ["-- as an option", { command: "argv", argsBuilder: none, options: ["--"] }, "target.cli.options[0]"],
    [
      "a variable that loads code",
      { command: "argv", argsBuilder: none, environment: { LD_PRELOAD: "x" } },
      "target.cli.environment.LD_PRELOAD",
    ],
    [
      "an exit code that is none",
      { command: "argv", argsBuilder: none, exitCodes: { 256: "OK" } },
      "target.cli.exitCodes",
    ],
    [
      "a meaning that is none",
      { command: "argv", argsBuilder: none, exitCodes: { 1: "FINE" as never } },
      "target.cli.exitCodes",
    ],
  ];
  test.each(refused)("refuses %s", (_title, cli, field) => {
    expect(faultsOf(standTool(cli))).toContain(field);
  });

  test("refuses a relative path to the program", () => {
    expect(faultsOf(standTool({ command: "x", argsBuilder: none }), new Map([["x", "bin/x"]]))).toEqual([
      "target.cli.command",
    ]);
  });

  const outputs: readonly [string, z.ZodType, boolean][] = [
    ["one string", z.strictObject({ diff: z.string() }), true],
    ["one bounded string", z.object({ diff: z.string().max(10) }), true],
    ["two strings", z.object({ a: z.string(), b: z.string() }), false],
    ["a number", z.object({ a: z.number() }), false],
    ["no field", z.object({}), false],
    ["a bare string", z.string(), false],
  ];
  test.each(outputs)("text into %s", (_title, output, fits) => {
    const faults = faultsOf(standTool({ command: "argv", argsBuilder: none }, output));
    expect(faults).toEqual(fits ? [] : ["target.cli.parse"]);
    expect(faultsOf(standTool({ command: "argv", argsBuilder: none, parse: "json" }, output))).toEqual([]);
  });

  test("lists every error at once", () => {
    const tool = standTool({ command: "curl", argsBuilder: none, options: ["x"] }, z.string());
    expect(faultsOf(tool)).toEqual(["target.cli.command", "target.cli.options[0]", "target.cli.parse"]);
  });
});

describe("plan", () => {
  test("contains command, argv, cwd and the whole environment", async () => {
    const { handler, emptyDirectory } = stand();
    const cwd = temporaryDirectory();
    const tool = standTool({
      command: "argv",
      argsBuilder: () => ["--", "x"],
      cwd: () => cwd,
      environment: { KUBECONFIG: "/etc/stc/kubeconfig" },
    });
    expect(await planOf(tool, { handler })).toEqual({
      kind: "cli",
      command: expect.stringMatching(/^\/.*\/argv\.sh$/),
      commandSha256: expect.stringMatching(/^[0-9a-f]{64}$/),
      argv: ["--", "x"],
      cwd,
      environment: {
        PATH: "/usr/local/bin:/usr/bin:/bin",
        HOME: emptyDirectory,
        LANG: "C.UTF-8",
        LC_ALL: "C.UTF-8",
        TZ: "UTC",
        KUBECONFIG: "/etc/stc/kubeconfig",
      },
    });
  });

  test("a working directory may be fixed", async () => {
    const cwd = temporaryDirectory();
    expect(await planOf(standTool({ command: "argv", argsBuilder: none, cwd }))).toMatchObject({ cwd });
  });

  const unbuildable: readonly [string, Partial<Cli>, string][] = [
    ["an option that is not declared", { argsBuilder: () => ["-x"] }, "INTERNAL"],
    ["NUL", { argsBuilder: () => ["a\0b"] }, "INTERNAL"],
    ["a lone surrogate", { argsBuilder: () => ["\ud800"] }, "INTERNAL"],
    ["a token that is not text", { argsBuilder: () => [7 as never] }, "INTERNAL"],
    ["a relative working directory", { cwd: () => "somewhere" }, "INTERNAL"],
    ["a working directory that does not exist", { cwd: () => "/nonexistent/place" }, "TARGET_UNAVAILABLE"],
    ["a fixed working directory that does not exist", { cwd: "/nonexistent/place" }, "TARGET_UNAVAILABLE"],
    ["a working directory that is a file", { cwd: () => "/etc/passwd" }, "TARGET_UNAVAILABLE"],
    ["a variable built from the input that loads code", { environment: () => ({ GIT_SSH_COMMAND: "x" }) }, "INTERNAL"],
    ["a variable with NUL", { environment: () => ({ X: "a\0b" }) }, "INTERNAL"],
  ];
  test.each(unbuildable)("%s never runs", async (_title, cli, code) => {
    const refusal = await refusalFrom(planOf(standTool({ command: "argv", argsBuilder: none, ...cli })));
    expect(refusal.code).toBe(code as never);
    expect(refusal.details).toBeUndefined();
    expect(refusal.message).not.toMatch(/nonexistent|passwd|GIT_/);
  });

  const long = "x".repeat(131_072);
  const tooLong: readonly [string, Partial<Cli>][] = [
    ["one argument", { argsBuilder: () => ["--", long] }],
    ["one in bytes", { argsBuilder: () => ["--", "\u20ac".repeat(43_691)] }],
    ["all of them", { argsBuilder: () => ["--", ...Array.from({ length: 9 }, () => "x".repeat(131_000))] }],
    ["their number", { argsBuilder: () => ["--", ...Array.from({ length: 256 }, () => "x")] }],
    ["a lookup's", { lookups: { id: () => [{ args: ["--", long], answer: /^x$/ }] } }],
    ["a variable built from the input", { environment: () => ({ NOTE: "x".repeat(131_067) }) }],
    [
      "arguments and variables",
      {
        argsBuilder: () => ["--", ...Array.from({ length: 5 }, () => "x".repeat(131_000))],
        environment: () => Object.fromEntries(["A", "B", "C", "D"].map((name) => [name, "x".repeat(131_000)])),
      },
    ],
  ];
  test.each(tooLong)("arguments too long for a command are refused, and the agent is told: %s", async (_title, cli) => {
    const refusal = await refusalFrom(planOf(standTool({ command: "argv", argsBuilder: none, ...cli })));
    expect([refusal.code, refusal.details]).toEqual(["TARGET_REFUSED", { status: "OUT_OF_RANGE" }]);
    expect(refusal.message).toBe(
      "The arguments are too long for a command: at most 256, of 131071 bytes each and 1048576 in all. Send less.",
    );
  });

  const shell = (script: string): Promise<unknown> => {
    const { handler } = stand({ commands: new Map([["bash", "/bin/bash"]]) });
    const argsBuilder = () => ["--noprofile", "--norc", "-c", "--", script];
    const tool = standTool({ command: "bash", shell: { workspace: temporaryDirectory() }, argsBuilder });
    return planOf(tool, { handler });
  };
  test.each([
    ["NUL", "echo a\0b", "The command contains NUL.", "INVALID_ARGUMENT"],
    ["a lone surrogate", "kill \ud800", "The command contains a lone surrogate.", "INVALID_ARGUMENT"],
    ["too many bytes", `: ${long}`, /^The arguments are too long for a command/, "OUT_OF_RANGE"],
  ])(
    "a script too long for any program is refused, and the agent is told: %s",
    async (_title, script, message, status) => {
      const refusal = await refusalFrom(shell(script));
      expect([refusal.code, refusal.details]).toEqual(["TARGET_REFUSED", { status }]);
      expect(refusal.message).toMatch(message);
    },
  );

  test("arguments that just fit are run", async () => {
    const cli: Partial<Cli> = {
      argsBuilder: () => ["--", "x".repeat(131_071)],
      environment: () => ({ NOTE: "x".repeat(131_066) }),
    };
    const { handler } = stand({ commands: new Map([["true", "/bin/true"]]) });
    expect(await call(standTool({ command: "true", argsBuilder: none, ...cli }), { handler })).toEqual({ text: "" });
  });

  test("an inspection's error makes the directory unusable, and is shown to the operator only", async () => {
    const inspections = new Map([["argv", () => "objects are borrowed"]]);
    const { handler } = stand({ inspections });
    const refusal = await refusalFrom(planOf(standTool({ command: "argv", argsBuilder: none }), { handler }));
    expect(refusal.code).toBe("TARGET_UNAVAILABLE");
    expect(refusal.message).not.toContain("borrowed");
    expect(String(refusal.cause)).toContain("borrowed");
  });

  test("a plan of another command does not run", async () => {
    const { handler } = stand();
    const plan = await planOf(standTool({ command: "flood", argsBuilder: none }), { handler });
    const binding = handler.bind(standTool({ command: "argv", argsBuilder: none }));
    const caller = { issuer: "i", subject: "s", permissions: [], actors: [], expiresAt: 0 };
    const work = binding.run(plan, { signal: new AbortController().signal, deadline: 5_000, traceId: "t", caller });
    expect((await refusalFrom(work)).code).toBe("INTERNAL");
  });

  test("the last check runs at the spawn too", async () => {
    const binding = stand().handler.bind(standTool({ command: "argv", argsBuilder: none }));
    const plan = await binding.plan({}, { signal: new AbortController().signal });
    const caller = { issuer: "i", subject: "s", permissions: [], actors: [], expiresAt: 0 };
    const forged = { ...plan, argv: ["--evil"] };
    const work = binding.run(forged, { signal: new AbortController().signal, deadline: 5_000, traceId: "t", caller });
    expect((await refusalFrom(work)).code).toBe("INTERNAL");
  });
});

describe("lookups", () => {
  const asks = (attempts: readonly { readonly args: readonly string[]; readonly answer: RegExp }[]): Cli => ({
    command: "exit-with",
    lookups: { fact: ({ name }: { name: string }) => attempts.filter(() => name !== "") },
    argsBuilder: (_input, { fact }) => ["0", fact ?? "", ""],
  });

  const rows: readonly [string, Parameters<typeof asks>[0], string | undefined][] = [
    ["the trimmed answer", [{ args: ["0", " abc\n", ""], answer: /[a-z]+/ }], "abc"],
    [
      "the first that exits 0 and matches",
      [
        { args: ["1", "abc", ""], answer: /[a-z]+/ },
        { args: ["0", "123", ""], answer: /[a-z]+/ },
        { args: ["0", "def", ""], answer: /[a-z]+/ },
        { args: ["0", "ghi", ""], answer: /[a-z]+/ },
      ],
      "def",
    ],
    ["no part of an answer", [{ args: ["0", "abc\n^def", ""], answer: /[a-z]+/m }], undefined],
    ["no alternative that matches a part", [{ args: ["0", "abcdef", ""], answer: /abc|def/ }], undefined],
    ["an alternative that matches the whole", [{ args: ["0", "abcdef", ""], answer: /abc|abcdef/ }], "abcdef"],
    ["a pattern with state", [{ args: ["0", "abc", ""], answer: /[a-z]+/gy }], "abc"],
    ["no answer over the bound", [{ args: ["0", "a".repeat(5_000), ""], answer: /a+/ }], undefined],
    ["no attempt", [], undefined],
    ["a failing command", [{ args: ["3", "abc", "secret /path"], answer: /.*/ }], undefined],
  ];
  test.each(rows)("accept %s", async (_title, attempts, want) => {
    const work = call(standTool(asks(attempts)), { input: { name: "x", other: "y" } });
    if (want !== undefined) {
      expect(await work).toEqual({ text: want });
      return;
    }
    const refusal = await refusalFrom(work);
    expect(refusal.code).toBe("TARGET_REFUSED");
    expect(refusal.details).toEqual({ status: "NOT_FOUND", lookup: "fact", fields: ["name"] });
    expect(refusal.message).toContain('"name"');
    expect(refusal.message).not.toMatch(/other|secret|abc/);
    expect(refusal.cause).toBeInstanceOf(Error);
  });

  test("see the answers of earlier lookups", async () => {
    const tool = standTool({
      command: "exit-with",
      lookups: {
        first: () => [{ args: ["0", "one", ""], answer: /one/ }],
        second: (_input, { first }) => [{ args: ["0", `${first}-two`, ""], answer: /one-two/ }],
      },
      argsBuilder: (_input, { second }) => ["0", second ?? "", ""],
    });
    expect(await call(tool)).toEqual({ text: "one-two" });
  });

  test("pass the last check as well", async () => {
    const tool = standTool(asks([{ args: ["--evil"], answer: /.*/ }]));
    expect((await refusalFrom(call(tool, { input: { name: "x" } }))).code).toBe("INTERNAL");
  });

  test("end the call when a signal ends their command", async () => {
    const tool = standTool(
      { command: "kill-itself", lookups: { fact: () => [{ args: [], answer: /.*/ }] }, argsBuilder: none },
      undefined,
      { classification: "write" },
    );
    const refusal = await refusalFrom(call(tool));
    expect(refusal.code).toBe("TARGET_FAILED");
    expect(refusal.message).toBe("The command was ended by a signal.");
  });

  test("end with the scope, and as nothing has changed yet the deadline is certain", async () => {
    const pidFile = join(temporaryDirectory(), "pid");
    const tool = standTool(
      { command: "hang", lookups: { fact: () => [{ args: [pidFile], answer: /.*/ }] }, argsBuilder: none },
      undefined,
      { classification: "write" },
    );
    expect((await refusalFrom(call(tool, { signal: AbortSignal.timeout(0) }))).code).toBe("DEADLINE_EXCEEDED");
    expect((await refusalFrom(call(tool, { signal: AbortSignal.abort() }))).code).toBe("CANCELLED");
  });
});

describe("results", () => {
  const exit = (code: number, stdout = "", stderr = ""): Cli => ({
    command: "exit-with",
    argsBuilder: () => [`${code}`, stdout, stderr],
    exitCodes: { 1: "NOT_FOUND", 2: "OK" },
  });

  test("a declared exit code may be an answer", async () => {
    expect(await call(standTool(exit(2, "found")))).toEqual({ text: "found" });
  });

  test("a declared exit code may be the target's own refusal", async () => {
    const refusal = await refusalFrom(call(standTool(exit(1, "out", "secret"))));
    expect(refusal.code).toBe("TARGET_REFUSED");
    expect(refusal.details).toEqual({ status: "NOT_FOUND", exitCode: 1 });
    expect(refusal.message).not.toContain("secret");
  });

  test("any other exit code is a failure; of the text only the length is kept", async () => {
    const refusal = await refusalFrom(call(standTool(exit(128, "out", "\u001b[31mfatal: /secret/path"))));
    expect(refusal.code).toBe("TARGET_FAILED");
    expect(refusal.details).toEqual({ exitCode: 128, stderrBytes: 24 });
    expect(refusal.message).toBe("The command failed.");
    expect(String(refusal.cause)).toBe("Error: exit 128, 24 bytes on stderr");
  });

  test.each([
    ["read", "TARGET_FAILED"],
    ["write", "OUTCOME_UNKNOWN"],
  ] as const)("a signal (%s: %s)", async (classification, code) => {
    const tool = standTool({ command: "kill-itself", argsBuilder: none }, undefined, { classification });
    expect((await refusalFrom(call(tool))).code).toBe(code);
  });

  test("stderr next to an answer is not in the answer", async () => {
    expect(await call(standTool(exit(0, "fine", "warning")))).toEqual({ text: "fine" });
  });
});

describe("parse", () => {
  const anything = z.unknown();
  const prints = (stdout: string, parse: Cli["parse"]) =>
    standTool(
      { command: "exit-with", argsBuilder: () => ["0", stdout, ""], ...(parse !== undefined && { parse }) },
      anything,
    );

  test("json", async () => {
    expect(await call(prints('{"a":[1,"\\u001b[31mred"]}', "json"))).toEqual({ a: [1, "red"] });
  });

  test.each(["", "{", "nothing", `${"[".repeat(200)}${"]".repeat(200)}`])("invalid json: %p", async (stdout) => {
    expect((await refusalFrom(call(prints(stdout, "json")))).code).toBe("INVALID_OUTPUT");
  });

  test("a function gets stdout and the planned input", async () => {
    const parse = (stdout: string, input: unknown) => ({ stdout, input });
    expect(await call(prints("x", parse), { input: { a: 1 } })).toEqual({ stdout: "x", input: { a: 1 } });
    const unary = prints("x", (stdout) => ({ stdout }));
    expect(await planOf(unary, { input: { a: 1 } })).not.toHaveProperty("input");
  });

  test("a function that throws", async () => {
    const refusal = await refusalFrom(
      call(
        prints("x", () => {
          throw new Error("secret");
        }),
      ),
    );
    expect(refusal.code).toBe("INVALID_OUTPUT");
    expect(refusal.message).not.toContain("secret");
  });
});
