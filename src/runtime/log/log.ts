import { type Logger, pino } from "pino";
import { escapeJson } from "../../audit/escape.ts";
import { fieldsOf, loggable } from "./fields.ts";
import { DescriptorSink, logDescriptor, type Sink } from "./sink.ts";

export interface Log extends Pick<Sink, "flush"> {
  readonly logger: Logger;
  /** Lines that nobody will read, since the start. */
  dropped(): number;
}

export interface LogOptions {
  readonly level: string;
  /** Standard output by default. */
  readonly sink?: Sink | undefined;
}

/**
 * The operational log: a JSON object a line. Secrets are taken out of every text of every line, whoever wrote it, and no line
 * waits for a reader.
 */
export function openLog({ level, sink = standardOutput() }: LogOptions): Log {
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ severity: label.toUpperCase() }) },
      hooks: {
        logMethod(args, method) {
          const [facts, message] = args as readonly unknown[];
          if (typeof facts === "string") method.call(this, String(loggable(facts)));
          else method.call(this, fieldsOf(loggable(facts)), String(loggable(message ?? "")));
        },
      },
    },
    // What could steer a terminal stands as an escape: lines are read there, and causes hold other people's text.
    { write: (line: string) => sink.write(`${escapeJson(line.trimEnd())}\n`) },
  );
  return { logger, dropped: () => sink.dropped, flush: (timeoutMs) => sink.flush(timeoutMs) };
}

let sharedSink: Sink | undefined;

/** A process has one, however many services it runs. */
function standardOutput(): Sink {
  sharedSink ??= new DescriptorSink(logDescriptor(), {
    gap: (dropped) => `${JSON.stringify({ severity: "WARN", msg: "lines of the log were dropped", dropped })}\n`,
  });
  return sharedSink;
}
