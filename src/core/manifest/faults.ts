import { z } from "zod";
import { errorText } from "../error-text.ts";
import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { hint } from "../nearest.ts";
import { isForOperatorsOnly } from "../operator-permissions.ts";
import { isScalar, unmatchedPatterns } from "../output-policy/output-policy.ts";
import { releaseFaults } from "../output-policy/release-faults.ts";
import { SCAN_LEVELS } from "../output-policy/scan-policy.ts";
import { boundPatterns } from "../schema/linear-patterns.ts";
import { type DeclaredKind, declaredTarget, targetFaults } from "../target-kind.ts";
import { inputJsonSchema, jsonSchemaFaults } from "../tool-formats.ts";
import {
  type ApprovalPolicy,
  type ArgumentBound,
  CATEGORIES,
  CLASSIFICATIONS,
  type OutputFieldPolicy,
  type ToolLimits,
} from "../types.ts";
import {
  isBoolean,
  isFunction,
  isSchema,
  isSynchronous,
  isText,
  type KeyCheck,
  keyFaults,
  listOf,
  oneOf,
  optional,
  type Unchecked,
  unknownKeys,
  unless,
  wholeNumber,
} from "./checks.ts";

type Check = (manifest: Unchecked, kinds: readonly DeclaredKind[]) => readonly Fault[];

/** Names of tools. */
export const TOOL_NAME = /^[a-z][a-z0-9_]{0,63}$/;
const PERMISSION = /^[\x21-\x7e]{1,128}$/;
const TIMEOUT_MS_MAX = 600_000;
const COST_MAX = 1_000_000;
const COST_PARTS = 1_000_000;
/** Limits of a tool whose manifest sets none. */
export const DEFAULT_LIMITS = { outputBytesMax: 1_048_576, concurrentCallsMax: 64 } as const;
const LIMITS = { outputBytesMax: 67_108_864, resultBytesMax: 16_777_216, concurrentCallsMax: 10_000 } as const;
const TITLE_CHARACTERS_MAX = 128;
const DESCRIPTION_CHARACTERS_MAX = 4_096;

/** Characters that a title or a reason must not contain, because it is shown as one line on terminals. */
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

/** Returns all errors in a manifest, each with its field. Empty: the tool may load. */
export function manifestFaults(manifest: unknown, kinds: readonly DeclaredKind[]): readonly Fault[] {
  if (typeof manifest !== "object" || manifest === null) return [{ field: "(manifest)", message: "must be an object" }];
  const unchecked = manifest as Unchecked;
  const faults = CHECKS.flatMap((check) => check(unchecked, kinds));
  // The deep checks traverse schemas and run examples, for which all parts must be valid.
  if (faults.length > 0) return faults;
  // Patterns come first, because later checks run the schemas on texts.
  const unbounded = [
    ...boundPatterns("input", unchecked["input"] as z.ZodType),
    ...boundPatterns("output", unchecked["output"] as z.ZodType),
  ];
  return unbounded.length > 0 ? unbounded : DEEP_CHECKS.flatMap((check) => check(unchecked, kinds));
}

const KEYS = new Set(
  "name title description version classification category permissions input output outputPolicy inputPolicy scan dataFlow approval errors target handler timeoutMs limits idempotent additive cost examples".split(
    " ",
  ),
);

const CHECKS: readonly Check[] = [
  (manifest) =>
    Object.keys(manifest)
      .filter((key) => !KEYS.has(key))
      .map((key) => ({ field: key, message: `is not a field of a manifest${hint(key, KEYS)}` })),
  (manifest) => keyFaults("", manifest, IDENTITY_CHECKS),
  category,
  permissions,
  ({ input }) => inputShape(input),
  outputPolicyShape,
  inputPolicyShape,
  scanShape,
  dataFlowShape,
  targetFaults,
  approvalFaults,
  errors,
  (manifest) => keyFaults("", manifest, RUN_CHECKS),
  additive,
  limits,
];

