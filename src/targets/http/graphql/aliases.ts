import { type GraphQLOutputType, getNamedType, isEnumType } from "graphql";
import type { Fault } from "../../../core/errors.ts";
import { decidingPattern } from "../../../core/output-policy/explain.ts";
import { element, parseFieldPattern, type Step } from "../../../core/output-policy/field-path.ts";
import { pathOf, policyFields } from "../../../core/output-policy/output-fields.ts";
import { compilePolicy } from "../../../core/output-policy/output-policy.ts";
import { personalName } from "../../../core/output-policy/personal-names.ts";
import { reasonOf } from "../../../core/output-policy/rule-states.ts";
import type { Tool } from "../../../core/types.ts";
import type { SelectedField } from "./document.ts";
import { listLevels, releasedNodes } from "./rules.ts";

/** A scalar of an answer whose path has other names than the schema's fields. */
interface Renamed {
  readonly steps: readonly Step[];
  readonly keys: readonly string[];
  /** Names of the schema's fields. */
  readonly names: readonly string[];
  readonly type: GraphQLOutputType;
}

/** Returns errors for aliases that are released without a reason although the schema's field name indicates personal data. */
export function aliasFaults(
  fields: readonly SelectedField[],
  tool: Pick<Tool, "output" | "outputPolicy">,
): readonly Fault[] {
  const personal = renamed(fields).filter(isPersonal);
  if (personal.length === 0) return [];
  const { root } = compilePolicy(tool.outputPolicy, tool.output);
  const declared = policyFields(tool);
  return personal.flatMap((member) => {
    const released = releasedNodes(root, declared, member.steps).find(({ action }) => action === "allow");
    if (released === undefined || isReasoned(tool, member)) return [];
    const path = pathOf(member.steps);
    const message = `${path} is personal data by the name of its field, ${member.names.join(".")}, and is released; write "${path}": "mask" or, if it must be released, "${path}": { action: "allow", reason: "…" }`;
    return [{ field: "outputPolicy", message }];
  });
}

/** Returns the schema's field names for each scalar whose path in the answer has other names, by that path. */
export function originalNames(
  fields: readonly SelectedField[],
): Readonly<Record<string, { readonly names: readonly string[] }>> {
  return Object.fromEntries(renamed(fields).map(({ steps, names }) => [pathOf(steps), { names }]));
}

function renamed(
  fields: readonly SelectedField[],
  above: Omit<Renamed, "type"> = { steps: [], keys: [], names: [] },
): readonly Renamed[] {
  return fields.flatMap(({ key, type, origins: [origin = ""], fields: below }) => {
    const elements = Array.from({ length: listLevels(type) }, (): Step => element);
    const at = {
      steps: [...above.steps, key, ...elements],
      keys: [...above.keys, key],
      names: [...above.names, origin.slice(origin.indexOf(".") + 1) || key],
    };
    if (below.length > 0) return renamed(below, at);
    return at.keys.every((name, index) => name === at.names[index]) ? [] : [{ ...at, type }];
  });
}

function isPersonal({ names, type }: Renamed): boolean {
  const found = personalName(names);
  const named = getNamedType(type);
  if (found?.certainty !== "certain" || isEnumType(named) || named.name === "Boolean") return false;
  return found.takesNumber || !["Int", "Float"].includes(named.name);
}

/** Returns whether the pattern that releases the member names it and has a reason. */
function isReasoned({ outputPolicy }: Pick<Tool, "outputPolicy">, { steps, keys }: Renamed): boolean {
  const text = decidingPattern(outputPolicy, steps, "allow");
  if (text === undefined || reasonOf(outputPolicy[text]) === undefined) return false;
  const pattern = parseFieldPattern(text);
  return !("fault" in pattern) && pattern.segments.includes(keys.at(-1) ?? "");
}
