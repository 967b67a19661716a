import { quantile } from "./counters.ts";
import { firstTimes } from "./first-times.ts";
import type { Fleet } from "./fleet.ts";
import type { Figure } from "./report.ts";

/** Calls of all members together in a second: more would measure this machine. */
const CALLS_PER_SECOND = 400;
const EVERY_MS_MIN = 20;
const HALT_MS_MAX = 20_000;

/** Sets a halt at one hub and looks how long each member still runs calls; then the same for the end of the halt. */
export async function haltFigures(fleet: Fleet, rounds: number): Promise<readonly Figure[]> {
  const everyMs = Math.max(EVERY_MS_MIN, (1_000 * fleet.members.length) / CALLS_PER_SECOND);
  const toEach = async (code: string, act: () => Promise<void>): Promise<readonly number[]> => {
    const waits = firstTimes(fleet.members, { everyMs, limitMs: HALT_MS_MAX }, async (member) => {
      const { body } = await fleet.call(member, "look", "halt");
      return (body.error?.code ?? body.status) === code;
    });
    const from = performance.now();
    await act();
    return (await Promise.all(waits)).map((at) => at - from);
  };
  const set: number[] = [];
  const lifted: number[] = [];
  const worst: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    let id = "";
    const times = await toEach("HALTED", async () => {
      const { http, body } = await fleet.atHub("POST", "/halts", { kind: "all", reason: "the fleet is measured" });
      if (http !== 201 && http !== 200) throw new Error(`halt: ${http} ${JSON.stringify(body)}`);
      id = body.halt.id;
    });
    set.push(...times);
    worst.push(Math.max(...times));
    lifted.push(
      ...(await toEach("success", async () => {
        await fleet.atHub("DELETE", `/halts/${id}`);
      })),
    );
  }
  const note = `${rounds} halts; each member calls every ${Math.round(everyMs)} ms`;
  return [
    { what: "halt: refused by a member, p50", value: quantile(set, 0.5), unit: "ms", note },
    { what: "halt: refused by all members, max", value: Math.max(...set), unit: "ms", reach: 1_000, aim: 500 },
    { what: "halt: refused by all members, p50 of the halts", value: quantile(worst, 0.5), unit: "ms" },
    { what: "lifted: runs again on all members, max", value: Math.max(...lifted), unit: "ms" },
  ];
}
