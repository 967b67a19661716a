import { expect, test } from "bun:test";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { z } from "zod";
import { defineTool } from "../../../src/index.ts";
import { hindrances } from "../../support/accessibility.ts";
import { entryLine, writeDays } from "../../support/audit-lines.ts";
import { consoleVisits, untilWhole } from "../../support/console-visits.ts";
import { until } from "../../support/until.ts";
import { ConsoleWorld } from "./console-world.ts";
import type { VisitOptions } from "./visitor.ts";

/** Two hundred tools and five hundred agents: what is found in them, in which order, and what the browser leaves out. */
const AREAS = ["crm", "billing", "cluster", "orders", "mail"] as const;
const VERBS = [
  ["get", "read"],
  ["list", "read"],
  ["update", "write"],
  ["delete", "destructive"],
] as const;
const TOOLS = 200;
const AGENTS = 500;
const HOUR_MS = 3_600_000;

const world = new ConsoleWorld();

function toolAt(at: number) {
  const area = AREAS[at % AREAS.length] ?? "crm";
  const [verb, classification] = VERBS[at % VERBS.length] ?? VERBS[0];
  return defineTool({
    ...{ name: `${area}_${verb}_${at}`, description: `${verb} ${at}`, classification, category: "write" },
    ...{ permissions: { required: [`${area}:${verb}`] }, input: z.strictObject({}) },
    ...{ output: z.object({ done: z.boolean() }), outputPolicy: { done: "allow" } as const },
    handler: () => ({ done: true }),
  });
}

const { visitPage } = consoleVisits(world, {
  holds: ["tools:read"],
  async start() {
    const newest = Date.now() - HOUR_MS;
    const lines = Array.from({ length: AGENTS }, (_, at) => {
      const caller = { sub: `agent-${at}`, iss: `https://idp-${at % 3}.test`, permissions: [] };
      return entryLine(new Date(newest - (AGENTS - at) * 1_000).toISOString(), { caller });
    });
    writeDays(
      join(world.folder, "audit"),
      Object.fromEntries(Map.groupBy(lines, (line) => JSON.parse(line).timestamp.slice(0, 10))),
    );
    await world.start({ audit: { dir: "audit" }, tools: Array.from({ length: TOOLS }, (_, at) => toolAt(at)) });
  },
});

async function visit(fragment: string, options?: VisitOptions): Promise<Page> {
  const page = await visitPage(fragment, options);
  await rowsOf(page).first().waitFor();
  await untilWhole(page);
  return page;
}

const rowsOf = (page: Page) => page.locator(".records tbody tr");

/** Returns what the first link of each row names. */
async function namesIn(page: Page): Promise<readonly string[]> {
  return rowsOf(page).locator("td:first-child a").allTextContents();
}

test("two hundred tools are in the order of their names, and a search of several words says how many it found", async () => {
  const page = await visit("#/tools");
  await page.getByText("200 tools").waitFor();
  const names = await namesIn(page);
  expect([names.length, ...names.slice(0, 3)]).toEqual([
    200,
    "billing_delete_11",
    "billing_delete_31",
    "billing_delete_51",
  ]);
  const filter = page.getByLabel(/Filter tools/);
  await filter.fill("destructive mail:");
  await page.getByText("10 of 200 tools").waitFor();
  expect((await namesIn(page)).every((name) => name.startsWith("mail_delete_"))).toBe(true);
  await filter.fill("crm billing");
  await page.getByText("No tool matches").waitFor();
});

test("five hundred agents are found by name and issuer, and ordered by the numbers in their names", async () => {
  const page = await visit("#/agents");
  expect((await namesIn(page))[0]).toBe("agent-499");
  await page.getByRole("button", { name: "Agent", exact: true }).click();
  expect((await namesIn(page)).slice(0, 3)).toEqual(["agent-0", "agent-1", "agent-2"]);
  for (const shown of [200, 300, 400, 500]) {
    await page.getByRole("button", { name: "Show more of 500 agents" }).click();
    await page.locator(`.records tbody tr:nth-child(${shown})`).waitFor({ state: "attached" });
  }
  await page.getByLabel("Filter agents by name or issuer").fill("idp-2 agent-49");
  await page.getByText("3 agents", { exact: true }).waitFor();
  expect(await namesIn(page)).toEqual(["agent-491", "agent-494", "agent-497"]);
});

// A long table that is laid out as a whole holds up the browser, on a phone for a third of a second.
test.each([
  ["#/tools", 1440],
  ["#/tools", 390],
  ["#/agents", 1440],
  ["#/agents", 390],
] as const)(
  "%s at %d px: rows that nobody sees have no layout, and nothing is wider than the window",
  async (at, width) => {
    const page = await visit(at, { viewport: { width, height: 844 } });
    const last = rowsOf(page).last();
    expect([await last.allInnerTexts(), await last.textContent()]).toEqual([[""], expect.stringMatching(/_\d|agent-/)]);
    await last.scrollIntoViewIfNeeded();
    await until("the row in sight", async () => ((await last.allInnerTexts())[0] === "" ? undefined : true));
    expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
    expect(await hindrances(page)).toEqual([]);
  },
);
