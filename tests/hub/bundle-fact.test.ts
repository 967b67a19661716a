import { afterEach, describe, expect, test } from "bun:test";
import { BUNDLE_STATES } from "../../src/core/bundle-states.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import { bundleFactText, parseBundleFact } from "../../src/hub/bundle-fact.ts";
import { ConnectedMembers } from "../../src/hub/server/connected.ts";
import { openHub } from "./world.ts";

const DIGEST = "0123456789abcdef".repeat(4);

let close: (() => Promise<void>) | undefined;
afterEach(async () => {
  await close?.();
  close = undefined;
});

describe("what a member says of its bundle", () => {
  test.each(BUNDLE_STATES.flatMap((state) => [[state, undefined] as const, [state, "signature"] as const]))(
    "%s, fault %p: the hub reads what the member wrote",
    (state, fault) => {
      const text = bundleFactText({ version: 12, digest: DIGEST, state, fault });
      expect(parseBundleFact(text)).toEqual({
        version: 12,
        digest: DIGEST.slice(0, 12),
        state,
        ...(fault !== undefined && { fault }),
      });
    },
  );

  const valid = "12.0123456789ab.current";
  test.each([
    "",
    "12",
    "0.0123456789ab.current",
    "-1.0123456789ab.current",
    "1e3.0123456789ab.current",
    "9999999999999999.0123456789ab.current",
    `${"9".repeat(400)}.0123456789ab.current`,
    "12.0123456789AB.current",
    "12.0123456789abc.current",
    "12.0123456789ab.fine",
    "12.0123456789ab.constructor",
    `${valid}.`,
    `${valid}.<script>`,
    `${valid}.${"a".repeat(21)}`,
    `${valid}.signature.more`,
    `${valid}\n`,
    ` ${valid}`,
  ])("%j counts as nothing said", (text) => {
    expect(parseBundleFact(text)).toBeUndefined();
  });

  test("a hostile value is not shown, and replaces what was said before", async () => {
    const tokens = {
      verify: async () =>
        ({ caller: { issuer: "i", subject: "agent-1", expiresAt: Date.now() / 1_000 + 60 } }) as never,
    };
    const hub = await openHub({ tokens, rules: [{ subject: "agent-*" }] });
    close = () => hub.listener.close();
    const say = async (bundle: string) => {
      const headers = { authorization: "Bearer x", "stc-instance": "log-1", "stc-bundle": bundle };
      await fetch(`http://127.0.0.1:${hub.port}/hub/v1/unknown`, { method: "POST", headers, body: "{}" });
      return hub.connected.list().map((one) => one.bundle);
    };
    const known = { version: 12, digest: "0123456789ab", state: "refused", fault: "rollback" };
    expect(await say("12.0123456789ab.refused.rollback")).toEqual([known as never]);
    expect(await say(`12.0123456789ab.${"x".repeat(300)}`)).toEqual([undefined]);
  });
});

describe("members counted by version and state", () => {
  const enter = (members: ConnectedMembers, name: string, version: number, state: (typeof BUNDLE_STATES)[number]) => {
    const member = { name, instance: "log", speaksFor: () => true };
    return members.enter(member, { bundle: { version, digest: "0123456789ab", state } }, "stream");
  };

  test("only those with an open stream count", async () => {
    const members = new ConnectedMembers(Date.now);
    enter(members, "a", 2, "current");
    enter(members, "b", 2, "current");
    enter(members, "c", 1, "held");
    enter(members, "d", 1, "refused")();
    members.enter({ name: "e", instance: "log", speaksFor: () => true }, {}, "stream");
    const metrics = createMetrics();
    metrics.watch({ hub: { connected: () => members.connected, bundles: () => members.bundles() } });
    const lines = (await metrics.text()).split("\n").filter((line) => line.startsWith("stc_hub_member_bundles{"));
    expect(lines).toEqual([
      'stc_hub_member_bundles{version="2",state="current"} 2',
      'stc_hub_member_bundles{version="1",state="held"} 1',
    ]);
  });

  test("members that say thousands of versions make few series, and none is left out of the sum", async () => {
    const members = new ConnectedMembers(Date.now);
    for (let version = 1; version <= 2_000; version += 1) enter(members, `m${version}`, version, "current");
    enter(members, "other", 7, "current");
    const metrics = createMetrics();
    metrics.watch({ hub: { connected: () => members.connected, bundles: () => members.bundles() } });
    const lines = (await metrics.text()).split("\n").filter((line) => line.startsWith("stc_hub_member_bundles{"));
    expect(lines).toHaveLength(51);
    expect(lines).toContain('stc_hub_member_bundles{version="7",state="current"} 2');
    expect(lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0)).toBe(2_001);
  });
});
