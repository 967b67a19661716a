import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { stringify } from "yaml";
import { z } from "zod";
import type { Tool } from "../../src/core/types.ts";
import { getCustomer } from "../../tools/customer-data/get-customer.ts";
import { getLegacyCustomer } from "../../tools/customer-data/get-legacy-customer.ts";
import { listCustomers } from "../../tools/customer-data/list-customers.ts";
import { updateCustomer } from "../../tools/customer-data/update-customer.ts";
import { auditEntries } from "../support/audit-files.ts";
import { ReloadService } from "../support/reload-service.ts";
import { openWorld, PROJECT, type World } from "../support/world.ts";

/** The same tools as code and as data: what Zod says of their schemas as JSON Schema, and every other field as it is. */
const TOOLS: readonly Tool[] = [getCustomer, getLegacyCustomer, listCustomers, updateCustomer];

function asYaml(tool: Tool): string {
  const {
    name,
    title,
    description,
    version,
    classification,
    category,
    permissions,
    target,
    outputPolicy,
    inputPolicy,
  } = tool;
  const { approval: _, limits, timeoutMs, idempotent, additive, examples, errors, scan } = tool;
  const schemas = {
    input: z.toJSONSchema(tool.input, { io: "input" }),
    output: z.toJSONSchema(tool.output, { io: "input" }),
  };
  const fields = {
    name,
    title,
    description,
    version,
    classification,
    category,
    permissions,
    target,
    outputPolicy,
    inputPolicy,
  };
  const written = { ...fields, ...schemas, limits, timeoutMs, idempotent, additive, examples, errors, scan };
  return stringify(written, { aliasDuplicateObjects: false });
}

const JOHN = "3f0c9a52-6b1e-4c77-9d3a-000000000001";

/** Reads run; a change that nobody has approved asks, so both kinds of manifest end there. */
const CALLS: readonly (readonly [tool: string, args: unknown])[] = [
  ["get_customer", { customerId: JOHN }],
  ["get_customer", {}],
  ["get_customer", { customerId: "1" }],
  ["get_customer", { customerId: 7 }],
  ["get_customer", { customerId: JOHN, fields: "*" }],
  ["get_customer", { customerId: "3f0c9a52-6b1e-4c77-9d3a-0000000000ff" }],
  ["get_customer", JSON.parse('{"__proto__": {"customerId": 1}}')],
  ["get_legacy_customer", { legacyId: "LEG-000001" }],
  ["get_legacy_customer", { legacyId: "a b" }],
  ["list_customers", {}],
  ["list_customers", { pageSize: 2, status: "ACTIVE", nameContains: "smith" }],
  ["list_customers", { pageSize: 0 }],
  ["list_customers", { pageSize: 1.5 }],
  ["list_customers", { pageSize: "2" }],
  ["list_customers", { status: "active" }],
  ["list_customers", { nameContains: "a\u0000b" }],
  ["list_customers", { nameContains: "x".repeat(101) }],
  ["list_customers", { pageToken: "!" }],
  ["update_customer", { customerId: JOHN, email: "nobody" }],
  ["update_customer", { customerId: JOHN, address: { line1: "a", city: "b", country: "gb", more: 1 } }],
  ["update_customer", { customerId: JOHN, annualIncome: { currency: "EUR", minorUnits: 1.5 } }],
  ["update_customer", { customerId: JOHN, nextOfKin: { fullName: "x" } }],
];

