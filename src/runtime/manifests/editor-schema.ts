import { z } from "zod";
import { keywordsDescribed } from "../../core/json-schema/schema.ts";
import { FIELD_RULES } from "../../core/manifest/faults.ts";
import { SCAN_LEVELS } from "../../core/output-policy/scan-policy.ts";
import type { DeclaredKind } from "../../core/target-kind.ts";
import type { Json } from "../../core/types.ts";

const text = z.string();
const schemaReference = { $ref: "#/definitions/schema" } as const;

function limit(key: keyof typeof FIELD_RULES.limits, meaning: string) {
  return z.int().min(1).max(FIELD_RULES.limits[key]).optional().describe(meaning);
}

const examples = z.array(z.unknown()).optional();

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);

const grants = z.strictObject({
  runs: z.int().min(1).max(FIELD_RULES.grants.runsMax).describe("Most runs, the approved call included."),
  minutes: z.int().min(1).max(FIELD_RULES.grants.minutesMax).describe("Longest time from the approval."),
  arguments: z
    .record(
      text,
      z.union([
        z.literal("equal").describe("As in the approved call."),
        z.literal("any").describe("Any value that the input accepts, or none."),
        z.strictObject({ oneOf: z.array(scalar).min(1).max(FIELD_RULES.grants.valuesMax).describe("One of these.") }),
        z.strictObject({
          min: z.number().optional().describe("Smallest number; 0 when left out."),
          max: z.number().describe("Largest number."),
        }),
      ]),
    )
    .optional()
    .describe("Bounds by argument. An argument without one must be as in the approved call."),
});

const FIELDS = z.strictObject({
  name: text.regex(FIELD_RULES.name).describe("Name under which agents call the tool."),
  title: text
    .min(1)
    .max(FIELD_RULES.titleCharactersMax)
    .optional()
    .describe("Name for people; without it, the name in words."),
  description: text
    .min(1)
    .max(FIELD_RULES.descriptionCharactersMax)
    .describe("What the tool does, for the model that chooses it. The first word should be a verb."),
  version: text.optional().describe("Version of the manifest."),
  classification: z
    .enum(FIELD_RULES.classifications)
    .describe("How far the tool can change state: `read`, `write`, or `destructive`, which always asks a person."),
  category: z.enum(FIELD_RULES.categories).optional().describe("Kind of action, for the approval gate."),
  permissions: z
    .strictObject({
      required: z.array(text.regex(FIELD_RULES.permission)).min(1).describe("A caller needs all of them."),
    })
    .describe("Permissions of callers."),
  target: z.unknown(),
  input: z.unknown(),
  output: z.unknown(),
  outputPolicy: z
    .record(
      text,
      z.union([
        z.enum(FIELD_RULES.actions),
        z.strictObject({
          action: z.literal("allow").describe("Releases a field whose name indicates a secret or personal data."),
          reason: text
            .min(FIELD_RULES.reason.min)
            .max(FIELD_RULES.reason.max)
            .describe("Why that is right, for reviewers."),
        }),
      ]),
    )
    .nullable()
    .describe("What agents get of each field, by path: `customer.email`, `items[].name`. Other fields are left out."),
  inputPolicy: z
    .record(text, z.enum(FIELD_RULES.actions))
    .optional()
    .describe("What the audit may contain of each argument, by path."),
  scan: z
    .record(text, z.enum(SCAN_LEVELS))
    .optional()
    .describe("How strictly released text is scanned for secrets and personal data, by path."),
  dataFlow: z
    .strictObject({
      reads: z
        .array(z.enum(["private", "untrusted"]))
        .optional()
        .describe("What the answers hold."),
      sends: z
        .array(z.enum(["outside"]))
        .optional()
        .describe("Whether the tool sends its arguments to somebody outside."),
      destinations: z.array(text).optional().describe("Paths of the arguments that say where something goes."),
      nobody: z
        .enum(["whenEmpty"])
        .optional()
        .describe("`whenEmpty`: a call without any destination sends to nobody. Left out: it sends outside."),
      trusted: z.array(text).optional().describe("Paths of the output whose values the system vouches for."),
    })
    .optional()
    .describe("How data flows through the tool. What is left out follows from the tool's kind, category and input."),
  approval: z
    .strictObject({
      required: z.boolean().optional().describe("Every call needs a person's approval."),
      message: text.min(1).max(FIELD_RULES.messageCharactersMax).optional().describe("Text for the approver."),
      scopes: z.array(z.enum(FIELD_RULES.scopes)).optional().describe("Scopes that an approval may have."),
      grants: grants.optional().describe("Offers approvers grants for several calls. Without it, there are none."),
      risk: z.enum(FIELD_RULES.risks).optional().describe("Raises the risk of every call."),
    })
    .optional()
    .describe("When people are asked, and with which text."),
  errors: z
    .enum(["withheld", "filtered"])
    .optional()
    .describe("Whether agents get the filtered text of the target's failures."),
  timeoutMs: z.int().min(1).max(FIELD_RULES.timeoutMsMax).optional().describe("Milliseconds for a call."),
  limits: z
    .strictObject({
      outputBytesMax: limit("outputBytesMax", "Bytes of the target's answer."),
      resultBytesMax: limit("resultBytesMax", "Bytes of an answer over MCP."),
      concurrentCallsMax: limit("concurrentCallsMax", "Calls at once."),
    } satisfies Readonly<Record<keyof typeof FIELD_RULES.limits, z.ZodType>>)
    .optional()
    .describe("Limits of calls and their answers."),
  idempotent: z.boolean().optional().describe("True when repeating the same call does no harm."),
  additive: z
    .boolean()
    .optional()
    .describe("True when calls only add, and never change or remove what exists. For classification write."),
  cost: z
    .number()
    .min(0)
    .max(FIELD_RULES.costMax)
    .optional()
    .describe("What one call counts in quotas of cost, in a unit that the operators choose."),
  examples: z
    .strictObject({
      accepts: examples.describe("Arguments that the input must accept."),
      rejects: examples.describe("Arguments that the input must refuse."),
    })
    .optional()
    .describe("Arguments that are checked against the input when the tool is loaded."),
});

