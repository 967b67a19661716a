import { test } from "bun:test";
import fc from "fast-check";
import { walk, walks } from "../support/approvals-model.ts";
import { WAYS } from "../support/hub-approvals.ts";

test.each(WAYS)(
  "APR-50: by way of %s, in every sequence the approvals agree with the model: no run without an approval, none twice, no approval lost",
  async (_way, makeWorld) => {
    const property = fc.asyncProperty(walks, (steps) => walk(steps, makeWorld()));
    await fc.assert(property, { numRuns: 25, endOnFailure: false });
  },
);
