import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import { AskingService, type CallExtras, type Reply } from "../support/asking-service.ts";
import { type MariaDbServer, startMariaDb } from "../support/mariadb.ts";

const TABLES = [
  "CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, status varchar(10), email varchar(50), paid boolean)",
  "INSERT INTO orders SELECT 9007199254740992 + seq, 7, 'open', 'ann@canary.example', seq % 2 FROM seq_1_to_60",
  "CREATE USER stc_reader IDENTIFIED BY 'change-me'",
  "GRANT SELECT ON shop.orders TO stc_reader",
  "CREATE USER stc_writer IDENTIFIED BY 'change-me-too'",
  "GRANT SELECT, UPDATE ON shop.orders TO stc_writer",
];

const customer = { type: "string", pattern: "^[0-9]{1,18}$" };
const shared = {
  permissions: { required: ["orders"] },
  input: { type: "object", additionalProperties: false, required: ["customer"], properties: { customer } },
  examples: { accepts: [{ customer: "7" }], rejects: [{ customer: "7 or 1=1" }] },
};
const columns = { id: { type: "string" }, contact: { type: "string" }, paid: { type: "boolean" } };
const row = { type: "object", required: ["id", "contact", "paid"], properties: columns };

const TOOLS = {
  orders_list: {
    ...{ description: "Returns the newest orders of one customer.", classification: "read" },
    ...shared,
    target: {
      system: "shop",
      sql: {
        statement:
          "select id, email as contact, paid from orders where customer = cast(? as unsigned) order by id desc",
        parameters: ["{customer}"],
        rows: { returns: 2 },
      },
    },
    output: {
      type: "object",
      required: ["rows"],
      properties: { truncated: { type: "boolean" }, rows: { type: "array", items: row } },
    },
    outputPolicy: { truncated: "allow", "rows[].id": "allow", "rows[].contact": "mask", "rows[].paid": "allow" },
  },
  orders_cancel: {
    ...{ description: "Cancels all open orders of one customer.", classification: "destructive" },
    ...shared,
    target: {
      system: "shop",
      sql: {
        statement: "update orders set status = 'cancelled' where customer = cast(? as unsigned) and status = 'open'",
        parameters: ["{customer}"],
        rows: {
          changes: 100,
          count: "select count(*) from orders where customer = cast(? as unsigned) and status = 'open'",
        },
      },
    },
    output: { type: "object", required: ["changed"], properties: { changed: { type: "integer" } } },
    outputPolicy: { changed: "allow" },
  },
};

class ShopService extends AskingService {
  server: MariaDbServer | undefined;

  async start(): Promise<void> {
    this.server = await startMariaDb();
    await this.server.send("CREATE DATABASE shop");
    await this.server.send(TABLES, "shop");
    mkdirSync(join(this.folder, "tools"));
    writeFileSync(join(this.folder, "reader"), "change-me\n");
    writeFileSync(join(this.folder, "writer"), "change-me-too\n");
    for (const [name, tool] of Object.entries(TOOLS)) {
      writeFileSync(join(this.folder, `tools/${name}.tool.yaml`), stringify({ name, ...tool }));
    }
    const sql = {
      url: `mariadb://127.0.0.1:${this.server.port}/shop`,
      read: { user: "stc_reader", passwordFile: "reader" },
      write: { user: "stc_writer", passwordFile: "writer" },
      columns: { "orders.email": "mask" },
    };
    await this.run({ tools: ["tools"], systems: { shop: { sql } }, approvals: { store: "sqlite://approvals.sqlite" } });
  }

  async call(tool: string, { approval }: CallExtras = {}): Promise<Reply> {
    const token = await this.agent({ permissions: ["orders"] });
    return this.send("POST", "/call", {
      token,
      body: { tool, args: { customer: "7" }, ...(approval && { approval }) },
    });
  }

  override async end(): Promise<void> {
    await super.end();
    await this.server?.end();
  }
}

describe("a service with a MariaDB database", () => {
  const service = new ShopService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  test("answers with exact values, masked, and cut where the tool says", async () => {
    const { http, body } = await service.call("orders_list");
    expect([http, body.result.truncated, body.result.rows.length]).toEqual([200, true, 2]);
    expect(body.result.rows[0]).toEqual({
      ...{ id: "9007199254741052", paid: false },
      contact: expect.not.stringContaining("ann"),
    });
    expect(service.entry(body.traceId)).toMatchObject({ decision: "ALLOWED", tool: { targetSystem: "shop" } });
  });

  test("a change shows its statement and its rows, runs when it is approved, and is in the journal before", async () => {
    const asked = await service.call("orders_cancel");
    expect(asked.http).toBe(202);
    const { id } = asked.body.approval;
    const view = await service.send("GET", `/approvals/${id}`, { token: await service.person() });
    const shown = JSON.stringify(view.body);
    expect(shown).toContain('"matches":60');
    expect(shown).toContain("update orders set status");
    const { viewHash } = view.body;
    expect((await service.decide(id, "approve", { viewHash })).http).toBe(200);
    const { body } = await service.call("orders_cancel", { approval: { id } });
    expect(body.result).toEqual({ changed: 60 });
    const lines = service.journal().filter(({ type }) => type === "change.prepared");
    const transaction = expect.stringMatching(/^connection \d+$/);
    expect(lines).toMatchObject([{ traceId: body.traceId, system: "shop", changed: 60, transaction }]);
  });
});
