import { expect, test } from "bun:test";
import fc from "fast-check";
import { compileScan } from "../../src/core/output-policy/scan-policy.ts";
import { REDACTION_BOUNDS } from "../../src/detection/redact.ts";
import { redactOutput } from "../../src/pipeline/redactor.ts";
import { ownText } from "../eval/negatives.ts";
import { noneSurvives } from "./planted-secrets.ts";

test("any tree: at every path, as a value and as a key, with a new seed", () => {
  const seed = Math.floor(Math.random() * 2 ** 31);
  console.log(`any tree: seed ${seed}`);
  const property = noneSurvives((tree) => redactOutput(tree, compileScan({}), []));
  fc.assert(property, { numRuns: 100_000, seed });
});

test.each([4, 8])("%d MiB of source code is unchanged", (mebibytes) => {
  const chars = Math.min(mebibytes * 2 ** 20, REDACTION_BOUNDS.charsMax);
  const code = ownText()
    .map(({ text }) => text)
    .join("\n");
  const text = code.repeat(Math.ceil(chars / code.length)).slice(0, chars);
  expect(redactOutput(text, compileScan({ "*": "strict" }), []).value).toBeString();
});
