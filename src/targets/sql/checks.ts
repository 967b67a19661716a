import type { Fault } from "../../core/errors.ts";
import { unless } from "../../core/manifest/checks.ts";
import { element, type Step } from "../../core/output-policy/field-path.ts";
import { followSteps } from "../../core/output-policy/output-fields.ts";
import { compilePolicy } from "../../core/output-policy/output-policy.ts";
import type { Schema } from "../../core/schema/walk.ts";
import type { Tool } from "../../core/types.ts";
import {
  ANY_TYPE,
  type ColumnRule,
  type DatabaseRules,
  type DescribedColumn,
  type Description,
  type Place,
} from "./engine.ts";
import { CHANGED, COMPUTED, elementOf, membersOf, ROWS, type SqlPart, TRUNCATED } from "./manifest.ts";
import { type ColumnForm, columnForm, isValueType } from "./values.ts";

interface CheckedTool {
  readonly tool: Tool;
  readonly part: SqlPart;
  readonly rules: DatabaseRules;
}

/** Returns what does not fit between a tool and what the database says of its statement. */
export function descriptionFaults(checked: CheckedTool, description: Description): readonly Fault[] {
  return [
    ...userFaults(description),
    ...parameterFaults(checked.part, description),
    ...columnFaults(checked.tool, checked.part, description.columns),
    ...truncationFaults(checked.tool, checked.part),
    ...functionFaults(checked.rules, description),
    ...ruleFaults(checked, description),
  ];
}

function userFaults({ user }: Pick<Description, "user">): readonly Fault[] {
  const { isSuperuser, bypassesRowSecurity, serverRights = [] } = user;
  const says = [
    isSuperuser && "is a superuser",
    bypassesRowSecurity && "bypasses row-level security",
    serverRights.length > 0 && `has rights over the whole server (${serverRights.join(", ")})`,
  ].find((each) => each !== false);
  const advice = "name a user with only the rights that the tools need in the system's read or write";
  return unless(says === undefined, "target.system", `its database user ${says}: ${advice}`);
}

/** Returns what an operator should know of the database user of a tool. */
export function descriptionNotes(
  { user: { changes, tableRights = [] } }: Description,
  isRead: boolean,
): readonly Fault[] {
  const field = "target.system";
  const names = tableRights.join(", ");
  const ofTable = `its database user may change ${changes}: revoke that, a tool that reads does not need it`;
  const ofAll = `its database user has rights on every table (${names}): grant it rights on the tables that its tools use`;
  return [...unless(!isRead || changes === undefined, field, ofTable), ...unless(names === "", field, ofAll)];
}

function parameterFaults({ parameters = [] }: SqlPart, description: Description): readonly Fault[] {
  const field = "target.sql.parameters";
  const count = description.parameters.length;
  if (count !== parameters.length) {
    return [{ field, message: `has ${parameters.length} entries, but the statement has ${count} parameters` }];
  }
  return description.parameters.flatMap((type, index) =>
    isValueType(type)
      ? []
      : [
          {
            field,
            message: `${parameters[index]} has the type ${type.name}: give it a type for values, such as $${index + 1}::text`,
          },
        ],
  );
}

/** Types whose texts a form reads. Text is read from any. */
const FORM_TYPES: Readonly<Record<Exclude<ColumnForm, "text">, RegExp>> = {
  number:
    /^(?:smallint|integer|bigint|real|double precision|numeric|tinyint|mediumint|int|decimal|float|double|year|bit)$/,
  boolean: /^(?:boolean|tinyint|bit)$/,
  json: /^jsonb?$/,
  list: /\[\]$/,
};

function columnFaults(tool: Tool, part: SqlPart, columns: readonly DescribedColumn[]): readonly Fault[] {
  const names = columns.map(({ name }) => name);
  const twice = names.filter((name, index) => names.indexOf(name) !== index);
  if (twice.length > 0) return [{ field: "target.sql.statement", message: `has two columns ${twice[0]}: use AS` }];
  const row = rowSchema(tool, part);
  if (tool.classification !== "read" && columns.length === 0) {
    return unless(
      part.one !== true && row === undefined,
      "output",
      `must have ${CHANGED} alone: the change returns no rows`,
    );
  }
  if (row === undefined) {
    const shape = part.one === true ? "an object" : `an object with ${ROWS}, a list of objects`;
    return [{ field: "output", message: `must be ${shape}` }];
  }
  const members = membersOf(row) ?? {};
  const at = part.one === true ? "output" : `output.${ROWS}[]`;
  const unknown = Object.keys(members).filter((name) => !names.includes(name));
  return [
    ...unknown.map((name) => ({ field: `${at}.${name}`, message: "is not a column of the statement" })),
    ...columns.flatMap(({ name, type, isList }) => {
      const schema = Object.hasOwn(members, name) ? members[name] : undefined;
      if (schema === undefined) return [{ field: at, message: `has no member ${name}, which the statement returns` }];
      const form = columnForm(schema);
      const isSound =
        form === "text" ? !isList : form !== undefined && (type === ANY_TYPE || FORM_TYPES[form].test(type));
      return isSound ? [] : [{ field: `${at}.${name}`, message: `does not read the type ${type}` }];
    }),
  ];
}

