import { expect, test } from "bun:test";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { hindrances } from "../../support/accessibility.ts";
import { entryLine, refusedLine, writeDays } from "../../support/audit-lines.ts";
import { consoleVisits, untilWhole } from "../../support/console-visits.ts";
import { ConsoleWorld } from "./console-world.ts";

const ISSUER = "https://idp.test";
const HOSTILE = "<b>agent</b>\u202e\u0007 evil";
const LONG = "l".repeat(250);
const HOLDS = ["halts:read", "halts:write", "quotas:read", "data-flow:read"];
const HOUR_MS = 3_600_000;

const world = new ConsoleWorld();

/** Lines of the last day: 120 callers, of which two have names that should do harm. */
function linesOfADay(): Readonly<Record<string, readonly string[]>> {
  const before = (hours: number): string => new Date(Date.now() - hours * HOUR_MS).toISOString();
  const by = (sub: string) => ({ sub, iss: ISSUER, permissions: [] });
  const tool = (name: string) => ({ name, classification: "read", targetSystem: "shop" }) as const;
  const lines = [
    ...Array.from({ length: 118 }, (_, at) => entryLine(before(20), { caller: by(`agent-1${at}`), duration: at })),
    ...[HOSTILE, LONG].map((sub) => entryLine(before(19), { caller: by(sub), tool: tool(HOSTILE) })),
    ...[18, 17].map((hours) =>
      refusedLine(before(hours), ["PERMISSION_DENIED", "PERMISSION"], { caller: by("agent-7"), tool: tool("search") }),
    ),
    refusedLine(before(16), ["UNAUTHENTICATED", "AUTH"], { caller: { sub: "anonymous", permissions: [] }, count: 40 }),
  ];
  return Object.fromEntries(Map.groupBy(lines, (line) => JSON.parse(line).timestamp.slice(0, 10)));
}

const { visitPage: visit } = consoleVisits(world, {
  async start() {
    writeDays(join(world.folder, "audit"), linesOfADay());
    const quotas = [{ name: "orders", per: ["caller"], calls: 100, window: "day" }];
    await world.start({ audit: { dir: "audit" }, dataFlow: {}, limits: { quotas } });
    const id = await world.ask("announce", { text: "Hello" });
    await world.decide(id, "approve");
    await world.call("announce", { text: "Hello" });
    await world.ask("announce", { text: "Prices go up" });
    await world.call("drop_tables", {});
  },
  holds: HOLDS,
  async clean() {
    const token = await world.person({ permissions: HOLDS });
    const { halts } = (await world.send("GET", "/halts", { token })).body;
    for (const { id } of halts) await world.send("DELETE", `/halts/${id}`, { token });
  },
});

async function textOf(locator: Locator): Promise<string> {
  return (await locator.allInnerTexts()).join("\n");
}

const pageOf = (sub: string): string => `#/agents/${encodeURIComponent(ISSUER)}/${encodeURIComponent(sub)}`;
const rowsOf = (page: Page) => page.locator(".records.agents tbody tr");

test("the agents of the last day are listed, the latest first, with their calls and refusals", async () => {
  const page = await visit("#/agents");
  await rowsOf(page).first().waitFor();
  await untilWhole(page);
  expect(await textOf(rowsOf(page).first())).toMatch(
    /^agent-7 https:\/\/idp\.test\s+.*\s4\s+6\s+3\s+2 asked a person/s,
  );
  expect(await rowsOf(page).count()).toBe(100);
  await page.getByRole("button", { name: "Show more of 122 agents" }).click();
  await page.getByText("122 agents").waitFor();
  await page.getByRole("button", { name: "Last day" }).click();
  // A row that is out of sight has no rendered text.
  expect(await rowsOf(page).first().textContent()).toContain("anonymous without a token");
  expect(await textOf(page.locator("th[aria-sort]"))).toContain("Last day");
  await page.getByLabel("Filter agents by name or issuer").fill("EVIL");
  await page.getByText("1 agent", { exact: true }).waitFor();
  expect(await textOf(rowsOf(page))).toContain("\\u{202e}");
  await page.getByLabel("Filter agents by name or issuer").fill("nobody like that");
  await page.getByText("No agent matches").waitFor();
});

