import { existsSync, readFileSync } from "node:fs";
import { auditEntries } from "../../support/audit-files.ts";
import { runStc, SIGNATURES_NOT_CHECKED } from "../../support/stc.ts";
import { until } from "../../support/until.ts";
import { ChangeStream } from "./change-stream.ts";
import { quantile, sumOf } from "./counters.ts";
import { type Fleet, forEach } from "./fleet.ts";
import type { Figure } from "./report.ts";

/** Changes of all members together in a second. */
const CHANGES_PER_SECOND = 40;
const EVERY_MS_MIN = 100;
const AWAY_MS = 2_000;
/** One of so many members is killed. */
const KILLED_SHARE = 6;
const STARTS_AT_ONCE = 4;
const VERIFIED_AT_ONCE = 2;

interface Disturbance {
  readonly name: string;
  /** Returns when what was disturbed is there again. */
  readonly act: (fleet: Fleet, turn: number) => Promise<void>;
}

const DISTURBANCES: readonly Disturbance[] = [
  {
    name: "members are killed",
    async act({ members }, turn) {
      const killed = members.filter((_, at) => at % KILLED_SHARE === turn % Math.min(KILLED_SHARE, members.length));
      await Promise.all(killed.map((each) => each.end("SIGKILL")));
      await forEach(killed, STARTS_AT_ONCE, (each) => each.start());
    },
  },
  {
    name: "one hub is killed",
    async act({ hubs }, turn) {
      const hub = hubs[turn % hubs.length];
      await hub?.end("SIGKILL");
      await Bun.sleep(AWAY_MS);
      await hub?.start();
    },
  },
  { name: "the network breaks", act: (fleet) => cut(fleet, "break") },
  { name: "the network is silent", act: (fleet) => cut(fleet, "silence") },
  {
    name: "all hubs are killed",
    async act({ hubs }) {
      await Promise.all(hubs.map((each) => each.end("SIGKILL")));
      await Bun.sleep(AWAY_MS);
      await Promise.all(hubs.map((each) => each.start()));
    },
  },
];

async function cut({ network }: Fleet, how: "break" | "silence"): Promise<void> {
  network.cut(how);
  await Bun.sleep(AWAY_MS);
  network.heal();
}

/** Kills members and hubs and cuts the network while every member makes changes; then compares what ran with every audit. */
export async function disturbanceFigures(fleet: Fleet, rounds: number): Promise<readonly Figure[]> {
  const everyMs = Math.max(EVERY_MS_MIN, (1_000 * fleet.members.length) / CHANGES_PER_SECOND);
  const streams = fleet.members.map((member) => new ChangeStream({ fleet, member, everyMs }));
  const times = new Map<string, { readonly continued: number[]; readonly pauses: number[] }>();
  for (let round = 0; round < rounds; round += 1) {
    for (const { name, act } of DISTURBANCES) {
      const from = await allContinue(streams);
      await act(fleet, round);
      const back = performance.now();
      const { continued, pauses } = times.get(name) ?? { continued: [], pauses: [] };
      continued.push((await allContinue(streams)) - back);
      pauses.push(...streams.map(({ doneAt }) => longestPause(doneAt, from)));
      console.error(`  ${name}: ${slowest(streams, from)}`);
      times.set(name, { continued, pauses });
    }
  }
  await Promise.all(streams.map((each) => each.stop()));
  return [
    ...[...times].map(([name, { continued, pauses }]) => ({
      what: `${name}: longest time without a change of a member`,
      value: Math.max(...pauses),
      unit: "ms",
      note: `p50 of the members ${quantile(pauses, 0.5).toFixed(0)} ms; all continue at most ${Math.max(...continued).toFixed(0)} ms after the end of it; each makes a change every ${everyMs.toFixed(0)} ms`,
    })),
    ...(await exactness(fleet, streams)),
  ];
}

