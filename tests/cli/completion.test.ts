import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadCommands } from "../../src/cli/command.ts";
import { COMMANDS } from "../../src/cli/commands.ts";
import { run, runStc } from "../support/stc.ts";

const folder = mkdtempSync(join(tmpdir(), "stc completion "));
afterAll(() => rmSync(folder, { recursive: true }));

const scripts = new Map<string, string>();
const pathOf = (shell: string): string => join(folder, `stc.${shell}`);
beforeAll(async () => {
  for (const shell of ["bash", "zsh", "fish"]) {
    const { code, out, err } = await runStc(["completion", shell]);
    expect({ shell, code, err }).toEqual({ shell, code: 0, err: "" });
    scripts.set(shell, out);
    writeFileSync(pathOf(shell), out);
  }
  writeFileSync(join(folder, "one.yaml"), "");
});

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** How each shell is asked what it offers for the last of some words, one on a line. */
const ASK: Readonly<Record<string, (words: readonly string[]) => string>> = {
  bash: (words) => `source ${quoted(pathOf("bash"))}
    COMP_WORDS=(${words.map(quoted).join(" ")}); COMP_CWORD=${words.length - 1}; _stc; printf '%s\\n' "\${COMPREPLY[@]}"`,
  // The shell's own functions need a terminal. These print what they would offer.
  zsh: (words) => `compdef() { :; }
    compadd() { shift; print -l -- "$@"; }
    _files() { print -l -- *(N); }
    _describe() { local name=$argv[-1]; local one; for one in \${(P)name}; do print -r -- "\${one%%:*}"; done; }
    source ${quoted(pathOf("zsh"))}
    words=(${words.map(quoted).join(" ")}); CURRENT=${words.length}; _stc`,
  fish: (words) =>
    `source ${quoted(pathOf("fish"))}; complete -C ${quoted(words.join(" "))} | string replace -r '\\t.*' ''`,
};

async function offered(shell: string, words: readonly string[]): Promise<readonly string[]> {
  const options = { bash: ["--norc"], zsh: ["-f"], fish: ["--no-config"] }[shell] ?? [];
  const asked = ASK[shell]?.(words) ?? "";
  const { out, err } = await run([shell, ...options, "-c", asked], { cwd: folder });
  expect({ words, err }).toEqual({ words, err: "" });
  const last = words.at(-1) ?? "";
  return out.split("\n").filter((line) => line !== "" && line.startsWith(last));
}

describe.each(["bash", "zsh", "fish"])("completion in %s", (shell) => {
  const isInstalled = Bun.which(shell) !== null;

  test.skipIf(!isInstalled).each([
    [["stc", "im"], ["import"]],
    [
      ["stc", "import", ""],
      ["graphql", "grpc", "mcp", "openapi", "sql"],
    ],
    [
      ["stc", "completion", ""],
      ["bash", "fish", "zsh"],
    ],
    [
      ["stc", "explain", "--mode", ""],
      ["autoEdit", "default", "yolo"],
    ],
    [["stc", "approvals", "list", "--state", "p"], ["pending"]],
    [["stc", "audit", "query", "--js"], ["--json"]],
    [["stc", "serve", "--co"], ["--config"]],
    [["stc", "serve", "--config", "on"], ["one.yaml"]],
    [["stc", "call", "audit", "--dry"], ["--dry-run"]],
    [["stc", "token", "--sub", "im"], []],
  ] as const)("offers for %j: %j", async (words, expected) => {
    expect((await offered(shell, words)).toSorted()).toEqual([...expected]);
  });

  test("knows every command and every option", async () => {
    const script = scripts.get(shell) ?? "";
    for (const { name, options } of await loadCommands(COMMANDS)) {
      expect(script).toContain(name.split(" ").at(-1) ?? "");
      for (const key of Object.keys(options)) {
        const flag = key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
        expect(script).toContain(shell === "fish" ? ` -l ${flag} ` : `--${flag}`);
      }
    }
  });
});
