import { expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chained } from "../../bench/audit-reading.ts";
import { hindrances } from "../../support/accessibility.ts";
import { entryLine, generatedTraceId, writeDays } from "../../support/audit-lines.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { findPostgres } from "../../support/postgres.ts";
import { FleetWorld } from "./fleet-world.ts";

/** The agents of a fleet: the audit store counts them, with statements of its own. Two replicas fill it; one has the console. */
const native = findPostgres();
const OTHER = "replica-1";
const ISSUER = "https://other.test";
const CALLS = 30;
const CALL_EVERY_MS = 240_000;
const world = new FleetWorld();

/** Writes the log of a replica that has served two agents in the last two hours. Returns its directory. */
function writeOther(): string {
  const dir = join(world.folder, OTHER);
  const link = chained();
  const lines = Array.from({ length: CALLS }, (_, at) => {
    const timestamp = new Date(Date.now() - (CALLS - at) * CALL_EVERY_MS + CALL_EVERY_MS / 2).toISOString();
    const caller = { sub: at % 3 === 0 ? "agent-rare" : "agent-busy", iss: ISSUER, permissions: [] };
    const line = entryLine(timestamp, { traceId: generatedTraceId(at), caller });
    return link(line.replace('"instance":"test"', `"instance":"${OTHER}"`));
  });
  writeDays(dir, Object.fromEntries(Map.groupBy(lines, (line) => JSON.parse(line).timestamp.slice(0, 10))));
  mkdirSync(join(dir, "journal"));
  return dir;
}

const { visitPage: visit } = consoleVisits(world, {
  async start() {
    if (native !== undefined) await world.startFleet(native, writeOther());
  },
});

test.skipIf(native === undefined)(
  "agents of all replicas are counted together, and those of this replica alone",
  async () => {
    const page = await visit("#/agents");
    const row = (name: string) => page.locator(".records.agents tbody tr", { hasText: name });
    const numbersOf = (name: string) => row(name).locator(".cell-number").allTextContents();
    await page.getByText(/^All replicas: /).waitFor();
    await row("agent-7").waitFor();
    expect([await numbersOf("agent-busy"), await numbersOf("agent-rare")]).toEqual([
      ["10", "20", "0"],
      ["5", "10", "0"],
    ]);
    expect(await hindrances(page)).toEqual([]);
    await page.getByRole("link", { name: "This replica alone" }).click();
    await page.getByText("The lines of this replica alone.").waitFor();
    await row("agent-7").waitFor();
    expect(await row("agent-busy").count()).toBe(0);
  },
);

test.skipIf(native === undefined)(
  "the page of an agent that another replica serves has its calls from the store",
  async () => {
    const page = await visit("#/agents");
    await page.getByRole("link", { name: "agent-busy" }).click();
    await page.getByRole("heading", { name: `agent-busy of ${ISSUER}` }).waitFor();
    await page.getByText(/^All replicas: /).waitFor();
    const tool = page.getByRole("row", { name: /^get_customer 10 20 20 0 / });
    await tool.waitFor();
    await page.getByRole("link", { name: "All its calls" }).click();
    await page.getByText(/^20 calls, /).waitFor();
    expect(new Set(await page.locator('.records td[data-label="Replica"]').allTextContents())).toEqual(
      new Set([OTHER]),
    );
    await page.goBack();
    await tool.waitFor();
    await page.getByRole("link", { name: "This replica alone" }).click();
    await page.getByText("The lines of this replica alone.").waitFor();
    await page.locator(".figures").getByText("calls in the last day").waitFor();
    expect(await tool.count()).toBe(0);
  },
);

test.skipIf(native === undefined)(
  "a store that is away is said so, and this replica's own agents are one step away",
  async () => {
    const page = await visit("#/agents");
    await world.showsItsOwn(page, "Refresh", async () => {
      await page.locator(".records.agents").getByText("agent-7").waitFor();
    });
  },
);
