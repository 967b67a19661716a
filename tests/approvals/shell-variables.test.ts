import { expect, test } from "bun:test";
import { levelOf } from "./shell-level.ts";

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
];

const MEDIUM = [
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
