import type { Fault } from "../../core/errors.ts";
import { freeTextFields } from "../../core/schema/bounds.ts";
import type { CliTarget, Tool } from "../../core/types.ts";
import { argvFault, placesFreeTextSafely } from "./argv.ts";

/** A text that no manifest writes itself, without anything that a manifest might split, fold or escape. */
const PROBE = "stcfreetextprobe7f3a9c";

/** How a tool builds its argv, as far as free text is concerned. */
export interface FreeText {
  /** Paths of the input's free-text fields: `query`, `list[].note`, `map.*`. */
  readonly fields: readonly string[];
  readonly cli: CliTarget["cli"];
  readonly options: readonly string[];
}

export function freeTextOf(tool: Tool, cli: CliTarget["cli"], options: readonly string[]): FreeText {
  return { fields: freeTextFields(tool.input), cli, options };
}

/**
 * Whether this call's free text lands only where no program takes it for an option. The argv is built once more with a probe
 * in its place: the text itself might equal a harmless token by chance.
 */
export function isFreeTextSafe(
  { fields, cli, options }: FreeText,
  input: unknown,
  found: Readonly<Record<string, string>>,
): boolean {
  if (fields.length === 0) return true;
  const probed = fields.reduce((probing, field) => replaceAt(probing, stepsOf(field)), input);
  return placesFreeTextSafely(cli.argsBuilder(probed as never, found), options, [PROBE]);
}

/** Builds the argv of every accepted example, so that a manifest's mistake is found before an agent finds it. */
export function exampleFaults(tool: Tool, text: FreeText): readonly Fault[] {
  // What lookups would find is not known here; their argv is checked when a call is planned.
  if (text.cli.lookups !== undefined) return [];
  return tool.examples.accepts.flatMap((example, index) => {
    const parsed = tool.input.safeParse(example);
    const message = parsed.success ? argvProblem(text, parsed.data) : undefined;
    return message === undefined ? [] : [{ field: `examples.accepts[${index}]`, message }];
  });
}

function argvProblem(text: FreeText, input: unknown): string | undefined {
  try {
    const fault = argvFault([...text.cli.argsBuilder(input as never, {})], text.options);
    if (fault !== undefined) return `target.cli.argsBuilder: ${fault}`;
    if (isFreeTextSafe(text, input, {})) return undefined;
    return 'target.cli.argsBuilder: free text may only stand after "--" or as the value of a declared "--name="';
  } catch {
    return "target.cli.argsBuilder: throws on this example";
  }
}

type Step = "[]" | "*" | string;

function stepsOf(field: string): readonly Step[] {
  return field
    .split(".")
    .flatMap((part) => part.replaceAll("[]", "\0[]").split("\0"))
    .filter((part) => part !== "");
}

/** A copy of the value with every string at the end of the steps replaced by the probe. */
function replaceAt(value: unknown, steps: readonly Step[]): unknown {
  const [step, ...rest] = steps;
  if (step === undefined) return typeof value === "string" ? PROBE : value;
  if (step === "[]") return Array.isArray(value) ? value.map((item) => replaceAt(item, rest)) : value;
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, step === "*" || step === key ? replaceAt(inner, rest) : inner]),
  );
}
