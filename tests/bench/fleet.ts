import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { parseArgs } from "node:util";
import { bundleFigures } from "./fleet/bundles.ts";
import { connectionFigures } from "./fleet/connections.ts";
import { callFigures, idleCost, memberFigures, slopeFigures } from "./fleet/cost.ts";
import { disturbanceFigures } from "./fleet/disturbances.ts";
import { Fleet } from "./fleet/fleet.ts";
import { haltFigures } from "./fleet/halts.ts";
import { inboxFigures } from "./fleet/inbox.ts";
import { streamFigures } from "./fleet/many-streams.ts";
import { asMarkdown, type Figure, missed } from "./fleet/report.ts";
import { roundTripFigures } from "./fleet/round-trips.ts";

/**
 * Simulates a fleet: PostgreSQL, hubs and members, each a real service in a process of its own: `bun run bench:fleet`. Exits with 1
 * when a figure is not reached. `--json FILE` writes the figures there, too.
 */
const { values } = parseArgs({
  options: {
    members: { type: "string", default: "60" },
    hubs: { type: "string", default: "2" },
    /** Length of each measurement without calls. */
    "idle-seconds": { type: "string", default: "20" },
    /** Requests that wait in the inbox at once. */
    requests: { type: "string", default: "2000" },
    halts: { type: "string", default: "10" },
    /** New versions of the bundle. */
    bundles: { type: "string", default: "5" },
    /** Members that have nothing but a stream from the hub. */
    streams: { type: "string", default: "1000" },
    /** Number of times that each disturbance happens. */
    disturbances: { type: "string", default: "3" },
    json: { type: "string" },
  },
});
const number = (name: Exclude<keyof typeof values, "json">): number => Number(values[name]);
const [members, idleSeconds] = [number("members"), number("idle-seconds")];
/** Size of the fleet in the first half of the measurements. */
const few = Math.max(2, Math.min(10, Math.floor(members / 2)));
const CHANGES = { connections: 4, cost: 5 } as const;

const figures: Figure[] = [];
const started = performance.now();
const take = async (name: string, measuring: Promise<readonly Figure[]>): Promise<void> => {
  figures.push(...(await measuring));
  const [load = 0] = loadavg();
  console.error(`${((performance.now() - started) / 1_000).toFixed(0)} s: ${name} (load ${load.toFixed(1)})`);
};

const fleet = await Fleet.start(number("hubs"));
try {
  await fleet.growTo(few);
  await take(`${few} idle members`, memberFigures(fleet, idleSeconds));
  const idleFew = await idleCost(fleet, idleSeconds);
  await take("connections", connectionFigures(fleet, CHANGES.connections));
  await fleet.growTo(members);
  await take("connections", connectionFigures(fleet, CHANGES.connections));
  // The requests that were just made settle.
  await Bun.sleep(5_000);
  const idleMany = await idleCost(fleet, idleSeconds);
  if (members > few) {
    figures.push(...slopeFigures({ members: few, idle: idleFew }, { members, idle: idleMany }));
  }
  await take("round trips", roundTripFigures(fleet));
  await take("calls", callFigures(fleet, idleMany, CHANGES.cost));
  await take("halts", haltFigures(fleet, number("halts")));
  await take("bundles", bundleFigures(fleet, number("bundles")));
  await take("streams", streamFigures(fleet, number("streams"), idleSeconds));
  await take("inbox", inboxFigures(fleet, number("requests")));
  await take("disturbances", disturbanceFigures(fleet, number("disturbances")));
} finally {
  await fleet.remove();
}

console.log(asMarkdown(figures));
if (values.json !== undefined) writeFileSync(values.json, JSON.stringify({ members, figures }, undefined, 2));
const late = missed(figures);
for (const { what, value, reach } of late) console.error(`not reached: ${what}: ${value}, at most ${reach}`);
process.exitCode = late.length === 0 ? 0 : 1;
