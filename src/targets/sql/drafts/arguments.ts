import type { Json } from "../../../core/types.ts";
import type { Catalog, CatalogTable } from "../engine.ts";
import { type ParameterType, TEXT_TYPE } from "../values.ts";
import { plainName } from "./names.ts";
import { argumentSchema } from "./schemas.ts";

/** The argument of one parameter of a statement. */
interface FoundArgument {
  readonly name: string;
  /** Index of its parameter. */
  readonly at: number;
  readonly isOptional: boolean;
}

/** The arguments of an author's statement. */
export interface StatementArguments {
  /** The argument of each parameter, in braces. */
  readonly references: readonly string[];
  readonly input: Json;
}

interface Stated {
  readonly statement: string;
  readonly catalog: Catalog;
  readonly tables: readonly CatalogTable[];
  /** The types that the database reports, in the order of the parameters. */
  readonly parameters: readonly ParameterType[];
}

/** Returns an argument for each parameter, named after the column that it is compared with. */
export function argumentsOfStatement({ statement, catalog, tables, parameters }: Stated): StatementArguments {
  const found = argumentsIn(catalog.numbered(statement), parameters.length, catalog.parameters === "marks");
  const labels = new Map(
    tables.flatMap(({ columns }) => columns.map((each) => [each.parameter?.type.name, each.labels] as const)),
  );
  const named = tables.filter(({ name }) => statement.toLowerCase().includes(name.toLowerCase()));
  const properties = new Map<string, Json>();
  for (const { name, at } of found) {
    // A test for NULL says nothing about the type: the comparison has it.
    if (properties.has(name) && parameters[at]?.name === TEXT_TYPE.name) continue;
    const described = parameters[at] ?? TEXT_TYPE;
    const compared = described.name === TEXT_TYPE.name ? comparedColumn(named, name) : undefined;
    const schema =
      compared?.parameter === undefined
        ? argumentSchema(described, { labels: labels.get(described.name) })
        : argumentSchema(compared.parameter.type, { labels: compared.labels, charsMax: compared.charsMax });
    properties.set(name, schema);
  }
  const optional = new Set(found.flatMap(({ name, isOptional }) => (isOptional ? [name] : [])));
  const required = [...properties.keys()].filter((name) => !optional.has(name));
  return {
    references: found.map(({ name }) => `{${name}}`),
    input: {
      type: "object",
      additionalProperties: false,
      ...(required.length > 0 && { required }),
      properties: Object.fromEntries(properties),
    },
  };
}

/** Returns the column of a name when every table that the statement may name has the same type for it. */
function comparedColumn(tables: readonly CatalogTable[], name: string): CatalogTable["columns"][number] | undefined {
  const found = tables.flatMap(({ columns }) => columns.filter((column) => column.name.toLowerCase() === name));
  const [first] = found;
  return found.every(({ parameter }) => parameter?.type.name === first?.parameter?.type.name) ? first : undefined;
}

/**
 * Names an argument for each parameter of a statement with `$1`, `$2`. `isEachUseOne`: each use of a value is a parameter of its own, so
 * `$1 is null or id = $2` has one argument.
 */
function argumentsIn(statement: string, count: number, isEachUseOne: boolean): readonly FoundArgument[] {
  const uses = Array.from({ length: count }, (_, at) => {
    const reference = `\\$${at + 1}(?!\\d)`;
    const compared = new RegExp(
      `([A-Za-z_][A-Za-z0-9_]{0,62})["\`]?\\s*(?:=|<>|[<>]=?|\\bi?like\\b)\\s*(?:(?:any|coalesce|cast)\\s*\\(\\s*)*${reference}`,
      "i",
    );
    const isOptional = new RegExp(`${reference}(?:::[a-z0-9_ "\\[\\]]+)?\\s+is\\s+null`, "i").test(statement);
    return { at, column: compared.exec(statement)?.[1]?.toLowerCase() ?? "", isOptional };
  });
  const isTest = ({ at, column, isOptional }: (typeof uses)[number]): boolean =>
    isEachUseOne && isOptional && column === "" && at + 1 < count;
  const names = new Map<number, string>();
  for (const use of uses) {
    if (!isTest(use)) names.set(use.at, plainName(use.column, new Set(names.values()), "argument"));
  }
  return uses
    .toReversed()
    .map((use) => {
      const name = names.get(use.at) ?? names.get(use.at + 1) ?? "";
      names.set(use.at, name);
      return { name, at: use.at, isOptional: use.isOptional };
    })
    .toReversed();
}
