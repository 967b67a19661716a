import { z } from "zod";
import type { Tool } from "../../core/types.ts";

const NAME_CHARACTERS_MAX = 128;
const CONDITIONS_MAX = 32;
const VALUES_MAX = 256;
const EXAMPLES_MAX = 64;
const FIELD_PARTS_MAX = 16;

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const example = z.record(z.string(), z.unknown());
const text = z.string().min(1).max(NAME_CHARACTERS_MAX);

const schema = z.strictObject({
  name: z.string().regex(/^[A-Za-z][A-Za-z0-9._-]{0,63}$/, "must be a name of letters, digits, dot, dash, underscore"),
  when: z
    .strictObject({
      tool: text.optional(),
      category: z.enum(["read", "write", "command", "network", "ask"]).optional(),
      system: text.optional(),
      classification: z.enum(["read", "write", "destructive"]).optional(),
      args: z
        .record(text, z.union([scalar, z.array(scalar).min(1).max(VALUES_MAX)]))
        .refine((fields) => Object.keys(fields).length <= CONDITIONS_MAX, `names more than ${CONDITIONS_MAX} fields`)
        .optional(),
    })
    .refine((conditions) => Object.keys(conditions).length > 0, "must name at least one condition"),
  verdict: z.enum(["ask", "deny"]),
  risk: z.enum(["medium", "high", "critical"]).optional(),
  examples: z
    .strictObject({
      matches: z.array(example).max(EXAMPLES_MAX).default([]),
      misses: z.array(example).max(EXAMPLES_MAX).default([]),
    })
    .prefault({}),
});

/** A rule of the operators. It can forbid a call or make it ask, never the other way round. */
export type OperatorRule = z.output<typeof schema>;

/**
 * Reads what operators wrote. Problems begin with where they are: `[0].when: …`. A rule whose own examples say otherwise than it
 * does is none.
 */
export function readOperatorRules(written: readonly unknown[]): {
  readonly rules: readonly OperatorRule[];
  readonly problems: readonly string[];
} {
  const rules: OperatorRule[] = [];
  const problems: string[] = [];
  for (const [index, value] of written.entries()) {
    if (namesPrototype(value)) {
      // Zod drops such a key, and with it the condition: the rule would be about every call.
      problems.push(`[${index}].when.args: __proto__ is no field of any tool`);
      continue;
    }
    const parsed = schema.safeParse(value);
    if (!parsed.success) {
      problems.push(...parsed.error.issues.map(({ path, message }) => `[${index}]${fieldOf(path)}: ${message}`));
      continue;
    }
    problems.push(...exampleProblems(parsed.data).map((problem) => `[${index}].examples.${problem}`));
    if (rules.some(({ name }) => name === parsed.data.name))
      problems.push(`[${index}].name: is taken by an earlier rule`);
    rules.push(parsed.data);
  }
  return { rules, problems };
}

function namesPrototype(value: unknown): boolean {
  const args = ownMember(ownMember(value, "when"), "args");
  return typeof args === "object" && args !== null && Object.hasOwn(args, "__proto__");
}

function fieldOf(path: readonly PropertyKey[]): string {
  return path.map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`)).join("");
}

function exampleProblems(rule: OperatorRule): readonly string[] {
  const { matches, misses } = rule.examples;
  return [
    ...matches.flatMap((args, index) =>
      matchesArgs(rule, args) ? [] : [`matches[${index}]: is not matched by the rule`],
    ),
    ...misses.flatMap((args, index) => (matchesArgs(rule, args) ? [`misses[${index}]: is matched by the rule`] : [])),
  ];
}

/** Whether a rule is about this tool, whatever the arguments. */
export function concerns({ when }: OperatorRule, tool: Tool): boolean {
  return (
    (when.tool === undefined || when.tool === tool.name) &&
    (when.category === undefined || when.category === tool.category) &&
    (when.system === undefined || when.system === tool.target.system) &&
    (when.classification === undefined || when.classification === tool.classification)
  );
}

/** Whether the arguments hold, in every field that the rule names, one of its values. */
export function matchesArgs({ when }: OperatorRule, input: unknown): boolean {
  return Object.entries(when.args ?? {}).every(([field, wanted]) => {
    const values: readonly unknown[] = Array.isArray(wanted) ? wanted : [wanted];
    return valuesAt(input, field).some((value) => values.includes(value));
  });
}

/** What stands in a dotted field; of a list, each of its elements. A key with dots in it is a field as well. */
function valuesAt(input: unknown, field: string): readonly unknown[] {
  const own = ownMember(input, field);
  if (own !== undefined) return Array.isArray(own) ? own : [own];
  let found: readonly unknown[] = [input];
  for (const part of field.split(".", FIELD_PARTS_MAX)) {
    found = found.flatMap((value) => {
      const member = ownMember(value, part);
      if (member === undefined) return [];
      return Array.isArray(member) ? (member as readonly unknown[]) : [member];
    });
  }
  return found;
}

function ownMember(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Readonly<Record<string, unknown>>)[key];
}
