import { isKeyword } from "../schema.ts";

/** Keywords that restrict nothing. */
const SILENT: ReadonlySet<string> = new Set(
  [
    "$schema $id id $comment $anchor $vocabulary $defs definitions title default examples example deprecated readOnly writeOnly",
    "contentEncoding contentMediaType contentSchema xml externalDocs discriminator",
  ]
    .join(" ")
    .split(" "),
);
/** Keywords that a function of their own writes, alone or with others. */
const WRITTEN: ReadonlySet<string> = new Set(
  [
    "$ref type nullable enum const description items prefixItems additionalItems properties patternProperties required",
    "additionalProperties propertyNames dependencies dependentRequired dependentSchemas allOf anyOf oneOf not if then else",
    "contains minContains maxContains minimum maximum exclusiveMinimum exclusiveMaximum",
  ]
    .join(" ")
    .split(" "),
);

/** Returns whether a keyword is written as it is declared. */
export function isCopied(key: string): boolean {
  return isKeyword(key) && !WRITTEN.has(key) && !SILENT.has(key);
}

/** Returns whether a keyword may restrict values in a way that no manifest can state. */
export function isUnknown(key: string): boolean {
  return !WRITTEN.has(key) && !SILENT.has(key) && !/^x-/i.test(key) && !isKeyword(key);
}
