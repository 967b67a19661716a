import { asStrings } from "../../json.ts";
import type { Json } from "../../types.ts";
import { type JsonTable, listOf, tableOf } from "./table.ts";

/** Returns a schema with the members of its `allOf`, `anyOf` and `oneOf`. Of choices, only what all of them require is required. */
export function merged(own: JsonTable, [allOf, anyOf, oneOf]: readonly (Json | undefined)[]): JsonTable {
  const all = tablesOf(allOf).map(flat);
  const choices = [anyOf, oneOf].map(tablesOf).filter((parts) => parts.length > 0);
  const alternatives = choices.map((parts) => parts.map(flat));
  const always = membersOf([own, ...all]);
  // A member that is always described keeps that schema; the system checks the schemas of the choices.
  const sometimes = [...membersOf(alternatives.flat())].filter(([name]) => !always.has(name));
  const properties: readonly (readonly [string, Json])[] = [
    ...[...always].map(([name, schemas]) => [name, together("allOf", schemas)] as const),
    ...sometimes.map(([name, schemas]) => [name, together("anyOf", schemas)] as const),
  ];
  const required = new Set([own, ...all].flatMap(requiredOf));
  for (const parts of alternatives) {
    const [first = {}, ...others] = parts;
    for (const name of requiredOf(first))
      if (others.every((other) => requiredOf(other).includes(name))) required.add(name);
  }
  const tables = [own, ...all, ...alternatives.flat()];
  const isOpen = tables.some(
    ({ additionalProperties: more, patternProperties }) => (more ?? false) !== false || patternProperties !== undefined,
  );
  const { additionalProperties: _, patternProperties: __, ...others } = own;
  return {
    ...others,
    properties: Object.fromEntries(properties),
    ...(required.size > 0 && { required: [...required] }),
    ...(isOpen && { additionalProperties: true }),
  };
}

/** Returns the different schemas of each member. */
function membersOf(tables: readonly JsonTable[]): ReadonlyMap<string, readonly Json[]> {
  const members = new Map<string, readonly Json[]>();
  for (const { properties } of tables) {
    for (const [name, part] of Object.entries(tableOf(properties))) {
      const known = members.get(name) ?? [];
      const isKnown = known.some((other) => JSON.stringify(other) === JSON.stringify(part));
      members.set(name, isKnown ? known : [...known, part]);
    }
  }
  return members;
}

function together(keyword: "allOf" | "anyOf", schemas: readonly Json[]): Json {
  const [only = {}, another] = schemas;
  return another === undefined ? only : { [keyword]: schemas };
}

function flat(table: JsonTable): JsonTable {
  const { allOf, anyOf, oneOf, ...own } = table;
  return (allOf ?? anyOf ?? oneOf) ? merged(own, [allOf, anyOf, oneOf]) : table;
}

function tablesOf(parts: Json | undefined): readonly JsonTable[] {
  return listOf(parts).map(tableOf);
}

function requiredOf({ required }: JsonTable): readonly string[] {
  return asStrings(required);
}
