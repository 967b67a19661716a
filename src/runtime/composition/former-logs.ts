import type { KeyObject } from "node:crypto";
import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import type { Exporters, ExportState } from "../../audit/export/exporter.ts";
import { type LogFolder, workerOf } from "../../audit/logs.ts";
import type { Config } from "../config/config.ts";
import type { Modules } from "../module-types.ts";
import { closeAudit, doubtInterrupted, openAudit, readExports, startExports } from "./audit.ts";
import type { Capabilities, Hooks } from "./hooks.ts";

interface FormerLogsParts extends Capabilities, Pick<Hooks, "logError"> {
  readonly checkpointKey: KeyObject | undefined;
  readonly approvals: Approvals | undefined;
  readonly exporters: Modules["auditExporters"];
}

interface FormerLog {
  readonly audit: AuditLog;
  readonly exporters: Exporters;
}

/** The logs of workers that no process of this service writes any more. */
export interface FormerLogs {
  states(): readonly ExportState[];
  close(): Promise<void>;
}

/**
 * Ends the calls that a crash interrupted in these logs, and continues their exports and their retention. A log that cannot be
 * opened is reported: it is damaged, or its worker is still ending.
 */
export async function openFormerLogs(
  logs: readonly LogFolder[],
  config: Config,
  parts: FormerLogsParts,
): Promise<FormerLogs> {
  const { approvals, logError = () => {} } = parts;
  const opened: FormerLog[] = [];
  for (const log of logs) {
    const own = { ...config, worker: workerOf(log) };
    try {
      const audit = openAudit(own, parts);
      if (approvals !== undefined) await doubtInterrupted(audit, approvals, parts);
      const targets = readExports(own, { ...parts, problems: [] });
      opened.push({
        audit,
        exporters: startExports(own, targets, { ...parts, journal: (line) => audit.journal(line) }),
      });
    } catch (error) {
      logError(`the log of a former worker is not continued: ${log.name}`, error);
    }
  }
  return {
    states: () => opened.flatMap(({ exporters }) => exporters.states()),
    async close() {
      await Promise.all(opened.map(({ audit, exporters }) => closeAudit(audit, exporters)));
    },
  };
}
