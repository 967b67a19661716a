import { readFileSync } from "node:fs";
import { join } from "node:path";
import { buildSchema, execute, type GraphQLSchema, parse, validate } from "graphql";
import type { z } from "zod";
import type { GraphqlRequest, Tool } from "../../../../src/core/types.ts";
import { findings } from "../../../../src/targets/http/graphql/contracts.ts";
import type { GraphqlSettings } from "../../../../src/targets/http/graphql/settings.ts";
import { type ApiToolOptions, apiTool } from "../support.ts";

export const SHOP = readFileSync(join(import.meta.dir, "shop.graphql"), "utf8");

export const schema: GraphQLSchema = buildSchema(SHOP);

export interface GraphqlToolOptions extends Omit<ApiToolOptions, "method" | "path" | "graphql" | "body"> {
  readonly document: string;
  readonly variables?: GraphqlRequest["variables"];
  readonly partial?: GraphqlRequest["partial"];
  readonly input: z.ZodObject;
  readonly output: z.ZodType;
  readonly outputPolicy?: Tool["outputPolicy"];
}

/** Returns a tool of a GraphQL operation, in the form that `defineTool` returns. */
export function graphqlTool({ document, variables, partial, outputPolicy = {}, ...options }: GraphqlToolOptions): Tool {
  const graphql = {
    document,
    ...(variables !== undefined && { variables }),
    ...(partial !== undefined && { partial }),
  };
  return { ...apiTool({ ...options, method: "POST", path: "/graphql", graphql }), outputPolicy };
}

/** Returns what is wrong between a tool and the shop's schema, one line for each error. */
export function faultsOf(options: GraphqlToolOptions, settings: Partial<GraphqlSettings> = {}): readonly string[] {
  const tool = graphqlTool(options);
  if (!("http" in tool.target)) throw new Error("not an HTTP tool");
  const { faults } = findings(schema, tool, tool.target.http, { fields: {}, scalars: {}, ...settings });
  return faults.map(({ field, message }) => `${field}: ${message}`);
}

export interface GraphqlBody {
  readonly query: string;
  readonly operationName?: string;
  readonly variables?: Record<string, unknown>;
}

/** Answers a request as services do: the library's own execution, behind HTTP. */
export async function answered(
  { query, operationName, variables }: GraphqlBody,
  rootValue: unknown,
  served: GraphQLSchema = schema,
): Promise<Record<string, unknown>> {
  const document = parse(query);
  const errors = validate(served, document);
  if (errors.length > 0) return { errors };
  const result = await execute({ schema: served, document, rootValue, operationName, variableValues: variables });
  return { ...result };
}
