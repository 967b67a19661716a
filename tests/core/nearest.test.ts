import { describe, expect, test } from "bun:test";
import { closestName, listed, nearest } from "../../src/core/nearest.ts";

const NAMES = ["customerId", "customerName", "id", "status", "notes"];

describe("the intended name", () => {
  test.each([
    ["customer_id", "customerId"],
    ["CustomerID", "customerId"],
    ["custmerId", "customerId"],
    ["cutsomerName", "customerName"],
    ["stauts", "status"],
    ["note", "notes"],
    ["customreNmae", "customerName"],
    ["statuses", undefined],
    ["soon", undefined],
    ["customer", undefined],
    ["ix", undefined],
    ["", undefined],
    ["x".repeat(100_000), undefined],
  ])("%s", (name, want) => expect(closestName(name, NAMES)).toBe(want as string));
});

test("the nearest names come first, and few are returned", () => {
  expect(nearest("customer", NAMES).slice(0, 2).toSorted()).toEqual(["customerId", "customerName"]);
  expect(listed(Array.from({ length: 12 }, (_, at) => `n${at}`))).toEndWith("n9, and 2 more");
  expect(listed([])).toBe("none");
});