const IDENTITY_CHECKS: readonly KeyCheck[] = [
  ["name", (name) => isText(name) && TOOL_NAME.test(name), "must match [a-z][a-z0-9_]{0,63}"],
  [
    "title",
    optional((text) => isText(text) && isTitle(text)),
    `must be one line of 1 to ${TITLE_CHARACTERS_MAX} characters, without control or bidirectional characters`,
  ],
  [
    "description",
    (text) => isText(text) && text.trim() !== "" && text.length <= DESCRIPTION_CHARACTERS_MAX,
    `must say in 1 to ${DESCRIPTION_CHARACTERS_MAX} characters what the tool does`,
  ],
  ["version", optional(isText), "must be a string"],
  ["classification", oneOf(CLASSIFICATIONS), "must be read, write or destructive"],
  ["output", isSchema, "must be a Zod schema"],
];

function isTitle(text: string): boolean {
  return text.trim() !== "" && text.length <= TITLE_CHARACTERS_MAX && !CONTROLS.test(text);
}

/** Sums of costs are exact in millionths. */
function isCost(value: unknown): boolean {
  if (typeof value !== "number" || !(value >= 0 && value <= COST_MAX)) return false;
  return Math.round(value * COST_PARTS) / COST_PARTS === value;
}

const RUN_CHECKS: readonly KeyCheck[] = [
  ["timeoutMs", optional(wholeNumber(TIMEOUT_MS_MAX)), `must be a whole number from 1 to ${TIMEOUT_MS_MAX}`],
  ["idempotent", optional(isBoolean), "must be a boolean"],
  ["additive", optional(isBoolean), "must be a boolean"],
  ["cost", optional(isCost), `must be a number from 0 to ${COST_MAX}, with at most six decimal places`],
];

const DEEP_CHECKS: readonly Check[] = [
  ({ input }) => exportFaults("input", input as z.ZodObject, inputJsonSchema),
  ({ output }) => exportFaults("output", output as z.ZodType, (schema) => z.toJSONSchema(schema, { io: "output" })),
  outputPolicyFaults,
  ({ inputPolicy, input }) => (inputPolicy === undefined ? [] : policyFaults("inputPolicy", inputPolicy, input)),
  ({ scan, output }) => (scan === undefined ? [] : policyFaults("scan", scan, output)),
  dataFlowFaults,
  (manifest, kinds) => declaredTarget(manifest, kinds)?.kind.checkInput?.(manifest["input"] as z.ZodType) ?? [],
  grantFaults,
  examples,
];

function errors(manifest: Unchecked, kinds: readonly DeclaredKind[]): readonly Fault[] {
  const { errors: declared } = manifest;
  if (declared === undefined || declared === "withheld") return [];
  if (declared !== "filtered") return [{ field: "errors", message: "must be withheld or filtered" }];
  const target = declaredTarget(manifest, kinds);
  return unless(
    target?.kind.hasErrorText?.(target.part) === true,
    "errors",
    "filtered is for targets that fail with a text of their own, such as gRPC methods and commands",
  );
}

/** Returns the patterns that match no field; when all match, the errors in what the policy releases. */
function outputPolicyFaults({ outputPolicy, output }: Unchecked): readonly Fault[] {
  const unmatched = policyFaults("outputPolicy", outputPolicy, output);
  if (unmatched.length > 0) return unmatched;
  try {
    return releaseFaults({ outputPolicy: outputPolicy as OutputFieldPolicy, output: output as z.ZodType });
  } catch (error) {
    return [{ field: "outputPolicy", message: errorText(error) }];
  }
}

