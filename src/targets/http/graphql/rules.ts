import { type GraphQLOutputType, getNullableType, isListType } from "graphql";
import type { Fault } from "../../../core/errors.ts";
import { element, otherKey, type Step } from "../../../core/output-policy/field-path.ts";
import { followSteps, type PolicyField, pathOf, policyFields } from "../../../core/output-policy/output-fields.ts";
import { compilePolicy } from "../../../core/output-policy/output-policy.ts";
import { defOf, type Schema, schemaParts } from "../../../core/schema/walk.ts";
import type { FieldAction, Tool } from "../../../core/types.ts";
import type { SelectedField } from "./document.ts";

/** Minimum protection of fields for all tools, by `Type.field` or `Type.*`. */
type FieldRule = Exclude<FieldAction, "allow"> | "never";
type FieldRules = Readonly<Record<string, FieldRule>>;

const STRICTEST: readonly FieldRule[] = ["never", "redact", "mask"];

interface Protected {
  readonly steps: readonly Step[];
  readonly rule: FieldRule;
  readonly from: string;
}

/** A member must not be released more than the system's rules say, whatever its alias is. */
export function ruleFaults(
  fields: readonly SelectedField[],
  tool: Pick<Tool, "output" | "outputPolicy">,
  rules: FieldRules,
): readonly Fault[] {
  const members = Object.keys(rules).length === 0 ? [] : protectedMembers(fields, rules, []);
  const never = members.filter(({ rule }) => rule === "never");
  if (never.length > 0) {
    return never.map(({ from, steps }) => ({
      field: "target.http.graphql.document",
      message: `selects ${from} as ${pathOf(steps)}, which the system's fields never release`,
    }));
  }
  if (members.length === 0) return [];
  if (hasCode(tool.output)) {
    const message = `is changed by code, and ${members[0]?.from} is protected by the system's fields: declare the answer as it is`;
    return [{ field: "output", message }];
  }
  const { root } = compilePolicy(tool.outputPolicy, tool.output);
  const declared = policyFields(tool);
  return members.flatMap(({ steps, rule, from }) => {
    const weaker = releasedNodes(root, declared, steps).find(({ action }) => !isStrictEnough(action, rule));
    if (weaker === undefined) return [];
    return [
      { field: `outputPolicy.${weaker.path}`, message: `must be ${rule}, as the system's fields say of ${from}` },
    ];
  });
}

function isStrictEnough(action: FieldAction | undefined, rule: FieldRule): boolean {
  return action === undefined || action === "redact" || action === rule;
}

function protectedMembers(
  fields: readonly SelectedField[],
  rules: FieldRules,
  above: readonly Step[],
): readonly Protected[] {
  return fields.flatMap((field) => {
    const steps: readonly Step[] = [...above, field.key];
    const found = ruleOf(field.origins, rules);
    const elements = Array.from({ length: listLevels(field.type) }, (): Step => element);
    const below = protectedMembers(field.fields, rules, [...steps, ...elements]);
    return found === undefined ? below : [{ steps, ...found }, ...below];
  });
}

/** Returns the number of lists within each other that a value is in. */
export function listLevels(type: GraphQLOutputType): number {
  const inner = getNullableType(type);
  return isListType(inner) ? 1 + listLevels(inner.ofType) : 0;
}

/** Returns the strictest rule for any of these fields. */
function ruleOf(origins: readonly string[], rules: FieldRules): Pick<Protected, "rule" | "from"> | undefined {
  const found = origins.flatMap((from) => {
    const keys = [from, `${from.slice(0, from.indexOf("."))}.*`];
    return keys.flatMap((key) => (Object.hasOwn(rules, key) ? [{ rule: rules[key] as FieldRule, from }] : []));
  });
  return STRICTEST.flatMap((rule) => found.find((each) => each.rule === rule) ?? [])[0];
}

type PolicyNode = PolicyField["node"];

interface Released {
  readonly path: string;
  readonly action: FieldAction | undefined;
}

/** Returns the policy's actions for all paths that may hold the member's value. */
export function releasedNodes(
  root: PolicyNode,
  declared: readonly PolicyField[],
  steps: readonly Step[],
): readonly Released[] {
  return declared.flatMap((field) => {
    const length = Math.min(field.steps.length, steps.length);
    const isOnPath = field.steps.slice(0, length).every((step, index) => step === steps[index] || step === otherKey);
    if (!isOnPath) return [];
    // A value of any type has paths that no schema lists.
    const isAbove = field.steps.length < steps.length;
    // Keys that a schema does not list may have rules by name.
    const named = isAbove && field.kind !== "open" ? [] : [[...steps, ...field.steps.slice(length)]];
    const places = [...(isAbove && field.kind === "open" ? [] : [field.steps]), ...named];
    return places.flatMap((place) => {
      const node = followSteps(root, place);
      const nodes = field.kind === "open" ? reachable(node) : [node];
      return nodes.map(({ action }) => ({ path: pathOf(place), action }));
    });
  });
}

function reachable(start: PolicyNode): readonly PolicyNode[] {
  const nodes = new Set([start]);
  // The loop visits the nodes that it adds.
  for (const { keys, other, element: inner } of nodes) {
    for (const edge of [...keys.values(), other, inner]) nodes.add(edge.node);
  }
  return [...nodes];
}

/** Returns whether code of the manifest makes a value of another one: nothing says where its members come from. */
function hasCode(output: Schema): boolean {
  const schemas = new Set([output]);
  for (const schema of schemas) {
    const def = defOf(schema);
    if (def.type === "transform" || def.type === "catch") return true;
    if (def.type === "pipe") {
      if ("reverseTransform" in def) return true;
      for (const side of [def.in, def.out]) schemas.add(side);
    }
    for (const [, part] of schemaParts(schema)) schemas.add(part);
  }
  return false;
}
