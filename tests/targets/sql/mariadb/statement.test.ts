import { describe, expect, test } from "bun:test";
import { readStatement } from "../../../../src/targets/sql/mariadb/statement.ts";

const read = (statement: string) => readStatement(statement, false);

describe("the text of a statement of MariaDB", () => {
  const parameters: readonly (readonly [statement: string, types: readonly string[]])[] = [
    ["select ?", ["text"]],
    ["select cast(? as signed), CAST( ? AS INTEGER )", ["signed", "signed"]],
    ["select cast(? as decimal(10, 2)), cast(? as decimal)", ["decimal(10,2)", "decimal"]],
    ["select cast(? as char(3)), cast(? as varchar(3))", ["text", "text"]],
    ["select cast(? as double), cast(? as double precision)", ["double", "double"]],
    ["select cast(? as datetime(6))", ["datetime(6)"]],
    ["select cast(? + 1 as signed)", ["text"]],
    ["select '?', \"?\", `?`, '\\'?', 'a''?', \"a\"\"?\", `a``?`", []],
    ["select 1 -- ?\n, 2 # ?\n, 3 /* ? */", []],
    ["select 1 --?\n", ["text"]],
    ["select 5--1, ?", ["text"]],
    ["select '\\\\', ?", ["text"]],
    ["select x'3f', 0x3f, 1e5, .5, 1., ?", ["text"]],
    ["select 1 /*/ ? */, ?", ["text"]],
    ["select 1 --\u00a0'?\n, ?'", []],
  ];
  test.each(parameters)("has parameters: %s", (statement, types) => {
    expect(read(statement).parameters).toEqual(types);
  });

  const functions: readonly (readonly [statement: string, calls: readonly string[]])[] = [
    ["select count(*), coalesce(a, 1), left(b, 2) from t where a in (1, 2) and exists (select 1)", []],
    ["select sleep(1), SLEEP (1), `sleep`(1)", ["sleep"]],
    ["select sleep/* */(1), sleep\n-- \n(1)", ["sleep"]],
    ["select shop.total(a), `shop` . `total` (a)", ["shop.total"]],
    ["select 'sleep(1)', \"sleep(1)\" -- sleep(1)", []],
    ["with w (a, b) as (select 1, 2), v(c) as (select 3) select a from w, v", []],
    ["select sleep(1) as (select 1)", []],
    ["with w as (select 1) select sleep(1) as x from w", ["sleep"]],
    ["select shop.123(1), shop.1e5 (1)", ["shop.123", "shop.1e5"]],
    ["insert into shop.123 (id) values (1)", []],
    ["insert into people (id) values (1) on duplicate key update id = values(id)", []],
    ["replace into shop.people (id) select benchmark(1, 1)", ["benchmark"]],
    ["select row_number() over (partition by a order by b) from t use index (i) join u using (c)", []],
    ["select cast(a as decimal(1, 2)), convert(b, char(3)), a -> '$.b', interval(1, 2) from t", []],
  ];
  test.each(functions)("calls functions: %s", (statement, calls) => {
    expect(read(statement).functions).toEqual(calls);
  });

  test("tells the words before a parenthesis that a stored function may have as its name", () => {
    expect(read("select count (*), `sum`(a) from t where a in (1)").known).toEqual(["count", "sum", "in"]);
  });

  test("names all that may be a table", () => {
    expect(read("select 1 from shop.123 as `a b` join t").names).toEqual(
      expect.arrayContaining(["shop", "123", "a b", "t"]),
    );
  });

  const problems: readonly (readonly [statement: string, problem: string])[] = [
    ["select 1 /*! */", "has a comment that MariaDB runs or obeys: /*!, /*M! or /*+"],
    ["select 1 /*M! */", "has a comment that MariaDB runs or obeys: /*!, /*M! or /*+"],
    ["select /*+ x */ 1", "has a comment that MariaDB runs or obeys: /*!, /*M! or /*+"],
    ["select '\\' /*' /*! */", "has a comment that MariaDB runs or obeys: /*!, /*M! or /*+"],
    ["select @x", "has a variable, @"],
    ["select 1; select 2", "has a `;`"],
    ["select 1 from t for update", "locks rows"],
    ["select 1 from t lock in share mode", "locks rows"],
  ];
  test.each(problems)("is refused: %s", (statement, problem) => {
    expect(read(statement).problems).toEqual([problem]);
  });

  test("has no problem where they are within texts", () => {
    expect(read("select '/*! */', \"@x\", `a;b` from t -- /*! */ @x ;\n where a = 'for update'").problems).toEqual([]);
  });

  test("a change begins with its own word", () => {
    const changing = (statement: string): readonly string[] => readStatement(statement, true).problems;
    for (const word of [
      "insert into t values (1)",
      " UPDATE t set a = 1",
      "delete from t",
      "replace into t values (1)",
    ]) {
      expect(changing(word)).toEqual([]);
    }
    for (const word of ["with w as (select 1) delete from t", "truncate t", "`update` t", "/* */ drop table t", ""]) {
      expect(changing(word)).toEqual(["must begin with INSERT, UPDATE, DELETE or REPLACE"]);
    }
    expect(changing("delete from t for portion of p from 1 to 2 where a")[0]).toStartWith("has FOR PORTION OF");
  });

  const returned: readonly (readonly [statement: string, query: string | undefined])[] = [
    ["insert into t (a) values (1) returning id, a as x -- y", "SELECT id, a as x -- y\nFROM t \nLIMIT 0"],
    ["DELETE FROM `a b` . `c``d` where x = 'returning' RETURNING *", "SELECT *\nFROM `a b` . `c``d` \nLIMIT 0"],
    ["insert into shop.t # x\nset a = ? returning id", "SELECT id\nFROM shop.t # x\n\nLIMIT 0"],
    ["delete from t where a = 1", undefined],
    ["update t set a = 1 returning a", undefined],
    ["replace into t values (1) returning a", undefined],
    ["insert ignore into t values (1) returning a", undefined],
    ["insert t values (1) returning a", undefined],
    ["delete low_priority from t returning a", undefined],
    ["delete from t where a in (select b returning c) returning a", undefined],
    ["delete from a.b.c returning a", undefined],
    ["delete from shop.123 returning a", undefined],
    ["delete from t returning", undefined],
  ];
  test.each(returned)("has the columns of another query, or is refused: %s", (statement, query) => {
    const found = readStatement(statement, true);
    expect(found.returned).toBe(query);
    const isRefused = query === undefined && /returning/.test(statement);
    expect(found.problems).toEqual(
      isRefused
        ? ["has RETURNING, which only INSERT INTO and DELETE FROM may have, once and with the name of their table"]
        : [],
    );
  });

  test("tells no origins where another query may fill the returned columns", () => {
    const tells = (statement: string): boolean => readStatement(statement, true).tellsOrigins;
    expect(tells("insert into t (a) values (1) returning a")).toBe(true);
    expect(tells("delete from t where a = 1 returning a")).toBe(true);
    for (const other of [
      "insert into t (a) select b from u returning a",
      "insert into t (a) values ((select b from u)) returning a",
      "insert into t (a) values (1) returning (select b from u) as a",
      "insert into t (a) table u returning a",
      "delete from t where a in (select b from u) returning a",
    ]) {
      expect([other, tells(other)]).toEqual([other, false]);
    }
  });

  const origins: readonly (readonly [statement: string, tells: boolean])[] = [
    ["select a from t join u using (b) where c in (1)", true],
    ["select a from t where c in (select 1)", false],
    ["select a from t union select b from u", false],
    ["with t as (select 1 as a) select a from t", false],
    ["select a from (values (1)) t", false],
    ["select a from json_table('[1]', '$[*]' columns (a int path '$')) t", false],
    ["select 'select' as `select`, a from t -- select", true],
  ];
  test.each(origins)("tells origins, or not: %s", (statement, tells) => {
    expect(read(statement).tellsOrigins).toBe(tells);
  });
});
