import { readFileSync, statSync } from "node:fs";
import { canonical, NotJsonError } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import type { Json } from "../core/types.ts";
import { fit } from "../pipeline/output-bound.ts";
import { assemble } from "../runtime/composition/wiring.ts";
import { wrongUsage } from "./client.ts";
import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { type FilteredAnswer, type FilteredField, filterAnswer, leftOutBySchema } from "./filter-fields.ts";
import { OutputError, print, table } from "./output.ts";
import { printableCell } from "./printable.ts";

export interface FilterOptions extends ConfigurationOptions {
  readonly sample: string;
  readonly json?: boolean;
}

/** The most that any tool may answer, and some room for how a file is written. */
const SAMPLE_BYTES_MAX = 2 * 67_108_864;
/** As for an answer: containers within containers, values. */
const ANSWER_LIMITS = { depthMax: 64, nodesMax: 500_000 } as const;
const ISSUES_MAX = 20;
const LEFT_OUT_MAX = 100;
const CELL_CHARS_MAX = 72;

interface ShownAnswer extends FilteredAnswer {
  /** Whether only a part of it would leave. */
  readonly truncated?: boolean;
}

interface Issue {
  readonly path: string;
  readonly message: string;
}

/** sysexits.h: there is nothing to be read. */
const NO_SAMPLE = 66;

class SampleError extends Error {}

/** The tool would withhold such an answer. */
class Withheld extends Error {
  readonly code: string;
  readonly issues: readonly Issue[];

  constructor(code: string, issues: readonly Issue[]) {
    super([`withheld, ${code}:`, ...issues.map(({ path, message }) => `${path}: ${message}`)].join("\n"));
    this.code = code;
    this.issues = issues;
  }
}

/**
 * `stc filter`: what an agent would see of an answer, and why. The sample is what the tool's output schema reads: a gRPC message as
 * JSON, what a command's parser returns. Nothing runs. Exit 0, 1 when the tool would withhold the answer, 64 no such tool, 66 no such sample.
 */
export async function filter(name: string, { sample, json, ...options }: FilterOptions): Promise<void> {
  const { config } = await configuration(options);
  const parts = await assemble(config);
  try {
    const found = parts.registry.list().find(({ tool }) => tool.name === name);
    if (found === undefined) return wrongUsage(`there is no tool ${printableCell(name)}; \`stc tools\` lists them`);
    const answer = filterSample(found, readSample(sample));
    if (json === true) print.json({ tool: name, ok: true, ...answer, uncovered: uncoveredIn(answer) });
    else show(answer);
  } catch (error) {
    if (error instanceof OutputError) throw error;
    process.exitCode = error instanceof SampleError ? NO_SAMPLE : 1;
    if (json === true && error instanceof Withheld) {
      print.json({ tool: name, ok: false, code: error.code, issues: error.issues });
    } else print.error(error instanceof Error ? shownText(error.message) : String(error));
  } finally {
    await parts.close();
  }
}

function readSample(file: string): unknown {
  try {
    if (statSync(file).size > SAMPLE_BYTES_MAX) throw new Error(`is over ${SAMPLE_BYTES_MAX} bytes`);
    return JSON.parse(readFileSync(file, "utf8")) as unknown;
  } catch (error) {
    const why = error instanceof SyntaxError ? "is not JSON" : String(error instanceof Error ? error.message : error);
    throw new SampleError(`${file}: ${why}`);
  }
}

