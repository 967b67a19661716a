import { advance, element, type FieldPattern, parseFieldPattern, startPosition } from "./field-path.ts";

/** How closely the text of a field is looked through before it leaves: see `ToolDefinition.scan`. */
export type ScanLevel = "off" | "secrets" | "balanced" | "strict";

/** Field patterns to levels. Text that no pattern names is looked through for secrets. */
export type ScanPolicy = Readonly<Record<string, ScanLevel>>;

/** From the mildest to the strictest. */
export const SCAN_LEVELS: readonly ScanLevel[] = ["off", "secrets", "balanced", "strict"];

const OTHERWISE: ScanLevel = "secrets";
const PATHS_KEPT_MAX = 10_000;
/** UTF-16 units. Keys may be data, of any length. */
const PATH_KEPT_CHARS_MAX = 512;

/** The level of each path; a single one when no pattern tells paths apart. */
export type CompiledScan = ScanLevel | ((path: readonly string[]) => ScanLevel);

interface ScanRule {
  readonly pattern: FieldPattern;
  readonly level: ScanLevel;
}

/**
 * Which level wins at a path: that of the pattern with more literal keys; else of the one without `*`; else the stricter. A
 * pattern on a container covers all below it.
 *
 * @throws {TypeError} for a malformed pattern
 */
export function compileScan(declared: ScanPolicy): CompiledScan {
  const rules = Object.entries(declared).map(([text, level]): ScanRule => {
    const pattern = parseFieldPattern(text);
    if ("fault" in pattern) throw new TypeError(`"${text}" ${pattern.fault}`);
    return { pattern, level };
  });
  if (rules.length === 0) return OTHERWISE;
  const kept = new Map<string, ScanLevel>();
  return (path) => {
    const name = nameOf(path);
    const known = kept.get(name);
    if (known !== undefined) return known;
    const level = rules.filter(({ pattern }) => covers(pattern, path)).reduce(stronger, undefined)?.level ?? OTHERWISE;
    if (kept.size < PATHS_KEPT_MAX && name.length <= PATH_KEPT_CHARS_MAX) kept.set(name, level);
    return level;
  };
}

/** Another one for every path, whatever the keys hold. */
function nameOf(path: readonly string[]): string {
  return path.map((step) => `${step.length}:${step}`).join("");
}

function covers(pattern: FieldPattern, path: readonly string[]): boolean {
  let positions: readonly number[] = [startPosition(pattern), 0];
  for (const step of path) {
    positions = [...new Set(positions.flatMap((at) => advance(pattern, at, step === "[]" ? element : step)))];
    if (positions.includes(pattern.segments.length)) return true;
  }
  return false;
}

function stronger(best: ScanRule | undefined, rule: ScanRule): ScanRule {
  if (best === undefined) return rule;
  const difference =
    rule.pattern.literals - best.pattern.literals ||
    Number(best.pattern.hasWildcard) - Number(rule.pattern.hasWildcard) ||
    SCAN_LEVELS.indexOf(rule.level) - SCAN_LEVELS.indexOf(best.level);
  return difference > 0 ? rule : best;
}
