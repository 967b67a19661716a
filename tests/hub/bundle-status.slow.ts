import { afterAll, beforeAll, expect, test } from "bun:test";
import { CLOCK_TOLERANCE_MS } from "../../src/bundles/checks.ts";
import type { BundleServer } from "../../src/bundles/server.ts";
import { BundleFleet, type Published } from "../support/bundle-fleet.ts";
import { serveFleet } from "../support/bundle-member.ts";
import type { EndingWorld } from "../support/ending-world.ts";
import { FleetWorld } from "../support/fleet-world.ts";
import { run, STC } from "../support/stc.ts";
import { until } from "../support/until.ts";

/** Members take a bundle within a moment. A busy machine needs longer, and an expired bundle is not taken. */
const TAKEN_WITHIN_MS = 8_000;

let hub: FleetWorld;
let bundles: BundleFleet;
let server: BundleServer;
const members: EndingWorld[] = [];

beforeAll(async () => {
  hub = await FleetWorld.start();
  bundles = new BundleFleet();
  server = serveFleet(bundles);
}, 60_000);
afterAll(async () => {
  await hub.end();
  await server.close();
  bundles.end();
});

/** A member that follows the fleet's bundle. */
async function start(region: string): Promise<void> {
  const bundle = {
    url: `${server.url}bundle.tar.gz`,
    dir: "./bundle",
    fleet: "shop",
    environment: "test",
    keysFile: `${bundles.folder}/keys.pem`,
    timestampKeysFile: `${bundles.folder}/online.pem`,
    labels: { region },
  };
  const section = { tls: { caFile: "./ca.pem" }, tokenFile: "./token" };
  const reload = { perMinuteMax: 6_000 };
  const member = hub.member(section, { instance: region, bundle, reload });
  member.world.write("token", await hub.token());
  members.push(member);
  await member.start();
}

const byState = (one: { readonly state: string }, other: { readonly state: string }): number =>
  one.state < other.state ? -1 : 1;

let last: Published;
const policyOf = (version: number): string => `limits: { concurrentCallsPerCallerMax: ${version + 10} }\n`;

async function shown(wanted: readonly object[]): Promise<void> {
  await until(`bundles ${JSON.stringify(wanted)}`, async () => {
    const { body } = await hub.send(hub.hub, "GET", "/members");
    const said = body.members.map((one: { readonly bundle?: object }) => one.bundle);
    // The instances have ids of their own, which sort as they like.
    const sorted = (all: readonly unknown[]) => all.map((one) => JSON.stringify(one)).toSorted();
    return Bun.deepEquals(sorted(said), sorted(wanted)) ? true : undefined;
  });
}

/** A member whose stream is being opened again does not count for that moment. */
async function counted(wanted: readonly string[]): Promise<void> {
  await until(`the metric ${JSON.stringify(wanted)}`, async () => {
    const { body } = await hub.send(hub.hub, "GET", "/metrics");
    const lines = String(body)
      .split("\n")
      .filter((line) => line.startsWith("stc_hub_member_bundles{"));
    return Bun.deepEquals(lines.toSorted(), wanted) ? true : undefined;
  });
}

test("the hub shows a rollout: who has the new version, who is held, and who refuses", async () => {
  const first = bundles.publish({ version: 1, policy: policyOf(1) });
  const at = (version: number, { digest }: { readonly digest: string }, state: string, fault?: string) => ({
    version,
    digest: digest.slice(0, 12),
    state,
    ...(fault !== undefined && { fault }),
  });
  await start("eu");
  await start("us");
  await shown([at(1, first, "current"), at(1, first, "current")]);
  await counted(['stc_hub_member_bundles{version="1",state="current"} 2']);

  const rollout = { labels: { region: "eu" } };
  const second = bundles.publish({ version: 2, policy: policyOf(2), previous: first.digest, rollout });
  await shown([at(2, second, "current"), at(1, first, "held")]);
  await counted([
    'stc_hub_member_bundles{version="1",state="held"} 1',
    'stc_hub_member_bundles{version="2",state="current"} 1',
  ]);

  const { members: counts } = (await hub.send(hub.hub, "GET", "/systems")).body;
  expect(counts.bundles.toSorted(byState)).toEqual([
    { state: "current", members: 1 },
    { state: "held", members: 1 },
  ]);
  const [eu] = members;
  if (eu === undefined) throw new Error("no member was started");
  const { bundle } = (await hub.send(eu, "GET", "/systems")).body;
  const wanted = { version: 2, offered: 2, digest: second.digest, state: "current", lastError: null, fault: null };
  expect(bundle).toEqual({ ...wanted, expires: expect.any(String) });

  const third = bundles.publish({ version: 3, previous: second.digest, policy: "limits: { nonsense: 1 }\n" });
  await shown([at(2, second, "refused", "policy"), at(1, first, "refused", "policy")]);
  const { url, world } = hub.hub;
  world.write("operator-token", await hub.operator());
  const listed = await run([
    ...STC,
    "fleet",
    "members",
    "--url",
    url,
    "--token-file",
    `${world.folder}/operator-token`,
  ]);
  expect(listed.err).toBe("");
  expect(listed.out).toContain("BUNDLE");
  expect(listed.out).toContain(`2 refused (policy) ${second.digest.slice(0, 12)}`);

  last = bundles.publish({ version: 4, previous: third.digest, policy: policyOf(4) });
  await shown([at(4, last, "current"), at(4, last, "current")]);
}, 120_000);

test("a bundle that nobody vouches for any more is shown as expired at the time of its expiry", async () => {
  const { digest } = bundles.publish({
    version: 5,
    policy: policyOf(5),
    previous: last.digest,
    expiresMs: Date.now() - CLOCK_TOLERANCE_MS + TAKEN_WITHIN_MS,
  });
  const fact = { version: 5, digest: digest.slice(0, 12) };
  await shown([
    { ...fact, state: "expired" },
    { ...fact, state: "expired" },
  ]);
  expect(members.map((member) => member.log().includes('"msg":"bundle.expired"'))).toEqual([true, true]);
}, 60_000);
