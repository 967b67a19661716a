/** What the bench can measure, in the order in which it is printed. The goals are set here and nowhere else. */
export const FIGURES = {
  http_c64_ratio: {
    about: "governed POST /call against a bare fastify route, 64 connections",
    goal: { atLeast: 0.55 },
  },
  http_cpu_ratio: { about: "the same in processor time of the server process", goal: { atLeast: 0.5 } },
  http_cpu_bun_serve_ratio: { about: "processor time against a bare Bun.serve route" },
  http_c1_added_us: {
    about: "1 connection: added to the bare fastify route, at the median",
    unit: "µs",
    goal: { atMost: 120, above: "fdatasync_us" },
  },
  http_c1_own_us: { about: "the same without one write + fdatasync", unit: "µs" },
  fdatasync_us: { about: "one write + fdatasync here", unit: "µs" },
  http_load_us: { about: "load generator: its processor time for a call, at most", unit: "µs" },
  http_load_busy: { about: "load generator: cores that it used, at most (64 connections)" },
  mcp_c64_ratio: {
    about: "governed MCP tools/call against the bare route, 64 connections",
    goal: { atLeast: 0.4 },
  },
  mcp_added_us: {
    about: "MCP against POST /call at 1 connection, at the median",
    unit: "µs",
    goal: { atMost: 60 },
  },
  mcp_sessions_per_second: { about: "MCP sessions of 2025-11-25: initialize, list, call" },
  mcp_load_us: { about: "load generator: its processor time for a call, at most", unit: "µs" },
  mcp_load_busy: { about: "load generator: cores that it used, at most (64 connections)" },
  mcp_through_cpu_ratio: {
    about: "processor time of a call to a tool of an MCP server against a bare route",
  },
  mcp_through_cpu_us: { about: "the same for one call, of the service's process", unit: "µs" },
  mcp_through_load_us: { about: "load generator: its processor time for a call, at most", unit: "µs" },
  mcp_through_load_busy: { about: "load generator: cores that it used, at most (32 connections)" },
  workers_ratio: {
    about: "calls per core-second, two workers against one process, times two",
    goal: { atLeast: 1.7 },
  },
  tenants_cheap_p50_ratio: { about: "tenants: median latency while another floods with cheap calls, against alone" },
  tenants_cheap_p99_ratio: { about: "the same at the 99th percentile" },
  tenants_cheap_undivided_ratio: {
    about: "median latency under that flood against two callers of one service",
    goal: { atMost: 0.5 },
  },
  tenants_slow_p50_ratio: { about: "tenants: while another holds all the places it gets with slow calls" },
  tenants_slow_p99_ratio: { about: "the same at the 99th percentile" },
  tenants_slow_undivided_refused: { about: "part of the calls that is refused then to a caller of the same service" },
  tenants_approvals_p50_ratio: { about: "tenants: while another floods with requests for approval, and changes" },
  tenants_approvals_p99_ratio: { about: "the same at the 99th percentile" },
  tenants_refused: { about: "tenants: calls refused in all three floods", goal: { atMost: 0 } },
  mcp_upstream_ratio: {
    about: "governed tool of an MCP server against the official client",
    goal: { atLeast: 0.6 },
  },
  mcp_upstream_cpu_ratio: { about: "the same in processor time of this process" },
  library_us: {
    about: "library call, 64 in flight: processor time of this process",
    unit: "µs",
    goal: { atMost: 12 },
  },
  library_ratio: { about: "the same against JSON and Zod of the same function alone" },
  quotas_added_us: {
    about: "added by three quotas to a library call, with leases",
    unit: "µs",
    goal: { atMost: 3 },
  },
  data_flow_prose_ratio: { about: "data flow: 4 KB of prose fingerprinted against its SHA-256", goal: { atMost: 5 } },
  data_flow_addresses_ratio: { about: "the same for mail addresses", goal: { atMost: 5 } },
  data_flow_codes_ratio: { about: "the same for codes, numbers and UUIDs", goal: { atMost: 5 } },
  data_flow_read_us: {
    about: "data flow with SQLite: a call that reads 1 KB, at the median",
    unit: "µs",
    goal: { atMost: 120 },
  },
  data_flow_read_p99_us: { about: "the same at the 99th percentile", unit: "µs", goal: { atMost: 1000 } },
  data_flow_send_us: {
    about: "data flow with SQLite: a call that sends, at the median",
    unit: "µs",
    goal: { atMost: 120 },
  },
  data_flow_send_p99_us: { about: "the same at the 99th percentile", unit: "µs", goal: { atMost: 1000 } },
  grpc_ratio: { about: "governed gRPC call against grpc-js alone, 32 in flight", goal: { atLeast: 0.62 } },
  grpc_cpu_ratio: { about: "the same in processor time of this process" },
  http_target_ratio: {
    about: "governed request to an HTTP service against the request alone, 32 in flight",
    goal: { atLeast: 0.5 },
  },
  http_target_cpu_ratio: { about: "the same in processor time of the servers" },
  sql_ratio: {
    about: "governed query of PostgreSQL against the same transaction by the driver alone, 32 in flight",
    goal: { atLeast: 0.6 },
  },
  sql_cpu_ratio: { about: "the same in processor time of this process" },
  sql_while_written_ratio: { about: "the speed while another program commits a change per millisecond" },
  sql_many_rows_mb: {
    about: "memory that a result of ten million rows behind a limit adds",
    unit: "MB",
    goal: { atMost: 20 },
  },
  cli_added_ms: {
    about: "governed command against Bun.spawn alone, added",
    unit: "ms",
    goal: { atMost: 0.6 },
  },
  gate_pass_us: { about: "approval gate, for a change that asks nobody", unit: "µs", goal: { atMost: 20 } },
  gate_grant_us: {
    about: "approval gate, for a call that a session's approval covers",
    unit: "µs",
    goal: { atMost: 1000 },
  },
  rss_mb: { about: "memory after 100,000 calls, settings of the image", unit: "MB", goal: { atMost: 140 } },
  rss_second_half_ratio: { about: "memory, second half against first", goal: { atMost: 1.02 } },
  idle_rss_mb: {
    about: "memory of the binary that is ready, before any call",
    unit: "MB",
    goal: { atMost: 90 },
  },
  ready_ms: { about: "start of the binary until it is ready", unit: "ms", goal: { atMost: 250 } },
  audit_stats_ratio: { about: "audit stats over a million calls (1 GB) against DuckDB", goal: { atMost: 2 } },
  audit_first_stats_ratio: { about: "the same the first time, when the index is built" },
  audit_trace_ms: { about: "one trace id in that day", unit: "ms", goal: { atMost: 150 } },
  audit_plain_trace_ms: { about: "the same without the index", unit: "ms" },
} as const satisfies Readonly<Record<string, Figure>>;