function category(manifest: Unchecked, kinds: readonly DeclaredKind[]): readonly Fault[] {
  const { category: declared, classification } = manifest;
  if (declared === undefined) {
    const kind = declaredTarget(manifest, kinds)?.kind;
    const isDecided = kind === undefined || kind.category(classification === "read") !== undefined;
    return unless(
      isDecided,
      "category",
      `must be declared: a tool of kind ${kind?.key} that is not read has no default`,
    );
  }
  if (!oneOf(CATEGORIES)(declared)) {
    return [{ field: "category", message: "must be read, write, command, network or ask" }];
  }
  const isWeaker = declared === "read" && classification !== "read";
  return unless(!isWeaker, "category", `read is weaker than the classification ${String(classification)}`);
}

function additive({ additive: declared, classification }: Unchecked): readonly Fault[] {
  if (declared !== true || !oneOf(CLASSIFICATIONS)(classification) || classification === "write") return [];
  const does = classification === "read" ? "adds nothing" : "changes or removes what exists";
  return [{ field: "additive", message: `is for classification write: a ${classification} tool ${does}` }];
}

function permissions({ permissions: declared }: Unchecked): readonly Fault[] {
  if (!isTable(declared)) return [{ field: "permissions", message: "must be { required: [...] }" }];
  const faults = [...permissionList("permissions.required", declared["required"])];
  faults.push(...unknownKeys("permissions", declared, ["required", "elevatedIf"]));
  const elevated = declared["elevatedIf"];
  if (elevated === undefined) return faults;
  if (!isTable(elevated) || !isSynchronous(elevated["when"])) {
    return [
      ...faults,
      {
        field: "permissions.elevatedIf",
        message: "must be { when: (input) => boolean, required: [...] }, and when not async",
      },
    ];
  }
  faults.push(...permissionList("permissions.elevatedIf.required", elevated["required"]));
  return [...faults, ...unknownKeys("permissions.elevatedIf", elevated, ["when", "required"])];
}

function permissionList(field: string, list: unknown): readonly Fault[] {
  if (!Array.isArray(list) || list.length === 0) {
    return [{ field, message: "must name at least one permission: every tool needs one" }];
  }
  return list.flatMap((permission, index) => {
    const at = `${field}[${index}]`;
    if (!isText(permission) || !PERMISSION.test(permission)) {
      return [{ field: at, message: "must be 1 to 128 printable ASCII characters without spaces" }];
    }
    return unless(!isForOperatorsOnly(permission), at, `${permission} belongs to operators`);
  });
}

function inputShape(input: unknown): readonly Fault[] {
  if (!isSchema(input)) return [{ field: "input", message: "must be a Zod schema" }];
  const { def } = input._zod;
  if (def.type !== "object")
    return [{ field: "input", message: "must be z.object or z.strictObject: arguments have names" }];
  const catchall = (def as z.core.$ZodObjectDef).catchall;
  const loose = catchall !== undefined && catchall._zod.def.type !== "never";
  return unless(!loose, "input", "must not be loose: arguments that no schema names would reach the target");
}

function limits({ limits: declared }: Unchecked): readonly Fault[] {
  if (declared === undefined) return [];
  if (!isTable(declared)) return [{ field: "limits", message: `must be { ${Object.keys(LIMITS).join("?, ")}? }` }];
  const faults = [
    ...unknownKeys("limits", declared, Object.keys(LIMITS)),
    ...keyFaults(
      "limits",
      declared,
      Object.entries(LIMITS).map(([key, max]) => [
        key,
        optional(wholeNumber(max)),
        `must be a whole number from 1 to ${max}`,
      ]),
    ),
  ];
  const { resultBytesMax, outputBytesMax = DEFAULT_LIMITS.outputBytesMax } = declared as ToolLimits;
  if (faults.length > 0 || resultBytesMax === undefined) return faults;
  return unless(
    resultBytesMax <= outputBytesMax,
    "limits.resultBytesMax",
    `is over limits.outputBytesMax, ${outputBytesMax}`,
  );
}

