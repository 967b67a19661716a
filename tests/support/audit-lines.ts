import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { type AuditEntry, type EntryDraft, serializeEntry, stampEntry, UNSTAMPED } from "../../src/audit/entry.ts";

type Changes = { readonly [Member in keyof AuditEntry]?: AuditEntry[Member] | undefined };

/** One line of the log as the writer makes it, without its end. */
export function entryLine(timestamp: string, changes: Changes = {}): string {
  const draft: EntryDraft = {
    ...UNSTAMPED,
    traceId: "00000000-0000-7000-8000-000000000000",
    caller: { sub: "agent-7", permissions: ["customer:read"], iss: "https://idp.test" },
    tool: { name: "get_customer", classification: "read", targetSystem: "customer-master-service" },
    request: { args: { id: "C-1" }, argsHash: "a".repeat(64), hashAlg: "sha256" },
    decision: "ALLOWED",
    response: { filteredFields: [], outputHash: "b".repeat(64) },
    duration: 12.5,
    ...(changes as Partial<EntryDraft>),
  };
  return serializeEntry(stampEntry(draft, { timestamp, instance: "test", tenant: undefined }));
}

export function refusedLine(
  timestamp: string,
  [code, stage]: readonly [NonNullable<AuditEntry["error"]>["code"], NonNullable<AuditEntry["denial"]>["stage"]],
  changes: Changes = {},
): string {
  return entryLine(timestamp, {
    decision: "DENIED",
    response: undefined,
    error: { code },
    denial: { reason: `refused: ${code}`, stage },
    ...changes,
  });
}

/** Writes the lines under their days; `folder` is a stream's, below the audit directory. */
export function writeDays(dir: string, days: Readonly<Record<string, readonly string[]>>): void {
  mkdirSync(dir, { recursive: true });
  for (const [day, lines] of Object.entries(days)) {
    const fd = openSync(join(dir, `${day}.jsonl`), "a", 0o600);
    writeSync(fd, lines.map((line) => `${line}\n`).join(""));
    closeSync(fd);
  }
}

const TOOLS = ["get_customer", "search_customers", "git_diff_branches", "k8s_get_pods", "update_address"] as const;

/** Of the entry with this number on a generated day. */
export function generatedTraceId(index: number): string {
  const hex = (index * 2_654_435_761).toString(16).padStart(12, "0").slice(-12);
  return `0198d000-0000-7000-8000-${hex}`;
}

/**
 * A day of `count` entries, spread over it: five tools, a thousand callers, one refusal in ten. `finish` may change each
 * line.
 */
export function writeGeneratedDay(dir: string, day: string, count: number, finish = (line: string) => line): void {
  mkdirSync(dir, { recursive: true });
  const fd = openSync(join(dir, `${day}.jsonl`), "w", 0o600);
  const from = Date.parse(`${day}T00:00:00.000Z`);
  const stepMs = 86_400_000 / count;
  let batch: string[] = [];
  for (let index = 0; index < count; index += 1) {
    const timestamp = new Date(from + Math.floor(index * stepMs)).toISOString();
    const changes = generatedChanges(index);
    const line =
      index % 10 === 3
        ? refusedLine(timestamp, ["PERMISSION_DENIED", "PERMISSION"], {
            ...changes,
            decisionReasons: [
              { point: "permissions", verdict: "deny", reason: `customer:${index % 20 === 3 ? "write" : "read"}` },
            ],
          })
        : entryLine(timestamp, changes);
    batch.push(finish(line));
    if (batch.length === 5_000 || index === count - 1) {
      writeSync(fd, `${batch.join("\n")}\n`);
      batch = [];
    }
  }
  closeSync(fd);
}

function generatedChanges(index: number): Changes {
  const name = TOOLS[index % TOOLS.length] ?? "get_customer";
  return {
    traceId: generatedTraceId(index),
    caller: { sub: `agent-${index % 1_000}`, permissions: ["customer:read", "git:read"], iss: "https://idp.test" },
    tool: { name, classification: index % 5 === 4 ? "write" : "read", targetSystem: `system-${index % 5}` },
    request: { args: { id: `C-${index % 5_000}`, note: "[not logged]" }, argsHash: "a".repeat(64), hashAlg: "sha256" },
    duration: (index % 997) + 0.25,
    plan: { digest: "c".repeat(64) },
    stages: { AUTH: 0.1, PERMISSION: 0.02, VALIDATION: 0.05, PLAN: 0.3, APPROVAL: 0.01, EXECUTION: 8.5, OUTPUT: 0.2 },
  };
}
