import { type Logger, pino } from "pino";
import { escapeJson } from "../../audit/escape.ts";
import type { Json } from "../../core/types.ts";
import { DETECTOR, type Detector } from "../../detection/sensitive.ts";
import { fieldsOf, loggable } from "./fields.ts";
import { DescriptorSink, logDescriptor, type Sink } from "./sink.ts";

export interface Log extends Pick<Sink, "flush"> {
  readonly logger: Logger;
  dropped(): number;
}

export interface LogOptions {
  readonly level: string;
  readonly sink?: Sink | undefined;
  /** Returns the detector in use. Default: the one with the built-in rules. */
  readonly detector?: (() => Detector) | undefined;
}

/**
 * Opens the operational log: one JSON object per line. Secrets are removed from every text of every line, whatever its source,
 * and no line waits for a reader.
 */
export function openLog({ level, sink = standardOutput(), detector = () => DETECTOR }: LogOptions): Log {
  const shown = (value: unknown): Json => loggable(value, detector());
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ severity: label.toUpperCase() }) },
      hooks: {
        logMethod(args, method) {
          const [facts, message] = args as readonly unknown[];
          if (typeof facts === "string") method.call(this, String(shown(facts)));
          else method.call(this, fieldsOf(shown(facts)), String(shown(message ?? "")));
        },
      },
    },
    // Characters that control a terminal are escaped: operators read the log in terminals, and causes contain foreign text.
    { write: (line: string) => sink.write(`${escapeJson(line.trimEnd())}\n`) },
  );
  return { logger, dropped: () => sink.dropped, flush: (timeoutMs) => sink.flush(timeoutMs) };
}

let sharedSink: Sink | undefined;

/** Returns the sink of standard output. A process has only one, however many services it runs. */
function standardOutput(): Sink {
  sharedSink ??= new DescriptorSink(logDescriptor(), {
    gap: (dropped) => `${JSON.stringify({ severity: "WARN", msg: "lines of the log were dropped", dropped })}\n`,
  });
  return sharedSink;
}
