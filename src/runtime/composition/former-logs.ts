import type { KeyObject } from "node:crypto";
import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import type { Exporters, ExportState } from "../../audit/export/exporter.ts";
import { type LogFolder, workerOf } from "../../audit/logs.ts";
import type { Config } from "../config/config.ts";
import type { Modules } from "../module-types.ts";
import { closeAudit, openAudit, readExports, startExports } from "./audit.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import type { MemberOfHub } from "./hub-member.ts";
import { endLeftClaims, type LeftClaims } from "./left-claims.ts";

interface FormerLogsParts extends Capabilities, Pick<Hooks, "logError" | "onWait"> {
  readonly checkpointKey: KeyObject | undefined;
  readonly approvals: Approvals | undefined;
  readonly member: MemberOfHub | undefined;
  readonly exporters: Modules["auditExporters"];
}

interface FormerLog {
  readonly audit: AuditLog;
  readonly exporters: Exporters;
  readonly left: LeftClaims | undefined;
}

/** The logs of workers that no process of this service writes any more. */
export interface FormerLogs {
  states(): readonly ExportState[];
  close(): Promise<void>;
}

/**
 * Ends the calls that a crash interrupted in these logs, and continues their exports and their retention. Waits for workers that
 * are still ending. A log that cannot be opened is reported: it is damaged, or its worker has not ended in time.
 */
export async function openFormerLogs(
  logs: readonly LogFolder[],
  config: Config,
  parts: FormerLogsParts,
): Promise<FormerLogs> {
  const opened = (await Promise.all(logs.map((log) => openFormerLog(log, config, parts)))).filter(
    (former) => former !== undefined,
  );
  return {
    states: () => opened.flatMap(({ exporters }) => exporters.states()),
    async close() {
      const close = async ({ audit, exporters, left }: FormerLog): Promise<void> => {
        await left?.close();
        await closeAudit(audit, exporters);
      };
      await Promise.all(opened.map(close));
    },
  };
}

async function openFormerLog(log: LogFolder, config: Config, parts: FormerLogsParts): Promise<FormerLog | undefined> {
  const { approvals, logError = () => {} } = parts;
  const own = { ...config, worker: workerOf(log) };
  try {
    const audit = await openAudit(own, parts);
    const left = approvals && (await endLeftClaims(own, { ...parts, audit, approvals }));
    const targets = readExports(own, { ...parts, problems: [] });
    return { audit, left, exporters: startExports(own, targets, { ...parts, audit }) };
  } catch (error) {
    logError(`the log of a former worker is not continued: ${log.name}`, error);
    return undefined;
  }
}
