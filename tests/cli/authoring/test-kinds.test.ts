import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { MODULES } from "../../../src/modules.ts";
import { runStc } from "../../support/stc.ts";
import { PROJECT } from "../../support/world.ts";

/** Fixtures of one tool of each kind, in one configuration. No target exists: nothing may be called. */

const PROTO = `syntax = "proto3";
package shop.v1;
service Orders { rpc GetOrder(GetOrderRequest) returns (Order); }
message GetOrderRequest { string order_id = 1; }
message Order { string order_id = 1; int32 lines = 2; string note = 3; }
`;

interface KindCase {
  readonly target: string;
  readonly plan: string;
  readonly system?: string;
}

/** By the name of the kind. Input and output are the same for all: an id, and the number of lines. */
const KINDS: Readonly<Record<string, KindCase>> = {
  grpc: {
    system: "orders: { endpoint: orders.internal:9090, proto: ./orders.proto, plaintext: true }",
    target: `{ system: "orders", grpc: { package: "shop.v1", service: "Orders", method: "GetOrder" } }`,
    plan: "{ path: /shop.v1.Orders/GetOrder, message: { orderId: A-7 } }",
  },
  http: {
    system: "api: { http: { baseUrl: https://orders.internal/api } }",
    target: `{ system: "api", http: { method: "GET", path: "/orders/{orderId}" } }`,
    plan: `{ url: "https://orders.internal/api/orders/A-7" }`,
  },
  mcp: {
    system: "server: { mcp: { url: https://mcp.internal/mcp } }",
    target: `{ system: "server", mcp: { tool: "get_order" } }`,
    plan: "{ tool: get_order, arguments: { orderId: A-7 } }",
  },
  sql: {
    system: "shop: { sql: { url: postgres://db.internal/shop, read: { user: reader } } }",
    target: `{ system: "shop", sql: { statement: "select lines from orders where id = $1::text", parameters: ["{orderId}"], one: true } }`,
    plan: `{ system: shop, user: reader, parameters: [A-7] }`,
  },
  cli: {
    target: `{ system: "local", cli: { command: "wc", parse: "json", argsBuilder: ({ orderId }) => ["--", orderId] } }`,
    plan: `{ argv: ["--", A-7] }`,
  },
  inline: {
    target: `{ system: "local", handler: async () => { throw new Error("called"); } }`,
    plan: "{ input: { orderId: A-7 } }",
  },
};

const manifest = (kind: string, { target }: KindCase): string => `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const tool = defineTool({
  name: "${kind}_order", description: "Get one order by its id", classification: "read", category: "read",
  permissions: { required: ["orders:read"] },
  input: z.strictObject({ orderId: z.string().max(9).regex(/^[A-Z0-9][A-Z0-9-]*$/) }),
  output: z.object({ lines: z.int() }), outputPolicy: { lines: "allow" }, target: ${target} as never,
  examples: { accepts: [{ orderId: "A-7" }], rejects: [{}] } });
`;

const fixtures = (kind: string, { plan }: KindCase): string => `
tool: ${kind}_order
calls:
  - args: { orderId: A-7 }
    plan: ${plan}
    verdict: allow
  - args: { orderId: ../admin }
    refused: { code: INVALID_INPUT, field: orderId }
answers:
  - answer: { lines: 2, note: call back }
    released: { lines: 2 }
    removed: [note]
`;

/** Tools of kind `fs` are the shipped ones: their manifests are copied. */
const READ_FILE = `
tool: fs_read
calls:
  - args: { path: "@project/orders/A-7.txt" }
    input: { path: "@project/orders/A-7.txt" }
    verdict: allow
  - args: { path: 7 }
    refused: { code: INVALID_INPUT, field: path }
answers:
  - answer:
      { path: "@project/A-7.txt", content: two lines, sha256: aa, bytes: 9, binary: false,
        startLine: 1, endLine: 1, totalLines: 1, truncated: false }
    released:
      { path: "@project/A-7.txt", content: two lines, sha256: aa, bytes: 9, binary: false,
        startLine: 1, endLine: 1, totalLines: 1, truncated: false }
`;

const folder = mkdtempSync(join(tmpdir(), "stc-test-kinds-"));

beforeAll(() => {
  mkdirSync(join(folder, "tools"));
  writeFileSync(join(folder, "orders.proto"), PROTO);
  const entries = Object.entries(KINDS);
  for (const [kind, each] of entries) {
    writeFileSync(join(folder, `tools/${kind}.ts`), manifest(kind, each));
    writeFileSync(join(folder, `tools/${kind}.test.yaml`), fixtures(kind, each));
  }
  for (const name of ["fs-read.ts", "fs-path.ts"])
    cpSync(join(PROJECT, "tools/workspace", name), join(folder, "tools", name));
  writeFileSync(join(folder, "tools/fs-read.test.yaml"), READ_FILE);
  mkdirSync(join(folder, "project"));
  const systems = entries.flatMap(([, { system }]) => system ?? []);
  writeFileSync(
    join(folder, "stc.yaml"),
    `tools: [./tools]
audit: { dir: ./audit }
jwt: { issuers: [{ issuer: https://idp.test, jwksUri: https://idp.test/jwks.json }] }
commands: { allowed: [wc] }
workspace: { project: ./project }
systems:
${systems.map((system) => `  ${system}\n`).join("")}`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("every kind of target has fixtures here", () => {
  expect(MODULES.targetKinds.map(({ name }) => name).sort()).toEqual([...Object.keys(KINDS), "fs"].sort());
});

test("fixtures of tools of all kinds pass together, and nothing is called", async () => {
  const { code, out, err } = await runStc(["test", "--config", join(folder, "stc.yaml")]);
  expect({ code, err, out: out.split("\n").filter((line) => /FAIL|expected|passed/.test(line)) }).toEqual({
    code: 0,
    err: "",
    out: [`${3 * MODULES.targetKinds.length} passed, 0 failed`],
  });
});
