import { isList, isTable } from "../core/json.ts";
import { type CompiledPolicy, compilePolicy } from "../core/output-policy/output-policy.ts";
import { type DeclaredKind, declaredTarget } from "../core/target-kind.ts";
import { inputJsonSchema } from "../core/tool-formats.ts";
import type { DataLabel, Json, Tool } from "../core/types.ts";

/** How data flows through a tool: its declaration, completed by what follows from the tool itself. */
export interface ToolFlow {
  readonly reads: readonly DataLabel[];
  readonly changes: boolean;
  readonly sendsOutside: boolean;
  /** A call without a value in any of its destinations sends to nobody. */
  readonly mayBeNobody: boolean;
  /** The tool takes free text to a system of somebody else to look something up. */
  readonly looksUp: boolean;
  /** Whether the tool declares arguments that say where something goes. */
  readonly hasDestinations: boolean;
  /** The arguments that are destinations are those that this policy allows. */
  readonly destinations: CompiledPolicy["root"];
  /** The fields of the output that are trusted are those that this policy allows. */
  readonly trusted: CompiledPolicy["root"];
}

/** What the data flow of tools depends on besides the tools. */
export interface FlowContext {
  readonly kinds: readonly DeclaredKind[];
  /** Whether shells run only where the kernel confines them. */
  readonly isShellConfined: boolean;
  /** Systems that are the operators' own: what is looked up there stays with them. */
  readonly ownSystems: ReadonlySet<string>;
}

/** Returns the data flow of a tool. What it does not declare follows from its kind, its category and its input schema. */
export function toolFlow(tool: Tool, { kinds, isShellConfined, ownSystems }: FlowContext): ToolFlow {
  const { reads, sends, destinations = [], nobody, trusted = [] } = tool.dataFlow ?? {};
  const kind = declaredTarget({ target: tool.target }, kinds)?.kind;
  const reaches = reachesOthers(tool, kinds, isShellConfined);
  const sendsOutside = sends === undefined ? reaches && takesFreeText(tool) : sends.length > 0;
  return {
    reads: reads ?? [...(kind?.reads ?? []), ...(reaches ? (["untrusted"] as const) : [])],
    changes: tool.classification !== "read",
    sendsOutside,
    mayBeNobody: nobody === "whenEmpty",
    looksUp:
      sends === undefined &&
      !sendsOutside &&
      reaches &&
      !ownSystems.has(tool.target.system) &&
      takesFreeText(tool, "any"),
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
function takesFreeText({ category, input }: Tool, which: "sent" | "any" = "sent"): boolean {
  const addressesOnly = which === "sent" && category === "read";
  return hasFreeText(inputJsonSchema(input, "draft-2020-12"), { name: "", addressesOnly });
}

/** Returns whether a call may leave all destinations of a tool out, or empty. */
export function mayLeaveDestinationsOut({ dataFlow, input }: Tool): boolean {
  const schema = inputJsonSchema(input, "draft-2020-12") as { readonly required?: Json; readonly properties?: Json };
  const properties = isTable(schema.properties) ? schema.properties : {};
  const required: readonly unknown[] = isList(schema.required) ? schema.required : [];
  return !(dataFlow?.destinations ?? []).some((path) => {
    const [argument = ""] = path.split(/[.[]/);
    const property = properties[argument];
    if (!required.includes(argument) || !isTable(property)) return false;
    const {
      type,
      minItems = 0,
      minLength = 0,
      format,
      enum: choices,
    }: { readonly [keyword: string]: Json } = property as never;
    if (type === "array") return Number(minItems) > 0;
    return type !== "string" || Number(minLength) > 0 || format !== undefined || choices !== undefined;
  });
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
