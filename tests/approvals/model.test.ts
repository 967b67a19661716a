import { test } from "bun:test";
import fc from "fast-check";
import { walk, walks } from "../support/approvals-model.ts";

test("APR-50: on every walk the store tells what the model tells: no run without a yes, none twice, no yes lost", async () => {
  await fc.assert(fc.asyncProperty(walks, walk), { numRuns: 25, endOnFailure: false });
});
