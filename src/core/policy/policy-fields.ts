import { type SchemaField, schemaFields } from "../schema/fields.ts";
import type { FieldAction, Tool } from "../types.ts";
import { element, joinPath, otherKey, type Step } from "./field-path.ts";
import { type CompiledPolicy, compilePolicy } from "./output-policy.ts";

/** Maximum entries listed for each kind of error or note; the rest is counted. */
const NAMED_MAX = 10;

export type Described = Pick<Tool, "output" | "outputPolicy">;
type PolicyNode = CompiledPolicy["root"];

/** A position at which a result can hold a value, with the policy's decision for it. */
export interface PolicyField extends SchemaField {
  /** In pattern notation. */
  readonly path: string;
  readonly node: PolicyNode;
}

/**
 * Returns the fields of a tool's output, each with the policy's decision.
 *
 * @throws {TypeError | RangeError} for a policy or schema that cannot be compiled
 */
export function policyFields({ output, outputPolicy }: Described): readonly PolicyField[] {
  const { root } = compilePolicy(outputPolicy, output);
  return schemaFields(output).map((field) => ({
    ...field,
    path: pathOf(field.steps),
    node: followSteps(root, field.steps),
  }));
}

export function pathOf(steps: readonly Step[]): string {
  return steps.reduce<string>((path, step) => joinPath(path, shownStep(step)), "");
}

export function shownStep(step: Step): string {
  if (step === element) return "[]";
  return step === otherKey ? "*" : String(step);
}

/** Returns the listed keys on the path to a field, each with its index among the steps. */
export function namesOf(steps: readonly Step[]): readonly { readonly name: string; readonly at: number }[] {
  return steps.flatMap((name, at) => (typeof name === "string" ? [{ name, at }] : []));
}

export function followSteps(root: PolicyNode, steps: readonly Step[]): PolicyNode {
  return steps.reduce<PolicyNode>((node, step) => {
    if (step === element) return node.element.node;
    return (typeof step === "string" ? (node.keys.get(step) ?? node.other) : node.other).node;
  }, root);
}

export interface PolicyLine {
  /** The path to the part with the telling name. */
  readonly prefix: readonly Step[];
  readonly action: FieldAction;
}

/**
 * Returns the path to write a line for: the whole part with the name if that line would win over the existing ones, else the
 * field alone.
 */
export function pathToWrite(
  { outputPolicy, output }: Described,
  field: PolicyField,
  { prefix, action }: PolicyLine,
): string {
  const wide = pathOf(prefix);
  const wins = (path: string): boolean => {
    try {
      const { root } = compilePolicy({ ...outputPolicy, [path]: action }, output);
      return followSteps(root, field.steps).action === action;
    } catch {
      // No pattern can spell the key, or the line would be one pattern too many.
      return false;
    }
  };
  return wins(wide) ? wide : field.path;
}

export function listed(paths: readonly string[]): string {
  const all = [...new Set(paths)];
  const more = all.length - NAMED_MAX;
  return all.slice(0, NAMED_MAX).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

/** Returns as many messages as a person reads, and the number of further ones. */
export function bounded(messages: readonly string[]): readonly string[] {
  const all = [...new Set(messages)];
  const more = all.length - NAMED_MAX;
  return more <= 0 ? all : [...all.slice(0, NAMED_MAX), `and ${more} more of that kind`];
}
