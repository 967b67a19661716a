import { expect, test } from "bun:test";
import { levelOf } from "./shell-level.ts";

/** Functions that call one another. */
function calls(depth: number): string {
  return Array.from({ length: depth }, (_, index) => `f${index}() { f${index + 1}; }; `).join("");
}

/** What a variable holds counts only where it surely was set. */
const HIGH = [
  "echo x > $a/etc/motd; a=out",
  "false && a=out; echo x > $a/etc/motd",
  "false && a=out || touch $a/etc/x",
  "a=out ls; echo x > $a/etc/motd",
  "f() { a=out; }; echo x > $a/etc/motd",
  "echo x > $f/etc/motd; for f in *; do :; done",
  "(a=out); cp x $a/etc/motd",
  "if false; then a=out; fi; touch $a/etc/motd",
  "while false; do a=out; done; touch $a/etc/x",
  "ls | a=out; touch $a/etc/x",
  "a=out & touch $a/etc/x",
  "x=$(a=out); touch $a/etc/x",
  "a=/etc; b=$a; touch $b/x",
  "b=$a; a=x; touch $b/etc/x",
  "c=x; for i in 1 2; do b=$c; c=/etc; done; touch $b/x",
  "a=x; while :; do b=$a; a=$b/..; done; touch $b/x",
  `for f in *.txt; do mv $f \${f%.txt}/../../x; done`,
  `for f in *.txt; do cp x \${f%%.*}/etc/y; done`,
  "for f in /etc; do touch $f/x; done",
  'export "$x=y"; ls',
  "export $(cat .env); ls",
  "x=out; exec {x}>f; echo a > $x",
  `rm -r \${y-/}`,
  `x=1; rm -r \${x+/}`,
  `x=1; touch \${x:+/etc/y}`,
  "if ls; then a=out; elif touch /etc/x; then a=b; fi",
  "PATH[0]=x; ls",
  "declare PATH[0]=x; ls",
  "unset PATH; ls",
  "unset -v HOME; ls",
  "let PATH=1; ls",
  "((PATH=1)); ls",
  "((PATH++)); ls",
  "echo $((PATH=1)); ls",
  "for ((PATH=1;;)); do ls; done",
  "exec {PATH}>f; ls",
  "read -aPATH <<< x; ls",
  `: \${PATH:=.}; ls`,
  "declare -n q=PATH; q=.; ls",
  "declare -a PATH; ls",
  "a[PATH=1]=2; ls",
  "[[ 1 -eq PATH=1 ]]; ls",
  "test -v 'a[PATH=1]'; ls",
  "printf -v 'a[PATH=1]' x; ls",
  "env LD_PRELOAD=./x.so ls",
  "MYSQL_HISTORY=/x mysql",
  "npm_config_script_shell=./x npm ls",
  `${"echo a; ".repeat(2_200)}ls`,
  `${calls(14)}f0`,
];

const MEDIUM = [
  `x=out; echo a > \${x-y}`,
  "if ls; then touch a; elif cat b; then touch c; fi",
  `${calls(4)}f0; touch a`,
  "list[0]=x; touch a",
  "unset NODE_ENV IFS; touch a",
  "i=0; let i=i+1; ((i++)); i=$((i + 1)); touch a",
  "for ((i=0;i<3;i++)); do touch a; done",
  "declare -A map=([a]=b); declare -a files=(*.ts); touch a",
  "declare -n ref=list; touch a",
  "declare -a list; declare -i n=3; export PATH; touch a",
  "[ x = 'PATH=1' ] || touch a",
  "test -v PATH && [[ 1 -eq 2 || $PATH == x ]] || touch a",
  "printf '%s' 'a[PATH=1]' > a",
  `: \${NAME:=x}; touch a`,
  "PAGER=cat git log; touch a",
  "LESS=-FRX git log; touch a",
  'OUT=dist; mkdir -p "$OUT" && cat a > "$OUT/b"',
  "d=out && mkdir -p $d && touch $d/x",
  'base=out; sub=$base/x; mkdir -p "$sub"; touch "$sub/y"',
  "f() { local d=out; touch $d/x; }; f",
  "if [ -d src ]; then d=src; touch $d/x; fi",
  "ls | while read l; do echo $l >> out/log; done",
  "d=out; (cd src; cp a $d/x)",
  `for f in *.jpeg; do mv "$f" "\${f%.jpeg}.jpg"; done`,
];

test.each(HIGH)("asks: %s", (command) => {
  const { risk, verdict } = levelOf(command);
  expect(["high", "critical"]).toContain(risk);
  expect(["ask", "deny"]).toContain(verdict);
});

test.each(MEDIUM)("changes the workspace: %s", (command) => {
  expect(levelOf(command)).toEqual({ risk: "medium", verdict: "none" });
});
