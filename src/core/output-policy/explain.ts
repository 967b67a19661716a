import type { FieldAction, Json, OutputFieldPolicy } from "../types.ts";
import { element, joinPath, matchesAfter, parseFieldPattern, type Step } from "./field-path.ts";
import { type CompiledPolicy, edgeOf, isScalar } from "./output-policy.ts";
import { actionOf, reasonOf, releases } from "./rule-states.ts";

/** Keys and array indexes from the top. */
export type ValuePath = readonly (string | number)[];

/** The effect of a policy on one value, and the pattern that decided it. */
export interface ExplainedField {
  /** Display form: `items[0].email`. */
  readonly path: string;
  /** Action of the winning pattern; undefined when no pattern covers the value, which is then stripped. */
  readonly action: FieldAction | undefined;
  /** The pattern that decided, as written. */
  readonly pattern: string | undefined;
  /** The reason for an `allow`, in the manifest's words. */
  readonly reason?: string | undefined;
  /** Path in the result of `applyPolicy`, whose lists have no gaps; undefined when the value is stripped. */
  readonly at: ValuePath | undefined;
}

export interface Explained {
  /** Scalars, empty containers, and containers of which only the empty shell is released; in the value's order. */
  readonly fields: readonly ExplainedField[];
  /** Number of fields beyond the limit. */
  readonly omitted: number;
}

export interface ExplainedPolicy {
  readonly policy: OutputFieldPolicy;
  readonly compiled: CompiledPolicy;
}

type PolicyNode = CompiledPolicy["root"];
type PolicyEdge = PolicyNode["element"];

/** The limit of `applyPolicy`: deeper values are stripped. */
const DEPTH_MAX = 128;

interface Run {
  readonly policy: OutputFieldPolicy;
  readonly fields: ExplainedField[];
  readonly fieldsMax: number;
  omitted: number;
}

interface FieldPosition {
  readonly path: string;
  readonly steps: readonly Step[];
  readonly at: ValuePath;
}

/**
 * Explains what `applyPolicy` does to every scalar of a value, and to every container that is empty or becomes empty.
 * The compiled policy decides; only the pattern behind each decision is determined here, which is slow.
 */
export function explainPolicy({ policy, compiled }: ExplainedPolicy, value: Json, fieldsMax: number): Explained {
  const run: Run = { policy, fields: [], fieldsMax, omitted: 0 };
  if (typeof value !== "object" || value === null) {
    const at = value === null ? [] : undefined;
    return { fields: [{ path: "", action: undefined, pattern: undefined, at }], omitted: 0 };
  }
  const isEmpty = Object.keys(value).length === 0;
  if (isEmpty) return { fields: [{ path: "", ...decision(run, compiled.root, []), at: [] }], omitted: 0 };
  explainContent(run, compiled.root, value, { path: "", steps: [], at: [] });
  return { fields: run.fields, omitted: run.omitted };
}

/** Returns the pattern that makes `action` apply at a path; undefined when there is none. */
export function decidingPattern(
  policy: OutputFieldPolicy,
  steps: readonly Step[],
  action: FieldAction,
): string | undefined {
  let best: Claim | undefined;
  for (const [text, says] of Object.entries(policy)) {
    if (actionOf(says) !== action) continue;
    const claim = claimOf(text, steps);
    if (claim !== undefined && isStronger(claim, best)) best = claim;
  }
  return best?.text;
}

interface Claim {
  readonly text: string;
  readonly literals: number;
  readonly isExact: boolean;
}

function isStronger(claim: Claim, best: Claim | undefined): boolean {
  if (best === undefined) return true;
  if (claim.literals !== best.literals) return claim.literals > best.literals;
  return claim.isExact && !best.isExact;
}

/** Returns how specifically a pattern matches a path or a container above it; undefined when it does not match. */
function claimOf(text: string, steps: readonly Step[]): Claim | undefined {
  const pattern = parseFieldPattern(text);
  if ("fault" in pattern) return undefined;
  const matches = matchesAfter(pattern, steps);
  if (!matches.includes(true)) return undefined;
  return { text, literals: pattern.literals, isExact: !pattern.hasWildcard && matches.at(-1) === true };
}

/** Returns whether any part of the value is released. */
function explainField(run: Run, edge: PolicyEdge, value: unknown, position: FieldPosition): boolean {
  const { node } = edge;
  if (value === undefined) return false;
  if (typeof value !== "object" || value === null) {
    const stays = releases(node.action) && isScalar(value);
    note(run, node, position, stays);
    return stays;
  }
  if (position.steps.length > DEPTH_MAX) {
    note(run, node, position, false);
    return false;
  }
  if (explainContent(run, node, value, position)) return true;
  if (node.keepsEmpty || Object.keys(value).length === 0) note(run, node, position, node.keepsEmpty);
  return node.keepsEmpty;
}

function explainContent(run: Run, node: PolicyNode, value: object, { path, steps, at }: FieldPosition): boolean {
  let kept = 0;
  if (Array.isArray(value)) {
    value.forEach((child: unknown, index) => {
      const position: FieldPosition = { path: `${path}[${index}]`, steps: [...steps, element], at: [...at, kept] };
      if (explainField(run, node.element, child, position)) kept += 1;
    });
    return kept > 0;
  }
  for (const [key, child] of Object.entries(value)) {
    const position = { path: joinPath(path, key), steps: [...steps, key], at: [...at, key] };
    if (key === "__proto__") note(run, undefined, position, false);
    else if (explainField(run, edgeOf(node, key), child, position)) kept += 1;
  }
  return kept > 0;
}

function note(run: Run, node: PolicyNode | undefined, { path, steps, at }: FieldPosition, stays: boolean): void {
  if (run.fields.length >= run.fieldsMax) {
    run.omitted += 1;
    return;
  }
  run.fields.push({ path, ...decision(run, node, steps), at: stays ? at : undefined });
}

function decision(
  { policy }: Run,
  node: PolicyNode | undefined,
  steps: readonly Step[],
): Pick<ExplainedField, "action" | "pattern" | "reason"> {
  const action = node?.action;
  const pattern = action && decidingPattern(policy, steps, action);
  return { action, pattern, reason: pattern === undefined ? undefined : reasonOf(policy[pattern]) };
}