test("an agent's page says what it did, what it asked for and what it has", async () => {
  const page = await visit("#/agents");
  await rowsOf(page).first().getByRole("link").click();
  await page.getByRole("heading", { name: "agent-7 of https://idp.test" }).waitFor();
  const figures = page.locator(".figures");
  await figures.getByText("calls in the last hour").waitFor();
  expect(await textOf(figures)).toMatch(/4\s+calls in the last hour\s+1 denied, 2 asked a person/);
  expect(await textOf(figures)).toMatch(/6\s+calls in the last day\s+3 denied, 2 asked a person/);
  const tools = page.getByRole("region", { name: "Calls by tool" });
  await tools.getByRole("row", { name: /^announce 3 3 1 0 2 / }).waitFor();
  await tools.getByRole("row", { name: /^search 0 2 0 2 0 17 h ago/ }).waitFor();
  const refusals = page.getByRole("region", { name: "Refusals by code" });
  await refusals.getByRole("row", { name: /PERMISSION_DENIED The caller's token lacks a permission/ }).waitFor();
  await refusals.getByRole("row", { name: /INVALID_INPUT The arguments do not fit the tool\. 1 1 / }).waitFor();
  await page.getByText("In the last day: 1 waiting · 1 approved, has run").waitFor();
  await page.getByText("1 of 100 calls").waitFor();
  await page.getByText("No session is open.").waitFor();
  await page.getByText("No approval covers further calls.").waitFor();
  expect(await hindrances(page)).toEqual([]);
  await page.getByRole("link", { name: "Prices go up" }).waitFor();
  await page.getByRole("link", { name: "All its calls" }).click();
  await page.getByText("6 calls, all of them").waitFor();
  expect(page.url()).toEndWith("#/calls?sub=agent-7&iss=https%3A%2F%2Fidp.test");
  await page.locator(".records .caller").first().click();
  await page.getByRole("heading", { name: "agent-7" }).waitFor();
});

test("an agent is stopped from its page, after the count of what matched, and goes on after a confirmation", async () => {
  const page = await visit(pageOf("agent-7"));
  const stop = page.getByRole("button", { name: "Stop this agent …" });
  await stop.click();
  const dialog = page.getByRole("dialog");
  await dialog
    .getByText(
      /^\d+ calls matched in the last hour, \d+ in the last day\. Calls in which it acts for others are not counted\.$/,
    )
    .waitFor();
  await page.keyboard.type("INC-4711");
  expect(await dialog.getByLabel("Why. Agents are not told").inputValue()).toBe("INC-4711");
  await dialog.getByLabel("How long").selectOption("an hour");
  expect(await hindrances(page)).toEqual([]);
  await page.getByRole("button", { name: "Stop it now", disabled: false }).click();
  await page.getByText(/^Its calls are refused\. Halted .* by olga, for .* more: INC-4711/).waitFor();
  expect((await world.call("announce", { text: "Hello" })).body.error.code).toBe("HALTED");
  expect(world.journal().findLast(({ type }) => type === "halt.set")).toMatchObject({
    ...{ kind: "caller", issuer: ISSUER, subject: "agent-7", reason: "INC-4711", cancelRunning: false },
    setBy: { subject: "olga" },
  });
  await page.getByRole("link", { name: "← All agents" }).click();
  await rowsOf(page).first().getByText("halted").waitFor();
  await page.goBack();
  await page.getByRole("button", { name: "Let this agent go on …" }).click();
  await dialog.getByText("It was stopped because: INC-4711").waitFor();
  await page.getByRole("button", { name: "Lift the halt", disabled: false }).click();
  await stop.waitFor();
  expect((await world.call("announce", { text: "Hello" })).http).not.toBe(403);
});

test("a call's story stops the agent that acts for a person, as its request does", async () => {
  const claims = { act: { sub: "release-bot" } };
  const token = await world.agent({ sub: "anna", permissions: ["deeds:do"], claims });
  const { traceId } = (await world.call("announce", { text: "For Anna" }, { token })).body;
  const page = await visit(`#/calls/${traceId}`);
  await page.getByText("release-bot for anna of https://idp.test asked to run announce").waitFor();
  await page.getByRole("button", { name: "Stop this agent …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("release-bot of https://idp.test").waitFor();
  await dialog.getByLabel("Why. Agents are not told").fill("it loops");
  await page.getByRole("button", { name: "Stop it now", disabled: false }).click();
  await page.locator(".lead").getByText("caller halted").waitFor();
  expect(world.journal().findLast(({ type }) => type === "halt.set")).toMatchObject({ subject: "release-bot" });
});

test("a page is read again whole: counts, last calls and requests", async () => {
  const sub = "returning-agent";
  const token = await world.agent({ sub, permissions: ["deeds:do"] });
  await world.ask("announce", { text: "First of two" }, { token });
  const page = await visit(pageOf(sub));
  await page.getByRole("link", { name: "First of two" }).waitFor();
  await world.ask("announce", { text: "Second of two" }, { token });
  await page.getByRole("button", { name: "Refresh" }).click();
  await page.getByRole("link", { name: "Second of two" }).waitFor();
  await page.getByText("calls in the last hour").waitFor();
  await page.getByRole("table", { name: "Last calls" }).locator("tbody tr").nth(1).waitFor();
});

test("the dialog that stops an agent does not turn into the one that lets it go on", async () => {
  const page = await visit(pageOf("agent-7"));
  await page.getByRole("button", { name: "Stop this agent …" }).click();
  const token = await world.person({ sub: "ines", permissions: HOLDS });
  const body = { kind: "caller", issuer: ISSUER, subject: "agent-7", reason: "drill" };
  expect((await world.send("POST", "/halts", { token, body })).http).toBe(201);
  // The page learns of it at its next reading.
  await page.getByText("Its calls are refused.").waitFor();
  await page.getByRole("dialog", { name: "Stop this agent" }).waitFor();
});

test("an agent cannot be stopped without a reason, nor by a double click", async () => {
  const halts = (): number => world.journal().filter(({ type }) => type === "halt.set").length;
  const before = halts();
  const page = await visit(pageOf("agent-7"));
  await page.getByRole("button", { name: "Stop this agent …" }).click();
  const now = page.getByRole("button", { name: "Stop it now" });
  expect(await now.isDisabled()).toBe(true);
  await page.getByRole("button", { name: "Stop it now", disabled: false }).click();
  expect(await page.getByRole("dialog").count()).toBe(1);
  await page.keyboard.press("Escape");
  expect(halts()).toBe(before);
});

test("parts that the operator may not read are named with their permissions; nothing is asked for them", async () => {
  const page = await visit(pageOf("agent-7"), { holds: [] });
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.reload();
  await page.getByText(/What it has read \(data-flow:read\), Quotas \(quotas:read\)\.$/).waitFor();
  await page.getByText("Last calls").first().waitFor();
  expect(await page.getByRole("button", { name: "Stop this agent …" }).count()).toBe(0);
  expect(asked.filter((path) => ["/quotas", "/data-flow", "/halts"].includes(path))).toEqual([]);
});

test("each reading is in the journal", async () => {
  const page = await visit(pageOf("agent-8"));
  await page.getByText("The audit has no call of this agent.").waitFor();
  await page.getByText("It asked for nothing in the last day.").waitFor();
  const filters = { sub: "agent-8", iss: ISSUER };
  const queried = world.journal().filter(({ type }) => type === "audit.queried");
  expect(queried.slice(-2)).toMatchObject([
    { route: "activity", filters, sub: "olga" },
    { route: "query", filters },
  ]);
});

test("hostile and long names are text, on their pages and in links to them", async () => {
  for (const sub of [HOSTILE, LONG]) {
    const page = await visit(pageOf(sub), { viewport: { width: 390, height: 844 } });
    await untilWhole(page);
    await page.getByText("call in the last day").waitFor();
    await page.locator(".cell-time a").first().waitFor();
    expect(await page.locator("main b").count()).toBe(0);
    expect(await textOf(page.locator("main"))).not.toMatch(/[\u202e\u0007]/);
    expect(await page.evaluate("document.documentElement.scrollWidth")).toBeLessThanOrEqual(390);
    expect(await hindrances(page)).toEqual([]);
    await page.getByRole("button", { name: "Stop this agent …" }).waitFor();
  }
});

test("a halt by form suggests callers and tools of the last day, and says how many calls matched", async () => {
  const page = await visit("#/limits");
  await page.getByRole("button", { name: "Halt calls …" }).click();
  const dialog = page.getByRole("dialog");
  const suggested = (name: string) =>
    dialog.locator(`#halt-${name}-list option`).evaluateAll((all) => all.map((one) => one.getAttribute("value")));
  await dialog.locator("#halt-tool-list option").first().waitFor({ state: "attached" });
  expect(await suggested("tool")).toEqual(expect.arrayContaining(["announce", "get_customer", "search"]));
  expect(await suggested("tool")).not.toContain(HOSTILE);
  await dialog.getByRole("radio", { name: "Calls of a caller" }).check();
  expect(await suggested("issuer")).toEqual([ISSUER]);
  expect(await suggested("subject")).toContain("agent-7");
  expect(await suggested("subject")).not.toContain("anonymous");
  await dialog.getByLabel("Issuer of the caller's tokens").fill(ISSUER);
  await dialog.getByLabel("Subject of the caller's tokens").fill("agent-10");
  await dialog.getByLabel("Why. Agents are not told").fill("drill");
  await dialog.getByRole("button", { name: "Continue …" }).click();
  await page.getByText("0 calls matched in the last hour, 1 in the last day.").waitFor();
  expect(await hindrances(page)).toEqual([]);
});

test.each([
  ["light", 1440],
  ["dark", 360],
  ["dark", 1440],
  ["light", 360],
] as const)("the pages are accessible: %s, %d px", async (colorScheme, width) => {
  const token = await world.person({ sub: "ines", permissions: HOLDS });
  const halt = { kind: "caller", issuer: ISSUER, subject: "agent-7", reason: "drill" };
  await world.send("POST", "/halts", { token, body: halt });
  const page = await visit("#/agents", { colorScheme, viewport: { width, height: 800 } });
  await rowsOf(page).getByText("halted").waitFor();
  expect(await hindrances(page)).toEqual([]);
  await page.goto(page.url().replace(/#.*/, pageOf("agent-7")));
  await page.locator(".cell-time a").first().waitFor();
  await page.getByText("Its calls are refused.").waitFor();
  expect(await hindrances(page)).toEqual([]);
});
