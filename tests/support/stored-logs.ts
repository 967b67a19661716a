import { expect } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chainBytes, genesisOf, LineChain } from "../../src/audit/chain/chain.ts";
import { MerkleTree } from "../../src/audit/chain/merkle-tree.ts";
import type { AuditEntry } from "../../src/audit/entry.ts";
import { Exporter } from "../../src/audit/export/exporter.ts";
import { EXPORT_STREAMS } from "../../src/audit/export/positions.ts";
import type { Receiver } from "../../src/audit/export/receiver.ts";
import { historyIn, readCallHistory } from "../../src/audit/query/call-history.ts";
import { mergedLines } from "../../src/audit/query/merged.ts";
import { type Params, readFilter, readQuery } from "../../src/audit/query/params.ts";
import { readStats } from "../../src/audit/stats/stats.ts";
import type { AuditStore } from "../../src/audit/store/audit-store.ts";
import { readStoreQuery } from "../../src/audit/store/store-query.ts";
import { FILTER_ROWS } from "../../src/core/audit-fields.ts";
import { entryLine } from "./audit-lines.ts";
import { until } from "./until.ts";

/** Logs of several replicas whose lines have every kind of value that a filter can ask for, and values that are hard to store. */

export const DAYS = ["2026-02-15", "2026-02-16"] as const;
export const NOW = Date.parse("2026-02-17T00:00:00.000Z");
const DAY_MS = 86_400_000;

const SUBS = [
  "agent-7",
  "agent_7",
  "agent%7",
  'od"d\\',
  "Größe",
  "nul\0",
  "lone\ud800",
  "a\tb\nc",
  "'; DROP TABLE x;--",
];
const TOOLS = ["get_customer", "git_log", "bash", "x\ty", ""];
const SYSTEMS = ["crm", "git", "crm "];
const APPROVERS = [
  undefined,
  "callback",
  "human:alice",
  "human:https://idp.test|alice",
  "human:alice, human:https://idp.test|bob",
  "human:a|b|carol, human:alice, human",
  "callback, human:alice",
  'human:al"ice\\|dave',
  "APPROVAL_REQUIRED",
];
const REASONS = [
  undefined,
  [["permissions", "customer:write"]],
  [
    ["risk", "floor:destructive"],
    ["permissions", "floor"],
  ],
  [["quota", 'spent "all"\\ of it']],
  [["risk", "permissions"]],
] as const;
const OUTCOMES = [
  {},
  { decision: "DENIED", error: { code: "PERMISSION_DENIED" }, denial: { reason: "no", stage: "PERMISSION" } },
  { decision: "ERROR", error: { code: "OUTCOME_UNKNOWN" }, denial: { reason: "no", stage: "EXECUTION" } },
  { decision: "PENDING", error: { code: "APPROVAL_REQUIRED" }, denial: { reason: "ask", stage: "APPROVAL" } },
  { decision: "DENIED", error: { code: "INVALID_TOKEN" }, denial: { reason: "no", stage: "AUTH" }, count: 17 },
] as const;
const DURATIONS = [0, 0.0004, 0.25, 12.345, 999.9, 1_234.5, 86_400_000];
const CLIENTS = [undefined, "claude", "Claude", 'cl"aude'];
const TEXTS = ["plain", "GRÖSSE größe", "100%_sure", "back\\slash", "\u{1f600}"];

function id(replica: number, index: number): string {
  return `0198d000-0000-7000-8${String(replica).padStart(3, "0")}-${String(index).padStart(12, "0")}`;
}

function approvalId(replica: number, index: number): string {
  return id(replica, index).replace("0198d000", "0198e000");
}

function pick<T>(values: readonly T[], index: number): T {
  return values[index % values.length] as T;
}

/** Each list is walked at its own pace, so that the values meet each other. */
function changes(replica: number, index: number): Partial<AuditEntry> {
  const by = pick(APPROVERS, Math.floor(index / 3));
  const reasons = pick(REASONS, Math.floor(index / 2) + replica);
  const client = pick(CLIENTS, Math.floor(index / 5));
  return {
    traceId: id(replica, index),
    caller: {
      sub: pick(SUBS, index),
      permissions: ["customer:read"],
      ...(index % 4 > 0 && { iss: `https://idp-${index % 3}.test` }),
    },
    tool: {
      name: pick(TOOLS, Math.floor(index / 4)),
      classification: pick(["read", "write", "destructive", "unknown"], Math.floor(index / 7)),
      targetSystem: pick(SYSTEMS, Math.floor(index / 11)),
    },
    request: { args: { note: pick(TEXTS, index) }, argsHash: "a".repeat(64), hashAlg: "sha256" },
    duration: pick(DURATIONS, index) + (index % 50),
    ...((by !== undefined || index % 6 === 0) && { approval: { by, id: approvalId(replica, Math.floor(index / 6)) } }),
    ...(reasons !== undefined && {
      decisionReasons: reasons.map(([point, reason]) => ({ point, verdict: "deny" as const, reason })),
    }),
    ...(client !== undefined && {
      protocol: { name: "mcp" as const, version: "1", client: { name: client, version: "1" } },
    }),
    ...(index % 2 === 0 && { trace: { traceId: index.toString(16).padStart(32, "0") } }),
    ...(pick(OUTCOMES, index) as Partial<AuditEntry>),
  };
}

