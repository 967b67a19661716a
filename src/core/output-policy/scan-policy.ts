import { element, type FieldPattern, matchesAfter, parseFieldPattern, startPosition } from "./field-path.ts";

/** Strictness with which a field's text is scanned before it is released: see `ToolDefinition.scan`. */
export type ScanLevel = "off" | "secrets" | "balanced" | "strict";

/** Maps field patterns to levels. Text that matches no pattern is scanned for secrets. */
export type ScanPolicy = Readonly<Record<string, ScanLevel>>;

/** From the mildest to the strictest. */
export const SCAN_LEVELS: readonly ScanLevel[] = ["off", "secrets", "balanced", "strict"];

const DEFAULT_LEVEL: ScanLevel = "secrets";
const PATHS_CACHED_MAX = 10_000;
/** Longest path that is cached (UTF-16 units): keys may be data, of any length. */
const PATH_CACHED_CHARS_MAX = 512;

/** Returns the level of a path; a single level when no pattern distinguishes paths. */
export type CompiledScan = ScanLevel | ((path: readonly string[]) => ScanLevel);

interface ScanRule {
  readonly pattern: FieldPattern;
  readonly level: ScanLevel;
}

/**
 * Compiles a scan policy. The winning level at a path is that of the pattern with more literal keys; else of the one
 * without `*`; else the stricter one. A pattern on a container covers everything below it.
 *
 * @throws {TypeError} for a malformed pattern
 */
export function compileScan(declared: ScanPolicy): CompiledScan {
  const rules = Object.entries(declared).map(([text, level]): ScanRule => {
    const pattern = parseFieldPattern(text);
    if ("fault" in pattern) throw new TypeError(`"${text}" ${pattern.fault}`);
    return { pattern, level };
  });
  if (rules.length === 0) return DEFAULT_LEVEL;
  const cache = new Map<string, ScanLevel>();
  return (path) => {
    const name = nameOf(path);
    const known = cache.get(name);
    if (known !== undefined) return known;
    const level =
      rules.filter(({ pattern }) => covers(pattern, path)).reduce(stronger, undefined)?.level ?? DEFAULT_LEVEL;
    if (cache.size < PATHS_CACHED_MAX && name.length <= PATH_CACHED_CHARS_MAX) cache.set(name, level);
    return level;
  };
}

/** Returns a text that is different for every path, whatever the keys contain. */
function nameOf(path: readonly string[]): string {
  return path.map((step) => `${step.length}:${step}`).join("");
}

function covers(pattern: FieldPattern, path: readonly string[]): boolean {
  const steps = path.map((step) => (step === "[]" ? element : step));
  return matchesAfter(pattern, steps, [startPosition(pattern), 0]).includes(true);
}

function stronger(best: ScanRule | undefined, rule: ScanRule): ScanRule {
  if (best === undefined) return rule;
  const difference =
    rule.pattern.literals - best.pattern.literals ||
    Number(best.pattern.hasWildcard) - Number(rule.pattern.hasWildcard) ||
    SCAN_LEVELS.indexOf(rule.level) - SCAN_LEVELS.indexOf(best.level);
  return difference > 0 ? rule : best;
}
