import { z } from "zod";
import type { Fault } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import { isSchema, schemaFaults, type Unchecked, unless } from "../../core/manifest/checks.ts";
import { hint } from "../../core/nearest.ts";
import { defOf, leavesOf, type Schema } from "../../core/schema/walk.ts";
import type { SqlTarget } from "../../core/types.ts";

export const ROWS_DEFAULT = 100;
const ROWS_MAX = 10_000;
const CHANGES_MAX = 1_000;
const STATEMENT_CHARACTERS_MAX = 20_000;
const PARAMETERS_MAX = 100;
/** Key of the rows in a result, and of the member that says that there were more. */
export const ROWS = "rows";
export const TRUNCATED = "truncated";
/** Key of the number of changed rows. */
export const CHANGED = "changed";

const PARAMETER = /^\{([^{}]{1,128})\}$/;
const COLUMN = /^[^.]{1,63}\.[^.]{1,63}(?:\.[^.]{1,63})?$/;
export const COMPUTED = "computed";

const statementText = z
  .string()
  .min(1)
  .max(STATEMENT_CHARACTERS_MAX)
  .refine((text) => !text.includes("\0"), "must not contain NUL")
  .refine(
    (text) => !text.includes("{{"),
    "has a template: put values into parameters ($1 and so on), never into the statement",
  );

/** A manifest's `target.sql`. */
export const sqlStatementPart = z
  .strictObject(
    {
      statement: statementText.describe(
        "One query; in a tool that changes something, one INSERT, UPDATE, DELETE or MERGE with RETURNING. `$1::int8` is the first of `parameters`, with its type; for MariaDB, `?` or `CAST(? AS SIGNED)`, and an UPDATE without RETURNING. No `;` at the end.",
      ),
      parameters: z
        .array(z.string().regex(PARAMETER, 'must be one argument in braces, such as "{customer}"'))
        .max(PARAMETERS_MAX)
        .optional()
        .describe('Arguments in the order of `$1`, `$2`: `["{customer}"]`. One that the call leaves out is NULL.'),
      rows: z
        .strictObject({
          returns: z
            .int()
            .min(1)
            .max(ROWS_MAX)
            .optional()
            .describe(`Most rows of the result of a query. Default: ${ROWS_DEFAULT}.`),
          more: z
            .enum(["tell", "refuse"])
            .optional()
            .describe(
              "What happens to a result with more: it is cut and says `truncated: true`, or it is refused. Default: `tell`.",
            ),
          changes: z
            .int()
            .min(1)
            .max(CHANGES_MAX)
            .optional()
            .describe("Most rows that a change may change. With more, nothing is changed. Default: 1."),
          count: statementText
            .optional()
            .describe(
              "Query with the same parameters that counts the rows of a change: `select count(*) from …`. Approvers see the number, and no more rows than that are changed.",
            ),
        })
        .optional()
        .describe("Bounds of the rows that a query returns, or a change may change."),
      one: z
        .literal(true, "must be true, or left out")
        .optional()
        .describe("The result is the only row itself. Without a row, the call is refused with NOT_FOUND."),
      whole: z
        .literal(true, "must be true, or left out")
        .optional()
        .describe("Allows an UPDATE or DELETE without WHERE."),
      origins: z
        .record(z.string(), z.union([z.literal(COMPUTED), z.string().regex(COLUMN, "must be table.column")]))
        .optional()
        .describe(
          `Where a column comes from when the database does not know: \`table.column\`, or \`${COMPUTED}\` when it shows nothing of a column.`,
        ),
    },
    { error: ({ code }) => (code === "invalid_type" ? "must be { statement, parameters }" : undefined) },
  )
  .describe("A statement of a database.");

/** A parsed `target.sql`. */
export type SqlPart = z.output<typeof sqlStatementPart>;

/** Reads a checked part with its defaults. */
export function readPart({ sql }: SqlTarget): SqlPart {
  return sqlStatementPart.parse(sql);
}

