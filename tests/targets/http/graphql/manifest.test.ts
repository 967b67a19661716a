import { describe, expect, test } from "bun:test";
import { z } from "zod";
import { defineTool, httpRequest, ManifestError } from "../../../../src/index.ts";
import { httpRequestPart } from "../../../../src/targets/http/manifest.ts";

type Request = Parameters<typeof httpRequest>[1];

const document = "query OrderGet($id: ID!) { order(id: $id) { id } }";
const GRAPHQL = { document, variables: { id: "{id}" } };
const GOOD = { method: "POST", path: "/graphql", graphql: GRAPHQL };
const strict = z.strictObject({ id: z.string().max(20) });

function faultsOf(http: unknown, input: z.ZodObject = strict): readonly string[] {
  try {
    defineTool({
      ...{ name: "x_tool", description: "Reads an order", classification: "read", input },
      permissions: { required: ["orders:read"] },
      target: httpRequest("orders", http as Request),
      output: z.strictObject({ order: z.unknown() }),
      outputPolicy: { order: "allow" },
    });
    return [];
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error;
    return error.faults.map(({ field, message }) => `${field} ${message}`);
  }
}

describe("a manifest's GraphQL operation", () => {
  test.each([
    [GOOD],
    [{ ...GOOD, graphql: { document, variables: "{*}", partial: "allow" } }],
    [{ ...GOOD, graphql: { document, variables: { filter: { text: "like {id}", n: 1, list: [null, true] } } } }],
    [{ ...GOOD, path: "/shops/{id}/graphql", graphql: { document } }],
    [
      {
        ...GOOD,
        headers: { "x-id": "{id}" },
        query: { "api-version": "2" },
        graphql: { document },
        means: { 294: "OK" },
      },
    ],
  ])("loads: %j, and editors accept it", (http) => {
    expect(faultsOf(http)).toEqual([]);
    expect(httpRequestPart.safeParse(http).success).toBe(true);
  });

  test.each([
    [{ ...GOOD, method: "GET" }, "target.http.method must be POST for GraphQL"],
    [{ ...GOOD, method: "PUT" }, "target.http.method must be POST for GraphQL"],
    [{ ...GOOD, body: { query: "{ x }" } }, "target.http.body is not for GraphQL: write variables"],
    [{ ...GOOD, contentType: "application/json" }, "target.http.contentType is not for GraphQL"],
    [
      { ...GOOD, query: { query: "mutation { x }" } },
      "target.http.query.query is where servers read another operation",
    ],
    [{ ...GOOD, query: { operationName: "{id}" } }, "target.http.query.operationName is where servers read another"],
    [{ ...GOOD, graphql: document }, "target.http.graphql must be { document, variables, partial }"],
    [{ ...GOOD, graphql: { document: "" } }, "target.http.graphql.document"],
    [{ ...GOOD, graphql: { ...GRAPHQL, partial: "yes" } }, "target.http.graphql.partial"],
    [{ ...GOOD, graphql: { ...GRAPHQL, schema: "x" } }, "target.http.graphql.schema is unknown"],
    [{ ...GOOD, graphql: { document, variables: "{id}" } }, "target.http.graphql.variables"],
    [{ ...GOOD, graphql: { document, variables: { id: "{id" } } }, "target.http.graphql.variables must be JSON"],
    [
      { ...GOOD, graphql: { document, variables: { id: "{nope}" } } },
      "target.http.graphql.variables names no argument: {nope}",
    ],
    [
      { ...GOOD, graphql: { document, variables: { all: "{*}" } } },
      "variables may be {*} as a whole, not a part of it",
    ],
    [{ ...GOOD, graphql: { document } }, "input.id is in no variable"],
  ])("does not load: %j", (http, fault) => {
    expect(faultsOf(http).join("\n")).toContain(fault);
  });

  test("refuses unknown arguments: services ignore unknown variables", () => {
    const message = "input must refuse unknown arguments: write z.strictObject";
    expect(faultsOf(GOOD, z.object({ id: z.string().max(20) }))).toEqual([message]);
    expect(faultsOf(GOOD, z.looseObject({ id: z.string().max(20) }))).toContain(message);
  });
});
