import { expect, test } from "bun:test";
import { hindrances } from "../../support/accessibility.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { ConsoleWorld } from "./console-world.ts";
import type { VisitOptions } from "./visitor.ts";

const HOLDS = ["halts:read", "halts:write"];

const world = new ConsoleWorld();
const { visitPage } = consoleVisits(world, {
  holds: HOLDS,
  async clean() {
    const token = await world.person({ permissions: HOLDS });
    const { halts } = (await world.send("GET", "/halts", { token })).body;
    for (const { id } of halts) await world.send("DELETE", `/halts/${id}`, { token });
  },
});
const visit = (options?: VisitOptions) => visitPage("#/limits", options);

async function halt(body: Readonly<Record<string, unknown>>): Promise<void> {
  const token = await world.person({ sub: "ines", permissions: HOLDS });
  const { http } = await world.send("POST", "/halts", { token, body: { reason: "drill", ...body } });
  if (http !== 201) throw new Error(`not halted: ${http}`);
}

const announce = () => world.call("announce", { text: "Hello" });

test("a halt is set after a confirmation, stops calls, and is lifted after another", async () => {
  const page = await visit();
  await page.getByText("Nothing is halted").waitFor();
  await page.getByRole("button", { name: "Halt calls …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Tool", { exact: true }).fill("announce");
  await dialog.getByLabel("Why. Agents are not told").fill("INC-4711");
  await dialog.getByLabel("How long").selectOption("an hour");
  expect(await hindrances(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Continue …" }).click();
  await page.getByRole("heading", { name: "Halt these calls?" }).waitFor();
  expect(await hindrances(page)).toEqual([]);
  expect((await announce()).http).toBe(202);
  await page.getByRole("button", { name: "Halt now", disabled: false }).click();
  await page.locator(".records").getByText("INC-4711").waitFor();
  expect((await announce()).body.error.code).toBe("HALTED");
  expect(world.journal().findLast(({ type }) => type === "halt.set")).toMatchObject({
    ...{ kind: "tool", tool: "announce", reason: "INC-4711", cancelRunning: false },
    setBy: { subject: "olga" },
  });
  await page.getByRole("button", { name: "Lift …" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
  expect((await announce()).http).toBe(403);
  await page.getByRole("button", { name: "Lift …" }).click();
  await page.getByRole("button", { name: "Lift the halt", disabled: false }).click();
  await page.getByText("Nothing is halted").waitFor();
  expect((await announce()).http).toBe(202);
});

test("a confirmation does not count at once: a double click halts nothing", async () => {
  const page = await visit();
  await page.getByRole("button", { name: "Halt calls …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("radio", { name: "All calls" }).check();
  await dialog.getByLabel("Why. Agents are not told").fill("by accident");
  // The second click comes as soon as the button to confirm is there.
  await page.evaluate(`new MutationObserver((_, observer) => {
    const confirm = document.querySelector(".dialog-buttons .danger.solid");
    if (!confirm?.textContent.startsWith("Halt now")) return;
    observer.disconnect();
    globalThis.wasDisabled = confirm.disabled;
    confirm.click();
  }).observe(document.body, { childList: true, subtree: true, characterData: true })`);
  await dialog.getByRole("button", { name: "Continue …" }).click();
  await page.waitForFunction("'wasDisabled' in globalThis");
  expect(await page.evaluate("wasDisabled")).toBe(true);
  await page.getByRole("button", { name: "Halt now" }).waitFor();
  await page.keyboard.press("Escape");
  expect(await page.getByRole("dialog").count()).toBe(0);
  expect(world.journal().some(({ reason }) => reason === "by accident")).toBe(false);
});

test("halts that others set appear by themselves; without halts:write they cannot be lifted", async () => {
  const page = await visit({ holds: ["halts:read"] });
  await page.getByText("Nothing is halted").waitFor();
  expect(await page.getByRole("button", { name: "Halt calls …" }).count()).toBe(0);
  await halt({ kind: "caller", issuer: "https://idp.example/<b>", subject: "agent\u202e-7", reason: "<img src=x>" });
  const row = page.locator(".records tbody tr");
  await row.getByText("<img src=x>").waitFor();
  expect(await row.textContent()).toContain("ines");
  expect(await page.getByRole("button", { name: "Lift …" }).count()).toBe(0);
});

test("without halts:read there is no such page", async () => {
  const page = await visit({ holds: ["audit:read"] });
  await page.locator(".layout").waitFor();
  expect(await page.getByRole("link", { name: "Limits" }).count()).toBe(0);
});

test("an unknown tool is halted, and the page says that nobody here knows it", async () => {
  const page = await visit();
  await page.getByRole("button", { name: "Halt calls …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Tool", { exact: true }).fill("anounce");
  await dialog.getByLabel("Why. Agents are not told").fill("r");
  await dialog.getByRole("button", { name: "Continue …" }).click();
  await page.getByRole("button", { name: "Halt now", disabled: false }).click();
  await page.locator(".notices").getByText("no tool of this service is called anounce").waitFor();
  await page.locator(".records").getByText("anounce").waitFor();
});

test("quotas and their use are shown to those who may read them", async () => {
  const page = await visit({ holds: [...HOLDS, "quotas:read"] });
  await page.getByRole("heading", { name: "Quotas" }).waitFor();
  const use = [
    {
      quota: "refunds",
      issuer: "https://idp.example",
      subject: "agent-7",
      tool: "announce",
      unit: "calls",
      used: 20,
      limit: 20,
      endsAt: Date.now() + 60_000,
    },
    { quota: "bytes", unit: "bytes", used: 1_500, endsAt: Date.now() + 60_000 },
  ];
  const quotas = [{ name: "mails", per: ["caller"], calls: 20, window: "day" }];
  await page.route("**/quotas", (route) => route.fulfill({ json: { quotas, use } }));
  await page.reload();
  const table = page.getByRole("region", { name: "Use of the quotas" });
  await table.getByRole("row", { name: /refunds agent-7.* announce used up 20 calls/ }).waitFor();
  await table.getByRole("row", { name: /bytes everybody 1,500 bytes none now/ }).waitFor();
  await page.getByText("Nothing used of mails (20 calls a day).").waitFor();
  expect(await hindrances(page)).toEqual([]);
});

test.each([
  ["light", 1440],
  ["dark", 360],
  ["dark", 1440],
  ["light", 360],
] as const)("the page is accessible: %s, %d px", async (colorScheme, width) => {
  await halt({ kind: "all", forSeconds: 3_600, cancelRunning: true });
  await halt({ kind: "session", session: "sid:abc" });
  const page = await visit({ colorScheme, viewport: { width, height: 800 } });
  await page.locator(".records").waitFor();
  expect(await hindrances(page)).toEqual([]);
});
