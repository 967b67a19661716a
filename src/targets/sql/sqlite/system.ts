import { dirname } from "node:path";
import { EMBEDDED } from "../../../core/embedded-code.ts";
import { present } from "../../../core/present.ts";
import type { ServerProcesses, ServerProgram } from "../../../core/server-process.ts";
import { Resilience } from "../../../egress/resilience.ts";
import { resilienceOf } from "../../../egress/settings.ts";
import type { SqlContext, SqlSystem } from "../engine.ts";
import type { SqlEntry } from "../settings.ts";
import { pathIn } from "./address.ts";
import { sqliteCatalog } from "./catalog.ts";
import { fileProblem, filesFor, identityOf, lastCommit } from "./files.ts";
import { DatabaseProcesses } from "./processes.ts";
import { SQLITE_CHILD } from "./program.ts";
import { recovery, SqliteUser } from "./user.ts";

/** Processes that read, unless `connections` says otherwise. They start when they are needed. */
const PROCESSES = 4;
/** The runtime reads no settings, variables or packages. */
const ARGUMENTS = ["--no-env-file", "--config=/dev/null", "--no-install", SQLITE_CHILD];

/** Opens a system. Its processes start at first use. Returns undefined after problems. */
export async function openSqlite(
  { pathOf, problems, random, config }: SqlContext,
  processes: ServerProcesses,
  { name, entry }: { readonly name: string; readonly entry: SqlEntry },
): Promise<SqlSystem | undefined> {
  const field = `systems.${name}.sql`;
  const file = pathOf(present(pathIn(entry.url), "the path of the URL"));
  const problem = fileProblem(file);
  if (problem !== undefined) {
    problems.push(`${field}.url: ${problem}`);
    return undefined;
  }
  const { confinement } = config.commands;
  const unconfined =
    confinement === "off"
      ? "commands.confinement is off"
      : await processes.problem(programFor({ reads: [file], writes: [] }));
  if (unconfined !== undefined && confinement === "require") {
    problems.push(
      `${field}: the process for it cannot be confined: ${unconfined}; commands.confinement: prefer allows that`,
    );
    return undefined;
  }
  const { statementMs, lockMs, cellChars, bytes } = entry.limits;
  const limits = { cellChars, bytes };
  const opened: DatabaseProcesses[] = [];
  const userOf = (mayChange: boolean, recover?: (signal: AbortSignal) => Promise<void>): SqliteUser => {
    const made = new DatabaseProcesses({
      name,
      file,
      mayChange,
      // SQLite allows one change at a time.
      count: mayChange ? 1 : (entry.connections ?? PROCESSES),
      statementMs,
      lockMs,
      bytes,
      identity: () => identityOf(file),
      start: (output) => processes.start(programFor(filesFor(file, mayChange)), unconfined === undefined, output),
    });
    opened.push(made);
    return new SqliteUser({
      processes: made,
      recover,
      limits,
      columns: entry.columns,
      lastCommit: () => lastCommit(file),
    });
  };
  const write = entry.writable === true ? userOf(true) : undefined;
  const read = userOf(false, write && recovery(write));
  return {
    name,
    read,
    write,
    writeSetting: "writable",
    server: "",
    resilience: new Resilience(resilienceOf(entry), random),
    rules: { columns: entry.columns, functions: [] },
    limits,
    catalog: sqliteCatalog(read, write !== undefined),
    dependsOnCaller: false,
    notes: unconfined === undefined ? [] : [`systems.${name}: the process for it runs unconfined (${unconfined})`],
    async close() {
      await Promise.all(opened.map((each) => each.close()));
    },
  };
}

function programFor({ reads, writes }: Pick<ServerProgram, "reads" | "writes">): ServerProgram {
  const code = dirname(SQLITE_CHILD);
  return {
    command: process.execPath,
    argv: ARGUMENTS,
    environment: {},
    // The single binary contains the code.
    reads: [...(code.startsWith(EMBEDDED) ? [] : [code]), ...reads],
    writes,
    network: null,
  };
}
