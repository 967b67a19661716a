import { expect, test } from "bun:test";
import { SHELL_RULES } from "../../src/shell-rules/shell-rules.ts";
import { casesOf } from "./cases.ts";
import { levelOf, WORKSPACE } from "./level.ts";

test.each(casesOf("denied"))("denied: %j", (script) => {
  expect(levelOf(script)).toEqual({ risk: "critical", verdict: "deny", rememberable: false });
});

test.each(casesOf("asks"))("asks and is never remembered: %j", (script) => {
  expect(levelOf(script)).toEqual({ risk: "high", verdict: "ask", rememberable: false });
});

test.each(casesOf("changes"))("changes the workspace: %j", (script) => {
  expect(levelOf(script)).toMatchObject({ risk: "medium", verdict: "none" });
});

test.each(casesOf("reads"))("only reads: %j", (script) => {
  expect(levelOf(script)).toEqual({ risk: "low", verdict: "none", rememberable: true });
});

const FUNCTIONS = Array.from({ length: 14 }, (_, index) => `f${index}() { f${index + 1}; }; `).join("");

test.each([
  ["a script that is too long", `${"echo a; ".repeat(2_200)}ls`],
  ["functions that call functions too deeply", `${FUNCTIONS}f0`],
  ["too many words of a loop", `set -- ${"a ".repeat(40)} ../x; touch "$@"`],
  ["too many words of a variable", `x='${"a ".repeat(80)} ../x'; touch $x`],
  ["a path with too many steps", `touch ${"./".repeat(130)}../x`],
  ["too many alternatives", `touch a{${"x,".repeat(80)}/../../../x}`],
])("asks: %s", (_title, script) => {
  expect(levelOf(script)).toEqual({ risk: "high", verdict: "ask", rememberable: false });
});

const WORDS_MAX = 20_000;

test.each(["valgrind ", "find . -exec ", "xargs ", "timeout -k 1 5 ", "env -S 'x' ", "hyperfine 'ls -l' "])(
  "programs that start programs are followed for a bounded number of words: %s",
  (wrapper) => {
    const script = wrapper.repeat(8_192 / wrapper.length);
    const { calls } = SHELL_RULES.read(script, WORKSPACE);
    expect(calls.reduce((words, { args }) => words + args.length, 0)).toBeLessThan(WORDS_MAX);
    expect(levelOf(script).risk).not.toBe("low");
  },
);
