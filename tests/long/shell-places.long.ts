import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { levelOf } from "../shell-rules/level.ts";

const RUNS = 2_000;
const root = realpathSync(mkdtempSync(join(tmpdir(), "stc-places-")));
const workspace = join(root, "ws", "project");

afterAll(() => rmSync(root, { recursive: true, force: true }));

const COMMANDS = [
  ...["cd sub", "cd sub/deep", "cd nowhere", "cd ..", "cd", "cd -", "cd ~", "cd .", "! cd sub", "cd sub > /dev/null"],
  ...["pushd sub", "pushd ..", "popd", "pushd", "cd $OLDPWD", 'cd "$PWD/.."', 'cd "$1"', "cd $V", "eval 'cd ..'"],
  ...["touch x", "touch ../x", "touch ../../x", 'touch "$1"', 'touch "$2"', "echo > ../y", 'touch "$PWD/x"'],
  ...["set -- ..", "set -- sub", "set -- ../x sub", "shift", "set -e", "set +e", "V=sub", "V=..", "true", "false"],
  ...[
    "exit",
    "exit 1",
    "return",
    "return 1",
    "break",
    "continue",
    "break 2",
    "trap 'touch z' EXIT",
    "trap 'cd ..' ERR",
  ],
  ...["f", "f ..", "f sub", "f ../x", "g", "g sub", 'g "$@"'],
];

const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Ways to put one or two scripts together to a bigger one. */
const FORMS: readonly ((one: string, other: string) => string)[] = [
  (one, other) => `${one}; ${other}`,
  (one, other) => `${one}; ${other}`,
  (one, other) => `${one} && ${other}`,
  (one, other) => `${one} || ${other}`,
  (one, other) => `${one} || { ${other}; exit 1; }`,
  (one, other) => `{ ${one}; }; ${other}`,
  (one, other) => `( ${one}; ); ${other}`,
  (one, other) => `if ${one}; then ${other}; fi`,
  (one, other) => `if ${one}; then :; else ${other}; fi`,
  (one, other) => `for i in 1 2; do ${one}; ${other}; done`,
  (one, other) => `while ${one}; do ${other}; done`,
  (one, other) => `until ${one}; do ${other}; done`,
  (one, other) => `case x in y) ${one};; x) ${other};; esac`,
  (one, other) => `f() { ${one}; }; ${other}`,
  (one, other) => `g() { ${one}; }; ${other}`,
  (one, other) => `${one} | ${other}`,
  (one, other) => `bash -c ${quote(one)} _ sub; ${other}`,
  (one, other) => `: $( ${one} ); ${other}`,
];

const { script } = fc.letrec<{ script: string }>((tie) => ({
  script: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.constantFrom(...COMMANDS),
    fc.tuple(fc.constantFrom(...FORMS), tie("script"), tie("script")).map(([form, one, other]) => form(one, other)),
    fc.tuple(tie("script"), tie("script"), tie("script")).map((parts) => parts.join("; ")),
  ),
}));

/** What lies beside the workspace after bash ran this in it. */
function leftOutside(text: string): readonly string[] {
  rmSync(root, { recursive: true, force: true });
  mkdirSync(join(workspace, "sub", "deep"), { recursive: true });
  Bun.spawnSync(["timeout", "-s", "KILL", "1", "bash", "--noprofile", "--norc", "-c", "--", text], {
    cwd: workspace,
    env: { PATH: "/usr/bin:/bin", HOME: workspace },
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  });
  return [...readdirSync(root), ...readdirSync(join(root, "ws"))].filter((name) => name !== "ws" && name !== "project");
}

test("a script that runs without an approval creates no file outside the workspace when bash runs it", () => {
  fc.assert(
    fc.property(script, (text) => {
      if (levelOf(text).verdict !== "none") return;
      expect(leftOutside(text)).toEqual([]);
    }),
    {
      numRuns: RUNS,
      examples: [["f() { exit; }; until false; trap 'touch z' EXIT; pushd ..; f sub; cd sub; do cd sub; done"]],
    },
  );
});
