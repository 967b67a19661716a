import { z } from "zod";
import { CATEGORIES, CLASSIFICATIONS, type Tool } from "../core/types.ts";
import { hasCall, SHELL_RULES, type ShellScript } from "../shell-rules/shell-rules.ts";

const NAME_CHARACTERS_MAX = 128;
const CONDITIONS_MAX = 32;
const VALUES_MAX = 256;
const EXAMPLES_MAX = 64;
const FIELD_PARTS_MAX = 16;
const EXAMPLE_CHARACTERS_MAX = 4_096;

const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);
/** The arguments of a tool; for a rule about shell commands, a script. */
const example = z.union([z.record(z.string(), z.unknown()), z.string().min(1).max(EXAMPLE_CHARACTERS_MAX)]);
const text = z.string().min(1).max(NAME_CHARACTERS_MAX);

const listOf = (item: z.ZodString) => z.array(item).min(1).max(VALUES_MAX);

/** Conditions on a call in a shell command. One member of each given list must apply. */
const shellCall = z.strictObject({
  programs: listOf(text.regex(/^[a-z0-9_.[+-]+$/, "must be a program's name in lower case, without a folder")),
  subcommands: listOf(text).optional(),
  options: listOf(text.regex(/^(?:-[A-Za-z0-9]|--[A-Za-z0-9][A-Za-z0-9-]+)$/, "must be -x or --name")).optional(),
  arguments: listOf(text).optional(),
});

const schema = z.strictObject({
  name: z.string().regex(/^[A-Za-z][A-Za-z0-9._-]{0,63}$/, "must be a name of letters, digits, dot, dash, underscore"),
  when: z
    .strictObject({
      tool: text.optional(),
      category: z.enum(CATEGORIES).optional(),
      system: text.optional(),
      classification: z.enum(CLASSIFICATIONS).optional(),
      args: z
        .record(text, z.union([scalar, z.array(scalar).min(1).max(VALUES_MAX)]))
        .refine((fields) => Object.keys(fields).length <= CONDITIONS_MAX, `names more than ${CONDITIONS_MAX} fields`)
        .optional(),
      shell: shellCall.optional(),
    })
    .refine((conditions) => Object.keys(conditions).length > 0, "must name at least one condition")
    .refine(({ args, shell }) => args === undefined || shell === undefined, "must not name both args and shell"),
  verdict: z.enum(["ask", "deny"]),
  risk: z.enum(["medium", "high", "critical"]).optional(),
  examples: z
    .strictObject({
      matches: z.array(example).max(EXAMPLES_MAX).default([]),
      misses: z.array(example).max(EXAMPLES_MAX).default([]),
    })
    .prefault({}),
});

/** A rule of the operators. It can forbid a call or require approval, never allow one. */
export type OperatorRule = z.output<typeof schema>;

/** Reads the operators' rules. Problems begin with the field: `[0].when: …`. The examples of a rule must agree with it. */
export function readOperatorRules(written: readonly unknown[]): {
  readonly rules: readonly OperatorRule[];
  readonly problems: readonly string[];
} {
  const rules: OperatorRule[] = [];
  const problems: string[] = [];
  for (const [index, value] of written.entries()) {
    if (namesPrototype(value)) {
      // Zod drops this key and with it the condition: the rule would match every call.
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
  const check = (list: "matches" | "misses") =>
    rule.examples[list].flatMap((example, index) => {
      const isScript = typeof example === "string";
      if (isScript !== (rule.when.shell !== undefined))
        return [`${list}[${index}]: must be ${isScript ? "the arguments of a tool" : "a shell script"}`];
      const isMatch = isScript
        ? matchesScript(rule, SHELL_RULES.read(example, EXAMPLE_DIRECTORIES))
        : matchesArgs(rule, example);
      if (isMatch === (list === "matches")) return [];
      return [`${list}[${index}]: is ${isMatch ? "" : "not "}matched by the rule`];
    });
  return [...check("matches"), ...check("misses")];
}

const EXAMPLE_DIRECTORIES = { cwd: undefined, home: undefined };

/** Returns whether a rule is about this tool, whatever the arguments. */
export function concerns({ when }: OperatorRule, tool: Tool): boolean {
  return (
    (when.tool === undefined || when.tool === tool.name) &&
    (when.category === undefined || when.category === tool.category) &&
    (when.system === undefined || when.system === tool.target.system) &&
    (when.classification === undefined || when.classification === tool.classification)
  );
}

/** Returns whether the arguments contain, in every field that the rule names, one of its values. */
export function matchesArgs({ when }: OperatorRule, input: unknown): boolean {
  return Object.entries(when.args ?? {}).every(([field, wanted]) => {
    const values: readonly unknown[] = Array.isArray(wanted) ? wanted : [wanted];
    return valuesAt(input, field).some((value) => values.includes(value));
  });
}

/** Placeholder for an argument whose value is not known. */
export const HIDDEN: unique symbol = Symbol("hidden");

/** Like `matchesArgs`, for arguments of which some are `HIDDEN`: undefined when those decide. */
export function matchesShown({ when }: OperatorRule, shown: unknown): boolean | undefined {
  if (shown === HIDDEN) return when.args === undefined ? true : undefined;
  const conditions = Object.entries(when.args ?? {}).map(([field, wanted]) => {
    const accepted: readonly unknown[] = Array.isArray(wanted) ? wanted : [wanted];
    const values = valuesAt(shown, field);
    if (values.some((value) => accepted.includes(value))) return true;
    return values.includes(HIDDEN) ? undefined : false;
  });
  if (conditions.includes(false)) return false;
  return conditions.includes(undefined) ? undefined : true;
}

/** Returns whether one call of a script fulfils the conditions of the rule. */
export function matchesScript({ when: { shell } }: OperatorRule, script: ShellScript): boolean {
  return shell !== undefined && hasCall(script, shell);
}

/** Returns the values of a dotted field: all elements of a list. A key that contains dots is a field as well. */
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