function examples({ examples: declared, input, permissions: needs, approval: gate }: Unchecked): readonly Fault[] {
  if (declared === undefined) return [];
  if (!isTable(declared)) return [{ field: "examples", message: "must be { accepts?, rejects? }" }];
  const schema = input as z.ZodObject;
  const when = isTable(needs) && isTable(needs["elevatedIf"]) ? needs["elevatedIf"]["when"] : undefined;
  const needsApproval = isTable(gate) ? gate["needsApproval"] : undefined;
  const each = (key: "accepts" | "rejects", faultsOf: (field: string, parsed: Parsed) => readonly Fault[]) =>
    (Array.isArray(declared[key]) ? declared[key] : []).flatMap((example: unknown, index) => {
      const field = `examples.${key}[${index}]`;
      const parsed = parse(schema, example);
      return parsed instanceof Error
        ? [{ field, message: `cannot be checked: ${parsed.message}` }]
        : faultsOf(field, parsed);
    });
  return [
    ...each("accepts", (field, parsed) => {
      if (!parsed.success) {
        const [issue] = parsed.error.issues;
        const path = issue?.path.join(".") || "(top)";
        return [{ field, message: `is refused by the input schema at ${path}: ${issue?.message}` }];
      }
      return [
        ...returnsBoolean(`${field}: permissions.elevatedIf.when`, when, parsed.data),
        ...(isAsync(needsApproval)
          ? []
          : returnsBoolean(`${field}: approval.needsApproval`, needsApproval, parsed.data)),
      ];
    }),
    ...each("rejects", (field, parsed) => unless(!parsed.success, field, "is accepted by the input schema")),
    ...unknownKeys("examples", declared, ["accepts", "rejects"]),
  ];
}

type Parsed = z.ZodSafeParseResult<unknown>;

/** Returns the result of the schema; an error when the schema throws or is asynchronous. */
function parse(schema: z.ZodObject, example: unknown): Parsed | Error {
  try {
    return schema.safeParse(example);
  } catch (error) {
    if (error instanceof z.core.$ZodAsyncError)
      return new Error("the input schema is asynchronous; make it synchronous");
    return error instanceof Error ? error : new Error(String(error));
  }
}

const EXAMPLE_CONTEXT = Object.freeze({
  mode: "default",
  caller: Object.freeze({ issuer: "https://example", subject: "example", permissions: Object.freeze([]) }),
});

/** Returns whether a predicate is asynchronous. It is then called only in real calls, not on examples. */
function isAsync(predicate: unknown): boolean {
  return typeof predicate === "function" && !isSynchronous(predicate);
}

function returnsBoolean(field: string, predicate: unknown, input: unknown): readonly Fault[] {
  if (typeof predicate !== "function") return [];
  try {
    const answer: unknown = predicate(input, EXAMPLE_CONTEXT);
    // Nothing awaits the promise: without a handler, its rejection would end the process.
    if (answer instanceof Promise) answer.catch(() => {});
    return unless(typeof answer === "boolean", field, "must return true or false");
  } catch {
    return [{ field, message: "throws on this example" }];
  }
}

function exportFaults<S extends z.ZodType>(
  field: "input" | "output",
  schema: S,
  exportJson: (schema: S) => unknown,
): readonly Fault[] {
  try {
    const faults = jsonSchemaFaults(field, schema);
    if (faults.length === 0) exportJson(schema);
    return faults;
  } catch (error) {
    const [reason = ""] = errorText(error).split("\n");
    const message = reason.startsWith("Cycle detected")
      ? "must not be recursive: LLM APIs accept no schema that contains itself; write out its levels, or use z.unknown() for any JSON"
      : `cannot be exported as JSON Schema: ${reason}`;
    return [{ field, message }];
  }
}

const MESSAGE_CHARACTERS_MAX = 500;
const SCOPES = ["once", "session"];
const RISKS = ["medium", "high", "critical"];

