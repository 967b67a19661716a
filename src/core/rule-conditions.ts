import { z } from "zod";
import { matchesToolName } from "./tool-names.ts";
import { CATEGORIES, CLASSIFICATIONS, RISKS, type Risk, type Tool } from "./types.ts";

/**
 * The conditions (`when`) of rules in the configuration that apply to some calls only, one row each. The sections' schemas, their
 * reference, and the comparison with a call are derived from the rows.
 */

const LISTED_MAX = 100;

export const permission = z
  .string()
  .regex(/^[\x21-\x7e]{1,128}$/, "must be a permission's name: visible ASCII, at most 128");

export const toolPattern = z.string().regex(/^[a-z0-9_*]{1,64}$/, "must be a tool's name; * stands for any letters");

interface ConditionedCall {
  readonly tool: Tool;
  /** Undefined while it is not known: then the call may have any risk. */
  readonly risk?: Risk | undefined;
}

function condition<Schema extends z.ZodType>(
  help: string,
  schema: Schema,
  holds: (wanted: z.output<Schema>, call: ConditionedCall) => boolean,
) {
  return { schema: schema.describe(help).optional(), holds };
}

/** Returns a condition that holds when one of the listed values does. */
function listed<Value extends z.ZodType>(
  help: string,
  value: Value,
  holds: (wanted: z.output<Value>, tool: Tool) => boolean,
) {
  return condition(help, z.array(value).min(1).max(LISTED_MAX), (wanted, { tool }) =>
    wanted.some((each) => holds(each, tool)),
  );
}

const CONDITIONS = {
  tools: listed("Names of tools; `*` matches any characters.", toolPattern, (pattern, { name }) =>
    matchesToolName(pattern, name),
  ),
  categories: listed(
    "Categories of tools: what kind of operation the tool performs.",
    z.enum(CATEGORIES),
    (wanted, { category }) => wanted === category,
  ),
  systems: listed(
    "Systems that the tool accesses, as its manifest names them.",
    z.string().min(1).max(128),
    (wanted, { target }) => wanted === target.system,
  ),
  risk: condition(
    "Minimum risk of the call.",
    z.enum(RISKS),
    (least, { risk }) => risk === undefined || RISKS.indexOf(risk) >= RISKS.indexOf(least),
  ),
  permissions: listed(
    "Permissions that the tool requires of its callers, for some arguments or all.",
    permission,
    (wanted, { permissions: { required, elevatedIf } }) =>
      required.includes(wanted) || elevatedIf?.required.includes(wanted) === true,
  ),
  classifications: listed(
    "Classifications of tools: how much the tool can change.",
    z.enum(CLASSIFICATIONS),
    (wanted, { classification }) => wanted === classification,
  ),
};

type Shape = { [Name in keyof typeof CONDITIONS]: (typeof CONDITIONS)[Name]["schema"] };

const rows = Object.entries(CONDITIONS) as readonly (readonly [keyof Shape, { readonly holds: Holds }])[];
type Holds = (wanted: unknown, call: ConditionedCall) => boolean;

export const ruleConditions = z.strictObject(
  Object.fromEntries(Object.entries(CONDITIONS).map(([name, { schema }]) => [name, schema])) as Shape,
);

export type RuleConditions = { readonly [Name in keyof Shape]?: Readonly<z.output<Shape[Name]>> };

/** Returns whether every condition holds for the call, as far as it is known. */
export function conditionsHold(when: RuleConditions, call: ConditionedCall): boolean {
  return rows.every(([name, { holds }]) => when[name] === undefined || holds(when[name], call));
}
