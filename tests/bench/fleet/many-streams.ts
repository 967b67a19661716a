import { readFileSync } from "node:fs";
import { join } from "node:path";
import { OPERATED_ADDRESSES } from "../../../src/egress/addresses.ts";
import { RotatingClient } from "../../../src/egress/rotating-client.ts";
import { openHubClient } from "../../../src/hub/client/client.ts";
import type { HubClient } from "../../../src/hub/contract.ts";
import { until } from "../../support/until.ts";
import { quantile, sumOf } from "./counters.ts";
import { type Fleet, forEach } from "./fleet.ts";
import type { Figure } from "./report.ts";
import type { FleetService } from "./service.ts";

const OPENED_AT_ONCE = 32;
const HALTS = "halts.list";
const LOOK_MS = 100;

/** The members' end of the hub's protocol without the rest of a service: as many as no machine runs services. */
export async function streamFigures(fleet: Fleet, count: number, seconds: number): Promise<readonly Figure[]> {
  const rssBefore = sumOf(fleet.hubs.map(({ rssMb }) => rssMb));
  const cpuBefore = await cpuPerSecond(fleet, seconds);
  const clients: HubClient[] = [];
  const opened = performance.now();
  await forEach([...Array(count).keys()], OPENED_AT_ONCE, async (at) => {
    const client = await openClient(fleet, at);
    clients.push(client);
    await until("a stream", () => client.isConnected || undefined);
  });
  const openedMs = performance.now() - opened;
  const cpu = await cpuPerSecond(fleet, seconds);
  const rss = sumOf(fleet.hubs.map(({ rssMb }) => rssMb));
  const halted = clients.map((client) => changeOf(client));
  const from = performance.now();
  const { body } = await fleet.atHub("POST", "/halts", { kind: "tool", tool: "look", reason: "the fleet is measured" });
  const times = (await Promise.all(halted)).map((at) => at - from);
  await fleet.atHub("DELETE", `/halts/${body.halt.id}`);
  await Bun.sleep(1_000);
  const [first, ...others] = fleet.hubs;
  await first?.end("SIGKILL");
  const killed = performance.now();
  // A hub that is alone comes back.
  if (others.length === 0) await first?.start();
  const left = others.length === 0 ? fleet.hubs : others;
  const all = count + fleet.members.length;
  await until("all streams", async () => ((await connectedAt(fleet, left)) >= all ? true : Bun.sleep(LOOK_MS)));
  const backMs = performance.now() - killed;
  if (others.length > 0) await first?.start();
  await Promise.all(clients.map((client) => client.close()));
  const title = `${count} more members (streams alone)`;
  return [
    { what: `${title}: connected after`, value: openedMs, unit: "ms" },
    {
      what: `${title}: processor time of the hubs for each`,
      value: (cpu - cpuBefore) / count,
      unit: "ms/s",
      note: `${cpuBefore.toFixed(1)} ms/s before, ${cpu.toFixed(1)} ms/s with them`,
    },
    {
      what: `${title}: memory of the hubs for each`,
      value: ((rss - rssBefore) / count) * 1_024,
      unit: "KB",
      note: `${rssBefore.toFixed(0)} MB before, ${rss.toFixed(0)} MB with them`,
    },
    {
      what: `${title}: a halt has arrived at all`,
      value: Math.max(...times),
      unit: "ms",
      note: `p50 ${quantile(times, 0.5).toFixed(0)} ms`,
    },
    {
      what: `${title}: one hub is killed, all are at the other after`,
      value: backMs,
      unit: "ms",
      note: "every second attempt still reaches the hub that is gone",
    },
  ];
}

/** Returns the number of members whose stream from one of these hubs is open. */
async function connectedAt(fleet: Fleet, hubs: readonly FleetService[]): Promise<number> {
  const counts = hubs.map(async (hub) => {
    const { body } = await fleet.atHub("GET", "/metrics", undefined, hub);
    return Number(/^stc_hub_members_connected (\d+)/m.exec(String(body))?.[1] ?? 0);
  });
  return sumOf(await Promise.all(counts));
}

async function cpuPerSecond(fleet: Fleet, seconds: number): Promise<number> {
  const sum = (): number => sumOf(fleet.hubs.map(({ cpuMs }) => cpuMs));
  const before = sum();
  await Bun.sleep(seconds * 1_000);
  return (sum() - before) / seconds;
}

/** Resolves with the time at which the halts that the hub has pushed are others. */
function changeOf(client: HubClient): Promise<number> {
  const before = JSON.stringify(client.pushed(HALTS)?.value);
  return new Promise((resolve) => {
    const unwatch = client.watch(() => {
      const pushed = client.pushed(HALTS);
      if (pushed === undefined || JSON.stringify(pushed.value) === before) return;
      unwatch();
      resolve(performance.now());
    });
  });
}

async function openClient(fleet: Fleet, at: number): Promise<HubClient> {
  const url = new URL(fleet.network.url);
  const token = await fleet.workloadToken(`member-light-${at}`);
  return openHubClient({
    url,
    connections: new RotatingClient({
      system: "hub",
      url,
      addresses: OPERATED_ADDRESSES,
      tls: { rootCert: readFileSync(join(fleet.folder, "ca.pem")) },
      connectionsMax: 8,
    }),
    token: () => token,
    facts: () => ({ instance: `light-${at}`, version: "0.0.0", policyVersion: "measured" }),
    monotonic: () => performance.now(),
    random: Math.random,
    newId: () => crypto.randomUUID(),
    log: () => {},
    requestMs: 1_000,
  });
}
