import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { clickHouseDialect } from "../../../src/audit/store/clickhouse.ts";
import { storable, stored } from "../../../src/audit/store/columns.ts";
import { postgresDialect } from "../../../src/audit/store/postgres.ts";
import { identifier, sql } from "../../../src/audit/store/sql-text.ts";
import { pageStatement } from "../../../src/audit/store/statements.ts";
import { readStoreQuery, writeStoreCursor } from "../../../src/audit/store/store-query.ts";
import { AUDIT_FIELDS, FILTER_ROWS, type FilterParam, hasPart } from "../../../src/core/audit-fields.ts";

const SEED = { seed: Number(process.env["STC_TEST_SEED"] ?? 1) };
const LIMITS = { limit: 10, limitMax: 100, nowMs: Date.parse("2026-02-17T00:00:00Z") };

describe("statements", () => {
  test.each([
    ["PostgreSQL", postgresDialect],
    ["ClickHouse", clickHouseDialect],
  ])("for %s: a value is bound, and no character of it is in the text", (_, dialect) => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1 }), (value) => {
        const wanted = `\u{1f510}${value}`;
        const exact = Object.fromEntries(FILTER_ROWS.map(({ param }) => [param, wanted])) as Record<
          FilterParam,
          string
        >;
        const filter = { exact, text: wanted, fromMs: 1, toMs: 2 };
        const { parts, values } = pageStatement(dialect, {
          stream: "calls",
          filter,
          order: "newest",
          limit: 1,
        });
        expect(parts.join("")).not.toContain("\u{1f510}");
        expect(parts.length).toBe(values.length + 1);
      }),
      SEED,
    );
  });

  test("parts of statements are joined, and their values keep their order", () => {
    const inner = sql`b = ${2} AND c = ${"3"}`;
    expect(sql`a = ${1} AND ${inner} AND ${identifier("d_e")} = ${4}`).toMatchObject({
      parts: ["a = ", " AND b = ", " AND c = ", " AND d_e = ", ""],
      values: [1, 2, "3", 4],
    });
    expect(() => identifier('a"; DROP')).toThrow("not the name of a column");
  });
});

describe("texts", () => {
  test("a part of a text is a part of the stored text, and only then", () => {
    const unit = fc.constantFrom("\0", "a", "0", "\\", "\ud800", "\u{1f600}", "%");
    const text = fc.array(unit, { maxLength: 6 }).map((units) => units.join(""));
    fc.assert(
      fc.property(
        text,
        text.filter((part) => part.isWellFormed()),
        (whole, part) => {
          expect(storable(whole)).not.toMatch(/\0/);
          expect(storable(whole).isWellFormed()).toBe(true);
          expect(stored(storable(whole))).toBe(whole);
          expect(storable(whole).includes(storable(part))).toBe(whole.includes(part));
        },
      ),
      SEED,
    );
  });
});

/** What a part is, in words of its own: the people who approved, and the policy points with their reasons. */
const MEANINGS = {
  approvedBy(value: string, person: string): boolean {
    if (!value.startsWith("human:")) return false;
    const people = value.slice("human:".length).split(", human:");
    return people.some((each) => each === person || each.endsWith(`|${person}`));
  },
  decisionReasons(value: string, wanted: string): boolean {
    return value.split("\n").some((line) => {
      const [point, reason = ""] = line.split("\t");
      return point === wanted || reason.startsWith(wanted);
    });
  },
};

describe("parts of a value", () => {
  const join = (parts: readonly string[]) => parts.join("");
  const approver = fc
    .array(fc.constantFrom("human:", ", ", "human", "|", "a", "b", ", human:", ":"), { maxLength: 9 })
    .map(join);
  const text = fc.array(fc.constantFrom("a", "b", " ", ":"), { maxLength: 4 }).map(join);
  const reasons = fc.array(
    fc.tuple(text, text).map((pair) => pair.join("\t")),
    { minLength: 1, maxLength: 3 },
  );

  test.each([
    ["approvedBy", approver.map((people) => `human:${people}`), fc.oneof(text, approver).filter((part) => part !== "")],
    [
      "decisionReasons",
      reasons.map((lines) => lines.join("\n")),
      fc
        .oneof(
          text,
          reasons.map((lines) => lines.join("\n")),
        )
        .filter((part) => part !== ""),
    ],
  ] as const)("%s", (field, values, parts) => {
    const declared = AUDIT_FIELDS[field].filter.parts;
    let found = 0;
    fc.assert(
      fc.property(values, parts, (value, part) => {
        const expected = MEANINGS[field](value, part);
        if (expected) found += 1;
        expect(hasPart(declared, value, part)).toBe(expected);
      }),
      { ...SEED, numRuns: 3_000 },
    );
    expect(found).toBeGreaterThan(20);
  });
});

describe("cursors", () => {
  const after = { timeMs: 1_771_200_000_000, log: "a".repeat(32), seq: 7, hash: "b".repeat(64) };

  test("a page continues with the same filters and times", () => {
    const first = readStoreQuery({ sub: "agent-7", from: "3h" }, LIMITS);
    if ("faults" in first) throw new Error(first.faults.join());
    const cursor = writeStoreCursor(first.ok, after);
    const next = readStoreQuery({ sub: "agent-7", from: "3h", cursor }, { ...LIMITS, nowMs: LIMITS.nowMs + 60_000 });
    expect(next).toEqual({ ok: { ...first.ok, after } });
    expect(readStoreQuery({ sub: "agent-8", from: "3h", cursor }, LIMITS)).toEqual({
      faults: ["cursor is not one of this query: send the filters and the order that it came with"],
    });
  });

  test("any other text is refused", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json().map((text) => Buffer.from(text).toString("base64url")),
        ),
        (cursor) => {
          expect(readStoreQuery({ cursor }, LIMITS)).toHaveProperty("faults");
        },
      ),
      SEED,
    );
  });
});
