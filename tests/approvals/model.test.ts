import { test } from "bun:test";
import fc from "fast-check";
import { walk, walks } from "../support/approvals-model.ts";

test("APR-50: in every sequence the store agrees with the model: no run without an approval, none twice, no approval lost", async () => {
  await fc.assert(fc.asyncProperty(walks, walk), { numRuns: 25, endOnFailure: false });
});