function chained(stream: "calls" | "journal", bodies: readonly string[]): readonly string[] {
  const prev = genesisOf(stream).digest("hex");
  const chain = new LineChain({ seq: 0, prev, tree: new MerkleTree(), logId: undefined });
  return bodies.map((body, seq) => {
    const bytes = Buffer.alloc(Buffer.byteLength(body) + chainBytes(seq) + 1);
    return bytes.toString("utf8", 0, chain.seal(body, bytes, 0) - 1);
  });
}

/**
 * Writes the log of a replica, or of one of its tenants: `count` calls over two days, and a journal with a line for every sixth.
 * Returns its directory.
 */
export function writeReplica(folder: string, replica: number, count: number, tenant?: string): string {
  const dir = join(folder, `replica-${replica}`);
  const began = Date.parse(`${DAYS[0]}T00:00:00.000Z`);
  const stepMs = (DAYS.length * DAY_MS) / count;
  const timeOf = (index: number): string => new Date(began + Math.floor(index * stepMs) + replica).toISOString();
  const calls = Array.from({ length: count }, (_, index) => ({
    at: timeOf(index),
    body: entryLine(timeOf(index), changes(replica, index)).replace(
      '"instance":"test"',
      `"instance":"replica-${replica}"${tenant === undefined ? "" : `,"tenant":"${tenant}"`}`,
    ),
  }));
  const journal = Array.from({ length: Math.ceil(count / 6) }, (_, index) => ({
    at: timeOf(index * 6),
    body: JSON.stringify({
      timestamp: timeOf(index * 6),
      // An approval that was requested on one replica is decided on the next.
      type: "approval.decided",
      id: approvalId(replica === 0 ? 1 : 0, index),
      sub: "alice",
      instance: `replica-${replica}`,
      tenant,
    }),
  }));
  for (const [stream, lines] of [
    ["calls", calls],
    ["journal", journal],
  ] as const) {
    const to = stream === "calls" ? dir : join(dir, "journal");
    mkdirSync(to, { recursive: true });
    const texts = chained(
      stream,
      lines.map(({ body }) => body),
    );
    for (const day of DAYS) {
      const own = texts.filter((_, index) => lines[index]?.at.startsWith(day) === true);
      writeFileSync(join(to, `${day}.jsonl`), own.map((line) => `${line}\n`).join(""));
    }
  }
  return dir;
}

/** Sends both streams of a log to a receiver, until it has all of it. */
export async function exportLog(dir: string, receiver: Receiver): Promise<void> {
  const reports: string[] = [];
  for (const stream of EXPORT_STREAMS) {
    const exporter = new Exporter({
      dir,
      stream,
      target: { name: "store", receiver },
      clock: () => NOW,
      random: () => 0,
      report: (message) => reports.push(message),
      pollMs: 5,
      backoffMs: 5,
    });
    try {
      await until("the end of the log", () => {
        if (reports.length > 0) throw new Error(reports.join("\n"));
        return exporter.state().bytesBehind === 0 ? true : undefined;
      });
    } finally {
      await exporter.stop();
    }
  }
}

const LIMITS = { limit: 100_000, limitMax: 1_000_000, nowMs: NOW };

export function fileQuery(params: Params) {
  const read = readQuery(params, LIMITS);
  if ("faults" in read) throw new Error(read.faults.join("; "));
  return read.ok;
}

export function storeQuery(params: Params, limit = LIMITS.limit) {
  const read = readStoreQuery(params, { ...LIMITS, limit });
  if ("faults" in read) throw new Error(read.faults.join("; "));
  return read.ok;
}

async function fromFiles(dirs: readonly string[], params: Params): Promise<readonly string[]> {
  const found: string[] = [];
  const logs = dirs.map((dir) => ({ dir }));
  for await (const { line } of mergedLines({ logs, query: fileQuery(params), pageBytesMax: 1e9 })) found.push(line);
  return found;
}

async function fromStore(store: AuditStore, params: Params): Promise<readonly string[]> {
  const found: string[] = [];
  for await (const { line } of store.lines(storeQuery(params))) found.push(line);
  return found;
}

