import { readFileSync } from "node:fs";
import type { ExporterTarget } from "./audit/export/exporter.ts";
import { type Exporters, startExporters } from "./audit/export/exporters.ts";
import { readHeaders } from "./audit/export/headers.ts";
import type { AuditLog } from "./audit/json-logger.ts";
import { type Config, pathFrom } from "./config.ts";

interface ExportParts {
  readonly clock: () => number;
  readonly random: () => number;
  readonly report: (message: string) => void;
  readonly journal: AuditLog["journal"];
}

/** The far sides that the configuration names, with their headers read. */
export function readExports(config: Config, problems: string[]): readonly ExporterTarget[] {
  return config.audit.export.flatMap(({ name, type, url, headersFile }, index) => {
    if (headersFile === undefined) return [{ name, type, url, headers: {} }];
    const field = `audit.export[${index}].headersFile`;
    const text = readText(pathFrom(config, headersFile));
    const headers = text === undefined ? { fault: "cannot be read" } : readHeaders(text);
    if ("ok" in headers) return [{ name, type, url, headers: headers.ok }];
    problems.push(`${field}: ${headersFile}: ${headers.fault}`);
    return [];
  });
}

/** Sends the log on and takes old files away, as far as the configuration asks for it. */
export function startExports(config: Config, targets: readonly ExporterTarget[], parts: ExportParts): Exporters {
  const { dir, retentionDays } = config.audit;
  return startExporters({ dir: pathFrom(config, dir), targets, retentionDays, ...parts });
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
