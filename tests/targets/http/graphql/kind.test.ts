import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Config } from "../../../../src/runtime/config/config.ts";
import { ownPaths } from "../../../../src/runtime/config/own-paths.ts";
import { httpKind } from "../../../../src/targets/http/kind.ts";
import { readConfig } from "../../../support/build.ts";
import { contextFor } from "../../../support/kinds.ts";
import { temporaryDirectory } from "../../command/temporary-directory.ts";
import { apiTool } from "../support.ts";
import { graphqlTool, SHOP } from "./support.ts";

function read(graphql: unknown, folder: string): Config {
  const written = {
    tools: ["./tools"],
    audit: { dir: "./audit" },
    jwt: { issuers: [{ issuer: "https://idp.test", jwksFile: "jwks.json" }] },
    systems: { api: { http: { baseUrl: "https://shop.test", ...(graphql !== undefined && { graphql }) } } },
  };
  return readConfig(written, { folder, environment: {}, origin: "c" });
}

const TOOL = graphqlTool({ document: "query Version { version }", input: z.strictObject({}), output: z.object({}) });

describe("a system with a GraphQL schema", () => {
  const folder = temporaryDirectory();
  mkdirSync(join(folder, "apis"));
  writeFileSync(join(folder, "apis/shop.graphql"), SHOP);
  const opened = (graphql: unknown, problems: string[] = []) =>
    httpKind.open(contextFor(read(graphql, folder), "http", problems));

  test("binds its tools, and reports the digest of the schema", async () => {
    const kind = await opened({ schemaFile: "apis/shop.graphql" });
    expect(kind.bind(TOOL).headline?.({})).toMatchObject({ what: expect.any(String) });
    const wrong = graphqlTool({ document: "query Q { nope }", input: z.strictObject({}), output: z.object({}) });
    expect(() => kind.bind(wrong)).toThrow('target.http.graphql.document: Cannot query field "nope"');
    const document = "query Q { order(id: 1) { status } }";
    const status = z.object({ order: z.object({ status: z.enum(["OPEN"]).nullable() }).nullable() });
    kind.bind(graphqlTool({ document, input: z.strictObject({}), output: status }));
    expect(kind.report?.([])).toEqual({
      contracts: [
        { system: "api", origin: "graphql", sha256: expect.stringMatching(/^[0-9a-f]{64}$/), isPinned: true },
      ],
      toolNotes: [
        {
          tool: "api_tool",
          field: "output.order.status",
          message: "an answer with SENT, CANCELLED would be withheld: the output schema does not accept it",
        },
      ],
      notes: [],
    });
    await kind.close();
  });

  test("whose fields have rules takes no other request: it could send a document of its own", async () => {
    const schemaFile = "apis/shop.graphql";
    const ruled = await opened({ schemaFile, fields: { "Customer.email": "mask" } });
    const open = await opened({ schemaFile });
    const raw = apiTool({ method: "POST", path: "/graphql", body: { query: "{ customer(id: 1) { email } }" } });
    expect(() => ruled.bind(raw)).toThrow(
      "target.http.graphql: is missing: systems.api.http.graphql.fields holds for all tools of the system",
    );
    expect(open.bind(raw)).toBeDefined();
    await Promise.all([ruled.close(), open.close()]);
  });

  test("without one, a GraphQL tool does not load, and other tools do", async () => {
    const kind = await opened(undefined);
    expect(() => kind.bind(TOOL)).toThrow("systems.api.http.graphql is not set: it names the schema");
    expect(kind.bind(apiTool())).toBeDefined();
    await kind.close();
  });

  test.each([
    [{ schemaFile: "nowhere.graphql" }, "systems.api.http.graphql: nowhere.graphql cannot be read (ENOENT)"],
    [{ schemaFile: "apis/shop.graphql", sha256: "0".repeat(64) }, "apis/shop.graphql has changed"],
    [{ schemaFile: "apis/shop.graphql", fields: { "Order.nope": "mask" } }, "Order has no such field"],
  ])("%j is reported once, and its tools are broken", async (graphql, problem) => {
    const problems: string[] = [];
    const kind = await opened(graphql, problems);
    expect(problems).toEqual([expect.stringContaining(problem)]);
    expect(kind.isBroken?.(TOOL)).toBe(true);
    await kind.close();
  });

  test.each([
    [{}, "graphql.schemaFile"],
    [{ schemaFile: "x", fields: { email: "mask" } }, "must be Type.field or Type.*"],
    [{ schemaFile: "x", fields: { "A.b": "allow" } }, "graphql.fields.A.b"],
    [{ schemaFile: "x", scalars: { A: "date" } }, "graphql.scalars.A"],
    [{ schemaFile: "x", sha256: "abc" }, "must be the SHA-256 of the file"],
    [{ schema: "x" }, "graphql.schema: is not a known key"],
  ])("%j is refused", (graphql, problem) => {
    expect(() => read(graphql, folder)).toThrow(problem);
  });

  test("its schema is one of the service's own files", () => {
    expect(ownPaths(read({ schemaFile: "apis/shop.graphql" }, folder))).toContainEqual({
      field: "systems.api.http.graphql.schemaFile",
      path: join(folder, "apis/shop.graphql"),
    });
  });
});
