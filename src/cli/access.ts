import { csvCell } from "../audit/export/formats.ts";
import { resolveBindings } from "../runtime/composition/roles.ts";
import { type AccessRow, accessRows } from "../runtime/inventory/access.ts";
import { type ConfigurationOptions, withParts } from "./configuration.ts";
import { print } from "./output.ts";

type Format = "json" | "csv";

/** `stc access export`: prints who may call what, and why, from the configuration alone. */
export async function accessExport(options: ConfigurationOptions & { readonly format: Format }): Promise<void> {
  await withParts(options, ({ registry }, config) => {
    const tools = registry.list().map(({ tool }) => tool);
    const rows = accessRows(config, tools, resolveBindings(config, tools));
    if (options.format === "json") return print.json({ access: rows }, 2);
    print.line(COLUMNS.map(([name]) => name).join(","));
    for (const line of rows.flatMap(csvLines)) print.line(line);
  });
}

type Column = readonly [name: string, read: (row: AccessRow, tool: string | undefined) => string | number | undefined];

const COLUMNS: readonly Column[] = [
  ["audience", ({ audience }) => audience],
  ["issuer", ({ issuer }) => issuer],
  ["source", ({ source }) => source],
  ["binding", ({ binding }) => binding],
  ["subject", ({ subject }) => subject],
  ["group", ({ group }) => group],
  ["claim", ({ claim }) => (claim === undefined ? undefined : JSON.stringify(claim))],
  ["spiffeId", ({ spiffeId }) => spiffeId],
  ["role", ({ role }) => role],
  ["until", ({ until }) => until],
  ["permissions", permissionsText],
  ["tool", (_row, tool) => tool],
  ["elevated", ({ elevated }, tool) => (tool === undefined ? undefined : elevatedText(elevated.includes(tool)))],
];

/** Returns one line per tool, so that a comparison of two exports shows single tools; one line where there is none. */
function csvLines(row: AccessRow): readonly string[] {
  const tools: readonly (string | undefined)[] = row.tools.length === 0 ? [undefined] : row.tools;
  return tools.map((tool) => COLUMNS.map(([, read]) => csvCell(read(row, tool))).join(","));
}

function permissionsText({ permissions, permissionsClaim }: AccessRow): string {
  return permissionsClaim === undefined ? permissions.join(" ") : `whatever the issuer puts into ${permissionsClaim}`;
}

function elevatedText(isElevated: boolean): string {
  return isElevated ? "yes" : "no";
}