/** Returns the schema of a row. */
export function rowSchema({ output }: Tool, { one }: SqlPart): Schema | undefined {
  const row = one === true ? output : elementOf(membersOf(output)?.[ROWS]);
  return membersOf(row) === undefined ? undefined : row;
}

function truncationFaults(tool: Tool, { one, rows }: SqlPart): readonly Fault[] {
  if (tool.classification !== "read") {
    const says = one === true || membersOf(tool.output)?.[CHANGED] !== undefined;
    return unless(says, `output.${CHANGED}`, "is missing: the number of changed rows, a whole number");
  }
  if (one === true || rows?.more === "refuse" || saysTruncated(tool)) return [];
  const field = `output.${TRUNCATED}`;
  return [{ field, message: "is missing: z.boolean().optional(), for a result that is cut; or rows.more: refuse" }];
}

/** Returns whether results have a member that says that there were more rows. */
function saysTruncated({ output }: Tool): boolean {
  return membersOf(output)?.[TRUNCATED] !== undefined;
}

function functionFaults({ functions }: DatabaseRules, description: Description): readonly Fault[] {
  const refused = (description.functions ?? []).filter(
    ({ name, isVolatile }) => !functions.includes(name) && (isVolatile || !name.startsWith("pg_catalog.")),
  );
  return [...new Set(refused.map(({ name }) => name))].map((name) => ({
    field: "target.sql.statement",
    message: `calls ${name}, which may change something: list it in the system's functions if it may be called`,
  }));
}

/** Returns what is wrong with the query that counts the rows of a change, whose parameters are the first ones of the change. */
export function countFaults(
  rules: DatabaseRules,
  counting: Description,
  parameters: Description["parameters"],
): readonly Fault[] {
  const field = "target.sql.rows.count";
  const [column, another] = counting.columns;
  const isCount = (column?.type === "bigint" || column?.type === ANY_TYPE) && another === undefined;
  const isSame = counting.parameters.every(
    ({ name, isList }, index) => name === parameters[index]?.name && isList === parameters[index]?.isList,
  );
  return [
    ...userFaults(counting),
    ...unless(isCount, field, "must return one number: select count(*) from …"),
    ...unless(isSame, field, "must give its parameters the types that they have in the statement"),
    ...functionFaults(rules, counting).map(({ message }) => ({ field, message })),
  ];
}

/** A column must not be released more than the system's rules say, whatever it is called in the statement. */
function ruleFaults({ tool, part, rules }: CheckedTool, { columns }: Description): readonly Fault[] {
  if (Object.keys(rules.columns).length === 0) return [];
  const { root } = compilePolicy(tool.outputPolicy, tool.output);
  const steps: readonly Step[] = part.one === true ? [] : [ROWS, element];
  const at = part.one === true ? "" : `${ROWS}[].`;
  return columns.flatMap(({ name, origin, places }) => {
    const declared = part.origins !== undefined && Object.hasOwn(part.origins, name) ? part.origins[name] : undefined;
    if (origin === undefined && declared === undefined) {
      const message = `does not say where the column ${name} comes from, and the database does not know: table.column, or ${COMPUTED}`;
      return [{ field: "target.sql.origins", message }];
    }
    if (origin !== undefined && declared !== undefined) {
      // The declaration would take effect as soon as the database no longer reports the origin.
      const message = `says where the column ${name} comes from, which the database knows: leave it out`;
      return [{ field: "target.sql.origins", message }];
    }
    const named = declared === undefined || declared === COMPUTED ? [] : [placeNamed(declared)];
    const strictest = ruleOf(rules, [...places, ...named]);
    if (strictest === undefined) return [];
    const { rule, from } = strictest;
    if (rule === "never")
      return [{ field: "target.sql.statement", message: `returns ${from}, which the system's columns never release` }];
    const { action } = followSteps(root, [...steps, name]);
    const isStrictEnough = action === undefined || action === "redact" || action === rule;
    const field = `outputPolicy.${at}${name}`;
    return isStrictEnough ? [] : [{ field, message: `must be ${rule}, as the system's columns say of ${from}` }];
  });
}

const STRICTEST: readonly ColumnRule[] = ["never", "redact", "mask"];

/** Returns the strictest rule for a column at any of these paths, and the path that the rule is for. */
export function ruleOf(
  rules: DatabaseRules,
  places: readonly Place[],
): { readonly rule: ColumnRule; readonly from: string } | undefined {
  // Some engines, and all unquoted names, make no difference between cases. So a rule for a name holds for all its spellings.
  const columns = Object.entries(rules.columns).map(([key, rule]) => [key.toLowerCase(), rule] as const);
  const found = places.flatMap((place) => {
    const [schema, table, column] = place;
    const tables = schema === "" ? [table] : [table, `${schema}.${table}`];
    const keys = tables.flatMap((each) => [`${each}.${column}`, `${each}.*`]);
    const from = place.filter((part) => part !== "").join(".");
    const lower = keys.map((key) => key.toLowerCase());
    return columns.flatMap(([key, rule]) => (lower.includes(key) ? [{ rule, from }] : []));
  });
  return STRICTEST.flatMap((rule) => found.find((each) => each.rule === rule) ?? [])[0];
}

/** Returns the path that a manifest names: `table.column`, or `schema.table.column`. */
function placeNamed(origin: string): Place {
  const [column = "", table = "", schema = ""] = origin.split(".").reverse();
  return [schema, table, column];
}
