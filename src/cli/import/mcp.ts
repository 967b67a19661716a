import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { systemCode } from "../../core/error-text.ts";
import { printableCell } from "../../core/printable.ts";
import type { ToolDraft } from "../../core/target-kind.ts";
import { type ConfigurationOptions, withParts } from "../configuration.ts";
import { CommandError, EXIT, print, wrongUsage } from "../output.ts";
import { manifestProblems, manifestText, toolName } from "./manifest-text.ts";

/**
 * `stc import`: writes data-only manifests for the tools of a system. All texts of the system are data: they are written as quoted
 * texts, never as comments, and file names come from an alphabet of our own.
 */

interface ImportOptions extends ConfigurationOptions {
  readonly out: string;
  readonly tool?: readonly string[] | undefined;
  readonly json?: boolean;
}

interface Imported {
  readonly tool: string;
  /** Name of the file; null when nothing was written. */
  readonly file: string | null;
  /** What the author should know, or why nothing was written. */
  readonly notes: readonly string[];
}

/** Writes a manifest for each tool, or for those that are named. An existing file is left as it is. */
export async function importTools(system: string, options: ImportOptions): Promise<void> {
  await withParts(options, async ({ targets, registry }) => {
    const drafts = await targets.drafts(system);
    if (drafts === undefined)
      return wrongUsage(`no system ${printableCell(system)} is configured that tools can be imported from`);
    if (typeof drafts === "string") throw new CommandError(EXIT.unreachable, `systems.${system}: ${drafts}`);
    const wanted = drafts.filter(({ name }) => options.tool === undefined || options.tool.includes(name));
    const unknown = (options.tool ?? []).filter((name) => !drafts.some((draft) => draft.name === name));
    if (unknown.length > 0) {
      const offered = drafts.map(({ name }) => printableCell(name)).join(", ");
      return wrongUsage(`${system} offers no tool ${unknown.map(printableCell).join(", ")}; it offers ${offered}`);
    }
    const taken = new Set(registry.list().map(({ tool }) => tool.name));
    const imported = wanted.map((draft) => write(draft, { system, out: options.out, taken }));
    if (options.json === true) return print.json({ imported });
    for (const { tool, file, notes } of imported) {
      print.line(`${printableCell(tool)}: ${file ?? "not written"}`);
      for (const note of notes) print.line(`  note: ${note}`);
    }
    print.line("Nothing is released yet: allow fields in outputPolicy, then run stc check.");
  });
}

interface Place {
  readonly system: string;
  readonly out: string;
  /** Names of tools that exist. */
  readonly taken: Set<string>;
}

function write(draft: ToolDraft, { system, out, taken }: Place): Imported {
  const plain = toolName(draft.name);
  const name = taken.has(plain) ? toolName(`${system}_${draft.name}`, taken) : plain;
  const text = manifestOf(name, system, draft);
  const [problem] = manifestProblems(text);
  // One manifest that does not load would stop the service's next start.
  if (problem !== undefined) {
    return { tool: draft.name, file: null, notes: [`its manifest would not load: ${printableCell(problem)}`] };
  }
  taken.add(name);
  const file = `${name}.tool.yaml`;
  try {
    writeFileSync(join(out, file), text, { flag: "wx" });
    return { tool: draft.name, file, notes: draft.notes };
  } catch (error) {
    const code = systemCode(error);
    const note = code === "EEXIST" ? `${file} exists and is left as it is` : `${file} cannot be written (${code})`;
    return { tool: draft.name, file: null, notes: [note] };
  }
}

/** Returns the text of a data-only manifest. */
export function manifestOf(name: string, system: string, draft: ToolDraft): string {
  const { description, classification, target, input, output, hints } = draft;
  return manifestText({
    ...{ name, description, classification, input, output, notes: hints },
    permissions: [`${system}:${classification === "read" ? "read" : "write"}`],
    target: { system, ...target },
  });
}
