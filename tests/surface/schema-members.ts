import { isTable } from "../../src/core/json.ts";

const COMBINED = ["anyOf", "oneOf", "allOf"] as const;

/**
 * Returns the members of a JSON Schema, each as its path and its type; `*` stands for any name, `[]` for an element. A reference is
 * its last part.
 */
export function schemaMembers(schema: unknown): Readonly<Record<string, string>> {
  const found = new Map<string, Set<string>>();
  const definitions = isTable(schema) && isTable(schema["$defs"]) ? schema["$defs"] : {};
  const visit = (node: unknown, path: string, seen: readonly string[]): void => {
    if (!isTable(node)) return;
    const reference = typeof node["$ref"] === "string" ? node["$ref"] : undefined;
    const name = reference?.split("/").at(-1) ?? "";
    if (reference !== undefined && name in definitions && !seen.includes(name)) {
      visit(definitions[name], path, [...seen, name]);
      return;
    }
    const types = found.get(path) ?? new Set();
    found.set(path, types);
    const type = typeOf(node, name);
    if (type !== undefined) types.add(type);
    if ("default" in node) types.add(`default ${JSON.stringify(node["default"])}`);
    for (const each of COMBINED) for (const one of asList(node[each])) visit(one, path, seen);
    const required = asList(node["required"]);
    for (const [key, member] of Object.entries(isTable(node["properties"]) ? node["properties"] : {})) {
      const at = path === "" ? key : `${path}.${key}`;
      visit(member, at, seen);
      if (required.includes(key)) found.get(at)?.add("required");
    }
    visit(node["additionalProperties"], path === "" ? "*" : `${path}.*`, seen);
    visit(node["items"], `${path}[]`, seen);
  };
  visit(schema, "", []);
  const lines = [...found].map(([path, types]) => [path, [...types].sort().join(" | ")] as const);
  return Object.fromEntries(lines.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

function typeOf(node: Readonly<Record<string, unknown>>, reference: string): string | undefined {
  if (reference !== "") return reference;
  if ("const" in node) return JSON.stringify(node["const"]);
  if (Array.isArray(node["enum"])) return node["enum"].map((each) => JSON.stringify(each)).join(" | ");
  const types = Array.isArray(node["type"]) ? node["type"] : [node["type"]];
  const known = types.filter((type) => typeof type === "string").join(" | ");
  return known === "" ? undefined : known;
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
