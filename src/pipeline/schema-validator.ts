import type { z } from "zod";
import { Refusal } from "../core/errors.ts";
import { mint, type Parsed, type WithinRate } from "../core/evidence.ts";
import { kindAt } from "../core/json.ts";
import { element } from "../core/output-policy/field-path.ts";
import { type CompiledPolicy, shownPath } from "../core/output-policy/output-policy.ts";
import { withoutAbsentNulls } from "../core/schema/absent-nulls.ts";
import { type PlainRead, plainReader, unread } from "../core/schema/plain-reader.ts";
import { shownKey, violationText } from "../core/schema/violation-text.ts";
import type { Json, Tool } from "../core/types.ts";

const ISSUES_MAX = 20;
const PATH_CHARACTERS_MAX = 128;
const MESSAGE_CHARACTERS_MAX = 240;
/** Limits the text of an issue, and of all issues together. */
const ISSUE_CHARACTERS_MAX = 400;
const ISSUES_CHARACTERS_MAX = 6_000;
const FIELDS_CHARACTERS_MAX = 512;

/** Receives the arguments without the nulls that mean "absent", when they had any. */
export interface SentArguments {
  readAs(args: Json): void;
}

/** @throws {Refusal} INVALID_INPUT naming each field */
export function parseInput(limited: WithinRate, args: unknown, sent?: SentArguments): Parsed {
  return mint<Parsed>({ ...limited, input: readInput(limited.tool, args, sent) });
}

/**
 * Parses the arguments with the tool's input schema. Every endpoint delivers plain JSON. Later stages see only what the schema
 * returns. Arguments that the schema refuses are read again without the nulls that mean "absent".
 *
 * @throws {Refusal} INVALID_INPUT naming each field
 */
export function readInput(tool: Tool, args: unknown, sent?: SentArguments): unknown {
  const plain = readPlain(tool, "input", args as Json);
  if (plain !== unread) return deepFreeze(plain);
  const asSent = parse(tool.input, args, violationText);
  if (asSent.success) return deepFreeze(asSent.data);
  const present = args === undefined ? args : withoutAbsentNulls(tool.input, args as Json);
  const parsed = present === args ? asSent : parse(tool.input, present, violationText);
  if (parsed.success) {
    sent?.readAs(present as Json);
    return deepFreeze(parsed.data);
  }
  if ("threw" in parsed) {
    throw new Refusal("INVALID_INPUT", "The arguments do not match the tool's input schema.", {
      cause: new Error(`input schema of ${tool.name}: threw ${parsed.threw}`),
    });
  }
  const issues = describe(parsed.error);
  const fields = fieldsOf(issues, parsed.error.issues.length - issues.length);
  throw new Refusal("INVALID_INPUT", `The arguments do not match the tool's input schema: ${fields}.`, {
    details: { issues },
  });
}

/**
 * Parses the handler's answer with the output schema. The agent learns only that the answer did not fit.
 *
 * @throws {Refusal} INVALID_OUTPUT with the fields in the cause
 */
export function parseOutput(tool: Tool, answer: Json, policy: CompiledPolicy): unknown {
  const plain = readPlain(tool, "output", answer);
  if (plain !== unread) return plain;
  const parsed = parse(tool.output, answer);
  if (parsed.success) return parsed.data;
  const reason = "threw" in parsed ? `threw ${parsed.threw}` : mismatches(parsed.error, answer, policy);
  throw new Refusal("INVALID_OUTPUT", "The target's answer does not have the declared shape and was withheld.", {
    cause: new Error(`output schema of ${tool.name}: ${reason}`),
  });
}

interface Threw {
  readonly success: false;
  /** The class of the exception only: its message may quote the value. */
  readonly threw: string;
}

/** Parses a value. A schema that throws, such as an intersection whose sides conflict, has rejected the value. */
function parse(
  schema: z.ZodType,
  value: unknown,
  error?: (violation: z.core.$ZodRawIssue) => string,
): z.ZodSafeParseResult<unknown> | Threw {
  try {
    return schema.safeParse(value, error && { error });
  } catch (error) {
    return { success: false, threw: error instanceof Error ? error.name : typeof error };
  }
}