const APPROVAL_CHECKS: readonly KeyCheck[] = [
  ["required", optional(isBoolean), "must be a boolean"],
  ["needsApproval", optional(isFunction), "must be a function of the input"],
  [
    "message",
    optional((text) => isText(text) && text !== "" && text.length <= MESSAGE_CHARACTERS_MAX),
    `must be a text of at most ${MESSAGE_CHARACTERS_MAX} characters`,
  ],
  ["scopes", optional(listOf(oneOf(SCOPES))), `must be a list of ${SCOPES.join(", ")}`],
  ["risk", optional(oneOf(RISKS)), `must be one of ${RISKS.join(", ")}: a manifest raises a risk and never lowers it`],
];

function approvalFaults({ approval: declared, category, handler }: Unchecked): readonly Fault[] {
  if (declared === undefined) return [];
  if (!isTable(declared)) {
    return [
      {
        field: "approval",
        message: "must be { required?, needsApproval?, message?, scopes?, grants?, risk?, answer? }",
      },
    ];
  }
  const { answer, grants } = declared;
  return [
    ...unknownKeys("approval", declared, [...APPROVAL_CHECKS.map(([key]) => key), "answer", "grants"]),
    ...keyFaults("approval", declared, APPROVAL_CHECKS),
    ...(answer === undefined ? [] : answerFaults(answer, category === "ask" && isFunction(handler))),
    ...(grants === undefined ? [] : grantShapeFaults(grants)),
  ];
}

const GRANT_LIMITS = { runsMax: 1_000, minutesMax: 1_440, valuesMax: 100 } as const;
const BOUND = "must be equal, any, { oneOf: [values] } or { min?, max } with numbers";

function grantShapeFaults(grants: unknown): readonly Fault[] {
  if (!isTable(grants)) return [{ field: "approval.grants", message: "must be { runs, minutes, arguments? }" }];
  const { runsMax, minutesMax } = GRANT_LIMITS;
  const { arguments: bounds = {} } = grants;
  const limits: readonly KeyCheck[] = [
    ["runs", wholeNumber(runsMax), `must be a whole number from 1 to ${runsMax}`],
    ["minutes", wholeNumber(minutesMax), `must be a whole number from 1 to ${minutesMax}`],
  ];
  const field = "approval.grants.arguments";
  return [
    ...unknownKeys("approval.grants", grants, ["runs", "minutes", "arguments"]),
    ...keyFaults("approval.grants", grants, limits),
    ...(isTable(bounds)
      ? Object.entries(bounds).flatMap(([name, bound]) => unless(isBound(bound), `${field}.${name}`, BOUND))
      : [{ field, message: "must be a table of bounds by argument" }]),
  ];
}

function isBound(bound: unknown): bound is ArgumentBound {
  if (bound === "equal" || bound === "any") return true;
  if (!isTable(bound)) return false;
  const { oneOf: values, min = 0, max } = bound;
  const keys = Object.keys(bound);
  if (keys.includes("oneOf")) {
    const isShort = Array.isArray(values) && values.length > 0 && values.length <= GRANT_LIMITS.valuesMax;
    return isShort && keys.length === 1 && values.every(isScalar);
  }
  const isRange = keys.every((key) => key === "min" || key === "max");
  return isRange && Number.isFinite(min) && Number.isFinite(max) && Number(min) <= Number(max);
}

/** Checks bounded grants against the rest of the manifest, whose parts are valid. */
function grantFaults({ approval: gate, classification, category, input }: Unchecked): readonly Fault[] {
  const { grants, risk } = (gate ?? {}) as ApprovalPolicy;
  if (grants === undefined) return [];
  const field = "approval.grants";
  const { shape } = input as z.ZodObject;
  return [
    ...unless(classification !== "destructive", field, "is not for destructive tools: each call is approved"),
    ...unless(category !== "ask", field, "is not for category ask: each call is a question of its own"),
    ...unless(risk !== "high" && risk !== "critical", field, `is not for risk ${risk}: each call is approved`),
    ...Object.entries(grants.arguments ?? {}).flatMap(([name, bound]) => {
      const schema = Object.hasOwn(shape, name) ? (shape[name] as z.ZodType) : undefined;
      const path = `${field}.arguments.${name}`;
      if (schema === undefined) {
        return [{ field: path, message: `the input has no such argument${hint(name, Object.keys(shape))}` }];
      }
      const wrong = typeof bound === "string" ? [] : boundValues(bound).filter((value) => !accepts(schema, value));
      return wrong.map((value) => ({ field: path, message: `the input never accepts ${JSON.stringify(value)}` }));
    }),
  ];
}

