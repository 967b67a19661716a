import { StartupError } from "../core/errors.ts";
import { classificationNotes } from "../core/manifest/change-words.ts";
import { policyNotes } from "../core/policy/notes.ts";
import type { Tool } from "../core/types.ts";
import { labelOf } from "../detection/labels.ts";
import { assemble, type Parts } from "../runtime/composition/wiring.ts";
import { approvalNotes } from "./approvals/notes.ts";
import { certificateNotes } from "./certificate-notes.ts";
import { type ConfigurationOptions, configuration } from "./configuration.ts";
import { type MatrixRow, matrixOf, matrixTable } from "./matrix.ts";
import { print } from "./output.ts";

const UNSIGNED =
  "audit.checkpointKeyFile is not set: the audit's chain shows damage, but who can write its directory can make it anew";
const NOTHING = { tools: [], notRegistered: [], contracts: [], notes: [] } as const;

interface CheckOptions extends ConfigurationOptions {
  readonly json?: boolean;
  /** Who can call what, in place of the report. */
  readonly matrix?: boolean;
}

/** `stc check`: everything that would keep the service from starting, at once. Exit 0 when it would start, else 78. */
export async function check(options: CheckOptions): Promise<void> {
  try {
    const { config, now } = await configuration(options);
    const parts = await assemble(config);
    await parts.close();
    const listed = parts.registry.list().map(({ tool }) => tool);
    if (options.matrix === true) return showMatrix(matrixOf(listed, config), options);
    const tools = listed.map(({ name }) => name);
    const { notRegistered } = parts.loaded;
    const { contracts } = parts.report;
    const { confinement } = parts;
    const notes = [
      ...notesOf(parts),
      ...approvalNotes(config, listed),
      ...parts.policyNotes,
      ...certificateNotes(parts.grpc.certificates(), now),
    ];
    if (options.json === true)
      return print.json({ ok: true, tools, notRegistered, contracts, confinement, notes, problems: [] });
    print.line(`ok: ${tools.length} tools`);
    for (const { system, sha256, isPinned } of contracts) {
      print.line(`contract ${system} sha256:${sha256}${isPinned ? " (pinned)" : ""}`);
    }
    for (const note of [...notRegistered, ...notes]) print.line(`note: ${note}`);
  } catch (error) {
    if (!(error instanceof StartupError) || options.json !== true) throw error;
    print.json({ ok: false, ...NOTHING, problems: error.problems });
    process.exitCode = 78;
  }
}

function showMatrix(matrix: readonly MatrixRow[], { json }: CheckOptions): void {
  if (json === true) print.json({ ok: true, matrix, problems: [] });
  else print.line(matrixTable(matrix));
}

/** A builder's mistake is found by an example, or else by an agent. */
function untried({ name, target, examples }: Tool): readonly { tool: string; field: string; message: string }[] {
  if (!("cli" in target) || examples.accepts.length > 0) return [];
  return [{ tool: name, field: "examples.accepts", message: "is empty: the argv was never tried" }];
}

/** What starts, and may still not be what was meant. */
function notesOf({ registry, loaded, report, checkpointKey, confinement }: Parts): readonly string[] {
  const fileOf = new Map(loaded.tools.map((tool) => [tool.name, loaded.origins.get(tool)]));
  const namesSecret = (name: string): boolean => labelOf(name).secret !== undefined;
  const protection = registry
    .list()
    .flatMap(({ tool }) =>
      [...classificationNotes(tool), ...policyNotes(tool, namesSecret)].map((note) => ({ tool: tool.name, ...note })),
    );
  const unpinned = report.contracts.filter(({ origin, isPinned }) => origin === "reflection" && !isPinned);
  const levels = Object.entries(confinement?.tools ?? {});
  const held = levels.filter(([, level]) => level === "confined").map(([tool]) => tool);
  const unheld = levels.filter(([, level]) => level === "none");
  return [
    ...(held.length > 0 ? [`confined: ${held.join(", ")}`] : []),
    ...unheld.map(
      ([tool]) =>
        `tool ${tool} runs unconfined (${confinement?.faults[tool] ?? "the kernel cannot, or commands.confinement is off"})`,
    ),
    ...(checkpointKey === undefined ? [UNSIGNED] : []),
    ...unpinned.map(
      ({ system }) =>
        `systems.${system}: its contract comes by reflection and is not pinned: the service can change it; set contractSha256`,
    ),
    ...[...report.notes, ...protection, ...registry.list().flatMap(({ tool }) => untried(tool))].map(
      ({ tool, field, message }) => {
        const file = fileOf.get(tool);
        return `${file === undefined ? "" : `${file}: `}tool ${tool}: ${field}: ${message}`;
      },
    ),
  ];
}
