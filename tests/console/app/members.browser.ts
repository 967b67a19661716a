import { expect, test } from "bun:test";
import type { Page } from "playwright-core";
import type { FleetShown } from "../../../src/core/api/inventory.ts";
import type { MemberListing } from "../../../src/core/api/members.ts";
import { hindrances } from "../../support/accessibility.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { until } from "../../support/until.ts";
import { ConsoleWorld } from "./console-world.ts";
import type { VisitOptions } from "./visitor.ts";

const HOSTILE = '<img src=x onerror="document.title=1">\u202e evil';
const OTHERS = 120;

type Member = MemberListing["members"][number];

const member = (name: string, more: Partial<Member> = {}): Member => ({
  ...{ name, instance: `${name}-6d4f`, version: "0.9.0", policyVersion: "ab12".repeat(16), inFlight: 0 },
  ...{ connected: true, lastContact: new Date().toISOString() },
  bundle: { version: 4, digest: "0123456789ab", state: "current" },
  ...more,
});

/** Sorted by name, as a hub lists them. */
const LISTED = [
  ...Array.from({ length: OTHERS }, (_, at) => member(`spiffe://acme.test/agents/a-${at}`)),
  member("spiffe://acme.test/agents/held", { bundle: { version: 3, digest: "ba9876543210", state: "held" } }),
  member(`spiffe://acme.test/agents/${HOSTILE}`, {
    version: `1 ${HOSTILE}`,
    bundle: { version: 3, digest: "ba9876543210", state: "refused", fault: "signature" },
    connected: false,
  }),
  member("system:serviceaccount:shop:old of https://cluster.test", { version: undefined, bundle: undefined }),
];

const FLEET: FleetShown = {
  bundle: {
    ...{ version: 3, digest: "0123456789abcdef".repeat(4), state: "refused", offered: 4, fault: "policy" },
    ...{ expires: new Date(Date.now() + 3_600_000).toISOString(), lastError: `unknown setting ${HOSTILE}` },
  },
  members: {
    connected: LISTED.length - 1,
    bundles: [
      { state: "current", members: OTHERS },
      { state: "held", members: 1 },
    ],
  },
};

const world = new ConsoleWorld();
const { visit } = consoleVisits(world, { holds: ["metrics:read"] });

/** Opens the systems of a hub that follows the bundle of a fleet. Returns the page, and the requests for its members. */
async function opened(options: VisitOptions = {}, members = LISTED) {
  const visitor = await visit(options);
  const { page } = visitor;
  const read: string[] = [];
  const token = await world.operator("olga", ["metrics:read"]);
  const { body } = await world.send("GET", "/systems", { token });
  await page.route("**/systems", (route) => route.fulfill({ json: { ...body, ...FLEET } }));
  await page.route("**/members", async (route) => {
    read.push(route.request().url());
    // Counted from the time of the request: the page shows how long ago it was.
    const lastContact = new Date(Date.now() - 600_000).toISOString();
    await route.fulfill({ json: { members: members.map((one) => (one.connected ? one : { ...one, lastContact })) } });
  });
  await visitor.go("#/systems");
  const section = page.getByRole("region", { name: "Members" });
  await section.getByText(`${FLEET.members?.connected} connected members`).waitFor();
  return { page, section, read };
}

const rows = (page: Page) => page.locator(".records tbody tr");

test("members are read when they are opened, and those whose bundle failed come first", async () => {
  const { page, section, read } = await opened();
  expect(read).toEqual([]);
  await section.getByRole("button", { name: "Show members" }).click();
  await section.getByRole("button", { name: `Show more of ${LISTED.length} members` }).waitFor();
  expect(await rows(page).count()).toBe(100);
  const first = await rows(page).first().textContent();
  expect(first).toContain("3 refused signature");
  expect(first).toContain("<img src=x");
  expect(first).toContain("10 min ago");
  expect(await rows(page).nth(1).textContent()).toContain("3 held");
  await section.getByRole("button", { name: /^Show more/ }).click();
  await section.getByText(`${LISTED.length} members of the last hour`).waitFor();
  expect(await rows(page).count()).toBe(LISTED.length);
  expect(await rows(page).last().textContent()).toContain("shop:old");
  expect(read).toHaveLength(1);
  await page.getByRole("button", { name: "Refresh" }).click();
  await until("another reading", () => (read.length === 2 ? true : undefined));
});

test("what members and bundles say is text", async () => {
  const { page, section } = await opened();
  await section.getByRole("button", { name: "Show members" }).click();
  await rows(page).first().waitFor();
  const bundle = page.getByRole("region", { name: "Bundle of the fleet" });
  await bundle.getByText(/unknown setting <img src=x/).waitFor();
  expect(await page.locator("img").count()).toBe(0);
  expect(await page.locator("main").textContent()).not.toContain("\u202e");
});

test("a hub without members says so", async () => {
  const { section } = await opened({}, []);
  await section.getByRole("button", { name: "Show members" }).click();
  await section.getByText("No member was seen in the last hour").waitFor();
});

test.each([
  ["light", 1440],
  ["dark", 1440],
  ["light", 360],
  ["dark", 360],
] as const)("the members are accessible: %s, %d px", async (colorScheme, width) => {
  const { page, section } = await opened({ colorScheme, viewport: { width, height: 800 } }, LISTED.slice(-6));
  await section.getByRole("button", { name: "Show members" }).click();
  await rows(page).first().waitFor();
  expect(await hindrances(page)).toEqual([]);
  expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(width);
});
