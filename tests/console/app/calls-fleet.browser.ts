import { expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { logIdIn } from "../../../src/audit/chain/log-id.ts";
import { hindrances } from "../../support/accessibility.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { findPostgres } from "../../support/postgres.ts";
import { writeReplica } from "../../support/stored-logs.ts";
import { until } from "../../support/until.ts";
import { FleetWorld } from "./fleet-world.ts";

/** The console of one replica. Another one, whose log ends long ago, fills the same audit store. */
const native = findPostgres();
const OWN = "replica-0";
const OTHER = "replica-1";
const world = new FleetWorld();
let otherLog: string;

const { visitPage: visit } = consoleVisits(world, {
  async start() {
    if (native === undefined) return;
    const { privateKey } = generateKeyPairSync("ed25519");
    writeFileSync(join(world.folder, "key.pem"), privateKey.export({ type: "pkcs8", format: "pem" }));
    const other = writeReplica(world.folder, 1, 120);
    otherLog = logIdIn(other, "calls") ?? "";
    await world.startFleet(native, other, { checkpointKeyFile: "key.pem" });
  },
});

async function replicasIn(page: Page): Promise<ReadonlySet<string>> {
  // A row that is out of sight has no inner text.
  return new Set(await page.locator('.records td[data-label="Replica"]').allTextContents());
}

test.skipIf(native === undefined)(
  "calls of all replicas are listed, with the replica, and the log that is behind is named",
  async () => {
    const page = await visit("#/calls");
    await page.getByText(/^All replicas: complete until .* on 1 of 2 logs\./).waitFor();
    await page.getByText(/^Lines may be missing of replica-1 \(calls, complete until .*\)\.$/).waitFor();
    expect(await page.locator(".records th").allInnerTexts()).toEqual([
      "Time",
      "Decision",
      "Tool",
      "Caller",
      "Duration",
      "Replica",
    ]);
    await page.getByText("nothing_such").waitFor();
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByText("121 calls, others may be missing").waitFor();
    expect(await replicasIn(page)).toEqual(new Set([OWN, OTHER]));
    expect(await hindrances(page)).toEqual([]);
    await page.getByLabel("Tool", { exact: true }).fill("get_customer");
    await page.keyboard.press("Enter");
    await until("the other replica alone", async () => {
      const found = await replicasIn(page);
      return (found.size === 1 && found.has(OTHER)) || undefined;
    });
    await page.goto(page.url().replace(/#.*/, "#/calls?to=2026-02-16"));
    await page.getByText(/^All replicas: complete until .* on 2 logs\./).waitFor();
    expect(await page.getByText("Lines may be missing").count()).toBe(0);
    await page.getByText("60 calls, all of them").waitFor();
  },
);

test.skipIf(native === undefined)("a call of another replica tells its story, and how its line is proved", async () => {
  const page = await visit("#/calls?tool=get_customer&decision=ALLOWED&to=2026-02-17", {
    viewport: { width: 390, height: 844 },
  });
  await page.locator(".records .cell-time a").first().click();
  await page.getByRole("heading", { name: /get_customer/ }).waitFor();
  await page.getByText(`on ${OTHER}`).first().waitFor();
  await page.getByText(/^All replicas: /).waitFor();
  const command = await page.locator(".prove figure").textContent();
  expect(command).toMatch(new RegExp(`stc audit prove ${otherLog}:\\d+ --from-store URL-FILE > proof\\.json`));
  expect(command).toContain("stc audit verify-proof proof.json --key KEY");
  expect(await hindrances(page)).toEqual([]);
});

test.skipIf(native === undefined)(
  "this replica's own lines can be asked for, and keep their filters and the proof",
  async () => {
    const page = await visit("#/calls?decision=DENIED");
    await page.getByRole("link", { name: "This replica alone" }).click();
    await page.getByText("The lines of this replica alone.").waitFor();
    expect(page.url()).toEndWith("#/calls?decision=DENIED&source=replica");
    await until("one row", async () => ((await page.locator(".records tbody tr").count()) === 1 ? true : undefined));
    expect(await page.locator(".records th").allInnerTexts()).not.toContain("Replica");
    await page.getByLabel("Tool", { exact: true }).fill("nothing_such");
    await page.keyboard.press("Enter");
    await until("the filter", () => page.url().includes("tool=nothing_such") || undefined);
    expect(page.url()).toContain("source=replica");
    await page.locator(".records .cell-time a").first().click();
    await page.getByRole("button", { name: "Download inclusion proof" }).waitFor();
    await page.getByRole("link", { name: "Show all replicas" }).click();
    await page.getByText(/^All replicas: /).waitFor();
  },
);

test.skipIf(native === undefined)(
  "a store that is away is said so, and this replica's own lines are one step away",
  async () => {
    const page = await visit("#/calls");
    await world.showsItsOwn(page, "Search", async () => {
      await page.getByText("nothing_such").waitFor();
      await page.getByText("The lines of this replica alone.").waitFor();
    });
  },
);
