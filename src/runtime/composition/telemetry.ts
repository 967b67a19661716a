import { readHeadersFile } from "../../audit/export/sender.ts";
import type { Tracer } from "../../core/tracing.ts";
import { findSensitive } from "../../detection/sensitive.ts";
import { type Config, pathFrom } from "../config/config.ts";
import { createTracer } from "../telemetry/tracer.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import { instanceOf } from "./instance.ts";

/** The collector of traces, with the headers to send. */
interface TraceTarget {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

interface Tracing {
  readonly tracer: Tracer | undefined;
  dropped(): number;
  /** Sends the remaining spans, up to a time limit. */
  close(): Promise<void>;
}

type TracingParts = Pick<Capabilities, "clock" | "monotonic" | "fill"> & Pick<Hooks, "logError">;

/** The collector's default path, when the endpoint has none. */
const OTLP_TRACES_PATH = "/v1/traces";
const CLOSE_TIMEOUT_MS = 2_000;
const SPAN_IDS_AHEAD = 256;
const SPAN_ID_DIGITS = 16;

/** Reads the collector that the configuration names, with its headers; returns undefined when there is none. */
export function readTraces(config: Config, problems: string[]): TraceTarget | undefined {
  const { traces } = config.telemetry;
  if (traces === undefined) return undefined;
  const url = new URL(traces.endpoint);
  if (url.pathname === "/") url.pathname = OTLP_TRACES_PATH;
  const target = { url: url.href, headers: {} };
  if (traces.headersFile === undefined) return target;
  const headers = readHeadersFile(pathFrom(config, traces.headersFile));
  if ("ok" in headers) return { ...target, headers: headers.ok };
  problems.push(`telemetry.traces.headersFile: ${traces.headersFile}: ${headers.problem}`);
  return undefined;
}

/** Starts tracing if the configuration asks for it: OpenTelemetry's packages are loaded only then. */
export async function startTracing(
  config: Config,
  target: TraceTarget | undefined,
  { clock, monotonic, fill, logError }: TracingParts,
): Promise<Tracing> {
  const { serviceName, traces } = config.telemetry;
  if (target === undefined || traces === undefined) {
    return { tracer: undefined, dropped: () => 0, close: async () => {} };
  }
  const { SpanSender } = await import("../telemetry/span-sender.ts");
  const sender = new SpanSender({
    ...target,
    resource: { "service.name": serviceName, "service.instance.id": instanceOf(config) },
    sendEveryMs: traces.sendEveryMs,
    clock: monotonic,
    report: logError && ((message) => logError(message, undefined)),
  });
  const tracer = createTracer({
    sampleRatio: traces.sampleRatio,
    tenant: config.tenant,
    clock,
    monotonic,
    newSpanId: spanIds(fill),
    isHarmless: (text) => findSensitive(text, "strict").length === 0,
    add: (spans) => sender.add(spans),
  });
  return { tracer, dropped: () => sender.dropped, close: () => sender.close(CLOSE_TIMEOUT_MS) };
}

/** Returns a generator of random ids, which are created in batches. */
function spanIds(fill: TracingParts["fill"]): () => string {
  const words = new BigUint64Array(SPAN_IDS_AHEAD);
  let next = SPAN_IDS_AHEAD;
  return () => {
    for (;;) {
      if (next === SPAN_IDS_AHEAD) {
        fill(words);
        next = 0;
      }
      const word = words[next] ?? 0n;
      next += 1;
      // An id must not be all zeros (W3C Trace Context).
      if (word !== 0n) return word.toString(16).padStart(SPAN_ID_DIGITS, "0");
    }
  };
}
