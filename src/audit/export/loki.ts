import { textOf } from "../query/view.ts";
import type { ExportLine } from "./batch.ts";
import { nanosOf } from "./otlp.ts";

/** Path of Loki's push API, used when the URL has no path. */
export const LOKI_PATH = "/loki/api/v1/push";

const LABEL_CHARACTERS_MAX = 128;

/**
 * Returns a push request in JSON. Labels have few distinct values: one stream per caller or trace would overload Loki,
 * so callers and traces are only in the line.
 */
export function toLoki(lines: readonly ExportLine[]): string {
  const streams = new Map<string, { readonly stream: Labels; readonly values: (readonly [string, string])[] }>();
  for (const line of lines) {
    const labels = labelsOf(line);
    const key = JSON.stringify(labels);
    const stream = streams.get(key) ?? { stream: labels, values: [] };
    streams.set(key, stream);
    stream.values.push([nanosOf(line.timeMs), line.line]);
  }
  return JSON.stringify({ streams: [...streams.values()] });
}

type Labels = Readonly<Record<string, string>>;

function labelsOf({ stream, members, entry }: ExportLine): Labels {
  const labels = {
    job: "safe-tool-call",
    stream,
    instance: textOf(members["instance"]),
    type: stream === "journal" ? textOf(members["type"]) : undefined,
    decision: entry?.decision,
    classification: entry?.classification,
    // Clients can choose the names of unknown tools freely.
    tool: entry?.classification === "unknown" ? "unknown" : entry?.tool,
  };
  const given = Object.entries(labels).filter((entry): entry is [string, string] => entry[1] !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, value.slice(0, LABEL_CHARACTERS_MAX)]));
}