type Unit = "µs" | "ms" | "MB";

type Goal =
  | { readonly atLeast: number }
  /** `above`: the key of a figure of the same run, which is added. */
  | { readonly atMost: number; readonly above?: string };

interface Figure {
  readonly about: string;
  readonly unit?: Unit;
  readonly goal?: Goal;
}

export type Measured = Partial<Record<keyof typeof FIGURES, number>>;

const DIGITS: Readonly<Record<Unit, number>> = { µs: 1, ms: 2, MB: 0 };

/** Returns a line for each figure that was measured, with its goal. */
export function figureLines(measured: Measured): readonly string[] {
  const values: Readonly<Record<string, number>> = measured;
  return Object.entries<Figure>(FIGURES).flatMap(([key, { about, unit, goal }]) => {
    const value = values[key];
    if (value === undefined) return [];
    const written = `${value.toFixed(unit === undefined ? 2 : DIGITS[unit])} ${unit ?? ""}`;
    return [
      `${about.padEnd(78)}${written.padStart(10)}   ${goal === undefined ? "" : againstGoal(value, goal, values)}`,
    ];
  });
}

function againstGoal(value: number, goal: Goal, values: Readonly<Record<string, number>>): string {
  if ("atLeast" in goal) return `≥ ${goal.atLeast}${value >= goal.atLeast ? "" : " (missed)"}`;
  const { atMost, above } = goal;
  const most = atMost + (above === undefined ? 0 : (values[above] ?? 0));
  return `≤ ${Number(most.toFixed(2))}${value <= most ? "" : " (missed)"}`;
}
