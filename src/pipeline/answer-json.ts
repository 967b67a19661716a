import { AmbiguousValue } from "../core/ambiguous-value.ts";
import { type Canonical, canonical, NotJsonError } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import { isTable, type JsonLimits } from "../core/json.ts";
import { element, type Step } from "../core/output-policy/field-path.ts";
import { type CompiledPolicy, edgeOf, shownPath } from "../core/output-policy/output-policy.ts";
import { declaredAt } from "../core/schema/walk.ts";
import type { Json } from "../core/types.ts";

/** Makes the answers of all targets plain JSON, which every reader of JSON reads alike. */

type Answering = Pick<RegisteredTool, "tool" | "outputPolicy">;
type PolicyNode = CompiledPolicy["root"];

/**
 * Returns an answer as plain JSON. Half a surrogate pair becomes U+FFFD. A value that two readers may read differently is replaced
 * where the output policy releases nothing; a number that JavaScript would round becomes its digits where the schema takes a text.
 *
 * @throws {NotJsonError}
 * @throws {Refusal} INVALID_OUTPUT for such a value in a field that is released
 */
export function plainAnswer(answering: Answering, raw: unknown, limits: JsonLimits): Canonical {
  try {
    return wellFormed(canonical(raw, limits), limits);
  } catch (error) {
    if (!(error instanceof NotJsonError) || error.reason !== "type") throw error;
    return wellFormed(canonical(new Settling(answering, limits).settled(raw), limits), limits);
  }
}

/** JSON.stringify escapes half a surrogate pair. A backslash before these letters is escaped too, and only costs a second look. */
const LONE_SURROGATE = "\\ud";

function wellFormed(answer: Canonical, limits: JsonLimits): Canonical {
  return answer.text.includes(LONE_SURROGATE) ? canonical(withWholeCharacters(answer.value), limits) : answer;
}

function withWholeCharacters(value: Json): Json {
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) return value.map(withWholeCharacters);
  if (!isTable(value)) return value;
  const members = Object.entries(value).map(([key, inner]): [string, Json] => [
    key.toWellFormed(),
    withWholeCharacters(inner as Json),
  ]);
  return Object.fromEntries(members);
}

/** Decides about the ambiguous values of one answer. */
class Settling {
  readonly #answering: Answering;
  readonly #limits: JsonLimits;
  readonly #path: Step[] = [];
  #nodes = 0;

  constructor(answering: Answering, limits: JsonLimits) {
    this.#answering = answering;
    this.#limits = limits;
  }

  /** @throws {NotJsonError} when the answer is too large, or code of the answer throws */
  settled(raw: unknown): unknown {
    try {
      return this.#value(raw, this.#answering.outputPolicy.root);
    } catch (error) {
      if (error instanceof NotJsonError || error instanceof Refusal) throw error;
      throw new NotJsonError("throws", "");
    }
  }

  #value(value: unknown, node: PolicyNode): unknown {
    if (typeof value !== "object" || value === null) return value;
    this.#nodes += 1;
    if (this.#nodes > this.#limits.nodesMax) throw new NotJsonError("size", "");
    if (AmbiguousValue.is(value)) return this.#ambiguous(value, node);
    // A deeper value, or an instance of a class, is refused afterwards.
    if (this.#path.length >= this.#limits.depthMax) return value;
    if (Array.isArray(value)) return value.map((each) => this.#below(element, each, node.element.node));
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => [key, this.#below(key, inner, edgeOf(node, key).node)]),
    );
  }

  #below(step: Step, value: unknown, node: PolicyNode): unknown {
    this.#path.push(step);
    const settled = this.#value(value, node);
    this.#path.pop();
    return settled;
  }

  #ambiguous(value: AmbiguousValue, node: PolicyNode): unknown {
    const { digits, reading, problem } = AmbiguousValue.factsOf(value);
    const { tool, outputPolicy } = this.#answering;
    const declared = declaredAt(tool.output, this.#path);
    const isNumber = digits !== undefined;
    if (isNumber && declared === "text") return digits;
    // A masked number shows no digits.
    const isReleased = isNumber ? node.action === "allow" : node.action === "allow" || !node.releasesNothing;
    const isSeen = declared === "changed" || (declared !== "nothing" && isReleased);
    if (isSeen) throw refusal(shownPath(outputPolicy, this.#path) || "(answer)", problem);
    return isNumber ? withinSafeIntegers(reading) : this.#value(reading, node);
  }
}

/** Returns a number for a field that is not released, so that its schema still finds one. */
function withinSafeIntegers(rounded: Json): number {
  return Number(rounded) < 0 ? Number.MIN_SAFE_INTEGER : Number.MAX_SAFE_INTEGER;
}

function refusal(field: string, problem: string): Refusal {
  const message = `The target's answer was withheld: readers of JSON read its field ${field} differently (${problem}).`;
  return new Refusal("INVALID_OUTPUT", message, {
    details: { field },
    cause: new Error(`${field}: ${problem}; declare a number of 64 bits as text, or do not release it`),
  });
}
