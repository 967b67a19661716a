import { Exporter } from "../../src/audit/export/exporter.ts";
import { EXPORT_STREAMS } from "../../src/audit/export/positions.ts";
import type { Archive } from "../../src/audit/export/receiver.ts";
import { until } from "./until.ts";

interface ArchiverOptions {
  readonly clock?: () => number;
  readonly reports?: string[];
}

/** Starts the exporters of an archive. */
export function startArchiving(
  dir: string,
  receiver: Archive,
  { clock = Date.now, reports = [] }: ArchiverOptions = {},
) {
  return EXPORT_STREAMS.map(
    (stream) =>
      new Exporter({
        ...{ dir, stream, target: { name: "s3", receiver }, clock, random: () => 0 },
        ...{ report: (message: string) => reports.push(message), pollMs: 5, backoffMs: 5 },
      }),
  );
}

/** Archives everything that a directory holds. */
export async function archiveLog(dir: string, receiver: Archive, options: ArchiverOptions = {}): Promise<void> {
  const exporters = startArchiving(dir, receiver, options);
  await untilArchived(exporters);
  await Promise.all(exporters.map((exporter) => exporter.stop()));
}

export function untilArchived(exporters: readonly Exporter[]): Promise<true> {
  return until("the end of the log", () =>
    exporters.every((exporter) => exporter.state().bytesBehind === 0) ? true : undefined,
  );
}
