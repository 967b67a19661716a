import { basename } from "node:path";
import { errorText } from "../../core/error-text.ts";
import { printable, printableCell } from "../../core/printable.ts";
import type { ToolDraft } from "../../core/target-kind.ts";
import { type ConfigurationOptions, withParts } from "../configuration.ts";
import { CommandError, EXIT, print, wrongUsage } from "../output.ts";
import {
  type ManifestDraft,
  manifestProblems,
  manifestText,
  proposedPermission,
  toolName,
  writeManifest,
} from "./manifest-text.ts";

/**
 * `stc import`: writes data-only manifests for the tools of a system. All texts of the system are data: they are written as quoted
 * texts, never as comments, and file names come from an alphabet of our own.
 */

interface ImportOptions extends ConfigurationOptions {
  readonly out: string;
  readonly tool?: readonly string[] | undefined;
  readonly read?: readonly string[] | undefined;
  readonly trustAnnotations?: boolean;
  readonly accept?: boolean;
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
    const drafts = await targets.drafts("mcp", system);
    if (drafts === undefined) return wrongUsage(`systems has no MCP server ${printableCell(system)}`);
    if (typeof drafts === "string") throw new CommandError(EXIT.unreachable, printable(`systems.${system}: ${drafts}`));
    const wanted = drafts.filter(({ name }) => options.tool === undefined || isNamed(name, options.tool));
    const named = [...(options.tool ?? []), ...(options.read ?? [])];
    const unknown = named.filter((word) => !drafts.some(({ name }) => isNamed(name, [word])));
    if (unknown.length > 0) {
      const offered = drafts.map(({ name }) => printableCell(name)).join(", ");
      return wrongUsage(`${system} offers no tool ${unknown.map(printableCell).join(", ")}; it offers ${offered}`);
    }
    const taken = new Set(registry.list().map(({ tool }) => tool.name));
    const imported = wanted.map((draft) => write(judged(draft, options), { system, taken, options }));
    if (options.json === true) return print.json({ imported });
    for (const { tool, file, notes } of imported) {
      print.line(`${printableCell(tool)}: ${file ?? "not written"}`);
      for (const note of notes) print.line(`  note: ${note}`);
    }
    print.line(
      options.accept === true
        ? "The suggestions are the output policy: read each line, then run stc check."
        : "Nothing is released yet: allow fields in outputPolicy, then run stc check.",
    );
  });
}

/** Returns whether one of the words is the tool's name on the server, or the name of its manifest. */
function isNamed(tool: string, words: readonly string[]): boolean {
  return words.includes(tool) || words.includes(toolName(tool));
}

/** Returns a draft with the author's judgement about it: what reads. */
function judged(draft: ToolDraft, { read = [], trustAnnotations = false }: ImportOptions): ToolDraft {
  const isRead =
    read.includes(draft.name) || (trustAnnotations && draft.saysReadOnly && draft.classification === "write");
  return isRead ? { ...draft, classification: "read", hints: [] } : draft;
}

interface Place {
  readonly system: string;
  readonly options: ImportOptions;
  /** Names of tools that exist. */
  readonly taken: Set<string>;
}

function write(draft: ToolDraft, { system, taken, options: { out, accept = false } }: Place): Imported {
  if (draft.problem !== undefined) return { tool: draft.name, file: null, notes: [printableCell(draft.problem)] };
  const plain = toolName(draft.name);
  const name = taken.has(plain) ? toolName(`${system}_${draft.name}`, taken) : plain;
  const text = manifestOf(name, system, { ...draft, accepted: accept });
  const [problem] = manifestProblems(text);
  // One manifest that does not load would stop the service's next start.
  if (problem !== undefined) {
    return { tool: draft.name, file: null, notes: [`its manifest would not load: ${printableCell(problem)}`] };
  }
  taken.add(name);
  try {
    return { tool: draft.name, file: basename(writeManifest(out, name, text)), notes: draft.notes };
  } catch (error) {
    return { tool: draft.name, file: null, notes: [errorText(error)] };
  }
}

/** Returns the text of a data-only manifest. */
export function manifestOf(name: string, system: string, draft: ToolDraft & Pick<ManifestDraft, "accepted">): string {
  const { description, classification, target, input, output, hints, accepted = false } = draft;
  return manifestText({
    ...{ name, description, classification, input, output, accepted, notes: hints },
    permissions: [proposedPermission(system, classification)],
    target: { system, ...target },
  });
}