function boundValues(bound: Exclude<ArgumentBound, string>): readonly unknown[] {
  return "oneOf" in bound ? bound.oneOf : [bound.max];
}

/** Returns whether the schema keeps this value: bounds apply to what it returns. */
function accepts(schema: z.ZodType, value: unknown): boolean {
  try {
    const parsed = schema.safeParse(value);
    return parsed.success && Object.is(parsed.data, value);
  } catch {
    return false;
  }
}

/** The person's answer is passed to a handler function, so the tool must have one. */
function answerFaults(answer: unknown, takesAnswer: boolean): readonly Fault[] {
  if (!isTable(answer)) return [{ field: "approval.answer", message: "must be { choices? }" }];
  return [
    ...unknownKeys("approval.answer", answer, ["choices"]),
    ...keyFaults("approval.answer", answer, [["choices", optional(isFunction), "must be a function of the input"]]),
    ...unless(takesAnswer, "approval.answer", "is for a tool of category ask that is a function (handler)"),
  ];
}

const ACTIONS = ["allow", "mask", "redact"];
/** Length limits of the reason for an `allow` (UTF-16 units). */
const REASON_CHARS = { min: 10, max: 300 } as const;

function outputPolicyShape({ outputPolicy }: Unchecked): readonly Fault[] {
  return policyShape("outputPolicy", outputPolicy, (declared, field) =>
    isTable(declared)
      ? reasonFaults(declared, field)
      : unless(oneOf(ACTIONS)(declared), field, 'must be allow, mask, redact or { action: "allow", reason: "…" }'),
  );
}

function inputPolicyShape({ inputPolicy }: Unchecked): readonly Fault[] {
  if (inputPolicy === undefined) return [];
  return policyShape("inputPolicy", inputPolicy, (declared, field) =>
    unless(oneOf(ACTIONS)(declared), field, "must be allow, mask or redact"),
  );
}

function scanShape({ scan }: Unchecked): readonly Fault[] {
  if (scan === undefined) return [];
  const levels = SCAN_LEVELS.join(", ");
  if (!isTable(scan)) return [{ field: "scan", message: `must map field paths to ${levels}` }];
  return policyShape("scan", scan, (level, field) =>
    unless(oneOf(SCAN_LEVELS)(level), field, `must be one of ${levels}`),
  );
}

const FLOW_PATHS_MAX = 64;

/** The members of `dataFlow`: a list of names, or a list of paths of this schema. */
const FLOW_NOBODY = ["whenEmpty"];
const FLOW_LISTS = {
  reads: { names: ["private", "untrusted"] },
  sends: { names: ["outside"] },
  destinations: { paths: "input" },
  trusted: { paths: "output" },
} as const;

