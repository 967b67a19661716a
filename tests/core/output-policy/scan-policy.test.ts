import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  type CompiledScan,
  compileScan,
  SCAN_LEVELS,
  type ScanLevel,
  type ScanPolicy,
} from "../../../src/core/output-policy/scan-policy.ts";

function levelAt(compiled: CompiledScan, path: readonly string[]): ScanLevel {
  return typeof compiled === "string" ? compiled : compiled(path);
}

test.each<[string, ScanPolicy, readonly string[], ScanLevel]>([
  ["nothing is declared", {}, ["a"], "secrets"],
  ["another field is declared", { b: "strict" }, ["a"], "secrets"],
  ["a field", { a: "off" }, ["a"], "off"],
  ["all below a container", { a: "balanced" }, ["a", "[]", "b"], "balanced"],
  ["the container alone is not its name elsewhere", { a: "off" }, ["b", "a"], "secrets"],
  ["elements", { "lines[]": "balanced" }, ["lines", "[]"], "balanced"],
  ["everything", { "*": "balanced" }, ["a", "[]", "b"], "balanced"],
  ["a name anywhere", { "*.note": "strict" }, ["a", "[]", "note"], "strict"],
  ["a name at the top, too", { "*.note": "strict" }, ["note"], "strict"],
  ["below a name", { "a.*": "strict" }, ["a", "b", "c"], "strict"],
  ["but not the name itself", { "a.*": "strict" }, ["a"], "secrets"],
  ["more literal keys win", { "*": "strict", a: "balanced", "a.b": "off" }, ["a", "b"], "off"],
  ["then the one without *", { "*.b": "strict", b: "off" }, ["b"], "off"],
  ["then the stricter", { "a.*": "balanced", "*.b": "strict" }, ["a", "b"], "strict"],
  ["whatever the order", { "*.b": "strict", "a.*": "balanced" }, ["a", "b"], "strict"],
])("%s", (_title, declared, path, want) => {
  const compiled = compileScan(declared);
  expect([levelAt(compiled, path), levelAt(compiled, path)]).toEqual([want, want]);
});

test.each(["", "a..b", "a*", "items[0]", "__proto__"])("a malformed pattern %p does not compile", (text) => {
  expect(() => compileScan(JSON.parse(`{${JSON.stringify(text)}:"off"}`) as ScanPolicy)).toThrow(TypeError);
});

describe("keys are data", () => {
  test.each([
    ["a NUL", ["a\0b"], ["a", "b"]],
    ["a dot", ["a.b"], ["a", "b"]],
    ["a length", ["1:a1:b"], ["a", "b"]],
  ])("%s in one does not make it two, whichever is met first", (_title, one, two) => {
    const declared: ScanPolicy = { "a.b": "off" };
    const first = compileScan(declared);
    expect([levelAt(first, two), levelAt(first, one)]).toEqual(["off", "secrets"]);
    const second = compileScan(declared);
    expect([levelAt(second, one), levelAt(second, two)]).toEqual(["secrets", "off"]);
  });

  test("keys beyond the cache's number and length get correct answers", () => {
    const compiled = compileScan({ "r.*.note": "off", "r.*": "strict" });
    for (let count = 0; count < 12_000; count += 1) {
      expect(levelAt(compiled, ["r", `key${count}`, "note"])).toBe("off");
    }
    expect(levelAt(compiled, ["r", "x".repeat(1_000_000), "note"])).toBe("off");
    expect(levelAt(compiled, ["r", "y", "z"])).toBe("strict");
  });
});

describe("compared with a plain reading of the rules", () => {
  const segment = fc.constantFrom("a", "b", "c", "*", "a[]", "b[][]", "constructor");
  const pattern = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("."));
  const declared = fc.dictionary(
    fc.oneof(
      pattern,
      pattern.map((text) => `[].${text}`),
    ),
    fc.constantFrom(...SCAN_LEVELS),
    { maxKeys: 6 },
  );
  const path = fc.array(fc.constantFrom("a", "b", "c", "d", "[]", "constructor", "*", "a.b", "\0"), { maxLength: 6 });

  test("every path has the same level in repeated queries", () => {
    fc.assert(
      fc.property(declared, fc.array(path, { maxLength: 6 }), (rules, paths) => {
        const compiled = compileScan(rules);
        for (const one of [...paths, ...paths]) expect(levelAt(compiled, one)).toBe(expectedAt(rules, one));
      }),
      { numRuns: 3_000 },
    );
  });
});

/** The most specific of all patterns that match the path or a path above it. */
function expectedAt(declared: ScanPolicy, path: readonly string[]): ScanLevel {
  const claims = Object.entries(declared).flatMap(([text, level]) => {
    const parts = text
      .replaceAll("[]", ".[]")
      .split(".")
      .filter((part) => part !== "");
    const fronts = path.map((_, index) => path.slice(0, index + 1));
    if (!fronts.some((front) => matches(parts, front) || (parts[0] === "*" && matches(parts.slice(1), front))))
      return [];
    const literals = parts.filter((part) => part !== "*" && part !== "[]").length;
    return [{ level, rank: literals * 100 + (parts.includes("*") ? 0 : 10) + SCAN_LEVELS.indexOf(level) }];
  });
  return claims.toSorted((one, other) => other.rank - one.rank)[0]?.level ?? "secrets";
}

function matches(parts: readonly string[], path: readonly string[]): boolean {
  const [part, ...rest] = parts;
  const [step, ...below] = path;
  if (part === undefined || step === undefined) return part === step;
  if (part === "*") return matches(rest, below) || matches(parts, below);
  return part === step && matches(rest, below);
}
