import { afterAll, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { awkIsPlain } from "../../src/shell-rules/filters.ts";
import { levelOf } from "../shell-rules/level.ts";

const RUNS = 10_000;
const ENVIRONMENT = { PATH: "/usr/bin:/bin" };
const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-shell-")));
/** What a text that was judged harmless must never make. */
const made = join(folder, "P");

beforeEach(() => rmSync(made, { force: true }));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs what was judged harmless, in an empty folder and for a second at most. */
function run(...argv: readonly string[]): void {
  Bun.spawnSync(["timeout", "-s", "KILL", "1", ...argv], {
    cwd: folder,
    env: ENVIRONMENT,
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
  });
}

/** Texts out of these units, one of which does something wherever it comes to be read as a command. */
function textOf(units: readonly string[], hot: readonly string[]) {
  const some = fc.array(fc.constantFrom(...units), { maxLength: 6 });
  const joint = fc.constantFrom("", " ");
  return fc
    .tuple(some, fc.constantFrom(...hot), some, joint)
    .map(([before, middle, after, between]) => [...before, middle, ...after].join(between));
}

const SHELL_UNITS = [
  ...[
    "echo",
    "ls",
    ":",
    "'",
    '"',
    "\\",
    "`",
    "$(",
    ")",
    "((",
    "))",
    "[[",
    "]]",
    "[ ",
    "]",
    "{ ",
    "}",
    "(",
    ";",
    ";;",
    "&",
    "&&",
  ],
  ...[
    "||",
    "|",
    "|&",
    "\n",
    "#",
    " #",
    "<<E\n",
    "<<'E'\n",
    "<<-E\n",
    "\nE\n",
    "\n\tE\n",
    "<<<",
    "$'",
    '$"',
    "${x:-",
    "${x#",
  ],
  ...[
    "${x/",
    `\${#x}`,
    "$x",
    "$((",
    "case x in ",
    "x) ",
    "esac",
    "if ",
    "then ",
    "fi",
    "for i in ",
    "do ",
    "done",
    "while ",
  ],
  ...[
    "f() {",
    "function f",
    "a=",
    "a=(",
    "x",
    "1",
    "-",
    "*",
    "?",
    "!",
    "=",
    "==",
    "=~",
    "<(",
    ">(",
    "time ",
    "coproc ",
    "!(",
  ],
  ...[
    "@(",
    "\\\n",
    "{a,b}",
    "~",
    "\t",
    " ",
    "select",
    "$[",
    "\r",
    "true",
    "false",
    "\\'",
    '\\"',
    "a[",
    "+=",
    `\${x@Q}`,
    "let ",
  ],
  ...["declare ", "<", "2>&1", "&>", "until ", "elif ", "else ", "E"],
];

test("a script classified as read-only creates no file when bash runs it", () => {
  const hot = ["touch P", "t'o'uch P", "\\touch P", "echo>P", ">P", "tou\\\nch P", ": >P"];
  fc.assert(
    fc.property(textOf(SHELL_UNITS, hot), (script) => {
      if (levelOf(script).risk !== "low") return;
      run("bash", "--noprofile", "--norc", "-c", "--", script);
      expect(existsSync(made)).toBe(false);
    }),
    { numRuns: RUNS },
  );
});

const VALUE_UNITS = [
  ...[
    "x=",
    "y=",
    "((x))",
    " $((x)) ",
    "[[ x -eq 1 ]]",
    "[[ $x -gt 0 ]]",
    "read x <<< ",
    "let ",
    "declare -i y=",
    "unset ",
  ],
  ...[
    "test -v ",
    ";",
    ";",
    "; ",
    " ",
    "$x",
    '"$x"',
    "echo ",
    "for x in ",
    "; do ",
    "; done",
    "f() { ",
    " }; f ",
    "(( $1 ));",
  ],
  ...[
    "set -- ",
    " | while read x",
    "arr=(",
    ")",
    "printf -v x ",
    "mapfile -t x <<< ",
    "'(touch P)]'",
    "y=$x",
    "x+=",
    "[ -v ",
  ],
  ...["b[", "] ", "}", "((", "))", "\n", "<<E\n", "\nE\n", "x[", "declare -n r=", "$r", "getopts a: x -a ", "OPTARG"],
  ...[`\${y:x}`, `\${arr[x]}`, `\${arr[0]}`, `\${z:=`, `\${!x}`],
];

test("nor through a value that is evaluated later", () => {
  const hot = [
    "'a[$(touch P)]'",
    '"a[\\$(touch P)]"',
    "a['$(touch P)']",
    "a'[$'",
    "$'a[\\x24(touch P)]'",
    "'a[`touch P`]'",
  ];
  fc.assert(
    fc.property(textOf(VALUE_UNITS, hot), (script) => {
      if (levelOf(script).risk !== "low") return;
      run("bash", "--noprofile", "--norc", "-c", "--", script);
      expect(existsSync(made)).toBe(false);
    }),
    { numRuns: RUNS },
  );
});

const QUOTE_UNITS = [
  ...[
    "}",
    "}",
    "'",
    "'",
    '"',
    '"',
    "$'",
    "\\",
    "$(",
    ")",
    "`",
    " <<E\n",
    "\nE\n",
    "$((",
    "))",
    " ",
    ";",
    "echo ",
    "x=",
    "[[ ",
  ],
  ...[" ]]", "((", '$"', "{", "a", "<<< ", "#", "$", "case x in ", "x) ", "esac", "a[", "]"],
  ...[`\${x:-`, `\${x#`, `\${x/a/`, `\${x:`, `\${x@`],
];

test("nor from between quotes that do not quote there", () => {
  const hot = ["$(touch P)", "`touch P`", "; touch P;", "\n touch P\n"];
  fc.assert(
    fc.property(textOf(QUOTE_UNITS, hot), (script) => {
      if (levelOf(script).risk !== "low") return;
      run("bash", "--noprofile", "--norc", "-c", "--", script);
      expect(existsSync(made)).toBe(false);
    }),
    { numRuns: RUNS },
  );
});

const AWK_UNITS = [
  ...[
    '/"/',
    "/",
    '"',
    '/[/"]/',
    '"a"',
    "{",
    "}",
    ";",
    "\n",
    "(",
    ")",
    "BEGIN{",
    "x",
    "1",
    "$1",
    "++",
    "+",
    "=",
    "/=",
    "||",
  ],
  ...[
    "if(1)",
    "while(0)",
    "!",
    "~",
    ",",
    "# ",
    "\\",
    "in a",
    "a[1]",
    "[",
    "]",
    "return",
    "length",
    "?",
    ":",
    "else",
    "&&",
  ],
  ...['print /"/', '/[]"/]/', "x>1", "END{", "-", "/a\\/b/", "\\\n", '"/"', "print", " 2 > 1"],
];

test.skipIf(Bun.which("awk") === null)("nor does an awk program when awk runs it", () => {
  const hot = [
    'system("touch P")',
    'print "a" > "P"',
    'print "a" > ("P")',
    'print "x" | "touch P"',
    '"touch P" | getline',
  ];
  fc.assert(
    fc.property(textOf(AWK_UNITS, hot), (program) => {
      if (!awkIsPlain([program])) return;
      run("awk", program, "/etc/hostname");
      expect(existsSync(made)).toBe(false);
    }),
    { numRuns: RUNS },
  );
});