function dataFlowShape({ dataFlow }: Unchecked): readonly Fault[] {
  if (dataFlow === undefined) return [];
  const keys = [...Object.keys(FLOW_LISTS), "nobody"];
  if (!isTable(dataFlow)) return [{ field: "dataFlow", message: `must be { ${keys.join("?, ")}? }` }];
  const lists = Object.entries(FLOW_LISTS).map(([key, list]): KeyCheck => {
    if ("names" in list)
      return [key, optional(listOf(oneOf(list.names))), `must be a list of ${list.names.join(", ")}`];
    const isPaths = (value: unknown): boolean => listOf(isText)(value) && (value as unknown[]).length <= FLOW_PATHS_MAX;
    return [key, optional(isPaths), `must be a list of at most ${FLOW_PATHS_MAX} paths of the ${list.paths} schema`];
  });
  const nobody: KeyCheck = ["nobody", optional(oneOf(FLOW_NOBODY)), `must be ${FLOW_NOBODY.join(" or ")}`];
  return [...unknownKeys("dataFlow", dataFlow, keys), ...keyFaults("dataFlow", dataFlow, [...lists, nobody])];
}

/** Returns the paths that match no argument or no field of the output. */
function dataFlowFaults({ dataFlow, input, output }: Unchecked): readonly Fault[] {
  if (!isTable(dataFlow)) return [];
  const faultsIn = (key: "destinations" | "trusted", schema: unknown): readonly Fault[] =>
    ((dataFlow[key] ?? []) as readonly string[]).flatMap((path, index) =>
      policyFaults(`dataFlow.${key}[${index}]`, { [path]: "allow" }, schema).map(({ field, message }) => ({
        field,
        message: `${message}${message.includes("did you mean") ? "" : hintOfField(path, schema as z.ZodType)}`,
      })),
    );
  return [...faultsIn("destinations", input), ...faultsIn("trusted", output)];
}

/** Returns a hint for a path whose first step is misspelt. */
function hintOfField(path: string, schema: z.ZodType): string {
  const { def } = schema._zod;
  const own = def.type === "object" ? Object.keys((def as z.core.$ZodObjectDef).shape) : [];
  const [first = path] = path.split(/[.[]/, 1);
  return own.includes(first) ? "" : hint(first, own);
}

function policyShape(
  field: string,
  policy: unknown,
  faultsOf: (declared: unknown, field: string) => readonly Fault[],
): readonly Fault[] {
  if (!isTable(policy)) return [{ field, message: 'must map field paths to "allow", "mask" or "redact"' }];
  return Object.entries(policy).flatMap(([path, declared]) => faultsOf(declared, `${field}["${path}"]`));
}

function reasonFaults(declared: Unchecked, field: string): readonly Fault[] {
  const { action, reason } = declared;
  const isValid = isText(reason) && !CONTROLS.test(reason) && isLongEnough(reason.trim());
  return [
    ...unless(action === "allow", `${field}.action`, "must be allow: nothing else needs a reason"),
    ...unless(
      isValid,
      `${field}.reason`,
      `must say in ${REASON_CHARS.min} to ${REASON_CHARS.max} characters, on one line, why this is released`,
    ),
    ...unknownKeys(field, declared, ["action", "reason"]),
  ];
}

function isLongEnough({ length }: string): boolean {
  return length >= REASON_CHARS.min && length <= REASON_CHARS.max;
}

/** Returns the patterns that are malformed or match no field. */
function policyFaults(field: string, policy: unknown, schema: unknown): readonly Fault[] {
  return unmatchedPatterns(policy as Record<string, never>, schema as z.ZodType).map((message) => ({ field, message }));
}

/** The fields of a manifest and their limits, for the description that editors read. */
export const FIELD_RULES = {
  fields: KEYS,
  name: TOOL_NAME,
  permission: PERMISSION,
  classifications: CLASSIFICATIONS,
  categories: CATEGORIES,
  titleCharactersMax: TITLE_CHARACTERS_MAX,
  descriptionCharactersMax: DESCRIPTION_CHARACTERS_MAX,
  messageCharactersMax: MESSAGE_CHARACTERS_MAX,
  timeoutMsMax: TIMEOUT_MS_MAX,
  costMax: COST_MAX,
  limits: LIMITS,
  scopes: SCOPES,
  risks: RISKS,
  grants: GRANT_LIMITS,
  actions: ACTIONS,
  reason: REASON_CHARS,
} as const;
