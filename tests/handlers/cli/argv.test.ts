import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { argvFault, placesFreeTextSafely } from "../../../src/handlers/cli/argv.ts";

const options = ["-c", "--quiet", "--format=", "--grep="];

describe("the last check", () => {
  const rows: readonly [string, readonly string[], boolean][] = [
    ["declared, exactly", ["-c", "--quiet", "x"], true],
    ["declared with a value", ["--format=%H", "--format="], true],
    ["after --", ["x", "--", "--evil", "-rf", "--"], true],
    ["nothing", [], true],
    ["an empty token", [""], true],
    ["a dash inside", ["a-b", "a--evil"], true],
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

  test("a fault holds nothing of the token", () => {
    expect(argvFault(["--secret"], [])).toBe(
      'token 0 of the argv begins with "-" and is not named in target.cli.options',
    );
  });

  test("whatever passes has no undeclared option before the first --", () => {
    const token = fc.oneof(
      fc.constantFrom("--", "-", ...options, "--evil", "--format=x"),
      fc.string({ unit: "binary" }),
    );
    fc.assert(
      fc.property(fc.array(token, { maxLength: 8 }), (argv) => {
        if (argvFault(argv, options) !== undefined) return;
        const end = argv.indexOf("--");
        for (const exposed of end === -1 ? argv : argv.slice(0, end)) {
          if (!exposed.startsWith("-")) continue;
          expect(
            options.some((option) => exposed === option || (option.endsWith("=") && exposed.startsWith(option))),
          ).toBe(true);
        }
        for (const each of argv) expect(each.includes("\0") || !each.isWellFormed()).toBe(false);
      }),
    );
  });
});

describe("free text", () => {
  const rows: readonly [string, readonly string[], boolean][] = [
    ["after --", ["log", "--", "PROBE"], true],
    ["as a declared value", ["--grep=PROBE"], true],
    ["inside a declared value", ["--grep=^PROBE$", "x"], true],
    ["nowhere", ["log"], true],
    ["as a positional", ["log", "PROBE"], false],
    ["inside a positional", ["x:PROBE"], false],
    ["as the value of an option in a token of its own", ["-c", "PROBE"], false],
    ["as an undeclared value", ["--output=PROBE"], false],
    ["glued to a short option", ["-cPROBE"], false],
    ["before -- and after it", ["PROBE", "--", "PROBE"], false],
  ];
  test.each(rows)("%s", (_title, argv, safe) => {
    expect(placesFreeTextSafely(argv, options, ["PROBE"])).toBe(safe);
  });
});
