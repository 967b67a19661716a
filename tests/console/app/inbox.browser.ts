import { expect, test } from "bun:test";
import { join } from "node:path";
import { hindrances } from "../../support/accessibility.ts";
import { journalEntries } from "../../support/audit-files.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { ConsoleWorld } from "./console-world.ts";

const world = new ConsoleWorld();

const { visit } = consoleVisits(world);

async function askFour(): Promise<readonly [string, string, string, string]> {
  return [
    await world.ask("create_order", { customer: "C 1", items: ["ink"], note: "before Friday" }),
    await world.ask("announce", { text: 'x", count: 7 <b>\u202eevil' }),
    await world.ask("fs_write", { path: "@project/notes.md", content: "# Release\n" }),
    await world.ask("announce", { text: "tomorrow", count: 2 }),
  ];
}

test("rows and the dialog to deny several say what will run, with one journal entry for what was read", async () => {
  const ids = await askFour();
  const lines = [
    'POST /api/customers/C%201/orders items: ["ink"], note: "before Friday"',
    'text: "x\\", count: 7 <b>\\u{202e}evil"',
    "Writes @project/notes.md (+0 −4 lines)",
    'text: "tomorrow", count: 2',
  ];
  const visitor = await visit();
  const { page } = visitor;
  await visitor.row(ids[3]).locator(".headline").waitFor();
  for (const [at, id] of ids.entries())
    expect(await visitor.row(id).locator(".headline").textContent()).toBe(lines[at] ?? "");
  const entries = journalEntries(join(world.folder, "audit")).filter(({ type }) => type === "approvals.listed");
  const named = entries.filter((entry) => "ids" in entry).map((entry) => (entry as { ids?: readonly string[] }).ids);
  // The requests that wait, and the latest ones of any state: one entry each, not one per row.
  expect(named.length).toBeLessThanOrEqual(2);
  for (const id of ids) expect(named[0]).toContain(id);
  for (const id of ids) await visitor.row(id).getByRole("checkbox").check();
  await page.getByRole("button", { name: "Deny …", exact: true }).click();
  expect(await page.locator("dialog .headline").allTextContents()).toEqual(lines);
  expect(await hindrances(page)).toEqual([]);
  await page.getByLabel("One reason for all of them").fill("not today");
  await page.getByRole("button", { name: "Deny 4 requests" }).click();
  await visitor.sendNow();
  await page.getByText("Denied: 4 requests.").waitFor();
});

test("the next request opens after a decision, undo returns, and j and k keep their place", async () => {
  const ask = (text: string): Promise<string> => world.ask("announce", { text });
  const [first, second, third, fourth] = [
    await ask("first"),
    await ask("second"),
    await ask("third"),
    await ask("last"),
  ];
  const { page, open, ready, row } = await visit({ isPatient: true }).then((visitor) => ({
    page: visitor.page,
    open: visitor.open.bind(visitor),
    ready: visitor.ready.bind(visitor),
    row: visitor.row.bind(visitor),
  }));
  const isOpen = (id: string) => page.locator(`#row-${id}.open`).waitFor();
  await row(fourth).waitFor();
  await open(second);
  await ready(/^Deny/).click();
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await isOpen(third);
  await page.keyboard.press("u");
  await isOpen(second);
  // Somebody else decides the open request: the one after it and the one before it are where they were.
  await world.decide(second, "deny");
  await row(second).waitFor({ state: "detached" });
  await page.keyboard.press("j");
  await isOpen(third);
  await world.decide(third, "deny");
  await row(third).waitFor({ state: "detached" });
  await page.keyboard.press("k");
  await isOpen(first);
  for (const id of [first, fourth]) await world.decide(id, "deny");
});
