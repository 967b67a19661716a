/** Members that are left out: times, durations, and hashes over these. */
const LEFT_OUT = new Set([
  ...["durationMs", "duration", "stages", "hash", "prev", "pid", "remainingMs"],
  ...["p50", "p95", "p99", "medianSeconds", "p90Seconds", "hastyShare", "quickApprovalShare"],
  // A secret decides which words become fingerprints.
  "bytes",
  // Checkpoints are written once a second.
  ...["checkpoints", "covered", "compared"],
]);

/** Replaces what differs between two services that did the same: times, ids, secrets and ports. Keeps everything else. */
export function normal(value: unknown): unknown {
  if (typeof value === "string") return normalText(value);
  if (typeof value === "number") return value > 1e9 ? "#time" : value;
  if (Array.isArray(value)) return value.map(normal);
  if (value instanceof Uint8Array) return "#bytes";
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([name]) => !LEFT_OUT.has(name));
  return Object.fromEntries(kept.map(([name, member]) => [name, normal(member)]));
}

function normalText(text: string): string {
  if (/^\{.*\}\n/.test(text)) return text.split("\n").map(normalText).join("\n");
  const inner = parsed(text);
  if (inner !== undefined) return JSON.stringify(normal(inner));
  return text
    .replace(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "#id")
    .replace(/\d{4}-\d\d-\d\d(?:T[\d:.]+Z)?/g, "#time")
    .replace(/127\.0\.0\.1:\d+/g, "#address")
    .replace(/[A-Za-z0-9_+/=-]{32,}/g, "#id")
    .replace(/\b\d{10,13}\b/g, "#time");
}

function parsed(text: string): object | undefined {
  if (!/^[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
