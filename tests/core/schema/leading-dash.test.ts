import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { leadingDashFault } from "../../../src/core/schema/bounds.ts";

/** For patterns that source files must not contain. */
function compiled(source: string, flags = ""): RegExp {
  return new RegExp(source, flags);
}

describe("the first element of a pattern", () => {
  test.each([
    /^a$/,
    /^\d+$/,
    /^\w[\w-]*$/,
    /^[a-z]$/,
    /^[^-]+$/,
    /^[^\s-]x$/,
    /^[.-9]+$/,
    /^[!-,]$/,
    /^\p{L}[\p{L}\p{N}-]*$/u,
    /^[\p{L}\p{N}]+$/v,
    /^[\p{L}--[a-z]]+$/v,
    /^[^\p{P}]$/u,
    /^[\w&&[^_]]+$/v,
    /^\/$/,
    /^\x41$/,
    /^\u0041-$/,
    /^\u{41}$/u,
    /^\.x$/,
    /^[|]a$/,
    /^[(]x$/,
    /^[\]|]a$/,
    /^[[|]a$/,
    /^a(?:b|c)$/,
    /^a\|b$/,
    /^a{2,3}$/,
    /^a{1,}$/,
    /^a+$/,
    /^é$/,
    /^😀$/u,
    /^[😀a]+$/u,
    /^A$/i,
    /^a.*$/s,
    /^\\$/,
    /^a\\$/,
    /^a\$$/,
    /^\cA$/,
    /^a-$/,
    /^[a\]z]$/,
  ])("%p prevents a leading -", (pattern) => {
    expect(leadingDashFault(pattern)).toBeUndefined();
    expect(["-", "--", "-a", "-a-$", "-\\"].some((text) => new RegExp(pattern).test(text))).toBe(false);
  });

  test.each([
    [/[a-z]+$/, "begin with ^"],
    [/^[a-z]+/, "end with $"],
    [/^a\$/, "end with $"],
    [/^a\\\$/, "end with $"],
    [/^a|b$/, "outside of a group"],
    [/^a$|^-$/, "outside of a group"],
    [/^[|]|-$/, "outside of a group"],
    [/^[\]]|-$/, "outside of a group"],
    [compiled("^[[]]|-$", "v"), "outside of a group"],
    [/^(a)|-(b)$/, "outside of a group"],
    [/^a$/m, "flag m"],
    [/^a$/g, "flag g or y"],
    [/^a$/y, "flag g or y"],
    [/^-a$/, "begin with -"],
    [/^-a$/, "begin with -"],
    [/^\x2d$/, "begin with -"],
    [/^\u002D$/, "begin with -"],
    [/^\u{2d}$/u, "begin with -"],
    [/^[\w-]+$/, "begin with -"],
    [/^[-a]$/, "begin with -"],
    [/^[+-9]$/, "begin with -"],
    [/^[ -~]+$/, "begin with -"],
    [/^[!-z]+$/, "begin with -"],
    [/^[^a]$/, "begin with -"],
    [compiled("^[^]$"), "begin with -"],
    [/^[\s\S]$/, "begin with -"],
    [/^[\W]$/, "begin with -"],
    [/^[\x2d]$/, "begin with -"],
    [/^[\b-0]$/, "begin with -"],
    [/^\W$/, "begin with -"],
    [/^\D$/, "begin with -"],
    [/^\S+$/, "begin with -"],
    [/^\p{P}$/u, "begin with -"],
    [/^\p{ASCII}$/v, "begin with -"],
    [/^\P{L}$/u, "begin with -"],
    [/^[\p{Pd}]$/v, "begin with -"],
    [/^[[a-z][\-]]$/v, "begin with -"],
    [/^[\q{\-a|b}]$/v, "one character or class"],
    [/^.a$/, "one character or class"],
    [/^(a)$/, "one character or class"],
    [/^(?:a|-)$/, "one character or class"],
    [/^(?=a)a$/, "one character or class"],
    [/^(?!-)a$/, "one character or class"],
    [/^(?<!b)-$/, "one character or class"],
    [/^(?i:-)$/, "one character or class"],
    [/^\b-$/, "one character or class"],
    [/^\B-$/, "one character or class"],
    [/^^-$/, "one character or class"],
    [/^$/, "one character or class"],
    [compiled("^\\1-(a)$"), "one character or class"],
    [compiled("^\\55$"), "one character or class"],
    [/^\k<n>-(?<n>a)$/, "one character or class"],
    [/^a?-$/, "be absent"],
    [/^a*-$/, "be absent"],
    [/^a*?-$/, "be absent"],
    [/^a{0}-$/, "be absent"],
    [/^a{0,}-$/, "be absent"],
    [/^a{00,3}-$/, "be absent"],
    [/^[a]{0,1}-$/, "be absent"],
    [/^\d?-$/, "be absent"],
    [compiled("^\\u{0}-$"), "be absent"],
  ])("%p is refused: %s", (pattern, fault) => {
    expect(leadingDashFault(pattern)).toContain(fault);
  });

  test("an accepted pattern never matches a text that begins with -", () => {
    const piece = fc.constantFrom(
      ..."^$\\.*+?()[]{}|/-a0_,:=!<>kpPuxcdDwWsSbBq&é",
      "[a-z]",
      "[^-]",
      "(?:",
      "{0}",
      "{1,}",
      "\\u002d",
      "\\x2d",
      "\\p{L}",
      "😀",
      "[\\w-]",
      "$",
    );
    const flags = fc.constantFrom("", "i", "u", "v", "s", "iu", "m", "g", "y");
    const text = fc
      .string({ unit: fc.constantFrom(..."-a0_ |$\\[]{}9Z\n", "é"), maxLength: 6 })
      .map((rest) => `-${rest}`);
    let accepted = 0;
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 7 }),
        flags,
        fc.array(text, { minLength: 8, maxLength: 8 }),
        (parts, flag, texts) => {
          const pattern = compile(`^${parts.join("")}$`, flag);
          if (pattern === undefined || leadingDashFault(pattern) !== undefined) return;
          accepted += 1;
          for (const each of ["-", "--", ...texts]) expect(pattern.test(each)).toBe(false);
        },
      ),
      { numRuns: 20_000 },
    );
    expect(accepted).toBeGreaterThan(500);
  });

  function compile(source: string, flags: string): RegExp | undefined {
    try {
      return new RegExp(source, flags);
    } catch {
      return undefined;
    }
  }
});
