import type { Json } from "../../core/types.ts";
import { DAY_MS } from "../query/time-range.ts";
import { Exporter, type ExporterTarget, type ExportState } from "./exporter.ts";
import { agedFiles, pruneFiles, SEE_VERIFY } from "./prune.ts";
import type { Send } from "./sender.ts";

export interface ExportersOptions {
  /** The audit directory. */
  readonly dir: string;
  readonly targets: readonly ExporterTarget[];
  /** When `undefined`, nothing is ever deleted. */
  readonly retentionDays: number | undefined;
  /** Returns milliseconds since 1970. */
  readonly clock: () => number;
  /** Returns a number of at least 0 and below 1. */
  readonly random: () => number;
  /** Writes to the operators' log. */
  readonly report: (message: string) => void;
  /** Writes a journal line; durable when resolved. */
  readonly journal: (line: { readonly type: "audit.pruned"; readonly [member: string]: Json }) => Promise<void>;
  readonly send?: Send | undefined;
  readonly pruneEveryMs?: number;
}

/** The running exporters and the periodic deletion of old files, which work alongside the service. */
export interface Exporters {
  states(): readonly ExportState[];
  stop(): Promise<void>;
}

const PRUNE_EVERY_MS = 3_600_000;

export function startExporters(options: ExportersOptions): Exporters {
  const { dir, targets, clock, random, report, send, pruneEveryMs = PRUNE_EVERY_MS } = options;
  const exporters = targets.flatMap((target) =>
    (["calls", "journal"] as const).map((stream) => new Exporter({ dir, stream, target, clock, random, report, send })),
  );
  const pruning = new Pruning(options);
  const timer = setInterval(() => pruning.begin(), pruneEveryMs);
  timer.unref();
  pruning.begin();
  return {
    states: () => exporters.map((exporter) => exporter.state()),
    async stop() {
      clearInterval(timer);
      await Promise.all([pruning.ended(), ...exporters.map((exporter) => exporter.stop())]);
    },
  };
}

class Pruning {
  readonly #options: ExportersOptions;
  #running: Promise<void> | undefined;

  constructor(options: ExportersOptions) {
    this.#options = options;
  }

  begin(): void {
    this.#running ??= this.#prune()
      .catch((error: unknown) => this.#options.report(`old audit files stay: ${String(error)}`))
      .finally(() => {
        this.#running = undefined;
      });
  }

  async ended(): Promise<void> {
    await this.#running;
  }

  /** Deletes old files. Each deletion is in the journal before it happens. */
  async #prune(): Promise<void> {
    const { dir, targets, retentionDays, clock, journal } = this.#options;
    if (retentionDays === undefined) return;
    const nowMs = clock();
    const options = { dir, nowMs, keepMs: retentionDays * DAY_MS, exporters: targets.map(({ name }) => name) };
    const settled = await pruneFiles(agedFiles(options), options, {
      announce: ({ stream, day, bytes }) => journal({ type: "audit.pruned", stream, day, bytes }),
    });
    for (const { path, keptBecause } of settled) {
      if (keptBecause?.endsWith(SEE_VERIFY) === true) this.#options.report(`${path} stays: ${keptBecause}`);
    }
  }
}
