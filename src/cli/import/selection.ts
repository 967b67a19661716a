import { errorText } from "../../core/error-text.ts";
import { TOOL_NAME } from "../../core/manifest/faults.ts";
import { hint } from "../../core/nearest.ts";
import { printableCell } from "../../core/printable.ts";
import type { Json } from "../../core/types.ts";
import { EXIT, print, table, wrongUsage } from "../output.ts";
import { type Made, writeManifest } from "./manifest-text.ts";

/** What all imports do with the operations or methods of a system: choose some, list them, write their manifests, report. */

export interface SelectionOptions {
  readonly list?: boolean;
  readonly all?: boolean;
  readonly out?: string;
  readonly json?: boolean;
}

/** Something that a system offers, which can become a tool. Its texts are the system's. */
export interface ImportItem {
  /** Name of the tool. */
  readonly tool: string;
  /** What an author may call it besides the tool's name. The first is shown. */
  readonly names: readonly string[];
  /** Whether the command's filters select it. */
  readonly isWanted: boolean;
  /** Its columns in a list. */
  readonly cells: readonly string[];
  /** A word about it for the last column. */
  readonly remark: string;
  /** Its members in JSON: which one it is, and further facts for a list. */
  readonly key: Readonly<Record<string, Json>>;
  readonly facts: Readonly<Record<string, Json>>;
  /** Returns why it cannot be imported, as far as that is known without writing its manifest. */
  readonly problem: () => string | undefined;
  /** Notes for the author of the draft. */
  readonly notes?: readonly string[];
  readonly make: (tool: string) => Made;
}

interface Words {
  /** One of those that are offered: `operation`. */
  readonly noun: string;
  /** What offers them: `the document`. */
  readonly source: string;
  readonly columns: readonly string[];
  readonly advice: {
    /** What to write when several have a name. */
    readonly several: string;
    /** The options that filter. */
    readonly filters: string;
  };
}

interface Selection extends SelectionOptions {
  readonly wanted: readonly string[];
  readonly isFiltered: boolean;
}

/** Returns the pairs of an option whose values are `name=value`. @throws {CommandError} */
export function pairsOf(option: string, pairs: readonly string[] = []): ReadonlyMap<string, string> {
  const read = new Map<string, string>();
  for (const pair of pairs) {
    const at = pair.indexOf("=");
    const name = pair.slice(0, at);
    if (at < 1) return wrongUsage(`${option} ${printableCell(pair)}: write name=value`);
    if (read.has(name)) return wrongUsage(`${option} ${printableCell(name)}: given twice`);
    read.set(name, pair.slice(at + 1));
  }
  return read;
}

/** Returns the items with the names that the author gives their tools. @throws {CommandError} */
export function renamed(
  items: readonly ImportItem[],
  { noun, source }: Pick<Words, "noun" | "source">,
  pairs: readonly string[] | undefined,
): readonly ImportItem[] {
  const names = new Map<ImportItem, string>();
  for (const [old, name] of pairsOf("--rename", pairs)) {
    const [item, another] = items.filter(({ tool, names: known }) => tool === old || known.includes(old));
    if (item === undefined) return wrongUsage(`${source} has no ${noun} ${printableCell(old)}, given with --rename`);
    if (another !== undefined)
      return wrongUsage(`several ${noun}s are called ${printableCell(old)}, given with --rename`);
    const isTaken = items.some(({ tool }) => tool === name) || [...names.values()].includes(name);
    if (isTaken) return wrongUsage(`--rename: another tool is called ${printableCell(name)}`);
    if (!TOOL_NAME.test(name))
      return wrongUsage(`--rename ${printableCell(name)}: a tool's name is ${TOOL_NAME_WORDS}`);
    names.set(item, name);
  }
  return items.map((item) => {
    const name = names.get(item);
    return name === undefined ? item : { ...item, tool: name, names: [...item.names, item.tool] };
  });
}

const TOOL_NAME_WORDS = "lower-case letters, digits and _, at most 64, with a letter first";

