import { textOf } from "../query/view.ts";
import type { ExportLine } from "./batch.ts";

/** Path of a collector's logs endpoint, used when the URL has no path. */
export const OTLP_PATH = "/v1/logs";

const W3C_TRACE = /^[0-9a-f]{32}$/;
const W3C_SPAN = /^[0-9a-f]{16}$/;
const SEVERITIES: Readonly<Record<string, readonly [number: number, text: string]>> = {
  DENIED: [13, "WARN"],
  ERROR: [17, "ERROR"],
};
const INFO = [9, "INFO"] as const;

/**
 * Returns an `ExportLogsServiceRequest` in OTLP's JSON encoding. The body is the unchanged line; the attributes are for
 * searching.
 */
export function toOtlp(lines: readonly ExportLine[]): string {
  return JSON.stringify({
    resourceLogs: [
      {
        resource: { attributes: attributes({ "service.name": "safe-tool-call" }) },
        scopeLogs: [{ scope: { name: "safe-tool-call/audit" }, logRecords: lines.map(recordOf) }],
      },
    ],
  });
}

function recordOf({ stream, day, offset, line, members, entry, timeMs }: ExportLine): object {
  const [severityNumber, severityText] = SEVERITIES[entry?.decision ?? ""] ?? INFO;
  const [traceId, spanId] = [entry?.wireTraceId ?? "", entry?.wireSpanId ?? ""];
  return {
    timeUnixNano: nanosOf(timeMs),
    observedTimeUnixNano: nanosOf(timeMs),
    severityNumber,
    severityText,
    body: { stringValue: line },
    attributes: attributes({
      "stc.stream": stream,
      // Identical when a line is sent twice, so that receivers can drop the duplicate.
      "stc.place": `${day}:${offset}`,
      "service.instance.id": textOf(members["instance"]),
      "stc.type": textOf(members["type"]),
      "stc.trace_id": entry?.traceId,
      "stc.tool": entry?.tool,
      "stc.decision": entry?.decision,
      "stc.code": entry?.code,
      "stc.stage": entry?.stage,
      "enduser.id": entry?.sub,
    }),
    ...(W3C_TRACE.test(traceId) && { traceId }),
    ...(W3C_TRACE.test(traceId) && W3C_SPAN.test(spanId) && { spanId }),
  };
}

function attributes(values: Readonly<Record<string, string | undefined>>): readonly object[] {
  return Object.entries(values).flatMap(([key, value]) =>
    value === undefined ? [] : [{ key, value: { stringValue: value } }],
  );
}

/** Converts milliseconds to nanoseconds as a string: a number would not be exact. */
export function nanosOf(ms: number): string {
  return `${Math.max(0, Math.trunc(ms))}000000`;
}

/**
 * Returns the number of records that the collector rejected although it accepted the request, which must not be sent
 * again.
 */
export function rejectedByOtlp(answer: string): number {
  try {
    const parsed = JSON.parse(answer) as { readonly partialSuccess?: { readonly rejectedLogRecords?: unknown } } | null;
    const rejected = Number(parsed?.partialSuccess?.rejectedLogRecords ?? 0);
    return Math.max(rejected, 0);
  } catch {
    return 0;
  }
}
