import type { Fleet } from "./fleet.ts";

/** Counters of the hubs and their database since the start. */
export interface Counters {
  /** Sum of all hubs, by method. */
  readonly requests: ReadonlyMap<string, number>;
  /** Statements that wrote or read, without transactions' own. */
  readonly statements: number;
  readonly transactions: number;
  readonly rowsWritten: number;
  /** Without waits for other writers. */
  readonly databaseMs: number;
  /** For which writers waited for one another. */
  readonly turnMs: number;
  readonly hubCpuMs: number;
  readonly memberCpuMs: number;
  readonly atMs: number;
}

const SUMS = `
  SELECT coalesce(sum(calls) FILTER (WHERE query !~* '^\\s*(begin|commit|rollback|set|discard|start)'), 0)::float8 AS statements,
    coalesce(sum(calls) FILTER (WHERE query ~* '^\\s*(begin|start)'), 0)::float8 AS transactions,
    coalesce(sum(rows) FILTER (WHERE query ~* '^\\s*(insert|update|delete)'), 0)::float8 AS written,
    coalesce(sum(total_exec_time) FILTER (WHERE query !~ 'FOR UPDATE'), 0)::float8 AS ms,
    coalesce(sum(total_exec_time) FILTER (WHERE query ~ 'FOR UPDATE'), 0)::float8 AS turn
  FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
  WHERE d.datname = current_database() AND query !~ 'pg_stat_'`;

export async function countersOf(fleet: Fleet): Promise<Counters> {
  const requests = new Map<string, number>();
  for (const hub of fleet.hubs) {
    const { body } = await fleet.atHub("GET", "/metrics", undefined, hub);
    for (const [method, count] of hubRequestsIn(String(body)))
      requests.set(method, (requests.get(method) ?? 0) + count);
  }
  const [row = {}] = await fleet.query(SUMS);
  return {
    requests,
    statements: Number(row["statements"]),
    transactions: Number(row["transactions"]),
    rowsWritten: Number(row["written"]),
    databaseMs: Number(row["ms"]),
    turnMs: Number(row["turn"]),
    hubCpuMs: sumOf(fleet.hubs.map(({ cpuMs }) => cpuMs)),
    memberCpuMs: sumOf(fleet.members.map(({ cpuMs }) => cpuMs)),
    atMs: performance.now(),
  };
}

function hubRequestsIn(metrics: string): readonly (readonly [method: string, count: number])[] {
  return [...metrics.matchAll(/^stc_hub_requests_total\{([^}]*)\} (\d+)/gm)].map(([, labels = "", count]) => [
    /method="([^"]*)"/.exec(labels)?.[1] ?? "",
    Number(count),
  ]);
}

export interface Difference extends Omit<Counters, "atMs" | "requests"> {
  /** Counts by method, without zeros. */
  readonly requests: ReadonlyMap<string, number>;
  readonly requestsInAll: number;
  readonly seconds: number;
}

export function difference(before: Counters, after: Counters): Difference {
  const requests = new Map(
    [...after.requests]
      .map(([method, count]) => [method, count - (before.requests.get(method) ?? 0)] as const)
      .filter(([, count]) => count !== 0),
  );
  return {
    requests,
    requestsInAll: sumOf([...requests.values()]),
    statements: after.statements - before.statements,
    transactions: after.transactions - before.transactions,
    rowsWritten: after.rowsWritten - before.rowsWritten,
    databaseMs: after.databaseMs - before.databaseMs,
    turnMs: after.turnMs - before.turnMs,
    hubCpuMs: after.hubCpuMs - before.hubCpuMs,
    memberCpuMs: after.memberCpuMs - before.memberCpuMs,
    seconds: (after.atMs - before.atMs) / 1_000,
  };
}

/** Differences of the counters while the work ran. */
export async function during(fleet: Fleet, work: () => Promise<unknown>): Promise<Difference> {
  const before = await countersOf(fleet);
  await work();
  return difference(before, await countersOf(fleet));
}

export function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** Returns the value below which this share of the values is. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
