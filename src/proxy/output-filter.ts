import { type Canonical, canonical, NotJsonError, sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type Executed, mint, type Released } from "../core/evidence.ts";
import { applyPolicy } from "../core/policy/output-policy.ts";
import type { Json, Tool } from "../core/types.ts";
import { lookThroughFields } from "./redactor.ts";
import { parseOutput } from "./schema-validator.ts";

const DEPTH_MAX = 64;
const NODES_MAX = 500_000;

/**
 * Lets out what the policy lets out: answer → plain JSON → output schema → output policy → redaction. The raw answer is not used
 * again.
 *
 * @throws {Refusal} OUTPUT_TOO_LARGE, INVALID_OUTPUT
 */
export function release({ tool, outputPolicy, scan, raw }: Executed): Released {
  const { text, value } = asJson(tool, raw);
  const parsed = parseOutput(tool, value, outputPolicy) as Json;
  const filtered = applyPolicy(outputPolicy, parsed);
  const { value: result, filteredFields, redactions } = lookThroughFields(filtered, scan, outputPolicy);
  return mint<Released>({ result, filteredFields, redactions, outputHash: sha256Hex(text) });
}

function asJson(tool: Tool, raw: unknown): Canonical {
  try {
    return canonical(raw, { depthMax: DEPTH_MAX, nodesMax: NODES_MAX, bytesMax: tool.limits.outputBytesMax });
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    if (error.reason === "size") {
      throw new Refusal("OUTPUT_TOO_LARGE", "The target's answer is over the tool's limit. Ask for less.", {
        details: { outputBytesMax: tool.limits.outputBytesMax },
        cause: error,
      });
    }
    throw new Refusal("INVALID_OUTPUT", "The target's answer is not JSON and was withheld.", { cause: error });
  }
}
