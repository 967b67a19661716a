import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { AskingService, type Reply } from "../../support/asking-service.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../../support/postgres.ts";

const native = findPostgres();
const EMAIL = "ann.lee@customers.example";

const READING = {
  name: "customer_contact",
  description: "Returns how to reach a customer.",
  classification: "read",
  permissions: { required: ["shop:read"] },
  input: {
    type: "object",
    additionalProperties: false,
    required: ["id"],
    properties: { id: { type: "string", pattern: "^[0-9]{1,18}$" } },
  },
  target: {
    system: "shop",
    sql: {
      statement:
        "select email as contact, upper(email) as loud, length(email) as size from customers where id = $1::bigint",
      parameters: ["{id}"],
      origins: { loud: "customers.email", size: "computed" },
    },
  },
  output: {
    type: "object",
    required: ["rows"],
    properties: {
      truncated: { type: "boolean" },
      rows: {
        type: "array",
        items: {
          type: "object",
          required: ["contact", "loud", "size"],
          properties: { contact: { type: "string" }, loud: { type: "string" }, size: { type: "integer" } },
        },
      },
    },
  },
  outputPolicy: { truncated: "allow", "rows[].contact": "allow", "rows[].loud": "allow", "rows[].size": "allow" },
  dataFlow: { reads: ["private"] },
};

const CHANGING = {
  name: "order_note",
  description: "Writes the note of an order.",
  classification: "destructive",
  permissions: { required: ["shop:write"] },
  input: {
    type: "object",
    additionalProperties: false,
    required: ["id", "note"],
    properties: { id: { type: "string", pattern: "^[0-9]{1,18}$" }, note: { type: "string", maxLength: 200 } },
  },
  target: {
    system: "shop",
    sql: {
      statement: "update orders set note = $2::text where id = $1::bigint returning id",
      parameters: ["{id}", "{note}"],
    },
  },
  output: {
    type: "object",
    required: ["rows", "changed"],
    properties: {
      changed: { type: "integer" },
      rows: { type: "array", items: { type: "object", required: ["id"], properties: { id: { type: "string" } } } },
    },
  },
  outputPolicy: { changed: "allow", "rows[].id": "allow" },
  dataFlow: { sends: ["outside"], destinations: ["note"] },
};

class ShopService extends AskingService {
  #server: PostgresServer | undefined;

  async start(): Promise<void> {
    this.#server = await startPostgres(native ?? "");
    await this.#server.createDatabase("shop");
    await this.#server.send(
      `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN; CREATE TABLE customers (id bigint PRIMARY KEY, email text);
CREATE TABLE orders (id bigint PRIMARY KEY, note text); INSERT INTO customers VALUES (7, '${EMAIL}'); INSERT INTO orders VALUES (1, '');
GRANT SELECT ON customers, orders TO reader; GRANT SELECT, UPDATE ON orders TO writer;`,
      "shop",
    );
    await this.#server.trust();
    mkdirSync(join(this.folder, "tools"));
    for (const tool of [READING, CHANGING])
      writeFileSync(join(this.folder, `tools/${tool.name}.tool.yaml`), stringify(tool));
    const url = `postgres://127.0.0.1:${this.#server.port}/shop`;
    const systems = { shop: { sql: { url, read: { user: "reader" }, write: { user: "writer" } } } };
    await this.run({ tools: ["tools"], systems, approvals: { store: "sqlite://approvals.sqlite" } });
  }

  async call(tool: string, args: unknown): Promise<Reply> {
    return this.send("POST", "/call", {
      token: await this.agent({ permissions: ["shop:read", "shop:write"] }),
      body: { tool, args },
    });
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#server?.end();
  }
}

describe.skipIf(native === undefined)("a value that a call sends after it was read from a database", () => {
  const service = new ShopService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  test("is shown to approvers and auditors with its table and column, also under another name, and not to the agent", async () => {
    const read = await service.call("customer_contact", { id: "7" });
    expect(read.body.result).toEqual({ rows: [{ contact: EMAIL, loud: EMAIL.toUpperCase(), size: EMAIL.length }] });
    const asked = await service.call("order_note", { id: "1", note: EMAIL });
    expect(asked.http).toBe(202);
    const { id } = asked.body.approval;
    const { body } = await service.send("GET", `/approvals/${id}`, { token: await service.person() });
    const [argument] = body.approval.view.dataFlow.arguments;
    expect(argument.sources).toContainEqual(
      expect.objectContaining({
        tool: "customer_contact",
        field: "rows[].contact",
        labels: ["private"],
        place: "shop: public.customers.email",
      }),
    );
    const dataFlow = service.entry(asked.body.traceId)?.dataFlow;
    expect(dataFlow?.sources).toContainEqual(
      expect.objectContaining({ argument: "note", field: "rows[].contact", place: "shop: public.customers.email" }),
    );
    expect(JSON.stringify(asked.body)).not.toContain("public.customers");
  });
});