/** Values of each filter: some that occur, some that only resemble them, some that are patterns in SQL. */
const ASKED: Readonly<Record<string, readonly string[]>> = {
  from: ["2026-02-15T12:00:00Z", "2026-02-16"],
  to: ["2026-02-16T11:59:59.999Z", "2026-02-16"],
  text: ["größe", "GRÖSSE", "100%_", "back\\\\slash", "AGENT-7", "REPLICA-1", "nowhere", "a\0"],
  traceId: [id(0, 8), id(1, 9).toUpperCase(), "8".padStart(32, "0"), "none"],
  approval: [approvalId(0, 2), approvalId(1, 3), "none"],
  sub: [...SUBS.filter((sub) => sub.isWellFormed()), "agent", "agent-_", "Agent-7"],
  iss: ["https://idp-0.test", "https://idp-%.test"],
  tool: ["get_customer", "bash", "x\ty", "get%", "GIT_LOG"],
  system: ["crm", "crm ", "c"],
  classification: ["read", "unknown"],
  decision: ["ALLOWED", "DENIED", "PENDING"],
  stage: ["PERMISSION", "AUTH"],
  code: ["PERMISSION_DENIED", "OUTCOME_UNKNOWN"],
  approver: [
    ...["alice", "bob", "carol", "b|carol", "https://idp.test|alice", "callback", "human:alice", "human", "ali"],
    ...["alice, human:https://idp.test|bob", "human:alice, human:https://idp.test|bob", "dave", 'al"ice\\|dave'],
  ],
  reason: ["permissions", "risk", "floor", "floor:", "customer:write", "write", "%", 'spent "all"\\', "risk\tfloor"],
  client: ["claude", "Claude", 'cl"aude', "cl%"],
  tenant: ["acme", "acm%", "ACME"],
};

/** Every filter alone with every value, and every pair of filters with two values each, in either order. */
export function askedParams(): readonly Params[] {
  const alone = Object.entries(ASKED).flatMap(([name, values]) => values.map((value) => ({ [name]: value })));
  const names = Object.keys(ASKED);
  const pairs = names.flatMap((one, at) =>
    names
      .slice(at + 1)
      .flatMap((other) =>
        (ASKED[one] ?? [])
          .slice(0, 2)
          .flatMap((value) => (ASKED[other] ?? []).slice(0, 2).map((second) => ({ [one]: value, [other]: second }))),
      ),
  );
  return [{}, ...alone, ...pairs].filter(({ from = "", to = "9" }: Params) => from < to);
}

export function everyFilterIsAsked(): void {
  const filters = ["from", "to", "text", ...FILTER_ROWS.map(({ param }) => param)];
  expect(Object.keys(ASKED).sort()).toEqual(filters.sort());
}

/** Compares the answers of the store with those of the files, for each question. Returns how many were not empty. */
export async function compareLines(
  store: AuditStore,
  dirs: readonly string[],
  asked: readonly Params[],
): Promise<number> {
  let answered = 0;
  for (const [at, params] of asked.entries()) {
    const question = { ...params, order: at % 2 === 0 ? "newest" : "oldest" };
    const [files, stored] = [await fromFiles(dirs, question), await fromStore(store, question)];
    if (JSON.stringify(files) !== JSON.stringify(stored))
      expect({ question, lines: stored }).toEqual({ question, lines: files });
    if (files.length > 0) answered += 1;
  }
  return answered;
}

export async function compareStatistics(
  store: AuditStore,
  dirs: readonly string[],
  asked: readonly Params[],
): Promise<void> {
  const logs = dirs.map((dir) => ({ dir }));
  for (const params of asked) {
    const filter = readFilter(params, NOW);
    if ("faults" in filter) throw new Error(filter.faults.join());
    const stats = await readStats({ logs, filter: filter.ok });
    expect({ params, stats: await store.stats(filter.ok) }).toEqual({ params, stats });
  }
}

export async function compareStories(store: AuditStore, dirs: readonly string[]): Promise<void> {
  const logs = dirs.map((dir) => ({ dir }));
  for (const asked of [id(0, 6), approvalId(1, 2), approvalId(0, 13).toUpperCase(), "6".padStart(32, "0"), "none"]) {
    const files = await readCallHistory(historyIn({ logs }), asked);
    const stored = await readCallHistory(store, asked);
    expect(stored.lines.map(({ line }) => line)).toEqual(files.lines.map(({ line }) => line));
    if (asked !== "none") expect(new Set(stored.lines.map(({ line }) => /replica-\d/.exec(line)?.[0])).size).toBe(2);
  }
}
