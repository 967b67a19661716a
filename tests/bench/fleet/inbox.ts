import { quantile } from "./counters.ts";
import { type Fleet, forEach } from "./fleet.ts";
import type { Figure } from "./report.ts";

const ASKED_AT_ONCE = 8;
const DECIDED_AT_ONCE = 4;
const DECISIONS = 100;
const PAGE = 200;
const READS = 50;

/** Fills the inbox, lists it whole, decides a hundred requests, and looks how long members take meanwhile. */
export async function inboxFigures(fleet: Fleet, requests: number): Promise<readonly Figure[]> {
  const callers = Array.from({ length: requests }, (_, at) => fleet.members[at % fleet.members.length]);
  const [first] = fleet.members;
  if (first === undefined) throw new Error("there is no member");
  const before = await latencies(fleet, READS);
  const asked = performance.now();
  await forEach(callers, ASKED_AT_ONCE, async (member = first) => {
    const { http, body } = await fleet.call(member, "approved", crypto.randomUUID());
    if (http !== 202) throw new Error(`asked: ${http} ${JSON.stringify(body)}`);
  });
  const askedMs = performance.now() - asked;
  const page = performance.now();
  await fleet.atHub("GET", `/approvals?limit=${PAGE}`);
  const pageMs = performance.now() - page;
  const listed = performance.now();
  const ids = await pendingIds(fleet);
  const listedMs = performance.now() - listed;
  const decisions: number[] = [];
  const meanwhile: Latencies[] = [];
  const decided = performance.now();
  let isOver = false;
  const watching = (async () => {
    while (!isOver) meanwhile.push(await latencies(fleet, 1));
  })();
  const count = Math.min(DECISIONS, ids.length);
  await forEach(ids.slice(0, count), DECIDED_AT_ONCE, async (id) => {
    const from = performance.now();
    const { http } = await fleet.atHub("POST", `/approvals/${id}/decisions`, { decision: "deny", reason: "measured" });
    if (http !== 200) throw new Error(`decided: ${http}`);
    decisions.push(performance.now() - from);
  });
  const decidedMs = performance.now() - decided;
  isOver = true;
  await watching;
  const [reads, asks] = [meanwhile.flatMap((one) => one.reads), meanwhile.flatMap((one) => one.asks)];
  return [
    {
      what: `requests that wait in one inbox`,
      value: ids.length,
      note: `${requests} were asked for in ${(askedMs / 1_000).toFixed(1)} s, ${ASKED_AT_ONCE} at once`,
    },
    { what: `the first ${PAGE} of them are listed in`, value: pageMs, unit: "ms" },
    { what: "all of them are listed in", value: listedMs, unit: "ms" },
    {
      what: `${count} are decided in`,
      value: decidedMs,
      unit: "ms",
      note: `${DECIDED_AT_ONCE} at once; one takes ${quantile(decisions, 0.5).toFixed(0)} ms at the median`,
    },
    row("a member's read meanwhile, p50", reads, before.reads),
    row("a member asks meanwhile, p50", asks, before.asks),
  ];
}

interface Latencies {
  readonly reads: readonly number[];
  readonly asks: readonly number[];
}

function row(what: string, times: readonly number[], before: readonly number[]): Figure {
  const [p50, p95] = [quantile(times, 0.5), quantile(times, 0.95)];
  return {
    what,
    value: p50,
    unit: "ms",
    note: `p95 ${p95.toFixed(1)} ms; with an empty inbox p50 ${quantile(before, 0.5).toFixed(1)} ms`,
  };
}

async function latencies(fleet: Fleet, count: number): Promise<Latencies> {
  const reads: number[] = [];
  const asks: number[] = [];
  for (let at = 0; at < count; at += 1) {
    const member = fleet.members[Math.floor(Math.random() * fleet.members.length)];
    if (member === undefined) continue;
    const from = performance.now();
    await fleet.call(member, "look", "inbox");
    const between = performance.now();
    reads.push(between - from);
    await fleet.call(member, "approved", crypto.randomUUID());
    asks.push(performance.now() - between);
  }
  return { reads, asks };
}

/** The ids of all requests that wait. */
async function pendingIds(fleet: Fleet): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const after = cursor === undefined ? "" : `&cursor=${cursor}`;
    const { http, body } = await fleet.atHub("GET", `/approvals?limit=${PAGE}${after}`);
    if (http !== 200) throw new Error(`list: ${http} ${JSON.stringify(body)}`);
    ids.push(...body.approvals.map(({ id }: { id: string }) => id));
    cursor = body.cursor;
  }
  return ids;
}
