import { StartupError } from "../core/errors.ts";
import { toJson } from "../core/tool-export.ts";
import type { EpochMs, Tool } from "../core/types.ts";
import { MODULES } from "../modules.ts";
import { type Connection, connect } from "../runtime/composition/connections.ts";
import { roleNotes } from "../runtime/composition/roles.ts";
import { clock, type Parts } from "../runtime/composition/wiring.ts";
import type { Config } from "../runtime/config/config.ts";
import { operatorIssuer, ownJwt, problemOf, tenantConfigs } from "../runtime/config/tenants.ts";
import { type MatrixRow, matrixOf, protectionNotes } from "../runtime/inventory/inventory.ts";
import type { VerdictRow } from "../runtime/replay/matrix.ts";
import { type ConfigurationOptions, configuration, withParts, withPartsOf } from "./configuration.ts";
import { EXIT, print, table } from "./output.ts";
import { Problems } from "./tenant-problems.ts";

const NOTHING = { tools: [], notRegistered: [], contracts: [], connected: [], notes: [] } as const;

interface CheckOptions extends ConfigurationOptions {
  readonly json?: boolean;
  readonly matrix?: boolean;
  readonly csv?: boolean;
  readonly connect?: boolean;
}

/**
 * `stc check`: reports everything that would prevent the service from starting, all at once: of the service itself and all its
 * tenants, or of one tenant.
 */
export async function check(options: CheckOptions): Promise<void> {
  try {
    const { config } = await configuration(options);
    const checked: Checked[] = [];
    const problems = new Problems();
    for (const each of [config, ...tenantConfigs(config)]) {
      await problems.collect(each, async () => checked.push(await checkOf(each, options)));
    }
    problems.assertNone();
    const [own, ...tenants] = checked;
    if (options.matrix === true) showMatrices(checked, options);
    else if (options.json === true) {
      const inside = tenants.map((each) => ({ tenant: each.tenant, ...each.found }));
      print.json({ ok: true, ...own?.found, ...(inside.length > 0 && { tenants: inside }), problems: [] });
    } else for (const each of checked) showFound(each);
  } catch (error) {
    if (!(error instanceof StartupError) || options.json !== true) throw error;
    print.json({ ok: false, ...NOTHING, problems: error.problems });
    process.exitCode = EXIT.configuration;
  }
}

interface Matrices {
  readonly matrix: readonly MatrixRow[];
  readonly verdicts: readonly VerdictRow[];
}

/** Findings in one configuration: that of the service itself, or of a tenant. */
interface Checked {
  readonly tenant: string | undefined;
  readonly found?: ReturnType<typeof foundIn>;
  readonly connected?: readonly Connection[];
  readonly matrices?: Matrices;
}

/** @throws {StartupError} with all problems of this configuration */
async function checkOf(config: Config, options: CheckOptions): Promise<Checked> {
  const { tenant } = config;
  const connections = options.connect === true ? await connect(config, MODULES, clock) : [];
  const failed = connections.flatMap(({ field, problem }) => (problem === undefined ? [] : [`${field}: ${problem}`]));
  try {
    return await withPartsOf(config, async (parts, nowMs) => {
      if (failed.length > 0) throw new StartupError([]);
      const connected = connections.map((each) => ({ ...each, field: problemOf(config, each.field) }));
      const found = foundIn(parts, config, { nowMs, connected });
      if (options.matrix !== true) return { tenant, found, connected };
      const { verdictsOf } = await import("../runtime/replay/matrix.ts");
      const verdicts = await verdictsOf(parts, config);
      const matrix = matrixOf(toolsOf(parts), config, nowMs);
      return { tenant, matrices: { matrix, verdicts } };
    });
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    throw new StartupError([...error.problems, ...failed]);
  }
}

interface FoundParts {
  readonly nowMs: EpochMs;
  /** Results of `--connect`, one for each system. */
  readonly connected: readonly Connection[];
}

function foundIn(parts: Parts, config: Config, { nowMs, connected }: FoundParts) {
  const listed = toolsOf(parts);
  const access = roleNotes(config, listed, nowMs);
  const notes = [...notesOf(parts), ...approvalNotes(config, listed), ...parts.policyNotes, ...access];
  return {
    tools: listed.map(({ name }) => name),
    notRegistered: parts.loaded.notRegistered.map((note) => problemOf(config, note)),
    contracts: parts.report.contracts,
    confinement: parts.targets.confinement(),
    connected: connected.map(({ field }) => field),
    notes: notes.map((note) => problemOf(config, note)),
  };
}

function showFound({ tenant, found, connected = [] }: Checked): void {
  if (found === undefined) return;
  const { tools, contracts, notRegistered, notes } = found;
  const ofTenant = tenant === undefined ? "" : `tenant ${tenant}: `;
  print.line(`${ofTenant}ok: ${tools.length} tools`);
  for (const { field, knownAs, finding = "connected" } of connected) {
    print.line(`${finding}: ${field}${knownAs === undefined ? "" : `, as ${knownAs}`}`);
  }
  for (const { system, sha256, isPinned } of contracts) {
    print.line(`${ofTenant}contract ${system} sha256:${sha256}${isPinned ? " (pinned)" : ""}`);
  }
  for (const note of [...notRegistered, ...notes]) print.line(`note: ${note}`);
}

function toolsOf({ registry }: Parts): readonly Tool[] {
  return registry.list().map(({ tool }) => tool);
}

