import { z } from "zod";
import { asString } from "../../core/json.ts";
import { collectorProblems } from "../../core/network.ts";

import type { ExportLine } from "./batch.ts";
import { kafkaExporter } from "./kafka.ts";
import { s3Exporter } from "./object-storage.ts";
import type { AuditExporter, Receiver } from "./receiver.ts";
import { post, readHeadersFile } from "./sender.ts";
import { clickHouseExporter, postgresExporter } from "./stores.ts";

const URL_CHARACTERS_MAX = 2_048;

/** Settings of a collector that accepts requests over HTTP. */
const collectorSettings = z
  .strictObject({
    url: z
      .url({ protocol: /^https?$/, error: "must be a URL that begins with https:// or http://" })
      .max(URL_CHARACTERS_MAX)
      .describe(
        "URL of the collector, for `otlp` and `loki`. A URL without a path gets the default path: /v1/logs for `otlp`, /loki/api/v1/push for `loki`.",
      ),
    headersFile: z
      .string()
      .min(1)
      .optional()
      .describe("File with headers to send, such as credentials: one `Name: value` per line."),
  })
  .superRefine(({ url, headersFile }, context) => {
    for (const message of collectorProblems(url, headersFile)) {
      context.addIssue({ code: "custom", path: ["url"], message });
    }
  });

/** Limit for one request, in milliseconds. */
const TIMEOUT_MS = 15_000;

interface Protocol<Type extends string> {
  readonly type: Type;
  /** Path of the receiver's endpoint, used when the URL has no path. */
  readonly path: string;
  readonly encode: (lines: readonly ExportLine[]) => string;
  /** Returns the number of lines that the receiver rejected in its answer. Without it, the answer is not read. */
  readonly rejected?: (answer: string) => number;
}

function collector<Type extends string>(
  protocol: Protocol<Type>,
): AuditExporter<Type, typeof collectorSettings, Receiver> {
  const { type, path, encode, rejected } = protocol;
  return {
    type,
    settings: collectorSettings,
    open(settings, parts) {
      const headers =
        settings.headersFile === undefined ? { ok: {} } : readHeadersFile(parts.path(settings.headersFile));
      if ("problem" in headers) {
        parts.problem("headersFile", `${settings.headersFile}: ${headers.problem}`);
        return undefined;
      }
      const url = new URL(settings.url);
      if (url.pathname === "/") url.pathname = path;
      const request = {
        url: url.href,
        headers: headers.ok,
        timeoutMs: TIMEOUT_MS,
        readsAnswer: rejected !== undefined,
      };
      return {
        async deliver(lines, signal) {
          const outcome = await post(encode(lines), { ...request, signal });
          return outcome.kind === "taken" ? { kind: "taken", rejected: rejected?.(outcome.answer) ?? 0 } : outcome;
        },
      };
    },
  };
}

/** A collector that accepts OTLP over HTTP, as JSON. */
export const otlpExporter = collector({
  type: "otlp",
  path: "/v1/logs",
  encode: toOtlp,
  rejected: rejectedByOtlp,
});

/** Grafana Loki. */
export const lokiExporter = collector({ type: "loki", path: "/loki/api/v1/push", encode: toLoki });

/** The exporters that every build has. */
export const AUDIT_EXPORTERS = [
  otlpExporter,
  lokiExporter,
  postgresExporter,
  clickHouseExporter,
  kafkaExporter,
  s3Exporter,
] as const;

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
function toOtlp(lines: readonly ExportLine[]): string {
  return JSON.stringify({
    resourceLogs: [
      {
        resource: { attributes: attributes({ "service.name": "safe-tool-call" }) },
        scopeLogs: [{ scope: { name: "safe-tool-call/audit" }, logRecords: lines.map(recordOf) }],
      },
    ],
  });
}

function recordOf(exported: ExportLine): object {
  const { stream, day, offset, line, log, seq, covers, members, entry, timeMs } = exported;
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
      // With the stream, they name a line or a checkpoint anywhere: receivers drop duplicates by them.
      "stc.log": log,
      "stc.seq": seq,
      "stc.covers": covers,
      // Identical when a line is sent twice, so that receivers can drop the duplicate.
      "stc.place": `${day}:${offset}`,
      "service.instance.id": asString(members["instance"]),
      "stc.tenant": asString(members["tenant"]),
      "stc.type": asString(members["type"]),
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

function attributes(values: Readonly<Record<string, string | number | undefined>>): readonly object[] {
  return Object.entries(values).flatMap(([key, value]) => {
    if (value === undefined) return [];
    // OTLP's JSON encoding writes 64-bit integers as text.
    return [{ key, value: typeof value === "number" ? { intValue: String(value) } : { stringValue: value } }];
  });
}

/** Converts milliseconds to nanoseconds as a string: a number would not be exact. */
function nanosOf(ms: number): string {
  return `${Math.max(0, Math.trunc(ms))}000000`;
}

/**
 * Returns the number of records that the collector rejected although it accepted the request, which must not be sent
 * again.
 */
function rejectedByOtlp(answer: string): number {
  try {
    const parsed = JSON.parse(answer) as { readonly partialSuccess?: { readonly rejectedLogRecords?: unknown } } | null;
    const rejected = Number(parsed?.partialSuccess?.rejectedLogRecords ?? 0);
    return Math.max(rejected, 0);
  } catch {
    return 0;
  }
}

/** Limit for each label and each member of the structured metadata. */
const VALUE_CHARACTERS_MAX = 128;

type Texts = Readonly<Record<string, string>>;
type LokiValue = readonly [time: string, line: string, metadata: Texts];

/**
 * Returns a push request in JSON. Loki limits the number of streams of a tenant, and each combination of labels is a
 * stream: labels are only what has the same few values in every fleet. Everything else is structured metadata. A line
 * is encoded alike each time, because Loki recognizes a line that is sent again by all of its parts.
 */
function toLoki(lines: readonly ExportLine[]): string {
  const streams = new Map<string, { readonly stream: Texts; readonly values: LokiValue[] }>();
  for (const line of lines) {
    const labels = definedTexts({ job: "safe-tool-call", stream: line.stream, decision: line.entry?.decision });
    const key = JSON.stringify(labels);
    const stream = streams.get(key) ?? { stream: labels, values: [] };
    streams.set(key, stream);
    stream.values.push([nanosOf(line.timeMs), line.line, metadataOf(line)]);
  }
  return JSON.stringify({ streams: [...streams.values()] });
}

function metadataOf({ day, offset, log, seq, covers, members, entry }: ExportLine): Texts {
  return definedTexts({
    log,
    seq: seq === undefined ? undefined : String(seq),
    covers,
    // Identical when a line is sent twice, so that readers can drop the duplicate.
    place: `${day}:${offset}`,
    instance: asString(members["instance"]),
    tenant: asString(members["tenant"]),
    type: asString(members["type"]),
    classification: entry?.classification,
    tool: entry?.tool,
    code: entry?.code,
    trace_id: entry?.traceId,
  });
}

function definedTexts(values: Readonly<Record<string, string | undefined>>): Texts {
  const given = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, value.slice(0, VALUE_CHARACTERS_MAX)]));
}