/** Lists those that were chosen, or writes their manifests. Sets the exit code. */
export function importSelected(offered: readonly ImportItem[], words: Words, selection: Selection): void {
  const { wanted, isFiltered, all = false, list = false, out, json = false } = selection;
  const { noun, advice } = words;
  if (wanted.length === 0 && !isFiltered && !all && !list) {
    wrongUsage(`name ${noun}s, or give ${advice.filters} or --all; --list lists them`);
  }
  const chosen = chosenOf(offered, wanted, words).filter(({ isWanted }) => isWanted);
  if (list) {
    if (json) listJson(chosen, noun);
    else listTable(chosen, words.columns);
    return;
  }
  const folder = out ?? wrongUsage("--out is missing: where are the manifests written?");
  report(
    chosen.map((each) => ({
      key: each.key,
      tool: each.tool,
      names: each.names,
      notes: each.notes ?? [],
      ...written(each, folder),
    })),
    noun,
    json,
  );
}

/** @throws {CommandError} for a text that names nothing, or several */
function chosenOf(
  offered: readonly ImportItem[],
  wanted: readonly string[],
  { noun, source, advice }: Words,
): readonly ImportItem[] {
  if (wanted.length === 0) return offered;
  const problems: string[] = [];
  const found = wanted.flatMap((text) => {
    const same = offered.filter(({ tool, names }) => tool === text || names.includes(text));
    if (same.length > 1) problems.push(`several ${noun}s are called ${printableCell(text)}: ${advice.several}`);
    if (same.length === 0) {
      const known = offered.map(({ names: [name = ""] }) => name);
      problems.push(`${source} has no ${noun} ${printableCell(text)}${printableCell(hint(text, known))}`);
    }
    return same;
  });
  return problems.length > 0 ? wrongUsage(...problems) : [...new Set(found)];
}

function listJson(chosen: readonly ImportItem[], noun: string): void {
  const rows = chosen.map(({ key, facts, tool, problem: problemOf }) => {
    const problem = problemOf();
    return { ...key, ...facts, tool, ...(problem !== undefined && { problem }) };
  });
  print.json({ [`${noun}s`]: rows });
}

function listTable(chosen: readonly ImportItem[], columns: readonly string[]): void {
  const lines = chosen.map(({ cells, remark, problem: problemOf }) => {
    const problem = problemOf();
    const note = problem === undefined ? "" : `cannot be imported: ${printableCell(problem)}`;
    return [...cells.map(printableCell), [remark, note].filter((part) => part !== "").join(" ")];
  });
  print.line(table([[...columns, "NOTE"], ...lines]));
}

interface Written {
  readonly file?: string;
  readonly problem?: string;
}

function written({ tool, make }: ImportItem, folder: string): Written {
  const made = make(tool);
  if ("problem" in made) return made;
  try {
    return { file: writeManifest(folder, tool, made.text) };
  } catch (error) {
    return { problem: errorText(error) };
  }
}

type Result = Required<Pick<ImportItem, "key" | "tool" | "names" | "notes">> & Written;

function report(results: readonly Result[], noun: string, json: boolean): void {
  const failed = results.filter(({ problem }) => problem !== undefined);
  const count = results.length - failed.length;
  if (json) {
    const rows = results.map(({ key, tool, file, problem, notes }) => ({
      ...key,
      tool,
      file: file ?? null,
      problem: problem ?? null,
      ...(notes.length > 0 && { notes }),
    }));
    print.json({ written: count, results: rows });
  } else {
    for (const { file, notes } of results) {
      if (file === undefined) continue;
      print.line(`wrote ${file}`);
      for (const note of notes) print.line(`  note: ${printableCell(note)}`);
    }
    for (const { names, problem } of failed)
      print.error(`${printableCell(names[0] ?? "")}: ${printableCell(problem ?? "")}`);
    print.line(`${count} of ${results.length} ${noun}s imported`);
  }
  if (failed.length > 0) process.exitCode = EXIT.failed;
}