describe("the same tools as TypeScript and as YAML", () => {
  let world: World;
  let code: ReloadService;
  let data: ReloadService;

  beforeAll(async () => {
    world = await openWorld();
    const systems = world.targets.systems;
    code = new ReloadService({ tools: TOOLS.map(fileOf), systems });
    data = new ReloadService({ tools: ["data"], systems });
    for (const tool of TOOLS) data.write(`data/${tool.name}.tool.yaml`, asYaml(tool));
    await Promise.all([code.start(), data.start()]);
  });
  afterAll(async () => {
    await Promise.all([code.end(), data.end()]);
    await world.close();
  });

  const permissions = ["customer-data:read", "customer-data:write"];
  const both = async <T>(ask: (service: ReloadService, token: string) => Promise<T>): Promise<readonly [T, T]> => [
    await ask(code, await code.agent(permissions)),
    await ask(data, await data.agent(permissions)),
  ];

  test.each(CALLS)("%s %j: the same answer and the same audit entry", async (tool, args) => {
    const [fromCode, fromData] = await both(async (service, token) => {
      const reply = await service.send("POST", "/call", { token, body: { tool, args } });
      const entry = auditEntries(join(service.folder, "audit")).find(({ traceId }) => traceId === reply.body.traceId);
      return { reply: comparable(reply), entry: comparable(entry) };
    });
    expect(fromData).toEqual(fromCode);
    expect(fromCode.entry).toBeDefined();
  });

  test.each(["/tools", "/tools?format=openai", "/tools?format=anthropic"])("GET %s: the same list", async (path) => {
    const [fromCode, fromData] = await both(
      async (service, token) => (await service.send("GET", path, { token })).body,
    );
    expect(fromData).toEqual(fromCode);
    expect(JSON.stringify(fromCode)).toContain("update_customer");
  });

  test("tools/list over MCP: the same names, inputs and released fields", async () => {
    const [fromCode, fromData] = await both(async (service, token) => {
      const response = await fetch(`${service.running.url}/mcp`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${token}`,
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          "mcp-protocol-version": "2025-11-25",
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list" }),
      });
      return (await response.json()) as object;
    });
    expect(fromData).toEqual(fromCode);
    expect(JSON.stringify(fromCode)).toContain("outputSchema");
  });
});

function fileOf({ name }: Tool): string {
  return join(PROJECT, "tools/customer-data", `${name.replaceAll("_", "-")}.ts`);
}

/** Values that differ between two services: ids, times, and digests that cover the file of the tool. */
const VARYING = /^(?:traceId|id|timestamp|duration|durationMs|digest|argsDigest|policyVersion|hash|prev)$/;

/** Several checks of one field say the same: of a format, Zod's own pattern is in its JSON Schema, too. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, inner]) => {
      if (key === "issues") return [[key, [...new Set((inner as { path: string }[]).map(({ path }) => path))]]];
      if (key === "stages") return [[key, Object.keys(inner as object)]];
      return VARYING.test(key) ? [] : [[key, comparable(inner)]];
    }),
  );
}

describe("a YAML manifest in a running service", () => {
  const manifest = (says: string, description = "Says something") => `
name: hello_customer
description: ${description}
classification: read
permissions: { required: [hello:say] }
target:
  system: customer-master-service
  grpc:
    package: org.finca.threesixone.customerdata.customermasterservice.proto.v1
    service: CustomerMasterService
    method: GetCustomer
input: { type: object, properties: { customerId: { type: string, format: uuid } }, required: [customerId] }
output:
  type: object
  properties: { customer: { type: object, properties: { status: { type: string }, fullName: { type: string } } } }
outputPolicy:
${says}
`;
  let world: World;
  let service: ReloadService;
  beforeAll(async () => {
    world = await openWorld();
    service = new ReloadService({ systems: world.targets.systems });
    service.write("tools/hello-customer.tool.yaml", manifest("  customer.status: allow"));
    await service.start();
  });
  afterAll(async () => {
    await service.end();
    await world.close();
  });

  const call = async () => (await service.call({ tool: "hello_customer", args: { customerId: JOHN } })).body;

  test("runs, and its policy releases what it names", async () => {
    expect(await call()).toMatchObject({
      status: "success",
      result: { customer: { status: "ACTIVE" } },
      filteredFields: ["customer.fullName"],
    });
  });

  test("is replaced by a reload, and one with errors is refused with their lines while the former one stays", async () => {
    service.write("tools/hello-customer.tool.yaml", manifest("  customer.statu: allow"));
    const problem = 'line 17: tool hello_customer: outputPolicy: "customer.statu" matches no field of the schema';
    expect(await service.reload()).toMatchObject({
      http: 422,
      body: { problems: [expect.stringContaining(`tools/hello-customer.tool.yaml: ${problem}`)] },
    });
    expect(await call()).toMatchObject({ result: { customer: { status: "ACTIVE" } } });
    service.write("tools/hello-customer.tool.yaml", manifest("  customer.fullName: mask\n"));
    expect(await service.reload()).toMatchObject({ http: 200 });
    expect(await call()).toMatchObject({ result: { customer: { fullName: "J*** S****" } } });
  });

  test("releases nothing when every line of its policy is a comment", async () => {
    service.write("tools/hello-customer.tool.yaml", manifest("  # customer.status: allow"));
    expect(await service.reload()).toMatchObject({ http: 200 });
    expect(await call()).toMatchObject({ status: "success", result: {}, filteredFields: ["customer"] });
  });

  test("a member that the contract does not have is an error with the file's line", async () => {
    service.write(
      "tools/hello-customer.tool.yaml",
      manifest("  customer.status: allow").replaceAll("customerId", "customrId"),
    );
    const problem =
      /hello-customer\.tool\.yaml: line 12: tool hello_customer: input\.customrId: .* did you mean customerId\?$/;
    expect((await service.reload()).body).toMatchObject({ problems: [expect.stringMatching(problem)] });
  });
});
