import { errorText } from "../core/error-text.ts";
import { StartupError } from "../core/errors.ts";
import type { RateTable } from "../pipeline/limits/rates-shared.ts";
import type { Reloaded, ReloadRequester } from "../runtime/reload/types.ts";
import { type ParentCalls, ProcessChannel, type WorkerCalls, type WorkerReport } from "./channel.ts";
import type { MetricValues } from "./metrics.ts";

const ANSWER_MS_MAX = 10_000;
const RELOAD_MS_MAX = 600_000;
const REPORT_EVERY_MS = 500;

interface MemberParts {
  readonly metrics: () => Promise<MetricValues>;
  readonly reload: (by: ReloadRequester) => Promise<Reloaded | undefined>;
  readonly drain: () => void;
  readonly report: () => WorkerReport;
}

/** A worker's end of the channel to its parent. */
export interface Member {
  readonly rateTable: RateTable;
  /** Returns the metrics of all processes. */
  metrics(): Promise<string>;
  /** Reloads all processes. */
  reload(by: ReloadRequester): Promise<Reloaded>;
  /** Answers the parent from now on. */
  join(parts: MemberParts): void;
  /** Reports that the worker listens, and its state again and again. */
  listening(url: string): Promise<void>;
  /** Sends the last values, and stops reporting. Never rejects. */
  leave(): Promise<void>;
}

/**
 * Joins this process to its parent. It drains without a delay when the parent has ended, even by SIGKILL: a worker without its
 * parent would keep the port and its log.
 *
 * @throws {StartupError} when no parent has started this process
 */
export function joinParent(): Member {
  const send = process.send?.bind(process);
  if (send === undefined) {
    throw new StartupError([
      "STC_WORKER is set, but this process was not started by `server.workers`: remove the variable",
    ]);
  }
  let parts: MemberParts | undefined;
  const joined = (): MemberParts => {
    if (parts === undefined) throw new Error("the worker is starting");
    return parts;
  };
  const channel = new ProcessChannel<ParentCalls, WorkerCalls>({
    send: (message) => void send(message),
    calls: {
      metrics: () => joined().metrics(),
      reload: (by) => joined().reload(by),
      drain: async () => joined().drain(),
    },
  });
  process.on("message", (message) => channel.receive(message));
  // The channel alone must not keep a worker whose start is refused from exiting.
  process.channel?.unref();
  let isEnding = false;
  process.once("SIGTERM", () => {
    isEnding = true;
  });
  process.on("disconnect", () => {
    channel.close();
    // A second SIGTERM would cut off the calls of a worker that is ending.
    if (!isEnding) process.kill(process.pid, "SIGTERM");
    parts?.drain();
  });
  let timer: NodeJS.Timeout | undefined;
  const report = (): void => {
    channel.ask("report", ANSWER_MS_MAX, joined().report()).catch(() => {});
  };
  return {
    rateTable: {
      keeper: "the parent process",
      add: (charges) => channel.ask("charge", ANSWER_MS_MAX, charges),
      close: async () => {},
    },
    metrics: () => channel.ask("metrics", ANSWER_MS_MAX),
    reload: (by) =>
      channel
        .ask("reload", RELOAD_MS_MAX, by)
        .catch((error: unknown) => ({ outcome: "refused", problems: [`reload: ${errorText(error)}`] }) as const),
    join: (given) => {
      parts = given;
    },
    async listening(url) {
      await channel.ask("report", ANSWER_MS_MAX, joined().report());
      await channel.ask("listening", ANSWER_MS_MAX, url);
      timer = setInterval(report, REPORT_EVERY_MS);
      timer.unref();
    },
    async leave() {
      clearInterval(timer);
      try {
        // A log whose first call came after the last report has an origin that the parent does not know.
        await channel.ask("report", ANSWER_MS_MAX, joined().report());
        await channel.ask("lastMetrics", ANSWER_MS_MAX, await joined().metrics());
      } catch {
        // Without a parent, nobody counts.
      }
    },
  };
}