/** Says what the agent of the slowest member was answered meanwhile. */
function slowest(streams: readonly ChangeStream[], from: number): string {
  const pauses = streams.map((stream) => ({ stream, ms: longestPause(stream.doneAt, from) }));
  const [{ stream, ms } = {}] = pauses.toSorted((one, other) => other.ms - one.ms);
  if (stream === undefined || ms === undefined) return "";
  const codes = stream.answers.filter(({ at }) => at >= from).map(({ code }) => code);
  return `${stream.member.name} ${ms.toFixed(0)} ms: ${counted(codes)}`;
}

function counted(codes: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
  return [...counts].map(([code, count]) => `${code} ${count}`).join(", ");
}

/** Returns the longest time between two changes, from the last one before `from`. */
function longestPause(doneAt: readonly number[], from: number): number {
  const first = Math.max(
    0,
    doneAt.findLastIndex((at) => at <= from),
  );
  return Math.max(...doneAt.slice(first + 1).map((at, index) => at - (doneAt[first + index] ?? at)));
}

/** Waits until each has made a change from now on; returns when the last one has. */
async function allContinue(streams: readonly ChangeStream[]): Promise<number> {
  const from = performance.now();
  return until("a change of each member", () => {
    const firsts = streams.map(({ doneAt }) => doneAt.find((at) => at > from));
    return firsts.includes(undefined) ? undefined : Math.max(...firsts.map(Number));
  });
}

async function exactness(fleet: Fleet, streams: readonly ChangeStream[]): Promise<readonly Figure[]> {
  await fleet.endAll();
  const runs = existsSync(fleet.runsFile) ? readFileSync(fleet.runsFile, "utf8").split("\n").filter(Boolean) : [];
  const ran = new Set(runs);
  const known = new Set(streams.flatMap(({ done, unknown }) => [...done, ...unknown.keys()]));
  const done = streams.flatMap((each) => each.done);
  const entries = streams.map((stream) => ({ stream, lines: auditEntries(stream.member.auditDir) }));
  const lost = entries.map(({ stream, lines }) => {
    const traces = new Set(lines.map(({ traceId }) => traceId));
    const keys = new Set(
      lines.filter(({ decision }) => decision === "ALLOWED").map(({ request }) => request.args["key"]),
    );
    const own = runs.filter((key) => key.startsWith(`${stream.member.name}-`));
    return stream.answered.filter((id) => !traces.has(id)).length + own.filter((key) => !keys.has(key)).length;
  });
  const doubled = entries.map(({ lines }) => lines.length - new Set(lines.map(({ traceId }) => traceId)).size);
  const codes = streams.flatMap(({ answers }) => answers.map(({ code }) => code));
  const unknown = streams.flatMap((each) => [...each.unknown.values()]);
  const services = [...fleet.members, ...fleet.hubs];
  let damaged = 0;
  await forEach(services, VERIFIED_AT_ONCE, async ({ name, auditDir }) => {
    const { code, out, err } = await runStc(["audit", "verify", "--dir", auditDir]);
    if (code === SIGNATURES_NOT_CHECKED && err === "") return;
    damaged += 1;
    console.error(`${name}: ${code} ${out}${err}`);
  });
  const none = { reach: 0, aim: 0 } as const;
  const approved = sumOf(streams.map((each) => each.approved));
  return [
    {
      what: "changes that were answered as done",
      value: done.length,
      note: `${approved} with an approval; answers: ${counted(codes)}`,
    },
    { what: "changes that ran twice", value: runs.length - ran.size, ...none },
    { what: "changes answered as done that did not run", value: done.filter((key) => !ran.has(key)).length, ...none },
    {
      what: "changes that ran, and whose agent was told neither that nor that it is unknown",
      value: runs.filter((key) => key.startsWith("member-") && !known.has(key)).length,
      ...none,
    },
    {
      what: "changes whose outcome is unknown, and said so",
      value: unknown.length,
      note: [...new Set(unknown)].join(", "),
    },
    {
      what: "audit entries lost",
      value: sumOf(lost),
      ...none,
      note: `of ${sumOf(entries.map(({ lines }) => lines.length))}`,
    },
    { what: "audit entries doubled", value: sumOf(doubled), ...none },
    { what: `audits that do not verify, of ${services.length}`, value: damaged, ...none },
  ];
}
