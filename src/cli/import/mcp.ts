import { printable, printableCell } from "../../core/printable.ts";
import type { ToolDraft } from "../../core/target-kind.ts";
import { type ConfigurationOptions, withParts } from "../configuration.ts";
import { CommandError, EXIT, wrongUsage } from "../output.ts";
import { type ManifestDraft, madeManifest, manifestText, proposedPermission, toolName } from "./manifest-text.ts";
import { type ImportItem, importSelected, renamed } from "./selection.ts";

/**
 * `stc import`: writes data-only manifests for the tools of a system. All texts of the system are data: they are written as quoted
 * texts, never as comments, and file names come from an alphabet of our own.
 */

interface ImportOptions extends ConfigurationOptions {
  readonly out: string;
  readonly tool?: readonly string[] | undefined;
  readonly read?: readonly string[] | undefined;
  readonly rename: readonly string[];
  readonly trustAnnotations?: boolean;
  readonly accept?: boolean;
  readonly json?: boolean;
}

/** Writes a manifest for each tool, or for those that are named. An existing file is left as it is. */
export async function importTools(system: string, options: ImportOptions): Promise<void> {
  await withParts(options, async ({ targets, registry }) => {
    const drafts = await targets.drafts("mcp", system);
    if (drafts === undefined) return wrongUsage(`systems has no MCP server ${printableCell(system)}`);
    if (typeof drafts === "string") throw new CommandError(EXIT.unreachable, printable(`systems.${system}: ${drafts}`));
    const named = [...(options.tool ?? []), ...(options.read ?? [])];
    const unknown = named.filter((word) => !drafts.some(({ name }) => isNamed(name, [word])));
    if (unknown.length > 0) {
      const offered = drafts.map(({ name }) => printableCell(name)).join(", ");
      return wrongUsage(`${system} offers no tool ${unknown.map(printableCell).join(", ")}; it offers ${offered}`);
    }
    const taken = new Set(registry.list().map(({ tool }) => tool.name));
    const wanted = drafts.filter(({ name }) => options.tool === undefined || isNamed(name, options.tool));
    const items = wanted.map((draft) => offered(judged(draft, options), { system, taken, options }));
    const words = { noun: "tool", source: system, columns: [], advice: { several: "", filters: "--tool" } };
    importSelected(renamed(items, words, options.rename), words, { ...options, wanted: [], isFiltered: true });
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

function offered(draft: ToolDraft, { system, taken, options: { accept = false } }: Place): ImportItem {
  const plain = toolName(draft.name);
  const tool = taken.has(plain) ? toolName(`${system}_${draft.name}`, taken) : plain;
  taken.add(tool);
  const { problem, notes } = draft;
  return {
    tool,
    names: [draft.name],
    isWanted: true,
    cells: [],
    remark: "",
    key: { name: draft.name },
    facts: {},
    problem: () => problem,
    notes,
    make: (name) =>
      problem === undefined ? madeManifest(manifestOf(name, system, { ...draft, accepted: accept })) : { problem },
  };
}

/** Returns the text of a data-only manifest. */
export function manifestOf(name: string, system: string, draft: ToolDraft & Pick<ManifestDraft, "accepted">): string {
  const { description, classification, target, input, output, hints, accepted = false } = draft;
  return manifestText({
    name,
    description,
    classification,
    input,
    output,
    accepted,
    notes: hints,
    permissions: [proposedPermission(system, classification)],
    target: { system, ...target },
  });
}
