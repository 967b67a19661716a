import type { CedarValueJson } from "@cedar-policy/cedar-wasm/web";
import { isList, isTable } from "../../core/json.ts";
import { inputJsonSchema } from "../../core/tool-formats.ts";
import type { Json, Tool } from "../../core/types.ts";

/** A value that no policy can judge: the call is denied. The message names the argument, not the value. */
export class NotCedarError extends Error {
  override readonly name = "NotCedarError";

  constructor(path: string, problem: string) {
    super(`${path}: ${problem}`);
  }
}

/** How the numbers of a value are mapped, from the schema of a tool's arguments. */
export interface NumberShape {
  /** `number`: a number may have a fraction, so that all are decimals. `integer`: all are longs. Undefined: each by its value. */
  readonly numbers?: "number" | "integer" | undefined;
  readonly members: ReadonlyMap<string, NumberShape>;
  /** Of a list's elements, and of members that are not listed. */
  readonly others?: NumberShape | undefined;
}

const DEPTH_MAX = 32;
const ANY: NumberShape = { members: new Map() };

/** Keys with which Cedar's JSON writes references to entities and calls of functions: an argument must not become one. */
const ESCAPES: ReadonlySet<string> = new Set(["__entity", "__extn", "__expr"]);
/** A decimal has at most four digits after the point. */
const DECIMAL = /^-?\d{1,15}(?:\.\d{1,4})?$/;
const DECIMAL_MAX = 922_337_203_685_477;

/**
 * Returns a JSON value as Cedar's. A member that is null is left out, as Cedar has no null. A number with more digits than a decimal
 * holds becomes its text: a policy that compares it as a number cannot be evaluated, and denies.
 *
 * @throws {NotCedarError}
 */
export function cedarValue(value: Json, shape: NumberShape, path: string, depth = 0): CedarValueJson {
  if (depth > DEPTH_MAX) throw new NotCedarError(path, `deeper than ${DEPTH_MAX} levels`);
  if (value === null) throw new NotCedarError(path, "null in a list, which Cedar cannot represent");
  if (typeof value === "number") return cedarNumber(value, shape.numbers);
  if (typeof value === "string") {
    if (!value.isWellFormed()) throw new NotCedarError(path, "a lone surrogate");
    return value;
  }
  if (typeof value === "boolean") return value;
  if (isList(value)) return value.map((item) => cedarValue(item, shape.others ?? ANY, `${path}[]`, depth + 1));
  const record: Record<string, CedarValueJson> = {};
  for (const [key, member] of Object.entries(value)) {
    if (ESCAPES.has(key)) throw new NotCedarError(path, `the key ${key}, which means something else to Cedar`);
    if (!key.isWellFormed() || key === "__proto__") throw new NotCedarError(path, "a key that Cedar cannot represent");
    if (member === null) continue;
    const inner = shape.members.get(key) ?? shape.others ?? ANY;
    record[key] = cedarValue(member, inner, `${path}.${shape.members.has(key) ? key : "*"}`, depth + 1);
  }
  return record;
}

function cedarNumber(value: number, numbers: NumberShape["numbers"]): CedarValueJson {
  const isLong = Number.isSafeInteger(value) && numbers !== "number";
  if (isLong) return value === 0 ? 0 : value;
  const text = String(value === 0 ? 0 : value);
  if (!DECIMAL.test(text) || Math.abs(value) > DECIMAL_MAX) return text;
  return { __extn: { fn: "decimal", arg: text.includes(".") ? text : `${text}.0` } };
}

/** Returns the shape of a tool's arguments. */
export function shapeOf({ input }: Tool): NumberShape {
  return shapeIn(inputJsonSchema(input), 0);
}

const BRANCHES = ["anyOf", "oneOf", "allOf"] as const;

/** A schema with branches may hold what any of them holds; a reference is not followed. */
function shapeIn(schema: unknown, depth: number): NumberShape {
  if (!isTable(schema) || depth > DEPTH_MAX) return ANY;
  const { type, properties, items, additionalProperties } = schema;
  const branches = BRANCHES.flatMap((key) => (Array.isArray(schema[key]) ? schema[key] : []));
  const shapes = branches.map((branch) => shapeIn(branch, depth + 1));
  const types = [type].flat();
  const own: readonly NumberShape["numbers"][] = [
    types.includes("number") ? "number" : undefined,
    types.includes("integer") ? "integer" : undefined,
  ];
  const numbers = [...own, ...shapes.map((shape) => shape.numbers)];
  const members = new Map(shapes.flatMap((shape) => [...shape.members]));
  for (const [name, member] of Object.entries(isTable(properties) ? properties : {}))
    members.set(name, shapeIn(member, depth + 1));
  const others = [items, additionalProperties].find(isTable);
  return {
    numbers: numbers.includes("number") ? "number" : numbers.find((each) => each !== undefined),
    members,
    others: others === undefined ? shapes.find((shape) => shape.others)?.others : shapeIn(others, depth + 1),
  };
}
