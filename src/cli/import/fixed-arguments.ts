import { isTable } from "../../core/json.ts";
import type { HttpTarget, Json } from "../../core/types.ts";
import type { OperationDraft } from "../../targets/http/openapi/draft.ts";
import { namesIn, OTHER_ARGUMENTS } from "../../targets/http/request.ts";

/** Arguments whose values the author fixes: the manifest sends them, and no agent can. */

type Values = ReadonlyMap<string, string>;
type Properties = Readonly<Record<string, Json>>;

/** Matches values that are the same in a path and in its template. */
const PATH_VALUE = /^[A-Za-z0-9._~!$&()*+,=:@-]{1,256}$/;

/** Returns whether an operation has the argument. */
export function hasArgument({ input }: OperationDraft, name: string): boolean {
  return Object.hasOwn(propertiesOf(input), name);
}

/** Returns why a value cannot be written into the request; undefined when it can. */
export function fixingProblem(draft: OperationDraft, values: Values = new Map()): string | undefined {
  const inPath = new Set(namesIn(draft.http.path));
  for (const [name, value] of values) {
    if (!hasArgument(draft, name)) continue;
    if (/[{}]/.test(value)) return `the value of --fix ${name} has braces, which a request takes for an argument`;
    if (inPath.has(name) && !(PATH_VALUE.test(value) && !/^\.+$/.test(value))) {
      return `the value of --fix ${name} cannot be in a path`;
    }
  }
  return undefined;
}

/** Returns the draft with fixed values in place of the arguments. Returns an operation without such an argument unchanged. */
export function fixedDraft(draft: OperationDraft, values: Values = new Map()): OperationDraft {
  const properties = propertiesOf(draft.input);
  const fixed = new Map([...values].filter(([name]) => hasArgument(draft, name)));
  if (fixed.size === 0) return draft;
  const { required, ...others } = draft.input as Properties;
  const wanted = ((required ?? []) as readonly string[]).filter((name) => !fixed.has(name));
  const kept = Object.fromEntries(Object.entries(properties).filter(([name]) => !fixed.has(name)));
  return {
    ...draft,
    http: fixedRequest(draft.http, { fixed, properties }),
    input: { ...others, properties: kept, ...(wanted.length > 0 && { required: wanted }) },
  };
}

interface Fixing {
  readonly fixed: Values;
  readonly properties: Properties;
}

function fixedRequest(http: HttpTarget["http"], fixing: Fixing): HttpTarget["http"] {
  const { path, query, headers, body } = http;
  const filled = (text: string): string =>
    text.replace(/\{([^{}]+)\}/g, (whole, name: string) => fixing.fixed.get(name) ?? whole);
  const table = (texts: Readonly<Record<string, string>>): Readonly<Record<string, string>> =>
    Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, filled(text)]));
  return {
    ...http,
    path: filled(path),
    ...(query !== undefined && { query: table(query) }),
    ...(headers !== undefined && { headers: table(headers) }),
    ...(body !== undefined && { body: fixedBody(writtenOut(http, fixing), fixing) }),
  };
}

/** Returns a body that names each of its arguments, if it stands for all others and one of these is fixed. */
function writtenOut({ path, query, headers, body }: HttpTarget["http"], { fixed, properties }: Fixing): Json {
  if (body !== `{${OTHER_ARGUMENTS}}`) return body as Json;
  const used = new Set(namesIn([path, query, headers]));
  const members = Object.keys(properties).filter((name) => !used.has(name));
  if (!members.some((name) => fixed.has(name))) return body;
  return Object.fromEntries(members.map((name) => [name, `{${name}}`]));
}

function fixedBody(body: Json, fixing: Fixing): Json {
  if (typeof body === "string") {
    const name = /^\{([^{}]+)\}$/.exec(body)?.[1];
    const value = name === undefined ? undefined : fixing.fixed.get(name);
    return name === undefined || value === undefined ? body : typed(value, fixing.properties[name]);
  }
  if (!isTable(body)) return body;
  return Object.fromEntries(Object.entries(body as Properties).map(([key, part]) => [key, fixedBody(part, fixing)]));
}

/** Returns a value of a command line as the schema of its argument wants it. */
function typed(value: string, schema: Json | undefined): Json {
  const types = isTable(schema) ? [schema["type"]].flat() : [];
  if ((types.includes("integer") || types.includes("number")) && /^-?\d{1,15}(?:\.\d{1,15})?$/.test(value))
    return Number(value);
  if (types.includes("boolean") && /^(?:true|false)$/.test(value)) return value === "true";
  return value;
}

/** Returns the schemas of the arguments by name. */
export function propertiesOf(input: Json): Properties {
  return ((isTable(input) ? input["properties"] : undefined) ?? {}) as Properties;
}