/** Returns the errors in a manifest's `target.sql`. What the database knows is checked with the database. */
export function sqlFaults(part: unknown, manifest: Unchecked): readonly Fault[] {
  const field = "target.sql";
  const faults = schemaFaults(field, sqlStatementPart, part);
  if (faults.length > 0 || !isTable(part)) return faults;
  const { statement, rows = {}, one, whole } = part as SqlPart;
  const isRead = manifest["classification"] === "read";
  const forOthers = isRead ? (["changes", "count"] as const) : (["returns", "more"] as const);
  const isWhole = INNER_TEXTS.every((inner) => changesAll(outerText(statement, inner)));
  return [
    ...forOthers
      .filter((key) => rows[key] !== undefined)
      .map((key) => ({
        field: `${field}.rows.${key}`,
        message: `cannot be set in a tool that ${isRead ? "reads" : "changes rows"}: leave it out`,
      })),
    ...unless(
      one === undefined || (rows.returns === undefined && rows.more === undefined && (rows.changes ?? 1) === 1),
      `${field}.rows`,
      "cannot be combined with one: true, except for changes: 1",
    ),
    ...unless(!isWhole || whole === true, `${field}.statement`, "changes a whole table: add WHERE, or whole: true"),
    ...argumentFaults(argumentsOf(part as SqlPart), manifest["input"]),
  ];
}

/** Comments, texts and quoted names. In the second pattern, a backslash escapes and `#` begins a comment: engines differ in that. */
const INNER_TEXTS = [
  /'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|\/\*[\s\S]*?\*\/|(\$\w*\$)[\s\S]*?\1/g,
  /'(?:[^'\\]|\\[\s\S])*'|"(?:[^"\\]|\\[\s\S])*"|`[^`]*`|(?:--|#)[^\n]*|\/\*[\s\S]*?\*\/|(\$\w*\$)[\s\S]*?\1/g,
];

/** Returns a statement without what is in comments, texts, quoted names and parentheses. */
function outerText(statement: string, inner: RegExp): string {
  let text = statement.replace(inner, " ");
  for (let shorter = text; ; text = shorter) {
    shorter = text.replace(/\([^()]*\)/g, " ");
    if (shorter === text) return text;
  }
}

/** Returns whether a statement, without its inner parts, changes every row of a table. */
function changesAll(outer: string): boolean {
  const [, verb = ""] = /\b(select|insert|update|delete|merge|replace)\b/i.exec(outer) ?? [];
  return /^(?:update|delete)$/i.test(verb) && !/\bwhere\b/i.test(outer);
}

/** Returns the argument of each parameter. */
export function argumentsOf({ parameters = [] }: Pick<SqlPart, "parameters">): readonly string[] {
  return parameters.map((parameter) => parameter.slice(1, -1));
}

function argumentFaults(names: readonly string[], input: unknown): readonly Fault[] {
  if (!isSchema(input)) return [];
  const def = defOf(input);
  if (def.type !== "object") return [];
  const known = Object.keys(def.shape);
  return [
    ...names
      .filter((name) => !known.includes(name))
      .map((name) => ({
        field: "target.sql.parameters",
        message: `names no argument: {${name}}${hint(name, known)}`,
      })),
    ...known
      .filter((name) => !names.includes(name))
      .map((name) => ({
        field: `input.${name}`,
        message: "is not used in target.sql.parameters: add it there, or remove it",
      })),
  ];
}

/** Returns the members of an object's schema; undefined for any other schema. */
export function membersOf(schema: Schema | undefined): Readonly<Record<string, Schema>> | undefined {
  if (schema === undefined) return undefined;
  const [leaf, another] = leavesOf(schema, "out");
  const def = leaf === undefined || another !== undefined ? undefined : defOf(leaf);
  return def?.type === "object" ? def.shape : undefined;
}

/** Returns the schema of a list's elements; undefined for any other schema. */
export function elementOf(schema: Schema | undefined): Schema | undefined {
  if (schema === undefined) return undefined;
  const lists = leavesOf(schema, "out").map(defOf);
  const list = lists.find((def) => def.type === "array");
  return list?.type === "array" ? list.element : undefined;
}
