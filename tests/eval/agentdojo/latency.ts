import type { AuditEntry } from "../../../src/audit/entry.ts";
import { type RunOptions, replay, type SuitePlan } from "./runs.ts";
import type { Stand, StandOptions } from "./stand.ts";

interface LatencyOptions {
  readonly suites: readonly string[];
  readonly planOf: (suite: string) => SuitePlan;
  readonly withStand: <T>(
    suite: string,
    dataFlow: StandOptions["dataFlow"],
    use: (stand: Stand) => Promise<T>,
  ) => Promise<T>;
  readonly ruleSet: RunOptions & { readonly dataFlow: Readonly<Record<string, unknown>> };
}

/** Rounds of each suite, with and without data flow in turns; the first one warms up. */
const ROUNDS = 6;

/** Compares the proxy's own time of each call of the users' tasks with data flow and without: the same calls, in turns. */
export async function latency({ suites, planOf, withStand, ruleSet }: LatencyOptions): Promise<readonly string[]> {
  const on: number[] = [];
  const off: number[] = [];
  const differences: number[] = [];
  /** Of calls whose answer gave the caller a new label, which is written to disk before the answer is sent. */
  const withNewLabel: number[] = [];
  for (const suite of suites) {
    await withStand(suite, ruleSet.dataFlow, (following) =>
      withStand(suite, undefined, async (plain) => {
        for (let round = 0; round < ROUNDS; round += 1) {
          const [mine, theirs] = [await ownTimes(following), await ownTimes(plain)];
          if (round === 0) continue;
          for (const [index, time] of mine.entries()) {
            const other = theirs[index];
            // A call that asks waits for a person: only calls that pass in both are compared.
            if (time === undefined || other === undefined) continue;
            on.push(time.ms);
            off.push(other.ms);
            (time.hasNewLabel ? withNewLabel : differences).push(time.ms - other.ms);
          }
        }
      }),
    );
    async function ownTimes(stand: Stand): Promise<readonly (OwnTime | undefined)[]> {
      const traces: (string | undefined)[] = [];
      for (const task of planOf(suite).tasks) {
        const { userCalls } = await replay(stand, task, ruleSet);
        traces.push(...userCalls.map(({ asked, traceId }) => (asked === undefined ? traceId : undefined)));
      }
      const audit = stand.audit();
      return traces.map((trace) => (trace === undefined ? undefined : ownTime(audit.get(trace))));
    }
  }
  return [
    `| | p50 | p95 | p99 | calls |`,
    `|---|---|---|---|---|`,
    row("with data flow", on),
    row("without", off),
    row("difference of the same call, without a new label", differences),
    row("difference of the same call, with a new label", withNewLabel),
  ];
}

interface OwnTime {
  /** Milliseconds that its target did not take. */
  readonly ms: number;
  readonly hasNewLabel: boolean;
}

function ownTime(entry: AuditEntry | undefined): OwnTime | undefined {
  if (entry?.stages === undefined) return undefined;
  const { before, after } = entry.dataFlow ?? {};
  const hasNewLabel = JSON.stringify(before) !== JSON.stringify(after);
  return { ms: entry.duration - (entry.stages["EXECUTION"] ?? 0), hasNewLabel };
}

function row(name: string, times: readonly number[]): string {
  const sorted = [...times].sort((one, other) => one - other);
  const at = (share: number): string => {
    const time = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
    return `${Math.round(time * 1_000)} µs`;
  };
  return `| ${name} | ${at(0.5)} | ${at(0.95)} | ${at(0.99)} | ${sorted.length} |`;
}
