import { printable, printableCell } from "../../core/printable.ts";
import type { ToolDraft } from "../../core/target-kind.ts";
import type { Tool } from "../../core/types.ts";
import { type ConfigurationOptions, withParts } from "../configuration.ts";
import { CommandError, EXIT, wrongUsage } from "../output.ts";
import { callsSame, madeDraft } from "./draft.ts";
import { type Made, snakeCase, toolName } from "./manifest-text.ts";
import { type ImportItem, importSelected, renamed, type SelectionOptions } from "./selection.ts";

interface ImportOptions extends ConfigurationOptions, SelectionOptions {
  readonly service: readonly string[];
  readonly read?: readonly string[] | undefined;
  readonly rename: readonly string[];
  readonly accept?: boolean;
}

/**
 * `stc import grpc`: writes manifests for methods of a gRPC service. Reads the contract that the configuration names, and asks the
 * service only for its reflection.
 */
export async function importGrpc(system: string, wanted: readonly string[], options: ImportOptions): Promise<void> {
  await withParts(options, async ({ targets, registry }) => {
    const drafts = await targets.drafts("grpc", system);
    if (drafts === undefined) return wrongUsage(`systems has no gRPC system ${printableCell(system)}`);
    if (typeof drafts === "string") throw new CommandError(EXIT.unreachable, printable(`systems.${system}: ${drafts}`));
    const named = namedMethods(drafts);
    const { read = [], service: services } = options;
    const unknown = read.filter((word) => !named.some(({ names, tool }) => tool === word || names.includes(word)));
    if (unknown.length > 0) {
      return wrongUsage(
        ...unknown.map((word) => `the contract has no method ${printableCell(word)}, given with --read`),
      );
    }
    const tools = registry.list().map(({ tool }) => tool);
    importSelected(
      renamed(
        named.map((method) => offered(method, { system, tools, options })),
        { noun: "method", source: "the contract" },
        options.rename,
      ),
      {
        noun: "method",
        source: "the contract",
        columns: ["METHOD", "SERVICE", "CLASSIFICATION"],
        advice: { several: "write its full name, package.Service.Method", filters: "--service" },
      },
      { ...options, wanted, isFiltered: services.length > 0 },
    );
  });
}

/** A method with the name of its tool. Names depend on the contract alone, so each import finds the same. */
export interface NamedMethod {
  readonly draft: ToolDraft;
  readonly tool: string;
  /** `Method`, `Service.Method` and the full name. */
  readonly names: readonly [method: string, withService: string, fullName: string];
  /** Full name of the service. */
  readonly service: string;
}

export function namedMethods(drafts: readonly ToolDraft[]): readonly NamedMethod[] {
  const parts = drafts.map((draft) => {
    const steps = draft.name.split(".");
    return {
      draft,
      method: steps.at(-1) ?? "",
      withService: steps.slice(-2).join("."),
      service: steps.slice(0, -1).join("."),
    };
  });
  const counts = new Map<string, number>();
  for (const { method } of parts) counts.set(snakeCase(method), (counts.get(snakeCase(method)) ?? 0) + 1);
  const taken = new Set<string>();
  return parts.map(({ draft, method, withService, service }) => {
    const isUnique = counts.get(snakeCase(method)) === 1;
    const tool = toolName(isUnique ? method : withService, taken);
    taken.add(tool);
    return { draft, tool, service, names: [method, withService, draft.name] };
  });
}

interface Import {
  readonly system: string;
  /** The tools of the configuration. */
  readonly tools: readonly Pick<Tool, "name" | "target">[];
  readonly options: Pick<ImportOptions, "service" | "read" | "accept">;
}

function offered(method: NamedMethod, { system, tools, options }: Import): ImportItem {
  const { draft, names, service } = method;
  const { service: services, read = [], accept: accepted = false } = options;
  const isRead = [method.tool, ...names].some((name) => read.includes(name));
  const judged: ToolDraft = isRead ? { ...draft, classification: "read" } : draft;
  const same = tools.find(({ name }) => name === method.tool);
  const existing = tools.find((tool) => callsSame(tool, draft, system));
  const tool = same === undefined || existing !== undefined ? method.tool : toolName(`${system}_${method.tool}`);
  const problemOf = (): string | undefined =>
    draft.problem ?? (existing && `the tool ${existing.name} of the configuration calls it already`);
  return {
    tool,
    names,
    isWanted: services.length === 0 || services.includes(service) || services.includes(service.split(".").at(-1) ?? ""),
    cells: [names[0], service, draft.problem === undefined ? judged.classification : "-"],
    remark: "",
    key: { method: names[0], service },
    facts: { classification: judged.classification },
    problem: problemOf,
    make: (name) => {
      const problem = problemOf();
      return problem === undefined ? manifestOf(name, system, { ...judged, accepted, isRead }) : { problem };
    },
  };
}

/** Returns the text of a manifest that can be loaded. */
export function manifestOf(
  name: string,
  system: string,
  { isRead = false, ...draft }: ToolDraft & { readonly accepted?: boolean; readonly isRead?: boolean },
): Made {
  const hints = isRead ? draft.hints.filter((line) => !line.startsWith("Proposed by the method's name")) : draft.hints;
  return madeDraft({ name, system, command: "stc import grpc" }, { ...draft, hints });
}
