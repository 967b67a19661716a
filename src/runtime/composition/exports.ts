import type { AuditLog } from "../../audit/audit-log.ts";
import type { ExporterTarget } from "../../audit/export/exporter.ts";
import { type Exporters, startExporters } from "../../audit/export/exporters.ts";
import { readHeadersFile } from "../../audit/export/headers.ts";
import { type Config, pathFrom } from "../config/config.ts";

interface ExportParts {
  readonly clock: () => number;
  readonly random: () => number;
  /** Writes to the operators' log. */
  readonly logFault?: ((message: string, cause: unknown) => void) | undefined;
  readonly journal: AuditLog["journal"];
}

/** Returns the export targets that the configuration names, with their headers read. */
export function readExports(config: Config, problems: string[]): readonly ExporterTarget[] {
  return config.audit.export.flatMap(({ name, type, url, headersFile }, index) => {
    if (headersFile === undefined) return [{ name, type, url, headers: {} }];
    const field = `audit.export[${index}].headersFile`;
    const headers = readHeadersFile(pathFrom(config, headersFile));
    if ("ok" in headers) return [{ name, type, url, headers: headers.ok }];
    problems.push(`${field}: ${headersFile}: ${headers.fault}`);
    return [];
  });
}

/** Exports the log and deletes old files, as configured. */
export function startExports(
  config: Config,
  targets: readonly ExporterTarget[],
  { clock, random, journal, logFault }: ExportParts,
): Exporters {
  const { dir, retentionDays } = config.audit;
  const report = (message: string): void => logFault?.(message, undefined);
  return startExporters({ dir: pathFrom(config, dir), targets, retentionDays, clock, random, journal, report });
}
