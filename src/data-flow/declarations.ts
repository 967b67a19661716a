import { isList, isTable } from "../core/json.ts";
import { type CompiledPolicy, compilePolicy } from "../core/output-policy/output-policy.ts";
import { type DeclaredKind, declaredTarget } from "../core/target-kind.ts";
import { inputJsonSchema } from "../core/tool-formats.ts";
import type { DataLabel, Json, Tool } from "../core/types.ts";

/** How data flows through a tool: its declaration, completed by what follows from the tool itself. */
export interface ToolFlow {
  readonly reads: readonly DataLabel[];
  readonly sendsOutside: boolean;
  /** Whether the tool declares arguments that say where something goes. */
  readonly hasDestinations: boolean;
  /** The arguments that are destinations are those that this policy allows. */
  readonly destinations: CompiledPolicy["root"];
  /** The fields of the output that are trusted are those that this policy allows. */
  readonly trusted: CompiledPolicy["root"];
}

/** Returns the data flow of a tool. What it does not declare follows from its kind, its category and its input schema. */
export function toolFlow(tool: Tool, kinds: readonly DeclaredKind[], isShellConfined: boolean): ToolFlow {
  const { reads, sends, destinations = [], trusted = [] } = tool.dataFlow ?? {};
  return {
    reads: reads ?? (reachesOthers(tool, kinds, isShellConfined) ? ["untrusted"] : []),
    sendsOutside:
      sends === undefined ? reachesOthers(tool, kinds, isShellConfined) && takesFreeText(tool) : sends.length > 0,
    hasDestinations: destinations.length > 0,
    destinations: compilePolicy(allowing(destinations), tool.input).root,
    trusted: compilePolicy(allowing(trusted), tool.output).root,
  };
}

function allowing(paths: readonly string[]): Readonly<Record<string, "allow">> {
  return Object.fromEntries(paths.map((path) => [path, "allow"]));
}

function reachesOthers({ target, examples }: Tool, kinds: readonly DeclaredKind[], isShellConfined: boolean): boolean {
  const declared = declaredTarget({ target }, kinds);
  return declared?.kind.reachesOthers?.(declared.part, examples.accepts, isShellConfined) ?? false;
}

/**
 * Returns whether the arguments can carry text of any kind. For a tool of category `read` only addresses count, because what it
 * asks for stays with the system that it asks.
 */
function takesFreeText({ category, input }: Tool): boolean {
  return hasFreeText(inputJsonSchema(input, "draft-2020-12"), { name: "", addressesOnly: category === "read" });
}

interface Position {
  /** The argument's own name. */
  readonly name: string;
  readonly addressesOnly: boolean;
}

/** Formats whose values are too narrow to carry text. */
const CLOSED_FORMATS: ReadonlySet<Json> = new Set(["date", "date-time", "time", "duration", "uuid", "ipv4", "ipv6"]);

const ADDRESS_FORMATS: ReadonlySet<Json | undefined> = new Set(["uri", "uri-reference", "iri", "url", "hostname"]);

/** Names of arguments that say where a request goes. */
const ADDRESS_NAME =
  /(?:^|[_.-]|(?<=[a-z])(?=[A-Z]))(?:ur[il]s?|href|links?|host|hostname|domain|endpoint|web_?(?:site|page|hook))$/i;

const CHOICES = ["anyOf", "oneOf", "allOf"] as const;

/** A text is free unless `enum`, `const` or a narrow format closes it; a schema without a type takes any text. */
function hasFreeText(schema: Json | undefined, position: Position): boolean {
  if (schema === true) return !position.addressesOnly;
  if (!isTable(schema) || "enum" in schema || "const" in schema) return false;
  const part: { readonly [keyword: string]: Json } = schema as never;
  const inner = CHOICES.flatMap((key) => (isList(part[key]) ? part[key] : []));
  if (inner.some((choice) => hasFreeText(choice, position))) return true;
  const { properties = {}, items, prefixItems, additionalProperties, type, format = "" } = part;
  const named = isTable(properties) ? Object.entries(properties) : [];
  if (named.some(([name, property]) => hasFreeText(property as Json, { ...position, name }))) return true;
  const below = [items, ...(isList(prefixItems) ? prefixItems : []), additionalProperties];
  if (below.some((one) => one !== undefined && one !== false && hasFreeText(one, position))) return true;
  const isText = type === "string" || (isList(type) && type.includes("string"));
  if (!isText) return type === undefined && inner.length === 0 && !position.addressesOnly;
  if (CLOSED_FORMATS.has(format)) return false;
  return !position.addressesOnly || ADDRESS_FORMATS.has(format) || ADDRESS_NAME.test(position.name);
}
