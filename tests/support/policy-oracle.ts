import { mask } from "../../src/core/output-policy/masks.ts";
import type { FieldAction, Json, OutputFieldPolicy } from "../../src/core/types.ts";

/** A step of a path; elements are told from keys, whatever the keys are called. */
interface PathStep {
  readonly key?: string;
}

/**
 * What an output policy leaves of a value, read straight from the rules and slowly: every path is matched against
 * every pattern, and every ancestor of it too.
 */
export function expectedOf(policy: OutputFieldPolicy, value: Json): Json {
  if (typeof value !== "object" || value === null) return null;
  return prune(policy, value, []) ?? (Array.isArray(value) ? [] : {});
}

function prune(policy: OutputFieldPolicy, value: Json, path: readonly PathStep[]): Json | undefined {
  if (typeof value !== "object" || value === null) {
    const action = actionAt(policy, path);
    if (action === "allow") return value;
    return action === "mask" ? mask(value) : undefined;
  }
  const kept = Array.isArray(value)
    ? pruneList(policy, value, path)
    : pruneKeys(policy, value as { [key: string]: Json }, path);
  const isEmpty = Object.keys(kept as object).length === 0;
  return isEmpty && path.length > 0 && !staysEmpty(policy, path) ? undefined : kept;
}

function pruneList(policy: OutputFieldPolicy, value: readonly Json[], path: readonly PathStep[]): Json {
  return value.map((child) => prune(policy, child, [...path, {}])).filter((child) => child !== undefined);
}

function pruneKeys(
  policy: OutputFieldPolicy,
  value: { readonly [key: string]: Json },
  path: readonly PathStep[],
): Json {
  const kept: Record<string, Json> = {};
  for (const [key, child] of Object.entries(value)) {
    const left = key === "__proto__" ? undefined : prune(policy, child, [...path, { key }]);
    if (left !== undefined) kept[key] = left;
  }
  return kept;
}

function staysEmpty(policy: OutputFieldPolicy, path: readonly PathStep[]): boolean {
  const action = actionAt(policy, path);
  if (action === "allow" || action === "mask") return true;
  return Object.entries(policy).some(([text, act]) => {
    const parts = partsOf(text);
    const front = parts.slice(0, path.length);
    return act !== "redact" && parts.length > path.length && !front.includes("*") && matches(front, path);
  });
}

function actionAt(policy: OutputFieldPolicy, path: readonly PathStep[]): FieldAction | undefined {
  const order: readonly FieldAction[] = ["allow", "mask", "redact"];
  const claims = Object.entries(policy).flatMap(([text, declared]) => {
    const action = typeof declared === "string" ? declared : declared.action;
    const parts = partsOf(text);
    const ends = path.map((_, index) => path.slice(0, index + 1)).filter((front) => matchesWhole(parts, front));
    const literals = parts.filter((part) => part !== "*" && part !== "[]").length;
    const exact = !parts.includes("*") && ends.some((front) => front.length === path.length);
    return ends.length === 0 ? [] : [{ action, rank: [literals, exact ? 1 : 0, order.indexOf(action)] as const }];
  });
  claims.sort((a, b) => b.rank[0] - a.rank[0] || b.rank[1] - a.rank[1] || b.rank[2] - a.rank[2]);
  return claims[0]?.action;
}

function partsOf(text: string): readonly string[] {
  return text.split(".").flatMap((part) => {
    const name = part.replaceAll("[]", "");
    return [...(name === "" ? [] : [name]), ...Array.from({ length: (part.length - name.length) / 2 }, () => "[]")];
  });
}

function matchesWhole(parts: readonly string[], path: readonly PathStep[]): boolean {
  const skipsStar = parts[0] === "*" && parts.length > 1 && matches(parts.slice(1), path);
  return skipsStar || matches(parts, path);
}

function matches(parts: readonly string[], path: readonly PathStep[]): boolean {
  const [part, ...rest] = parts;
  const [step, ...below] = path;
  if (part === undefined || step === undefined) return part === undefined && step === undefined;
  if (part === "*") return matches(rest, below) || matches(parts, below);
  const fits = part === "[]" ? step.key === undefined : step.key === part;
  return fits && matches(rest, below);
}
