import { type Difference, during, quantile, sumOf } from "./counters.ts";
import { type Fleet, forEach } from "./fleet.ts";
import type { Figure } from "./report.ts";
import type { FleetService } from "./service.ts";

const CHANGES_AT_ONCE = 8;

/** Costs of idle members at the hubs and the database. */
export async function idleCost(fleet: Fleet, seconds: number): Promise<Difference> {
  return during(fleet, () => Bun.sleep(seconds * 1_000));
}

/**
 * Compares members that nobody has called yet with the same services without a hub: memory, and processor time while nobody calls
 * them.
 */
export async function memberFigures(fleet: Fleet, seconds: number): Promise<readonly Figure[]> {
  const alone = [
    await fleet.startAlone("alone-0", { hasStore: false }),
    await fleet.startAlone("alone-1", { hasStore: false }),
    await fleet.startAlone("alone-2", { hasStore: false }),
  ];
  const stored = [await fleet.startAlone("stored-0", { hasStore: true })];
  const groups = { member: fleet.members.slice(1), alone, stored };
  // The starts have left work to do.
  await Bun.sleep(5_000);
  const before = mapOf(groups, (each) => each.cpuMs);
  await Bun.sleep(seconds * 1_000);
  const cpu = mapOf(groups, (each) => each.cpuMs);
  const perSecond = (name: keyof typeof groups) => (cpu[name] - before[name]) / seconds;
  const rss = mapOf(groups, (each) => each.rssMb);
  const pss = mapOf(groups, (each) => each.pssMb);
  return [
    { what: "memory of an idle member (RSS)", value: rss.member, unit: "MB", note: `PSS ${pss.member.toFixed(1)} MB` },
    { what: "the same without a hub", value: rss.alone, unit: "MB", note: `PSS ${pss.alone.toFixed(1)} MB` },
    {
      what: "memory that the hub adds to a member (PSS)",
      value: pss.member - pss.alone,
      ...{ unit: "MB", reach: 5, aim: 2 },
      note: `RSS ${(rss.member - rss.alone).toFixed(1)} MB; a SQLite store instead: PSS ${(pss.stored - pss.alone).toFixed(1)} MB`,
    },
    { what: "processor time of an idle member", value: perSecond("member"), unit: "ms/s" },
    {
      what: "the same without a hub",
      value: perSecond("alone"),
      unit: "ms/s",
      note: `with a SQLite store ${perSecond("stored").toFixed(2)} ms/s`,
    },
  ];
}

function mapOf<Name extends string>(
  groups: Readonly<Record<Name, readonly FleetService[]>>,
  value: (each: FleetService) => number,
): Readonly<Record<Name, number>> {
  const entries = Object.entries<readonly FleetService[]>(groups);
  return Object.fromEntries(
    entries.map(([name, all]) => [name, sumOf(all.map(value)) / Math.max(1, all.length)]),
  ) as Record<Name, number>;
}

interface Measured {
  readonly members: number;
  readonly idle: Difference;
}

/** Costs of one more member, from two sizes of the fleet; the work of hubs without members is excluded. */
export function slopeFigures(few: Measured, many: Measured): readonly Figure[] {
  const added = many.members - few.members;
  const rate = (of: (idle: Difference) => number) =>
    (of(many.idle) / many.idle.seconds - of(few.idle) / few.idle.seconds) / added;
  const perSecond = (of: (idle: Difference) => number, at: Measured) => of(at.idle) / at.idle.seconds;
  const row = (what: string, unit: string, of: (idle: Difference) => number): Figure => ({
    what: `an idle member costs: ${what}`,
    value: rate(of),
    unit,
    note: `${few.members} members ${perSecond(of, few).toFixed(2)}, ${many.members} members ${perSecond(of, many).toFixed(2)} ${unit}`,
  });
  const methods = [...many.idle.requests].map(
    ([method, count]) => `${method} ${(count / many.idle.seconds / many.members).toFixed(3)}`,
  );
  return [
    { ...row("requests at the hub", "/s", ({ requestsInAll }) => requestsInAll) },
    { what: "requests of an idle member, by method", value: methods.length, unit: "methods", note: methods.join(", ") },
    row("processor time of the hubs", "ms/s", ({ hubCpuMs }) => hubCpuMs),
    row("statements at PostgreSQL", "/s", ({ statements }) => statements),
    row("rows written", "/s", ({ rowsWritten }) => rowsWritten),
    row("time in PostgreSQL", "ms/s", ({ databaseMs }) => databaseMs),
  ];
}

/** Costs of one call at the hubs and the database, without the idle costs of the same time. */
export async function callFigures(fleet: Fleet, idle: Difference, perMember: number): Promise<readonly Figure[]> {
  const all = Array.from({ length: perMember }, () => fleet.members).flat();
  const ms: number[] = [];
  const load = async (work: (member: FleetService) => Promise<unknown>): Promise<Difference> =>
    during(fleet, () =>
      forEach(all, CHANGES_AT_ONCE, async (member) => {
        const from = performance.now();
        await work(member);
        ms.push(performance.now() - from);
      }),
    );
  const reads = await load((member) => fleet.call(member, "look", "cost"));
  ms.length = 0;
  const changes = await load((member) => fleet.change(member, crypto.randomUUID()));
  const each = (counted: Difference, of: (counted: Difference) => number) =>
    (of(counted) - (of(idle) / idle.seconds) * counted.seconds) / all.length;
  const row = (what: string, unit: string, of: (counted: Difference) => number): Figure => ({
    what: `a change with an approval costs: ${what}`,
    value: each(changes, of),
    unit,
    note: `a read ${each(reads, of).toFixed(2)} ${unit}`,
  });
  return [
    row("requests at the hub", "", ({ requestsInAll }) => requestsInAll),
    row("processor time of the hubs", "ms", ({ hubCpuMs }) => hubCpuMs),
    row("processor time of the member", "ms", ({ memberCpuMs }) => memberCpuMs),
    row("transactions at PostgreSQL", "", ({ transactions }) => transactions),
    row("statements at PostgreSQL", "", ({ statements }) => statements),
    row("rows written", "", ({ rowsWritten }) => rowsWritten),
    row("time in PostgreSQL", "ms", ({ databaseMs }) => databaseMs),
    row("waits for other writers", "ms", ({ turnMs }) => turnMs),
    {
      what: "a change with an approval takes, p50",
      value: quantile(ms, 0.5),
      unit: "ms",
      note: `${CHANGES_AT_ONCE} at once, with the decision: ${(all.length / changes.seconds).toFixed(0)} a second`,
    },
  ];
}
