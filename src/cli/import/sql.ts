import { basename } from "node:path";
import { systemCode } from "../../core/error-text.ts";
import { printable, printableCell } from "../../core/printable.ts";
import type { AskedDrafts, ToolDraft } from "../../core/target-kind.ts";
import type { Tool } from "../../core/types.ts";
import { readPlainFile } from "../../runtime/config/plain-file.ts";
import { type ConfigurationOptions, withParts } from "../configuration.ts";
import { CommandError, EXIT, wrongUsage } from "../output.ts";
import { callsSame, madeDraft } from "./draft.ts";
import { loadedManifest, type Made, toolName } from "./manifest-text.ts";
import { type ImportItem, importSelected, renamed, type SelectionOptions } from "./selection.ts";

interface ImportOptions extends ConfigurationOptions, SelectionOptions {
  readonly table: readonly string[];
  readonly statement: readonly string[];
  readonly write?: boolean;
  readonly rename: readonly string[];
  readonly accept?: boolean;
}

/**
 * `stc import sql`: writes manifests for tables and views of a database, or for statements; without both, lists the tables. Reads the
 * catalog and has the database describe the statements; no statement runs.
 */
export async function importSql(system: string, options: ImportOptions): Promise<void> {
  const { table: tables, statement: files, write = false, accept = false } = options;
  if (tables.length > 0 && files.length > 0) wrongUsage("give --table or --statement, not both");
  const statements = files.map(statementIn);
  await withParts(options, async ({ targets, registry }) => {
    const drafts = await targets.drafts("sql", system, { statements, hasChanges: write });
    if (drafts === undefined) return wrongUsage(`systems has no database ${printableCell(system)}`);
    if (typeof drafts === "string") throw new CommandError(EXIT.unreachable, printable(`systems.${system}: ${drafts}`));
    const wanted = tables.length === 0 ? drafts : tables.flatMap((name) => draftsFor(drafts, name));
    const tools = registry.list().map(({ tool }) => tool);
    const isListed = options.list === true || (tables.length === 0 && files.length === 0);
    const taken = new Set(tools.map(({ name }) => name));
    const items: ImportItem[] = [];
    for (const draft of new Set(wanted)) {
      const existing = tools.find((tool) => callsSame(tool, draft, system));
      const plain = toolName(draft.name);
      const tool = existing === undefined && taken.has(plain) ? toolName(`${system}_${draft.name}`, taken) : plain;
      taken.add(tool);
      const problem = draft.problem ?? (existing && `the tool ${existing.name} of the configuration calls it already`);
      const make = (name: string): Made =>
        problem === undefined
          ? madeDraft({ name, system, command: "stc import sql" }, { ...draft, accepted: accept })
          : { problem };
      // The database's reason to refuse the tool, before a file is written.
      const refused =
        problem === undefined && !isListed ? await refusal(make(tool), (made) => targets.faultsOf(made)) : undefined;
      items.push(itemOf(draft, tool, refused === undefined ? make : () => ({ problem: refused }), problem ?? refused));
    }
    const noun = files.length > 0 ? "statement" : "tool";
    const words = {
      noun,
      source: files.length > 0 ? "the files" : "the database",
      columns: ["TOOL", "TABLE", "CLASSIFICATION"],
      advice: { several: "", filters: "--table or --statement" },
    };
    importSelected(renamed(items, words, options.rename), words, {
      ...options,
      list: isListed,
      wanted: [],
      isFiltered: true,
    });
  });
}

/** Returns why the tool of a manifest could not be loaded. */
async function refusal(
  made: Made,
  faultsOf: (tool: Tool) => Promise<readonly { readonly field: string; readonly message: string }[]>,
): Promise<string | undefined> {
  if ("problem" in made) return made.problem;
  const [fault] = await faultsOf(loadedManifest(made.text));
  return fault && `${fault.field} ${fault.message}`;
}

function statementIn(file: string): AskedDrafts["statements"][number] {
  try {
    return { name: basename(file).replace(/\.[^.]*$/, ""), text: readPlainFile(file).toString("utf8") };
  } catch (error) {
    return wrongUsage(`--statement ${printable(file)} cannot be read (${systemCode(error)})`);
  }
}

/** Returns the drafts of one table. @throws {CommandError} for an unknown or ambiguous name */
function draftsFor(drafts: readonly ToolDraft[], name: string): readonly ToolDraft[] {
  const found = drafts.filter(({ partOf = [] }) => partOf.includes(name));
  if (found.length === 0) return wrongUsage(`the database has no table ${printableCell(name)} that its user may read`);
  const several = new Set(found.map(({ partOf = [] }) => partOf.at(-1) ?? ""));
  if (several.size === 1) return found;
  return wrongUsage(
    `several tables are called ${printableCell(name)}: write ${[...several].map(printableCell).join(" or ")}`,
  );
}

function itemOf(draft: ToolDraft, tool: string, make: ImportItem["make"], problem: string | undefined): ImportItem {
  const { partOf = [], classification, notes } = draft;
  const table = partOf.at(-1);
  return {
    tool,
    names: [tool, draft.name],
    isWanted: true,
    cells: [tool, table ?? "", problem === undefined ? classification : "-"],
    remark: "",
    key: table === undefined ? { statement: draft.name } : { table },
    facts: { classification },
    problem: () => problem,
    notes,
    make,
  };
}
