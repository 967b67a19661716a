import { expect, test } from "bun:test";
import { z } from "zod";
import { sqlSystem } from "../../../src/targets/sql/engines.ts";
import { sqlKind } from "../../../src/targets/sql/kind.ts";
import { sqlFaults } from "../../../src/targets/sql/manifest.ts";
import { settingsOf } from "../../../src/targets/sql/postgres/caller.ts";
import { parameterText } from "../../../src/targets/sql/values.ts";
import { refusal, sqlTool } from "./support.ts";

const kind = sqlKind({ processes: () => Promise.reject(new Error("nothing is started here")) });
const user = { read: { user: "reader" } };

test.each([
  ["postgres://db/shop", "select 1 as x where 1 = $1::numeric"],
  ["mariadb://db/shop", "select 1 as x where 1 = cast(? as decimal(50,10))"],
])("%s: numbers that JavaScript writes with an exponent are decimals with the same digits", async (url, statement) => {
  const plan = kind.planOffline?.(
    sqlTool({ statement, input: { x: z.number() } }),
    sqlSystem.parse({ sql: { url, ...user } }),
  );
  const exact = [
    [1e-7, "0.0000001"],
    [-2.5e-8, "-0.000000025"],
    [1e21, "1000000000000000000000"],
    [-1.25e22, "-12500000000000000000000"],
    [0.1, "0.1"],
    [-0, "0"],
    [9_007_199_254_740_991, "9007199254740991"],
  ] as const;
  for (const [x, text] of exact) expect(await plan?.({ x })).toMatchObject({ parameters: [text] });
});

test("mariadb: a truth value is 1 or 0, also for a decimal", async () => {
  const statement = "select 1 as x where 1 = cast(? as decimal(5,2))";
  const entry = sqlSystem.parse({ sql: { url: "mariadb://db/shop", ...user } });
  const plan = kind.planOffline?.(sqlTool({ statement, input: { x: z.boolean() } }), entry);
  expect(await plan?.({ x: true })).toMatchObject({ parameters: ["1"] });
});

test("a name that PostgreSQL would cut is refused", async () => {
  const type = { name: "name", isList: false, isEnum: false };
  expect(parameterText("n", "x".repeat(63), type)).toBe("x".repeat(63));
  for (const long of ["x".repeat(64), `${"x".repeat(62)}ä`]) {
    const refused = await refusal((async () => parameterText("n", long, type))());
    expect(refused.details).toEqual({
      violations: [{ field: "n", message: "must be a name of at most 63 ASCII characters" }],
    });
  }
});

const WHOLE = [{ field: "target.sql.statement", message: "changes a whole table: add WHERE, or whole: true" }];

test.each([
  "update t set a = 1 returning a",
  "/* where */ update t set a = 1 returning a",
  "-- where\ndelete from t returning a",
  "update t set a = 'where' returning a",
  'update t set "where" = 1 returning a',
  "update t set a = $$where$$ returning a",
  "update t set a = (select b from c where c.id = t.id) returning a",
  "with c as (select 1 where true) update t set a = 1 returning a",
])("a change without WHERE of its own is one of a whole table: %p", (statement) => {
  const { input } = sqlTool({ statement });
  expect(sqlFaults({ statement }, { classification: "write", input })).toEqual(WHOLE);
  expect(sqlFaults({ statement, whole: true }, { classification: "write", input })).toEqual([]);
});

test.each([
  "update t set a = 'it''s (' where id = 1 returning a",
  "update t set a = 'it\\'s (' where id = 1",
  "update t set a = '\\' where id = 1 returning a",
  "with c as (select 1) delete from t using c where t.id = 1 returning a",
  "insert into t values (1) on conflict (id) do update set a = 2 returning a",
  "merge into t using s on t.id = s.id when matched then update set a = 1 returning a",
  "update t set a = $tag$ ' $tag$ where id = 1 returning a",
  "update t set a = a #> '{x}' where id = 1 returning a",
])("a change with WHERE, or of another kind, is not one of a whole table: %p", (statement) => {
  const { input } = sqlTool({ statement });
  expect(sqlFaults({ statement }, { classification: "write", input })).toEqual([]);
});

test("a claim whose value is not exactly the token's is not used for row-level security", async () => {
  const wanted = { settings: { "app.tenant": "claims.tenant" }, roles: [] };
  const made = (tenant: string | number | boolean) =>
    settingsOf(wanted, { issuer: "i", subject: "s", permissions: [], actors: [], expiresAt: 0, claims: { tenant } });
  for (const exact of ["a", "ä 😀", 7, -1, 0.5, true, Number.MAX_SAFE_INTEGER]) {
    expect(made(exact)).toEqual([["app.tenant", String(exact)]]);
  }
  for (const inexact of [9_007_199_254_740_992, -1e300, "\ud800", "a\udfff"]) {
    const refused = await refusal((async () => made(inexact))());
    expect([refused.code, refused.details]).toEqual(["TARGET_REFUSED", { status: "PERMISSION_DENIED" }]);
  }
});
