import { expect, test } from "bun:test";
import { z } from "zod";
import { sqlSystem } from "../../../src/targets/sql/engines.ts";
import { sqlKind } from "../../../src/targets/sql/kind.ts";
import { columnForm } from "../../../src/targets/sql/values.ts";
import { sqlTool } from "./support.ts";

const shop = { url: "postgres://db.internal/shop", read: { user: "reader" } };
const input = { id: z.int() };

test("without the database, a query is planned as the user that reads, a change as the one that writes", () => {
  const entry = sqlSystem.parse({ sql: { ...shop, write: { user: "writer" } } });
  const query = sqlTool({ statement: "select 1 as x where $1::int8 = 1", input });
  expect(sqlKind.planOffline?.(query, entry)?.({ id: 7 })).toMatchObject({
    user: "reader",
    parameters: ["7"],
    rows: 100,
  });
  const statement = "delete from orders where id = $1::int8 returning id";
  const change = sqlTool({ classification: "destructive", statement, input, rows: { changes: 3 } });
  const plan = sqlKind.planOffline?.(change, entry)?.({ id: 7 });
  expect(plan).toMatchObject({ kind: "sql", user: "writer", parameters: ["7"], changes: 3 });
  expect(plan).not.toHaveProperty("rows");
  expect(sqlKind.planOffline?.(change, sqlSystem.parse({ sql: shop }))).toBeUndefined();
});

test("a schema that contains itself gives a column its form", () => {
  const text: z.ZodType = z.lazy(() => z.union([text, z.string()]));
  expect(columnForm(text)).toBe("text");
});
