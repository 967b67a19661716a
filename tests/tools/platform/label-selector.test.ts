import { expect, test } from "bun:test";
import fc from "fast-check";
import { LabelSelector } from "../../../tools/platform/label-selector.ts";
import { DnsLabel, DnsSubdomain } from "../../../tools/platform/names.ts";

/** Kubernetes' own words for the parts, after its grammar was taken apart here. */
const NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?";
const KEY = `(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?/)?${NAME}`;
const VALUE = `(?:${NAME})?`;
const REQUIREMENT = ` *(?:! *${KEY}|${KEY}|${KEY} *(?:==?|!=) *${VALUE}|${KEY} +(?:in|notin) *\\( *${VALUE} *(?:, *${VALUE} *)*\\)) *`;
const SELECTOR = new RegExp(`^${REQUIREMENT}(?:,${REQUIREMENT})*$`);

test("every accepted text is a selector and cannot be an option", () => {
  const piece = fc.constantFrom(
    "a",
    "app",
    "=",
    "!=",
    "==",
    "!",
    ",",
    " in ",
    " notin ",
    "(",
    ")",
    "(a,b)",
    "-",
    ".",
    "/",
    "x.y/z",
    " ",
    "@",
    '"',
    "9",
  );
  let passed = 0;
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 9 }), (pieces) => {
      const selector = pieces.join("");
      if (!LabelSelector.safeParse(selector).success) return;
      passed += 1;
      expect(selector).toMatch(SELECTOR);
      expect(selector).not.toMatch(/^[-@]/);
    }),
    { numRuns: 20_000 },
  );
  expect(passed).toBeGreaterThan(100);
});

test("names are checked in linear time", () => {
  for (const hostile of [
    "a".repeat(1_000_000),
    `${"a-".repeat(500_000)}!`,
    "a.".repeat(500_000),
    `a${"(".repeat(1_000_000)}`,
  ]) {
    for (const schema of [LabelSelector, DnsLabel, DnsSubdomain]) expect(schema.safeParse(hostile).success).toBe(false);
  }
});

test("every accepted name is valid", () => {
  const unit = fc.oneof(fc.constantFrom(..."ab01-._/@,= A"), fc.string({ unit: "binary", maxLength: 1 }));
  fc.assert(
    fc.property(fc.array(unit, { maxLength: 6 }), (units) => {
      const name = units.join("");
      if (!DnsSubdomain.safeParse(name).success) return;
      expect(name).toMatch(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/);
    }),
    { numRuns: 5_000 },
  );
});
