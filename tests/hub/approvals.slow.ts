import { expect, test } from "bun:test";
import fc from "fast-check";
import { createApprovalWorld } from "../support/approvals.ts";
import { failedIn, OTHERWISE_BY_HUB, runByHub, STORE_TESTS } from "../support/approvals-by-hub.ts";
import { walk, walks } from "../support/approvals-model.ts";
import { byHub } from "../support/hub-approvals.ts";

test("the tests of the store hold by way of a hub whose answers are lost", () => {
  const run = runByHub(STORE_TESTS);
  expect(failedIn(run)).toEqual(OTHERWISE_BY_HUB);
  expect(Number(/^ *(\d+) pass$/m.exec(run.stderr.toString())?.[1])).toBeGreaterThan(190);
}, 120_000);

test("APR-50: in sixty sequences a member of two hubs agrees with the model", async () => {
  const property = fc.asyncProperty(walks, (steps) => walk(steps, createApprovalWorld(undefined, byHub)));
  await fc.assert(property, { numRuns: 60, endOnFailure: false });
}, 300_000);