/** Returns the JSON Schema (draft 7) of data-only manifests, for editors. It is derived from what the loader checks. */
export function editorSchema(kinds: readonly DeclaredKind[]): Json {
  const { properties, ...top } = jsonSchemaOf(FIELDS);
  const targets = kinds.flatMap(({ key, data }) => {
    if (data === false) return [];
    const part = data === undefined ? { type: "object" } : jsonSchemaOf(data);
    const system = { type: "string", description: "Name of the system in the configuration." };
    const target = { type: "object", properties: { system, [key]: part }, required: ["system", key] };
    return [{ ...target, additionalProperties: false }];
  });
  const described: Readonly<Record<string, Json>> = {
    target: { description: "What the tool reaches.", oneOf: targets },
    input: {
      ...schemaReference,
      description: "JSON Schema of the arguments. Arguments that it does not name are refused.",
    },
    output: {
      ...schemaReference,
      description: "JSON Schema of the target's answer. Fields that it does not name are left out.",
    },
  };
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: "Tool of Safe Tool Call",
    ...top,
    properties: { ...properties, ...described },
    definitions: {
      schema: {
        anyOf: [
          { type: "boolean" },
          {
            type: "object",
            properties: keywordsDescribed(schemaReference),
            patternProperties: { "^x-": {} },
            additionalProperties: false,
          },
        ],
      },
    },
  };
}

export function jsonSchemaOf(
  schema: z.ZodType,
): Readonly<Record<string, Json>> & { readonly properties: Readonly<Record<string, Json>> } {
  const { $schema: _, ...exported } = z.toJSONSchema(schema, {
    io: "input",
    target: "draft-7",
    unrepresentable: "any",
    override: ({ jsonSchema }) => describeKeys(jsonSchema),
  });
  return exported as ReturnType<typeof jsonSchemaOf>;
}

/** Describes the keys of a table by patterns: for `propertyNames`, a YAML editor takes the key `404` for a number. */
export function describeKeys(jsonSchema: z.core.JSONSchema.BaseSchema): void {
  const { propertyNames, additionalProperties } = jsonSchema;
  if (typeof propertyNames !== "object") return;
  delete jsonSchema.propertyNames;
  if (propertyNames.pattern === undefined) return;
  jsonSchema.patternProperties = { [propertyNames.pattern]: additionalProperties ?? {} };
  jsonSchema.additionalProperties = false;
}
