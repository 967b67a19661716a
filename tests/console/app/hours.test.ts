import { expect, test } from "bun:test";
import { BAR_HEIGHT, hoursChart } from "../../../src/console/app/oversight/hours.ts";
import type { ApproverHour } from "../../../src/core/api/report.ts";

const HOUR_MS = 3_600_000;
const END_MS = Date.parse("2026-03-10T12:30:00Z");

const person = (
  sub: string,
  asked: number,
  decided: number,
  quickApprovalShare: number | null = null,
): ApproverHour => ({
  ...{ iss: "https://people.test", sub, asked, decided, medianSeconds: decided === 0 ? null : 4, quickApprovalShare },
});
const hour = (hoursAgo: number, ...approvers: readonly ApproverHour[]) => ({
  from: new Date(Date.parse("2026-03-10T12:00:00Z") - hoursAgo * HOUR_MS).toISOString(),
  approvers,
});

test("there is no chart without approvers", () => {
  expect(hoursChart([], END_MS)).toBeUndefined();
  expect(hoursChart([hour(0)], END_MS)).toBeUndefined();
});

test("the chart covers at least a day and ends with the current hour", () => {
  const chart = hoursChart([hour(0, person("olga", 1, 1, 0)), hour(5, person("olga", 1, 0))], END_MS);
  expect(chart?.width).toBe(24 * (chart?.hourWidth ?? 0));
  expect(chart?.rows[0]?.bars.map(({ x }) => x / (chart?.hourWidth ?? 1))).toEqual([23, 18]);
});

test("the chart starts with the first hour in which somebody was asked", () => {
  const chart = hoursChart([hour(167, person("olga", 1, 0))], END_MS);
  expect([chart?.width, chart?.rows[0]?.bars[0]?.x]).toEqual([168 * 6, 0]);
});

test("a period that ends at a full hour does not begin another one", () => {
  const chart = hoursChart([hour(1, person("olga", 1, 0))], Date.parse("2026-03-10T12:00:00Z"));
  expect((chart?.rows[0]?.bars[0]?.x ?? 0) + (chart?.hourWidth ?? 0)).toBe(chart?.width ?? -1);
});

test("all rows have one scale; a small bar can be seen, and none has no height", () => {
  const chart = hoursChart([hour(0, person("olga", 100, 1, 1), person("peter", 50, 0))], END_MS);
  expect(chart?.highest).toBe(100);
  expect(chart?.rows.flatMap(({ bars }) => bars)).toMatchObject([
    { sub: "olga", askedHeight: BAR_HEIGHT, decidedHeight: 3, quickHeight: 3, quick: 1 },
    { sub: "peter", askedHeight: BAR_HEIGHT / 2, decidedHeight: 0, quickHeight: 0, quick: 0 },
  ]);
});

test("a row adds up its hours, and the busiest approver is first", () => {
  const hours = [hour(0, person("olga", 1, 2, 0.5)), hour(1, person("peter", 9, 3, 1 / 3), person("olga", 1, 1, 0))];
  expect(hoursChart(hours, END_MS)?.rows).toMatchObject([
    { sub: "peter", asked: 9, decided: 3, quick: 1 },
    { sub: "olga", asked: 2, decided: 3, quick: 1 },
  ]);
});

test("approvers of one name from two issuers have a row each", () => {
  const other = { ...person("olga", 1, 0), iss: "https://other.test" };
  expect(hoursChart([hour(0, person("olga", 2, 0), other)], END_MS)?.rows.map(({ iss }) => iss)).toEqual([
    "https://people.test",
    "https://other.test",
  ]);
});

test("approvers beyond the twelfth are counted", () => {
  const many = Array.from({ length: 15 }, (_, at) => person(`p${at}`, 20 - at, 0));
  const chart = hoursChart([hour(0, ...many)], END_MS);
  expect([chart?.rows.length, chart?.rows.at(-1)?.sub, chart?.rowsLeftOut]).toEqual([12, "p11", 3]);
});

test("a day has ticks within it, a week has one a day", () => {
  const day = hoursChart([hour(0, person("olga", 1, 0))], END_MS)?.ticks ?? [];
  expect(day.map(({ atMs }) => new Date(atMs).getHours() % 6)).toEqual([0, 0, 0, 0]);
  const week = hoursChart([hour(167, person("olga", 1, 0))], END_MS)?.ticks ?? [];
  expect(week.map(({ isDay }) => isDay)).toEqual(Array.from({ length: 7 }, () => true));
});
