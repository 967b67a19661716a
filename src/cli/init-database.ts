import { systemCode } from "../core/error-text.ts";
import { printableCell } from "../core/printable.ts";
import { CommandError, EXIT } from "./output.ts";

/** The additional files of `stc init --database`: a SQLite database, its system, and a tool that reads it. */

/** Name of the file. */
export const DATABASE = "shop.sqlite";
/** Lines that a new user reads. */
export const NEXT_DATABASE = [
  "",
  "a query of the database:",
  "",
  "stc token --keys keys --sub agent-1 --permission orders:read > orders.token",
  `stc call orders_of_customer '{"customer":"1"}' --token-file orders.token`,
] as const;

/** @throws {CommandError} */
export async function writeDatabase(path: string): Promise<void> {
  const { developmentShop } = await import("./development/shop.ts");
  try {
    developmentShop(path);
  } catch (error) {
    throw new CommandError(EXIT.failed, `${printableCell(path)} cannot be written (${systemCode(error)})`);
  }
}

/** A line of the configuration's `systems`. */
export const DATABASE_SYSTEM = `
  shop:                                 # a SQLite database; docs/sql.md has PostgreSQL and MariaDB
    sql:
      url: sqlite:./${DATABASE}
      columns: { customers.email: mask }  # whatever a statement calls the column
`;

const DATABASE_TOOL = `# yaml-language-server: $schema=tool.schema.json
name: orders_of_customer
description: Get the newest orders of a customer, with their states and totals, and where to reach the customer
classification: read
permissions: { required: ["orders:read"] }

target:
  system: shop
  sql:
    statement: |
      select o.id, o.status, o.total, c.email as contact
      from orders o join customers c on c.id = o.customer
      where c.id = $1
      order by o.id desc
    parameters: ["{customer}"]
    rows: { returns: 20 }

input:
  type: object
  additionalProperties: false
  required: [customer]
  properties:
    customer: { type: string, pattern: "^[0-9]{1,18}$" }

output:
  type: object
  required: [rows]
  properties:
    truncated: { type: boolean }
    rows:
      type: array
      items:
        type: object
        required: [id, status, total, contact]
        properties:
          id: { type: string }
          status: { type: string }
          total: { type: string }
          contact: { type: [string, "null"] }

outputPolicy:
  truncated: allow
  "rows[].id": allow
  "rows[].status": allow
  "rows[].total": allow
  "rows[].contact": mask                # allow would not load: stc.yaml says mask

examples:
  accepts: [{ customer: "1" }]
  rejects: [{ customer: "1 or 1=1" }]
`;

const DATABASE_FIXTURES = `# yaml-language-server: $schema=test.schema.json
tool: orders_of_customer

calls:
  - name: a customer
    args: { customer: "1" }
    verdict: allow
    plan: { parameters: ["1"] }
  - name: SQL is not a number
    args: { customer: "1 or 1=1" }
    refused: { code: INVALID_INPUT, field: customer }

answers:
  - name: the address is masked
    answer: { rows: [{ id: "105", status: open, total: "149.50", contact: ada@example.com }] }
    released: { rows: [{ id: "105", status: open, total: "149.50", contact: "a**@e******.com" }] }
    masked: ["rows[].contact"]
`;

/** Files by their paths. */
export const DATABASE_FILES: Readonly<Record<string, string>> = {
  "tools/orders-of-customer.tool.yaml": DATABASE_TOOL,
  "tools/orders-of-customer.test.yaml": DATABASE_FIXTURES,
};
