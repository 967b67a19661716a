import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { argvFault, exposedTokens } from "../../../src/targets/command/argv.ts";

const options = [
  "-c",
  "--quiet",
  "--format=",
  "--grep=",
  "--arg <name> <value>",
  "-e <pattern>",
  "--pretty=%H <%an> x",
];

describe("the last check", () => {
  const rows: readonly [string, readonly string[], boolean][] = [
    ["declared, exactly", ["-c", "--quiet", "x"], true],
    ["declared with a value", ["--format=%H", "--format="], true],
    ["after --", ["x", "--", "--evil", "-rf", "--"], true],
    ["declared as one token with spaces", ["--pretty=%H <%an> x", "--quiet"], true],
    ["nothing", [], true],
    ["an empty token", [""], true],
    ["a dash inside", ["a-b", "a--evil"], true],
    ["the values after an option", ["--arg", "n", "a b", "-e", "", "."], true],
    ["a declared option after the values", ["--arg", "n", "x", "--quiet"], true],
    ["an option with values as a value after --", ["--", "--arg", "-x"], true],
    ["a value that begins with a dash", ["--arg", "n", "--evil", "."], false],
    ["a declared option in the place of a value", ["--arg", "n", "--quiet"], false],
    ["-- in the place of a value", ["-e", "--", "--evil"], false],
    ["a missing value", ["--arg", "n"], false],
    ["no value", ["-e"], false],
    ["an undeclared option after the values", ["--arg", "n", "x", "--evil"], false],
    ["the option's declaration itself", ["-e <pattern>", "x"], false],
    ["a value glued to an option that takes the next token", ["-ex"], false],
    ["not declared", ["--output=x"], false],
    ["short, not declared", ["-o"], false],
    ["a dash alone", ["-"], false],
    ["a declared short one with more letters", ["-cx"], false],
    ["a declared long one with a value that is not declared", ["--quiet=no"], false],
    ["a value option without its value", ["--format"], false],
    ["an abbreviation", ["--form=x"], false],
    ["before --", ["--evil", "--", "x"], false],
    ["NUL", ["a\0"], false],
    ["NUL after --", ["--", "a\0"], false],
    ["a lone surrogate after --", ["--", "\udc00"], false],
    ["too many tokens", Array.from({ length: 257 }, () => "x"), false],
    ["too long a token", ["x".repeat(131_072)], false],
    ["too long a token in bytes", ["é".repeat(65_536)], false],
    ["too long an argv", Array.from({ length: 9 }, () => "x".repeat(131_000)), false],
  ];
  test.each(rows)("%s", (_title, argv, sound) => {
    expect(argvFault(argv, options) === undefined).toBe(sound);
  });

  test("an error contains nothing of the token", () => {
    expect(argvFault(["--secret"], [])).toBe(
      'token 0 of the argv begins with "-" and is not named in target.cli.options',
    );
  });

  test("an accepted argv has no undeclared option before the first --", () => {
    const token = fc.oneof(
      fc.constantFrom("--", "-", ...options, "--arg", "-e", "--evil", "--format=x"),
      fc.string({ unit: "binary" }),
    );
    fc.assert(
      fc.property(fc.array(token, { maxLength: 8 }), (argv) => {
        if (argvFault(argv, options) !== undefined) return;
        const end = argv.indexOf("--");
        for (const exposed of end === -1 ? argv : argv.slice(0, end)) {
          if (!exposed.startsWith("-")) continue;
          if (exposed === "--arg" || exposed === "-e") continue;
          expect(
            options.some((option) => exposed === option || (option.endsWith("=") && exposed.startsWith(option))),
          ).toBe(true);
        }
        for (const each of argv) expect(each.includes("\0") || !each.isWellFormed()).toBe(false);
      }),
    );
  });
});

describe("tokens that a program may take for an option", () => {
  const rows: readonly [string, readonly string[], readonly string[]][] = [
    ["nothing after --", ["log", "--", "TEXT"], ["log"]],
    ["no declared value", ["--grep=TEXT"], []],
    ["no declared value, whatever else it holds", ["--grep=^TEXT$", "x"], ["x"]],
    ["a positional", ["log", "TEXT"], ["log", "TEXT"]],
    ["the value of an option in a token of its own", ["-c", "TEXT"], ["-c", "TEXT"]],
    ["no values after an option", ["--arg", "n", "TEXT", "."], ["--arg", "."]],
    ["what follows the values of an option", ["-e", "x", "TEXT"], ["-e", "TEXT"]],
    ["an undeclared value", ["--output=TEXT"], ["--output=TEXT"]],
    ["what is glued to a short option", ["-cTEXT"], ["-cTEXT"]],
    ["what comes before --", ["TEXT", "--", "TEXT"], ["TEXT"]],
  ];
  test.each(rows)("%s", (_title, argv, exposed) => {
    expect(exposedTokens(argv, options)).toEqual(exposed);
  });
});
