import { type Aged, agedFiles, pruneFiles } from "../../audit/export/prune.ts";
import { DURATION_HINT, readDuration } from "../../audit/query/time-range.ts";
import { print, table } from "../output.ts";
import { auditPlace, EXIT, refuse } from "./directory.ts";

export interface AuditPruneOptions {
  readonly dir?: string;
  readonly keep: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/**
 * `stc audit prune`: deletes the files of days older than requested. Exit code: 0 files were (or would be) deleted; 1 none; 64
 * wrong usage; 66 no directory.
 */
export async function auditPrune({ dir, keep, dryRun, json }: AuditPruneOptions): Promise<void> {
  const place = auditPlace(dir);
  if (place === undefined) return;
  const keepMs = readDuration(keep);
  if (keepMs === undefined) {
    refuse([`--keep must be ${DURATION_HINT}`]);
    return;
  }
  const options = { dir: place.dir, nowMs: place.nowMs, keepMs };
  const old = agedFiles(options);
  const aged = dryRun === true ? old : await pruneFiles(old, options);
  const going = aged.filter(({ keptBecause }) => keptBecause === undefined);
  if (json === true) print.json({ dryRun: dryRun === true, files: aged });
  else if (aged.length > 0)
    print.line(table([["FILE", "BYTES", "WHAT"], ...aged.map((file) => rowOf(file, dryRun === true))]));
  if (going.length === 0) process.exitCode = EXIT.nothing;
  if (json !== true && aged.length === 0) print.line(`no file is older than ${keep}`);
}

function rowOf({ path, bytes, keptBecause }: Aged, isDryRun: boolean): readonly string[] {
  const went = isDryRun ? "would be deleted" : "deleted";
  return [path, String(bytes), keptBecause === undefined ? went : `stays: ${keptBecause}`];
}
