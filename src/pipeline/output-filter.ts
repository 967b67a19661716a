import type { z } from "zod";
import { type Canonical, canonical, NotJsonError, sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type Executed, mint, type RegisteredTool, type Released } from "../core/evidence.ts";
import { isTable } from "../core/json.ts";
import { PartialAnswer } from "../core/partial-answer.ts";
import { applyPolicy } from "../core/policy/output-policy.ts";
import type { Json, Tool } from "../core/types.ts";
import { DETECTOR, type Detector } from "../detection/sensitive.ts";
import { agreed, type Fitted, fit } from "./output-bound.ts";
import { lookThroughFields } from "./redactor.ts";
import { parseOutput } from "./schema-validator.ts";

const DEPTH_MAX = 64;
const NODES_MAX = 500_000;
/** Largest answer, in UTF-8 bytes of JSON, that is cut to its tool's bound; a larger answer is not processed. */
const CUT_FROM_BYTES_MAX = 33_554_432;

/**
 * Releases what the policy permits: answer → plain JSON → tool's bound → output schema → output policy → redaction → cut texts.
 * The raw answer is not used after that.
 *
 * @throws {Refusal} OUTPUT_TOO_LARGE for a tool that reads, INVALID_OUTPUT
 */
export function release(executed: Executed, detector: Detector = DETECTOR): Released {
  try {
    return mint<Released>(shown(executed, executed.raw, detector));
  } catch (error) {
    const isTooLarge = error instanceof Refusal && error.code === "OUTPUT_TOO_LARGE";
    if (!isTooLarge || executed.tool.classification === "read") throw error;
    // The change has happened: the bound withholds its output, but the call still succeeds.
    return mint<Released>(WITHHELD);
  }
}

/** Returns what may be released of the output of a run that was cut off; undefined when nothing may. */
export function releaseOutputSoFar(
  registered: RegisteredTool,
  soFar: PartialAnswer,
  detector: Detector = DETECTOR,
): Released | undefined {
  try {
    return mint<Released>(shown(registered, soFar, detector));
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

type Shown = Parameters<typeof mint<Released>>[0];

const WITHHELD: Shown = { result: null, filteredFields: ["*"], truncated: true, outputHash: sha256Hex("null") };

function shown(registered: RegisteredTool, raw: unknown, detector: Detector): Shown {
  const { tool, outputPolicy } = registered;
  const partial = PartialAnswer.is(raw) ? raw : undefined;
  if (partial !== undefined && partial.kept === undefined) throw tooLarge(tool);
  const { text, value } = asJson(tool, partial === undefined ? raw : partial.kept);
  const outputHash = sha256Hex(text);
  const looked = (parsed: unknown) => lookedThrough(registered, parsed, detector);
  const fitted = fit(value, text, { bytesMax: tool.limits.outputBytesMax, cutText: partial?.cutText });
  if (fitted === undefined) throw tooLarge(tool);
  if (partial === undefined && !fitted.isCut) return { ...looked(parseOutput(tool, value, outputPolicy)), outputHash };
  const { result, ...hidden } = looked(parsePart(registered, fitted, fitted.value));
  const truncated = true;
  // Only lists were cut.
  if (fitted.beyond === fitted.value) return { ...hidden, result, truncated, outputHash };
  const beyond = looked(parsePart(registered, fitted, fitted.beyond)).result;
  return { ...hidden, result: agreed(result, beyond, fitted.textBytesMax), truncated, outputHash };
}

function lookedThrough({ outputPolicy, scan }: RegisteredTool, parsed: unknown, detector: Detector) {
  const filtered = applyPolicy(outputPolicy, parsed as Json);
  const { value, ...hidden } = lookThroughFields(filtered, { level: scan, detector }, outputPolicy);
  return { result: value, ...hidden };
}

/** Parses a part of an answer. An answer that no longer fits its schema after the cut is refused as too large. */
function parsePart({ tool, outputPolicy }: RegisteredTool, { isCut }: Fitted, part: Json): unknown {
  const value = marked(tool, part);
  if (!isCut) return parseOutput(tool, value, outputPolicy);
  try {
    return parseOutput(tool, value, outputPolicy);
  } catch (error) {
    throw tooLarge(tool, error);
  }
}

/** Sets `truncated` in the answer itself, when the schema declares that field. */
function marked(tool: Tool, value: Json): Json {
  if (!isTable(value)) return value;
  const { def } = tool.output._zod;
  const declared = def.type === "object" ? (def as z.core.$ZodObjectDef).shape["truncated"] : undefined;
  const takesTrue = declared !== undefined && (declared as z.ZodType).safeParse(true).success;
  return takesTrue ? { ...value, truncated: true } : value;
}

function tooLarge(tool: Tool, cause?: unknown): Refusal {
  const { outputBytesMax } = tool.limits;
  return new Refusal("OUTPUT_TOO_LARGE", "The target's answer is over the tool's limit. Ask for less.", {
    details: { outputBytesMax },
    cause,
  });
}

function asJson(tool: Tool, raw: unknown): Canonical {
  const bytesMax = Math.max(tool.limits.outputBytesMax, CUT_FROM_BYTES_MAX);
  try {
    return canonical(raw, { depthMax: DEPTH_MAX, nodesMax: NODES_MAX, bytesMax });
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    if (error.reason === "size") throw tooLarge(tool, error);
    throw new Refusal("INVALID_OUTPUT", "The target's answer is not JSON and was withheld.", { cause: error });
  }
}
