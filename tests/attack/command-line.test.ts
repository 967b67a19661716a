import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { environmentProblems } from "../../src/cli/configuration.ts";
import { run, runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

/** What a terminal acts upon, line ends apart. */
const STEERING = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

let folder: string;

/** A repository that somebody else wrote, and in which an operator happens to stand. */
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-attack-")));
  writeFileSync(join(folder, "bunfig.toml"), 'preload = ["./evil.ts"]\n');
  writeFileSync(
    join(folder, "evil.ts"),
    'import { writeFileSync } from "node:fs";\nwriteFileSync("taken-over", "");\n',
  );
  writeFileSync(join(folder, ".env"), "STC_CONFIG=./evil.yaml\nSTC_AUDIT_DIR=./from-dot-env\n");
  writeFileSync(join(folder, "package.json"), '{"name":"evil","imports":{"#x":"./evil.ts"}}');
  mkdirSync(join(folder, "node_modules/zod"), { recursive: true });
  writeFileSync(join(folder, "node_modules/zod/index.js"), 'import "../../evil.ts";\nexport const z = {};\n');
  mkdirSync(join(folder, "audit-logs"));
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** What the kernel makes of the first line of the file that `bin` names, once a package manager has linked it. */
function linkedStc(): readonly string[] {
  const { bin } = JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8"));
  const main = join(PROJECT, bin.stc);
  const [, interpreter = "", argument = ""] =
    /^#!(\S+) (.*)$/.exec(readFileSync(main, "utf8").split("\n", 1)[0] ?? "") ?? [];
  return [interpreter, argument, main];
}

describe("in a hostile working directory", () => {
  test("a linked stc runs nothing from it and reads no settings from it", async () => {
    const ended = await run([...linkedStc(), "check"], { cwd: folder });
    expect(ended.err).toContain("no configuration: set STC_CONFIG");
    expect(ended.code).toBe(78);
    expect(existsSync(join(folder, "taken-over"))).toBe(false);
  });

  test("foreign lines cannot control the terminal", async () => {
    const hostile = "\u001b]0;owned\u0007\u202e\u2028\u009b2J";
    const line = JSON.stringify({
      timestamp: hostile,
      caller: { sub: hostile },
      tool: { name: hostile },
      decision: hostile,
      error: { code: hostile },
      duration: 1,
      traceId: `${hostile}\nforged`,
    });
    writeFileSync(join(folder, "audit-logs/2026-01-01.jsonl"), `${line}\n${hostile}\n"\u001b[2J"\r\n`);
    for (const json of [[], ["--json"]]) {
      const { out, code } = await runStc(["audit", "tail", ...json], { cwd: folder });
      expect(code).toBe(0);
      expect(out.split("\n")).toHaveLength(4);
      expect(out).not.toMatch(STEERING);
    }
  });

  test("a named pipe in place of a day's file is not waited for", async () => {
    const pipes = join(folder, "pipes");
    mkdirSync(pipes);
    await run(["mkfifo", join(pipes, "2026-01-01.jsonl")]);
    const { code, out, err } = await runStc(["audit", "tail", "--dir", pipes]);
    expect({ code, out }).toEqual({ code: 66, out: "" });
    expect(err).toContain("not a regular file");
  });

  test("a problem's text cannot control the terminal either", async () => {
    const { err, code } = await runStc(["check", "--config", "\u001b[2J\u202e.yaml"], { cwd: folder });
    expect(code).toBe(78);
    expect(err).not.toMatch(STEERING);
  });
});

describe("an environment that would disable protections prevents the start", () => {
  test.each([
    ["BUN_INSPECT_CONNECT_TO", "ws://evil.example"],
    ["BUN_INSPECT_NOTIFY", "/tmp/x"],
    ["NODE_TLS_REJECT_UNAUTHORIZED", "0"],
    ["BUN_RUNTIME_TRANSPILER_CACHE_PATH", "/tmp/poisoned"],
  ])("%s", (variable, value) => {
    const environment = { PATH: process.env["PATH"] ?? "", [variable]: value };
    expect(environmentProblems(environment)).toEqual([expect.stringContaining(`${variable} is set: `)]);
  });

  test("settings that are off or harmless do not", () => {
    const harmless = {
      ...{ BUN_OPTIONS: "", NODE_TLS_REJECT_UNAUTHORIZED: "1", BUN_RUNTIME_TRANSPILER_CACHE_PATH: "0" },
      ...{ BUN_INSTALL: "/opt/bun", NODE_ENV: "production", NODE_EXTRA_CA_CERTS: "/etc/ca.pem" },
    };
    expect(environmentProblems(harmless)).toEqual([]);
  });

  test("and stc reports it for every command", async () => {
    const ended = await runStc(["check", "--dev"], { env: { NODE_TLS_REJECT_UNAUTHORIZED: "0" } });
    expect(ended.code).toBe(78);
    expect(ended.err).toContain("NODE_TLS_REJECT_UNAUTHORIZED is set");
  });
});
