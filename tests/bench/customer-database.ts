import { Database } from "bun:sqlite";
import { defineTool } from "safe-tool-call";
import { z } from "zod";

const ROWS = 1_000;

/** Writes a database of customers into `file`. */
export function createCustomerDatabase(file: string): void {
  const database = new Database(file);
  database.run("CREATE TABLE customers (id TEXT PRIMARY KEY, name TEXT, email TEXT)");
  const insert = database.prepare("INSERT INTO customers VALUES (?, ?, ?)");
  database.transaction(() => {
    for (let row = 0; row < ROWS; row += 1) insert.run(`c${row}`, `name ${row}`, `c${row}@example.org`);
  })();
  database.close();
}

/** One query of the database in `file`, as a tool. */
export function customerQuery(file: string) {
  const query = new Database(file, { readonly: true }).query<{ id: string; name: string }, [string]>(
    "SELECT id, name FROM customers WHERE id = ?",
  );
  return defineTool({
    name: "find_customer",
    description: "Find a customer",
    classification: "read",
    permissions: { required: ["bench:run"] },
    input: z.strictObject({ id: z.string().max(40) }),
    handler: ({ id }) => ({ customer: query.get(id) }),
    output: z.strictObject({ customer: z.strictObject({ id: z.string(), name: z.string() }).nullable() }),
    outputPolicy: { "customer.id": "allow", "customer.name": { action: "allow", reason: "what is measured" } },
  });
}
