import { SQL } from "bun";
import { defineTool, type SafeToolCall, sqlStatement } from "safe-tool-call";
import { z } from "zod";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";

/** Connections of each side. */
const CONNECTIONS = 8;
const ORDERS = 10_000;
const CUSTOMERS = 500;
const ROWS = 20;
/** The server makes ten million rows before it sends the first. */
const STATEMENT_MS = 60_000;

const TABLE = `CREATE ROLE reader LOGIN;
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL, status text NOT NULL, total numeric(12, 2) NOT NULL, placed timestamptz NOT NULL);
CREATE TABLE visits (n bigint); INSERT INTO visits VALUES (0);
INSERT INTO orders SELECT n, n % ${CUSTOMERS}, 'open', n, now() FROM generate_series(1, ${ORDERS}) AS n;
CREATE INDEX ON orders (customer);
ANALYZE orders;
GRANT SELECT ON orders TO reader;`;

const STATEMENT = `select id, status, total, placed from orders where customer = $1::text::bigint order by id desc`;

/** The limits of a transaction that may end. */
const LIMITS =
  "select set_config('statement_timeout', $1::text, true), set_config('lock_timeout', $1::text, true), set_config('idle_in_transaction_session_timeout', $1::text, true)";

const ROW = z.object({ id: z.string(), status: z.string(), total: z.string(), placed: z.string() });

type Settings = Pick<Parameters<typeof SafeToolCall.create>[0], "tools" | "systems">;

/** A database with the orders of customers, and a tool that reads those of one. */
export interface OrdersDatabase {
  readonly settings: Settings;
  /** Returns the arguments of a call; each of another customer. */
  next(): { readonly customer: string };
  /** Reads the orders of a customer with the driver alone, in the same transaction: read-only, and with limits. */
  alone(customer: string): Promise<void>;
  /** Commits changes of another table, about one per millisecond, until the result is called. */
  write(): () => Promise<void>;
  close(): Promise<void>;
}

export const FIND_ORDERS = "find_orders";
export const MANY_ROWS = "many_rows";

const rows = (returns: number) => ({ rows: { returns } });
const common = { classification: "read", permissions: { required: ["bench:run"] } } as const;

const findOrders = defineTool({
  ...common,
  name: FIND_ORDERS,
  description: "Find the orders of a customer",
  input: z.strictObject({ customer: z.string().regex(/^[0-9]{1,18}$/) }),
  target: sqlStatement("orders", { statement: STATEMENT, parameters: ["{customer}"], ...rows(ROWS) }),
  output: z.object({ rows: z.array(ROW), truncated: z.boolean().optional() }),
  outputPolicy: { "rows[].*": { action: "allow", reason: "what is measured" }, truncated: "allow" },
});

/** A tool whose result has ten million rows. */
const manyRows = defineTool({
  ...common,
  name: MANY_ROWS,
  description: "Ask for ten million rows",
  input: z.strictObject({}),
  target: sqlStatement("orders", {
    statement: "select n::bigint as id from generate_series(1, 10000000) as g(n)",
    parameters: [],
    ...rows(ROWS),
  }),
  output: z.object({ rows: z.array(z.object({ id: z.string() })), truncated: z.boolean().optional() }),
  outputPolicy: { "rows[].id": "allow", truncated: "allow" },
  timeoutMs: STATEMENT_MS,
});

export async function openOrders(): Promise<OrdersDatabase> {
  const native = findPostgres();
  if (native === undefined) throw new Error("there is no PostgreSQL for this machine");
  const server: PostgresServer = await startPostgres(native);
  await server.createDatabase("shop");
  await server.send(TABLE, "shop");
  await server.trust();
  const url = `postgres://127.0.0.1:${server.port}/shop`;
  const alone = new SQL({ url: url.replace("//", "//reader@"), max: CONNECTIONS, tls: false, prepare: false });
  const writer = new SQL({ url: url.replace("//", "//tester@"), max: 1, tls: false });
  let made = 0;
  return {
    settings: {
      tools: [findOrders, manyRows],
      systems: {
        orders: {
          sql: { url, read: { user: "reader" }, connections: CONNECTIONS, limits: { statementMs: STATEMENT_MS } },
        },
      },
    },
    next() {
      made += 1;
      return { customer: String(made % CUSTOMERS) };
    },
    async alone(customer) {
      const found = await alone.begin("ISOLATION LEVEL READ COMMITTED READ ONLY", async (sql) => {
        await sql.unsafe(LIMITS, [String(STATEMENT_MS)]);
        return sql.unsafe(`${STATEMENT} limit $2::text::int8`, [customer, String(ROWS)]);
      });
      if (found.length !== ROWS) throw new Error(`${found.length} rows`);
    },
    write() {
      let isWriting = true;
      const written = (async () => {
        while (isWriting) {
          await writer`UPDATE visits SET n = n + 1`;
          await Bun.sleep(1);
        }
      })();
      return () => {
        isWriting = false;
        return written;
      };
    },
    async close() {
      await alone.close();
      await writer.close();
      await server.end();
    },
  };
}
