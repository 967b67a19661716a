import type { AuditLog } from "../../audit/audit-log.ts";
import { type Exporters, type ExporterTarget, startExporters } from "../../audit/export/exporter.ts";
import { type Config, pathFrom } from "../config/config.ts";
import type { Modules } from "../modules.ts";

interface ExportParts {
  readonly clock: () => number;
  readonly random: () => number;
  /** Writes to the operators' log. */
  readonly logFault?: ((message: string, cause: unknown) => void) | undefined;
  readonly journal: AuditLog["journal"];
}

/** Opens the receivers of `audit.export`; their files are read. */
export function readExports(
  config: Config,
  exporters: Modules["auditExporters"],
  problems: string[],
): readonly ExporterTarget[] {
  return config.audit.export.flatMap(({ name, type, ...settings }, index) => {
    const receiver = exporters
      .find((exporter) => exporter.type === type)
      ?.open(settings, {
        path: (path) => pathFrom(config, path),
        problem: (setting, message) => problems.push(`audit.export[${index}].${setting}: ${message}`),
      });
    return receiver === undefined ? [] : [{ name, receiver }];
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
