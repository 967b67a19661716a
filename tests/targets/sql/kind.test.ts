import { expect, test } from "bun:test";
import { z } from "zod";
import { sqlSystem } from "../../../src/targets/sql/engines.ts";
import { sqlKind } from "../../../src/targets/sql/kind.ts";
import { columnForm } from "../../../src/targets/sql/values.ts";
import { sqlTool } from "./support.ts";

const kind = sqlKind({ processes: () => Promise.reject(new Error("nothing is started here")) });
const shop = { url: "postgres://db.internal/shop", read: { user: "reader" } };
const input = { id: z.int() };

test("without the database, a query is planned as the user that reads, a change as the one that writes", () => {
  const entry = sqlSystem.parse({ sql: { ...shop, write: { user: "writer" } } });
  const query = sqlTool({ statement: "select 1 as x where $1::int8 = 1", input });
  expect(kind.planOffline?.(query, entry)?.({ id: 7 })).toMatchObject({
    user: "reader",
    parameters: ["7"],
    rows: 100,
  });
  const statement = "delete from orders where id = $1::int8 returning id";
  const change = sqlTool({ classification: "destructive", statement, input, rows: { changes: 3 } });
  const plan = kind.planOffline?.(change, entry)?.({ id: 7 });
  expect(plan).toMatchObject({ kind: "sql", user: "writer", parameters: ["7"], changes: 3 });
  expect(plan).not.toHaveProperty("rows");
  expect(kind.planOffline?.(change, sqlSystem.parse({ sql: shop }))).toBeUndefined();
});

test("a schema that contains itself gives a column its form", () => {
  const text: z.ZodType = z.lazy(() => z.union([text, z.string()]));
  expect(columnForm(text)).toBe("text");
});

test.each([
  [{ url: "sqlite:shop.sqlite", read: { user: "reader" } }, "sql.read", "is not for sqlite:…"],
  [{ url: "sqlite:shop.sqlite", functions: [] }, "sql.functions", "is not for sqlite:…"],
  [{ url: "sqlite:shop.sqlite", caller: {} }, "sql.caller", "is not for sqlite:…"],
  [{ url: "sqlite:shop.sqlite?mode=rw" }, "sql.url", "must be sqlite: and a file, such as sqlite:./shop.sqlite"],
  [{ ...shop, writable: true }, "sql.writable", "is not for postgres:…"],
  [{ url: shop.url }, "sql.read", "is missing: the user of tools that read"],
  [{ url: "oracle://db/shop" }, "sql.url", "must be the URL of a database: postgres:…, mariadb:…, sqlite:…"],
])("the settings %j are refused at %s", (settings, field, message) => {
  const { error } = sqlSystem.safeParse({ sql: settings });
  expect(error?.issues.map((issue) => [issue.path.join("."), issue.message])).toEqual([[field, message]]);
});

test("a file has no user in plans, and takes changes only when that is set", () => {
  const query = sqlTool({ statement: "select 1 as x where $1 = 1", input });
  const change = sqlTool({ classification: "write", statement: "delete from o where id = $1 returning id", input });
  const entry = sqlSystem.parse({ sql: { url: "sqlite:shop.sqlite" } });
  expect(kind.planOffline?.(query, entry)?.({ id: 7 })).not.toHaveProperty("user");
  expect(kind.planOffline?.(change, entry)).toBeUndefined();
  const writable = sqlSystem.parse({ sql: { url: "sqlite:shop.sqlite", writable: true } });
  expect(kind.planOffline?.(change, writable)?.({ id: 7 })).toMatchObject({ parameters: ["7"], changes: 1 });
});
