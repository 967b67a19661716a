import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { z } from "zod";
import { findPostgres } from "../../support/postgres.ts";
import { ask, faultsOf, loaded, PostgresShop, refusal, sqlTool } from "./support.ts";

const native = findPostgres();
const text = z.string().nullable();
const classification = "write";

const TABLES = `CREATE ROLE reader LOGIN; CREATE ROLE writer LOGIN;
ALTER DATABASE shop SET quote_all_identifiers = on;
CREATE TABLE parts (id int PRIMARY KEY, code char(5), name varchar(5), price numeric(8, 2), at timestamptz(0), at3 timestamp(3), tags varchar(3)[], n int);
INSERT INTO parts VALUES (1, 'AB', 'old', 1, '2026-01-01', '2026-01-01', '{}', 0);
GRANT SELECT, UPDATE ON parts TO reader; GRANT ALL ON parts TO writer;`;

const shop = new PostgresShop();

describe.skipIf(native === undefined)("a value", () => {
  beforeAll(() => shop.start(native, TABLES));
  afterAll(() => shop.end());

  const cut: readonly (readonly [type: string, kept: string, cut: string, says: string])[] = [
    ["varchar(5)", "äöü😀5", "abcdef", "must be text, of at most 5 characters"],
    ["char(5)", "abcde", "abcdef", "must be text, of at most 5 characters"],
    ["text::varchar(5)", "abcde", "abcde ", "must be text, of at most 5 characters"],
    ["numeric(8,2)", "19.90", "19.999", "must be a decimal number, with at most 2 decimals"],
    ["numeric(8)", "20", "19.5", "must be a decimal number, with at most 0 decimals"],
    ["timestamp(3)", "2026-01-01 00:00:00.123", "2026-01-01 00:00:00.1236", "with at most 3 decimals"],
    ["timestamptz(0)", "2026-01-01 00:00:00+00", "2026-01-01 00:00:00.6+00", "with at most 0 decimals"],
    ["time(1)", "12:00:00.5", "12:00:00.55", "with at most 1 decimals"],
  ];
  test.each(cut)(
    "that a cast to %s would cut is refused; one that it keeps is exact",
    async (type, kept, long, says) => {
      const statement = `select $1::${type} as x`;
      const binding = await loaded(
        await shop.open(),
        sqlTool({ statement, input: { v: z.string() }, columns: { x: text } }),
      );
      expect(await ask(binding, { v: kept })).toEqual({ rows: [{ x: kept }] });
      const refused = await refusal(ask(binding, { v: long }));
      expect(refused.code).toBe("INVALID_INPUT");
      expect(JSON.stringify(refused.details)).toContain(says);
    },
  );

  const stored: readonly (readonly [set: string, kept: unknown, cut: unknown])[] = [
    ["price = $1::numeric", "19.9", "19.999"],
    ["price = coalesce($1::numeric, price)", "19.900", "19.999"],
    ["at = $1::timestamptz", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z"],
    ["at3 = coalesce($1::timestamp, at3)", "2026-01-01T00:00:00.123", "2026-01-01T00:00:00.1234"],
    ["code = $1::text", "ab", "ab    "],
    ["n = $1::numeric", "2.0", "1.5"],
    ["n = coalesce($1::double precision, n)", 2, 1.5],
    ["tags = $1::varchar[]", ["abc", null], ["abc", "abc "]],
  ];
  test.each(stored)("that a column would cut without an error, in %p, changes nothing", async (set, kept, long) => {
    const statement = `update parts set ${set} where id = 1 returning id`;
    const tool = sqlTool({ classification, statement, input: { v: z.any() }, columns: { id: z.int() } });
    const binding = await loaded(await shop.open(), tool);
    const before = await shop.server.send("SELECT * FROM parts", "shop");
    expect((await refusal(ask(binding, { v: long }))).code).toBe("INVALID_INPUT");
    expect(await shop.server.send("SELECT * FROM parts", "shop")).toEqual(before);
    expect(await ask(binding, { v: kept })).toEqual({ rows: [{ id: 1 }], changed: 1 });
  });

  test("in a list of lists is read as its element", async () => {
    const statement = "select array[[1, 2], [3, null]] as n, array[['a', null]] as s";
    const columns = { n: z.array(z.array(z.int().nullable())), s: z.array(z.array(text)) };
    expect(await ask(await loaded(await shop.open(), sqlTool({ statement, columns })))).toEqual({
      rows: [
        {
          n: [
            [1, 2],
            [3, null],
          ],
          s: [["a", null]],
        },
      ],
    });
  });

  test("that is compared with a column of a smaller size is not cut, and not refused", async () => {
    const statement = "select id from parts where name = $1::text or price = $2::numeric or code = $1::text";
    const input = { name: z.string(), price: z.string() };
    const binding = await loaded(await shop.open(), sqlTool({ statement, input, columns: { id: text } }));
    expect(await ask(binding, { name: "longer than that", price: "1.0001" })).toEqual({ rows: [] });
  });

  const locking = ["for update", "for no key update", "for share", "for key share"];
  test.each(locking)("read %s: the tool is not loaded", async (lock) => {
    const statements = [
      `select name as x from parts ${lock}`,
      `select x from (select name as x from parts ${lock}) as q`,
      `with q as (select name as x from parts ${lock}) select x from q`,
    ];
    for (const statement of statements) {
      expect(await faultsOf(await shop.open(), sqlTool({ statement, columns: { x: text } }))).toEqual([
        "target.sql.statement locks rows: leave out FOR UPDATE or FOR SHARE",
      ]);
    }
    const words = `select ':rowMarks ({' as "a:rowMarks ({", 'for update' as x`;
    expect(
      await faultsOf(await shop.open(), sqlTool({ statement: words, columns: { x: text, "a:rowMarks ({": text } })),
    ).toEqual([]);
  });
});