/**
 * Describes each mismatch for the operator: the expectation and the kind of the value. Contains neither the value nor a key that
 * is data.
 */
function mismatches(error: z.ZodError, answer: Json, policy: CompiledPolicy): string {
  const fields = error.issues.slice(0, ISSUES_MAX).map((issue) => {
    const steps = issue.path.map((part) => (typeof part === "number" ? element : String(part)));
    const path = shownPath(policy, steps).slice(0, PATH_CHARACTERS_MAX) || "(answer)";
    const got = issue.code === "unrecognized_keys" ? `${issue.keys.length} more` : kindAt(answer, issue.path);
    return `${path}: ${expectation(issue)}, got ${got}`.slice(0, MESSAGE_CHARACTERS_MAX);
  });
  return fields.join("; ");
}

/** Describes the expectation in the schema's terms: an issue's own message may come from the manifest and quote the value. */
function expectation(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return `expected ${issue.expected}`;
    case "invalid_value":
      return `expected one of ${issue.values.map((value) => JSON.stringify(String(value))).join(", ")}`;
    case "invalid_format":
      return `expected the format ${issue.format}`;
    case "too_small":
      return `expected ${issue.origin} of at least ${issue.minimum}`;
    case "too_big":
      return `expected ${issue.origin} of at most ${issue.maximum}`;
    case "unrecognized_keys":
      return "expected no other keys";
    default:
      return issue.code;
  }
}

interface PlainReads {
  readonly input: PlainRead | undefined;
  readonly output: PlainRead | undefined;
}

/** Fast readers of the schemas that only check and never transform. */
const plainReads = new WeakMap<Tool, PlainReads>();

/** Returns the schema's result for the value; `unread` when the schema itself must parse it. */
function readPlain(tool: Tool, side: keyof PlainReads, value: Json): Json | typeof unread {
  let reads = plainReads.get(tool);
  if (reads === undefined) {
    reads = { input: plainReader(tool.input), output: plainReader(tool.output) };
    plainReads.set(tool, reads);
  }
  try {
    return reads[side]?.(value) ?? unread;
  } catch {
    // A pattern throws when a text needs too many steps. The schema would throw too; `parse` handles that.
    return unread;
  }
}

interface Issue {
  readonly path: string;
  readonly message: string;
}

/** Returns the violations, bounded, without the values that were sent. */
function describe(error: z.ZodError): readonly Issue[] {
  const issues: Issue[] = [];
  let characters = 0;
  for (const issue of error.issues.slice(0, ISSUES_MAX)) {
    const path = issue.path.map((part) => shownKey(part, PATH_CHARACTERS_MAX)).join(".");
    const described = {
      path: (path || "(arguments)").slice(0, PATH_CHARACTERS_MAX),
      message: issue.message.slice(0, ISSUE_CHARACTERS_MAX),
    };
    characters += described.path.length + described.message.length;
    if (characters > ISSUES_CHARACTERS_MAX) break;
    issues.push(described);
  }
  return issues;
}

/** Returns the fields of the issues for a sentence, and how many more issues there are. */
function fieldsOf(issues: readonly Issue[], more: number): string {
  const fields: string[] = [];
  let characters = 0;
  for (const field of new Set(issues.map(({ path }) => path))) {
    characters += field.length + 2;
    if (characters > FIELDS_CHARACTERS_MAX) return `${fields.join(", ")} and others`;
    fields.push(field);
  }
  return more > 0 ? `${fields.join(", ")} (${more} more not shown)` : fields.join(", ");
}

/**
 * Freezes a value deeply and replaces -0 by 0. JSON knows only one zero, so an approval of 0 also approves -0: no handler
 * receives -0.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  // Freezing an array of bytes throws.
  if (ArrayBuffer.isView(value)) return value;
  for (const key of Object.keys(value)) {
    const inner: unknown = value[key as keyof typeof value];
    if (Object.is(inner, -0)) Reflect.set(value, key, 0);
    else deepFreeze(inner);
  }
  return Object.freeze(value);
}
