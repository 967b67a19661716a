import { isTable } from "../../core/json.ts";
import { isStatable, widened } from "../../core/json-schema/widening/widen.ts";
import type { ToolDraft } from "../../core/target-kind.ts";
import { visible } from "../../core/terminal-text.ts";
import type { Json } from "../../core/types.ts";
import { bounded, type Definition } from "./definitions.ts";

/** Drafts of manifests from the definitions of an untrusted server. */

const DESCRIPTION_CHARACTERS_MAX = 1_024;
/** Larger definitions are not repeated in the manifest. */
const DEFINITION_BYTES_MAX = 65_536;

/** The output of a tool without structured content. */
const TEXT: Json = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const NO_INPUT: Json = { type: "object", properties: {} };

export function draftOf({ name, pinned, sha256 }: Definition): ToolDraft {
  const { description, inputSchema, outputSchema, annotations } = pinned;
  const hinted = isTable(annotations) ? annotations : {};
  const repeated = repeatedDefinition(pinned);
  const input = isTable(inputSchema) ? widened("input", inputSchema as Json) : { schema: NO_INPUT, notes: [] };
  const output = isTable(outputSchema) ? widened("output", outputSchema as Json) : { schema: TEXT, notes: [] };
  return {
    name,
    description: shortText(description) || `Calls ${bounded(name)}`,
    // What a server says about its tools can only raise the classification.
    classification: hinted["destructiveHint"] === true ? "destructive" : "write",
    saysReadOnly: hinted["readOnlyHint"] === true,
    hints:
      hinted["readOnlyHint"] === true
        ? ["The server says that this tool only reads. If you trust it in this: classification: read"]
        : [],
    target: {
      mcp: { tool: name, definitionSha256: sha256, ...(repeated === undefined && { definition: pinned as Json }) },
    },
    input: input.schema,
    output: output.schema,
    notes: [...(repeated === undefined ? [] : [repeated]), ...input.notes, ...output.notes],
  };
}

/** Returns a tool that the server lists and no manifest can call. */
export function unusableDraft(name: string, problem: string): ToolDraft {
  return {
    name,
    description: "",
    classification: "write",
    saysReadOnly: false,
    target: {},
    problem,
    input: {},
    output: {},
    hints: [],
    notes: [],
  };
}

/** Returns why the definition is not repeated in the manifest; undefined when it is. */
function repeatedDefinition(pinned: Definition["pinned"]): string | undefined {
  const text = JSON.stringify(pinned);
  const without = "the manifest has only the hash of its definition, because the definition";
  if (visible(text) !== text) {
    return "its definition has invisible characters, and the manifest only its hash: read the description before you use it";
  }
  if (text.length > DEFINITION_BYTES_MAX) return `${without} is larger than ${DEFINITION_BYTES_MAX} bytes`;
  return isStatable(pinned) ? undefined : `${without} has numbers or names that YAML does not keep`;
}

function shortText(text: Json | undefined): string {
  if (typeof text !== "string") return "";
  const line = text.trim().replace(/\s+/g, " ");
  return bounded(line, DESCRIPTION_CHARACTERS_MAX);
}