function showMatrices(checked: readonly Checked[], { json, csv }: CheckOptions): void {
  const [own, ...tenants] = checked;
  if (json === true) {
    const inside = tenants.map(({ tenant, matrices }) => ({ tenant, ...matrices }));
    print.json({ ok: true, ...own?.matrices, ...(inside.length > 0 && { tenants: inside }), problems: [] });
    return;
  }
  if (csv === true) {
    for (const cells of verdictCells(own?.matrices?.verdicts ?? [])) print.line(cells.map(csvCell).join(","));
    // Each tenant has other columns: its subjects.
    const names = tenants.map(({ tenant }) => tenant).join(", ");
    if (tenants.length > 0) print.error(`note: tenants are left out, --tenant prints one of them: ${names}`);
    return;
  }
  for (const { tenant, matrices } of checked) {
    if (tenants.length > 0) print.line(tenant === undefined ? "the service itself:" : `\ntenant ${tenant}:`);
    if (matrices !== undefined) showMatrix(matrices);
  }
}

function showMatrix({ matrix, verdicts }: Matrices): void {
  const [heads = [], ...rows] = verdictCells(verdicts);
  print.line(matrixTable(matrix));
  if (heads.length < 2) return;
  const shown = [heads, ...rows].map((cells) => cells.slice(0, 1 + SUBJECTS_MAX));
  print.line(`\n${table(shown)}`);
  const more = heads.length - 1 - SUBJECTS_MAX;
  if (more > 0) print.line(`note: ${more} subjects are left out; --json and --csv have all`);
}

/** Columns of the table for a terminal. */
const SUBJECTS_MAX = 12;

/** Returns one row for each tool, and one column for each subject. */
function verdictCells(rows: readonly VerdictRow[]): readonly (readonly string[])[] {
  const subjects = rows[0]?.subjects.map(({ sub }) => sub) ?? [];
  return [["TOOL", ...subjects], ...rows.map((row) => [row.tool, ...row.subjects.map(({ verdict }) => verdict)])];
}

/** Returns one quoted cell. A possible formula gets an apostrophe. */
function csvCell(text: string): string {
  return `"${/^[=+\-@|%]/.test(text) ? "'" : ""}${text.replaceAll('"', '""')}"`;
}

/** Returns notes about settings that allow the service to start but may not be intended. */
function notesOf({ registry, loaded, report, points }: Parts): readonly string[] {
  const fileOf = new Map(loaded.tools.map((tool) => [tool.name, loaded.origins.get(tool)]));
  const protection = registry
    .list()
    .flatMap(({ tool }) => protectionNotes(tool).map((note) => ({ tool: tool.name, ...note })));
  return [
    ...report.notes,
    ...points.notes,
    ...[...report.toolNotes, ...protection].map(({ tool, field, message }) => {
      const file = fileOf.get(tool);
      return `${file === undefined ? "" : `${file}: `}tool ${tool}: ${field}: ${message}`;
    }),
  ];
}

function approvalNotes(config: Config, tools: readonly Tool[]): readonly string[] {
  const { approvals } = config;
  const canAsk = approvals.store !== undefined || approvals.storeUrlFile !== undefined;
  const asking = tools.filter(({ classification }) => classification !== "read").map(({ name }) => name);
  return [
    ...(canAsk && tools.length > 0 && !ownJwt(config).issuers.some(({ operators }) => operators)
      ? [`approvals: nobody can decide: there is no ${operatorIssuer(config)}`]
      : []),
    ...(!canAsk && asking.length > 0
      ? [`approvals.store is not set: calls that need an approval are refused; it may concern ${asking.join(", ")}`]
      : []),
    ...(approvals.mode === "default"
      ? []
      : [
          `approvals.mode: ${approvals.mode} applies to every session without an end; stc mode set sets a mode for a limited time`,
        ]),
  ];
}

function matrixTable(rows: readonly MatrixRow[]): string {
  const list = (names: readonly string[]): string => names.join(" ") || "-";
  const heads = [
    "TOOL",
    "SYSTEM",
    "CLASSIFICATION",
    "CATEGORY",
    "APPROVAL",
    "PERMISSIONS",
    "ELEVATED",
    "SUBJECTS",
    "ROLES",
  ];
  const lines = rows.map((row) => [
    ...[row.tool, row.system, row.classification, row.category, row.asks],
    ...[list(row.permissions), list(row.elevated), list(row.subjects), list(row.roles)],
  ]);
  return table([heads, ...lines]);
}

/** `stc tools`: lists the tools that the service would offer, which of them ask, and the permissions that each needs. */
export async function tools(options: ConfigurationOptions & { readonly json?: boolean }): Promise<void> {
  await withParts(options, (parts, config, nowMs) => {
    const listed = toolsOf(parts);
    const { notRegistered } = parts.loaded;
    if (options.json === true) return print.json({ tools: listed.map(toJson), notRegistered });
    const rows = matrixOf(listed, config, nowMs).map(
      ({ tool, classification, system, asks, permissions, elevated }) => [
        ...[tool, classification, system, asks, permissions.join(" ") || "-", elevated.join(" ") || "-"],
      ],
    );
    print.line(table([["TOOL", "CLASSIFICATION", "SYSTEM", "APPROVAL", "PERMISSIONS", "ELEVATED"], ...rows]));
    for (const reason of notRegistered) print.line(`note: ${reason}`);
  });
}
