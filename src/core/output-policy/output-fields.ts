import { z } from "zod";
import { defOf, type Schema, schemaParts } from "../schema/walk.ts";
import type { FieldAction, Tool } from "../types.ts";
import { element, joinPath, otherKey, type Step } from "./field-path.ts";
import { type CompiledPolicy, compilePolicy } from "./output-policy.ts";

/** `text`: prose; `format`: other text; `closed`: an enum, a literal, a boolean or a date; `open`: any value. */
export type FieldKind = "text" | "format" | "number" | "closed" | "open";

/** A position at which the output can hold a scalar, or any value. */
interface SchemaField {
  readonly steps: readonly Step[];
  readonly kind: FieldKind;
}

const VISITS_MAX = 50_000;

interface Walk {
  /** The schemas from the top down to the one being visited. */
  readonly ancestors: Set<Schema>;
  readonly fields: SchemaField[];
  visits: number;
}

/**
 * Returns the fields of a schema's output in schema order; `otherKey` represents the keys that the schema does not
 * list. A position may occur twice.
 *
 * @throws {RangeError} for a schema with too many parts: parts that are not visited cannot be checked
 */
function schemaFields(output: Schema): readonly SchemaField[] {
  const walk: Walk = { ancestors: new Set(), fields: [], visits: 0 };
  visit(walk, output, []);
  return walk.fields;
}

function visit(walk: Walk, schema: Schema, steps: readonly Step[]): void {
  walk.visits += 1;
  if (walk.visits > VISITS_MAX) throw new RangeError(`the schema has more than ${VISITS_MAX} parts`);
  if (walk.ancestors.has(schema)) {
    // A schema that contains itself, such as `z.json()`, describes nothing.
    walk.fields.push({ steps, kind: "open" });
    return;
  }
  walk.ancestors.add(schema);
  for (const [step, inner] of schemaParts(schema)) visit(walk, inner, step === undefined ? steps : [...steps, step]);
  walk.ancestors.delete(schema);
  const kind = kindOf(schema);
  if (kind !== undefined) walk.fields.push({ steps, kind });
}

const CLOSED: ReadonlySet<string> = new Set(["boolean", "enum", "literal", "date"]);
const NUMBERS: ReadonlySet<string> = new Set(["number", "int", "bigint"]);
const OPEN: ReadonlySet<string> = new Set(["any", "unknown", "custom"]);

/** Returns the kind of a scalar or open schema, else undefined. The result of a transform counts as text. */
function kindOf(schema: Schema): FieldKind | undefined {
  const { type } = defOf(schema);
  if (CLOSED.has(type)) return "closed";
  if (NUMBERS.has(type)) return "number";
  if (OPEN.has(type)) return "open";
  if (type === "transform") return "text";
  if (type === "string" || type === "template_literal") return acceptsProse(schema) ? "text" : "format";
  return undefined;
}

/** Sample prose: a field that accepts one of these texts can hold prose. */
const PROSE_SAMPLES: readonly string[] = [
  "a few words",
  "a few words, many times. ".repeat(4),
  "a few words, many times. ".repeat(80),
];

function acceptsProse(schema: Schema): boolean {
  try {
    return PROSE_SAMPLES.some((words) => z.safeParse(schema, words).success);
  } catch {
    return true;
  }
}

/** Maximum fields for which a suggestion is computed: several fields may lead to the same one. */
export const SUGGESTIONS_MAX = 100;
/** Maximum entries listed for each kind of error or note; the others are counted. */
const NAMED_MAX = 10;

export type Described = Pick<Tool, "output" | "outputPolicy">;
type PolicyNode = CompiledPolicy["root"];

/** A position at which a result can hold a value, with the policy's decision for it. */
export interface PolicyField extends SchemaField {
  /** As a pattern, such as `items[].email`. */
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

/** Returns the keys on the path to a field that the schema lists, each with its index among the steps. */
export function namesOf(steps: readonly Step[]): readonly { readonly name: string; readonly at: number }[] {
  return steps.flatMap((name, at) => (typeof name === "string" ? [{ name, at }] : []));
}

export function followSteps(root: PolicyNode, steps: readonly Step[]): PolicyNode {
  return steps.reduce<PolicyNode>((node, step) => {
    if (step === element) return node.element.node;
    return (typeof step === "string" ? (node.keys.get(step) ?? node.other) : node.other).node;
  }, root);
}

/** Returns the pattern to suggest: `prefix`, which ends in the name, if it would win; else the field. */
export function pathToWrite(
  { outputPolicy, output }: Described,
  field: PolicyField,
  { prefix, action }: { readonly prefix: readonly Step[]; readonly action: FieldAction },
): string {
  const wide = pathOf(prefix);
  const wins = (path: string): boolean => {
    try {
      const { root } = compilePolicy({ ...outputPolicy, [path]: action }, output);
      return followSteps(root, field.steps).action === action;
    } catch {
      // No pattern can contain the key, or the policy would become too large.
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

/** Returns the first messages, and the number of further ones. */
export function bounded(messages: readonly string[]): readonly string[] {
  const all = [...new Set(messages)];
  const more = all.length - NAMED_MAX;
  return more <= 0 ? all : [...all.slice(0, NAMED_MAX), `and ${more} more of that kind`];
}
