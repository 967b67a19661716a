import { z } from "zod";
import { boundPatterns } from "../../core/schema/linear-patterns.ts";
import type { Json } from "../../core/types.ts";
import { type Frontmatter, readFrontmatter } from "./frontmatter.ts";
import { fileRefusal } from "./refusals.ts";

export interface WorkflowRules {
  readonly stateKey: string;
  readonly schema: z.ZodType;
  /** The next states of each state; undefined when no state may change. */
  readonly transitions: Readonly<Record<string, readonly string[]>> | undefined;
  /** States in which a workflow may start; undefined for any state of the graph. */
  readonly entry: readonly string[] | undefined;
}

export interface WorkflowSettings {
  readonly stateKey: string;
  readonly schema?: Readonly<Record<string, unknown>> | undefined;
  readonly transitions?: Readonly<Record<string, readonly string[]>> | undefined;
  readonly entry?: readonly string[] | undefined;
}

/**
 * Creates the rules.
 *
 * @throws Error when the schema is not valid
 */
export function workflowRules({ stateKey, schema, transitions, entry }: WorkflowSettings): WorkflowRules {
  const read = schema === undefined ? z.record(z.string(), z.unknown()) : z.fromJSONSchema(schema as never);
  const [problem] = boundPatterns("schema", read);
  if (problem !== undefined) throw new Error(`${problem.field}: ${problem.message}`);
  return { stateKey, schema: read, transitions, entry };
}

const ISSUES_MAX = 10;

/**
 * Checks that a workflow may be changed to this text.
 *
 * @param before undefined when there is no workflow yet
 * @throws {Refusal} E_INVALID_FRONTMATTER, E_SCHEMA_VALIDATION, E_INVALID_TRANSITION
 */
export function checkWorkflow(rules: WorkflowRules, before: string | undefined, after: string): void {
  const values = readFrontmatter(after);
  const invalidFields = invalidFieldsOf(rules.schema, values);
  if (invalidFields.length > 0) throw fileRefusal("E_SCHEMA_VALIDATION", { details: { fields: invalidFields } });
  const to = stateOf(rules, values);
  if (to === undefined) throw fileRefusal("E_SCHEMA_VALIDATION", { details: { fields: [rules.stateKey] } });
  const from = before === undefined ? undefined : stateBefore(rules, before);
  if (!isAllowed(rules, from, to)) throw invalidTransition(rules, from);
}

/** Returns the fields that do not fit the schema. A schema also refuses by throwing: patterns have a step limit. */
function invalidFieldsOf(schema: z.ZodType, values: Frontmatter): readonly string[] {
  try {
    const issues = schema.safeParse(values).error?.issues ?? [];
    return [...new Set(issues.slice(0, ISSUES_MAX).map(({ path }) => path.map(String).join(".") || "(top)"))];
  } catch {
    return ["(top)"];
  }
}

function isAllowed({ transitions, entry }: WorkflowRules, from: string | undefined, to: string): boolean {
  if (transitions === undefined) return from === undefined || from === to;
  if (!isKnownState(transitions, to)) return false;
  if (from === to) return true;
  if (from === undefined) return entry === undefined || entry.includes(to);
  return Object.hasOwn(transitions, from) && (transitions[from] ?? []).includes(to);
}

function isKnownState(transitions: Readonly<Record<string, readonly string[]>>, state: string): boolean {
  return Object.hasOwn(transitions, state) || Object.values(transitions).some((next) => next.includes(state));
}

function invalidTransition(
  { transitions, entry }: WorkflowRules,
  before: string | undefined,
): ReturnType<typeof fileRefusal> {
  if (transitions === undefined) {
    const message = "The state cannot change: the configuration holds no graph (workspace.workflow.transitions).";
    return fileRefusal("E_INVALID_TRANSITION", { message });
  }
  const from = before ?? "";
  const following = Object.hasOwn(transitions, from) ? (transitions[from] ?? []) : [];
  const allowed = before === undefined ? (entry ?? Object.keys(transitions)) : following;
  return fileRefusal("E_INVALID_TRANSITION", { details: { allowed } });
}

/** Returns the state before the change. Without a readable one, the workflow starts again. */
function stateBefore(rules: WorkflowRules, before: string): string | undefined {
  try {
    return stateOf(rules, readFrontmatter(before));
  } catch {
    return undefined;
  }
}

function stateOf({ stateKey }: WorkflowRules, values: Frontmatter): string | undefined {
  const state: Json | undefined = Object.hasOwn(values, stateKey) ? values[stateKey] : undefined;
  return typeof state === "string" && state !== "" ? state : undefined;
}
