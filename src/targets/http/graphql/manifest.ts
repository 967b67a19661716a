import { z } from "zod";
import type { Fault } from "../../../core/errors.ts";
import { isTable } from "../../../core/json.ts";
import { isSchema, schemaFaults, type Unchecked, unless } from "../../../core/manifest/checks.ts";
import { hint } from "../../../core/nearest.ts";
import { defOf } from "../../../core/schema/walk.ts";
import type { GraphqlRequest, HttpTarget, Json } from "../../../core/types.ts";
import { namesIn, OTHER_ARGUMENTS, usedArguments } from "../request.ts";

const DOCUMENT_CHARACTERS_MAX = 100_000;
/** Member of a result that holds the paths of errors, in tools that accept partial data. */
export const ERROR_PATHS = "errorPaths";
const ALL = `{${OTHER_ARGUMENTS}}`;

/** A manifest's `target.http.graphql`. What the schema says is checked with the schema. */
export const graphqlPart = z
  .strictObject(
    {
      document: z
        .string()
        .min(1)
        .max(DOCUMENT_CHARACTERS_MAX)
        .describe(
          "One query or mutation with a name, and its fragments. It is fixed: arguments are only in `variables`.",
        ),
      variables: z
        .union([z.literal(ALL), z.record(z.string(), z.unknown())])
        .optional()
        .describe(
          'Variables by name: `id: "{id}"`. JSON, whose texts may hold arguments as in a body. `"{*}"` alone: each argument is the variable of its name.',
        ),
      partial: z
        .enum(["refuse", "allow"])
        .optional()
        .describe(
          "What an answer with errors becomes: a refusal (default), or its data, with the paths of the errors in `errorPaths`.",
        ),
    },
    { error: ({ code }) => (code === "invalid_type" ? "must be { document, variables, partial }" : undefined) },
  )
  .describe("A GraphQL operation, instead of a body. The system's `graphql` names the schema.");

/** Parameters of a URL in which servers read another operation. */
const OWN_PARAMETERS = ["query", "variables", "operationName", "extensions"];

/** Returns the errors in a manifest's `target.http.graphql`, as far as no schema is needed. */
export function graphqlFaults(part: Unchecked, manifest: Unchecked): readonly Fault[] {
  const { graphql, method, body, contentType, query } = part;
  const field = "target.http.graphql";
  if (graphql === undefined) return [];
  const faults = schemaFaults(field, graphqlPart, graphql);
  if (faults.length > 0) return faults;
  const taken = Object.keys(isTable(query) ? query : {}).filter((name) => OWN_PARAMETERS.includes(name));
  return [
    ...unless(method === "POST", "target.http.method", "must be POST for GraphQL"),
    ...unless(body === undefined, "target.http.body", "is not for GraphQL: write variables"),
    ...unless(contentType === undefined, "target.http.contentType", "is not for GraphQL"),
    ...taken.map((name) => ({
      field: `target.http.query.${name}`,
      message: "is where servers read another operation",
    })),
    ...inputFaults(part as unknown as HttpTarget["http"], manifest["input"]),
  ];
}

/** Services ignore unknown variables, so that nothing would tell an agent about a wrong name. */
function inputFaults(http: HttpTarget["http"], input: unknown): readonly Fault[] {
  if (!isSchema(input)) return [];
  const def = defOf(input);
  if (def.type !== "object") return [];
  const isStrict = def.catchall !== undefined && defOf(def.catchall).type === "never";
  const known = Object.keys(def.shape);
  const used = usedArguments(requestOf(http));
  const variables = http.graphql?.variables;
  const inner = variables === ALL ? [] : namesIn(variables).filter((name) => name === OTHER_ARGUMENTS);
  return [
    ...unless(isStrict, "input", "must refuse unknown arguments: write z.strictObject"),
    ...unless(inner.length === 0, "target.http.graphql.variables", `may be ${ALL} as a whole, not a part of it`),
    ...known
      .filter((name) => variables !== ALL && !used.has(name))
      .map((name) => ({ field: `input.${name}`, message: `is in no variable${hint(name, namesIn(variables))}` })),
  ];
}

/** Returns a request whose body is the variables of its operation. */
export function requestOf(http: HttpTarget["http"]): HttpTarget["http"] {
  return http.graphql === undefined ? http : { ...http, body: http.graphql.variables ?? {} };
}

/** Returns the template of each variable; `others`: the arguments that are used nowhere else. */
export function variablesOf(
  { variables = {} }: GraphqlRequest,
  others: readonly string[],
): Readonly<Record<string, Json>> {
  if (variables === ALL) return Object.fromEntries(others.map((name) => [name, `{${name}}`]));
  return variables as Readonly<Record<string, Json>>;
}