/** The same steps as for every answer: plain JSON → tool's bound → output schema → output policy → redaction. */
function filterSample({ tool, outputPolicy, scan }: RegisteredTool, sample: unknown): ShownAnswer {
  const { outputBytesMax } = tool.limits;
  try {
    const { value, text } = canonical(sample, { ...ANSWER_LIMITS, bytesMax: SAMPLE_BYTES_MAX });
    const fitted = fit(value, text, { bytesMax: outputBytesMax });
    if (fitted === undefined) throw overLimit(outputBytesMax);
    const { value: raw, isCut } = fitted;
    const parsed = tool.output.safeParse(raw);
    if (!parsed.success && isCut) throw overLimit(outputBytesMax);
    if (!parsed.success) {
      const issues = parsed.error.issues.slice(0, ISSUES_MAX);
      throw new Withheld(
        "INVALID_OUTPUT",
        issues.map(({ path, message }) => ({ path: shownPath(path), message })),
      );
    }
    const answer = filterAnswer({ policy: tool.outputPolicy, compiled: outputPolicy, scan }, parsed.data as Json);
    const leftOut = leftOutBySchema(raw, parsed.data, LEFT_OUT_MAX).map(notInSchema);
    return { ...answer, fields: [...answer.fields, ...leftOut], ...(isCut && { truncated: true }) };
  } catch (error) {
    if (error instanceof NotJsonError && error.reason === "size") throw overLimit(outputBytesMax);
    if (error instanceof NotJsonError) {
      throw new Withheld("INVALID_OUTPUT", [{ path: error.path || "(answer)", message: `not JSON: ${error.reason}` }]);
    }
    if (error instanceof Refusal) throw new Withheld(error.code, [{ path: "(answer)", message: error.message }]);
    throw error;
  }
}

function overLimit(bytesMax: number): Withheld {
  return new Withheld("OUTPUT_TOO_LARGE", [{ path: "(answer)", message: `over ${bytesMax} bytes, and cannot be cut` }]);
}

function notInSchema(path: string): FilteredField {
  return { path, fate: "not in the schema", pattern: undefined, rules: [], value: undefined };
}

function shownPath(path: readonly PropertyKey[]): string {
  const text = path.reduce<string>(
    (before, step) =>
      typeof step === "number" ? `${before}[${step}]` : `${before}${before === "" ? "" : "."}${String(step)}`,
    "",
  );
  return text === "" ? "(answer)" : text;
}

/** The pattern that decided, and the manifest's reason where it gives one. */
function by({ pattern, reason }: FilteredField): string {
  if (pattern === undefined) return "no pattern";
  return printableCell(reason === undefined ? `"${pattern}"` : `"${pattern}", because: ${reason}`);
}

/** Fields that the policy says nothing of. */
function uncoveredIn({ fields }: FilteredAnswer): readonly string[] {
  return fields.filter(({ fate }) => fate === "stripped").map(({ path }) => path);
}

function show(answer: ShownAnswer): void {
  const { truncated, fields, omitted, filteredFields, redactions } = answer;
  const uncovered = uncoveredIn(answer);
  const rows = fields.map((field) => [
    printableCell(field.path === "" ? "(answer)" : field.path),
    field.fate === "hidden" ? `hidden: ${field.rules.join(", ")}` : field.fate,
    by(field),
    field.value === undefined ? "" : clipped(printableCell(JSON.stringify(field.value))),
  ]);
  print.line(table([["FIELD", "WHAT HAPPENS", "BY", "THE AGENT SEES"], ...rows]));
  if (omitted > 0) print.line(`… and ${omitted} more fields`);
  if (uncovered.length > 0) print.line(`no pattern covers: ${printableCell(uncovered.join(", "))}`);
  print.line(`filteredFields: ${printableCell(filteredFields.join(", ")) || "none"}`);
  if (truncated) print.line("truncated: the answer is over the tool's limit; lists and texts were cut");
  const counts = Object.entries(redactions).map(([rule, count]) => `${rule} ${count}`);
  if (counts.length > 0) print.line(`redactions: ${counts.join(", ")}`);
}

function shownText(text: string): string {
  return text.split("\n").map(printableCell).join("\n");
}

function clipped(text: string): string {
  return text.length > CELL_CHARS_MAX ? `${text.slice(0, CELL_CHARS_MAX)}…` : text;
}
