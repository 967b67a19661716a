import { expect, test } from "bun:test";
import { z } from "zod";
import { sqlSystem } from "../../../src/targets/sql/engines.ts";
import { sqlKind } from "../../../src/targets/sql/kind.ts";
import { columnForm } from "../../../src/targets/sql/values.ts";
import { refusal, sqlTool } from "./support.ts";

const kind = sqlKind({ processes: () => Promise.reject(new Error("nothing is started here")) });
const shop = { url: "postgres://db.internal/shop", read: { user: "reader" } };
const input = { id: z.int() };

test("without the database, a query is planned as the user that reads, a change as the one that writes", async () => {
  const entry = sqlSystem.parse({ sql: { ...shop, write: { user: "writer" } } });
  const query = sqlTool({ statement: "select 1 as x where $1::int8 = 1", input });
  expect(await kind.planOffline?.(query, entry)?.({ id: 7 })).toMatchObject({
    user: "reader",
    parameters: ["7"],
    rows: 100,
  });
  const statement = "delete from orders where id = $1::int8 returning id";
  const change = sqlTool({ classification: "destructive", statement, input, rows: { changes: 3 } });
  const plan = await kind.planOffline?.(change, entry)?.({ id: 7 });
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

test("a file has no user in plans, and takes changes only when that is set", async () => {
  const query = sqlTool({ statement: "select 1 as x where $1 = 1", input });
  const change = sqlTool({ classification: "write", statement: "delete from o where id = $1 returning id", input });
  const entry = sqlSystem.parse({ sql: { url: "sqlite:shop.sqlite" } });
  expect(await kind.planOffline?.(query, entry)?.({ id: 7 })).not.toHaveProperty("user");
  expect(kind.planOffline?.(change, entry)).toBeUndefined();
  const writable = sqlSystem.parse({ sql: { url: "sqlite:shop.sqlite", writable: true } });
  expect(await kind.planOffline?.(change, writable)?.({ id: 7 })).toMatchObject({ parameters: ["7"], changes: 1 });
});

test.each([
  [
    "postgres://db/shop",
    "select 1 as x where $1::bool and $2 = any($3::text[]) and $4::jsonb is null",
    ["true", "1.5", '{"a","b\\"c"}', '{"k":[1]}'],
  ],
  [
    "mariadb://db/shop",
    "select 1 as x where ? and ? > 1 and x in (select v from json_table(?, '$[*]' columns (v text path '$')) t) and ? is null",
    ["1", "1.5", '["a","b\\"c"]', '{"k":[1]}'],
  ],
  [
    "sqlite:shop.sqlite",
    "select 1 as x where $1 and $2 > 1 and x in (select value from json_each($3)) and $4 is null",
    ["true", "1.5", '["a","b\\"c"]', '{"k":[1]}'],
  ],
])("without the database, a plan has the values in the notation of %s", async (url, statement, parameters) => {
  const read = url.startsWith("sqlite") ? {} : { read: { user: "reader" } };
  const entry = sqlSystem.parse({ sql: { url, ...read } });
  const all = { yes: z.boolean(), some: z.number(), list: z.array(z.string()), table: z.looseObject({}) };
  const query = sqlTool({ statement, input: all });
  const args = { yes: true, some: 1.5, list: ["a", 'b"c'], table: { k: [1] } };
  expect(await kind.planOffline?.(query, entry)?.(args)).toMatchObject({ parameters });
});

test("without the database, a value that does not fit its CAST is refused as with the database", async () => {
  const entry = sqlSystem.parse({ sql: { url: "mariadb://db/shop", read: { user: "reader" } } });
  const query = sqlTool({ statement: "select 1 as x where 1 = cast(? as signed)", input: { id: z.string() } });
  const plan = kind.planOffline?.(query, entry);
  expect(await plan?.({ id: "7" })).toMatchObject({ parameters: ["7"] });
  expect(await refusal(Promise.resolve(plan?.({ id: "7 or 1=1" })))).toMatchObject({
    code: "INVALID_INPUT",
    details: { violations: [{ field: "id", message: "must be a whole number" }] },
  });
});
