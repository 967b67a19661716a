import { expect, test } from "bun:test";
import { hindrances } from "../../support/accessibility.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { ConsoleWorld } from "./console-world.ts";

const HOLDS = ["configuration:read"];
const RULE = { name: "releases", when: { tool: "announce", args: { text: ["one", "two"] } }, risk: "medium" };

const world = new ConsoleWorld();
let asked: string;

const { visitPage: visit } = consoleVisits(world, {
  async start() {
    await world.start({ approvals: { rules: [{ ...RULE, verdict: "deny" }] } });
    await world.stop();
    await world.start({ approvals: { rules: [{ ...RULE, verdict: "ask" }] } });
    await world.ask("announce", { text: "one" });
    await world.ask("drop_tables", { text: "x" });
    asked = world.entries().find(({ tool }) => tool.name === "announce")?.traceId ?? "";
  },
  holds: HOLDS,
});

test("a story's rule leads to the rule in force, in words and with its setting", async () => {
  const page = await visit(`#/calls/${asked}`);
  await page.getByRole("link", { name: "The rule operator:releases" }).click();
  const rule = page.locator(".policy-rules .named");
  await rule.getByText("releases: calls where tool is announce and argument text is one or two").waitFor();
  await rule.getByText("approvals.rules[0]").waitFor();
  expect(await page.locator(".policy-rules .named").count()).toBe(1);
});

test("the calls that rules decided are counted, and listed", async () => {
  const page = await visit("#/policy");
  await page.getByRole("button", { name: /^Count the last/ }).click();
  await page.getByText("how many of the last 2 calls").waitFor();
  const row = page.locator(".policy-rules li", { hasText: "releases: calls" });
  await row.getByText("1 call", { exact: false }).first().waitFor();
  await row.getByRole("link", { name: /^Calls of the rule/ }).click();
  await page.locator(".records").getByText("announce").waitFor();
  expect(page.url()).toEndWith("#/calls?reason=floor%3Aoperator%3Areleases");
});

test("a rule that is not in force is said so", async () => {
  const page = await visit(`#/policy/${encodeURIComponent("operator:<b>gone</b>")}`);
  await page.getByText("The configuration in use has no rule").waitFor();
  expect(await page.locator(".callout b").count()).toBe(0);
});

test("the history names the replica and each version with what it changed, and a version shows its differences", async () => {
  const page = await visit("#/policy");
  const history = page.getByRole("region", { name: "History" });
  await history.getByText("newest first").waitFor();
  expect(await history.locator(".versions li").count()).toBe(2);
  await history.getByText("in use", { exact: true }).waitFor();
  await history.getByText("approvals.rules[releases].verdict").waitFor();
  await history.locator(".versions a").first().click();
  const change = page.getByRole("figure", { name: "Change of approvals.rules[releases].verdict" });
  await change.waitFor();
  expect(await change.locator(".line").allInnerTexts()).toEqual(['- "deny"\n', '+ "ask"\n']);
  const changed = world.journal().findLast(({ type }) => type === "service.started");
  await page.getByText(String(changed?.["shownSha256"])).waitFor();
  expect(await page.locator("main").textContent()).not.toContain(world.folder);
  await page.getByRole("link", { name: "← Policy" }).click();
  await page.getByRole("heading", { name: "Policy", exact: true }).waitFor();
});

test("the configuration that judged a call is one step from its story", async () => {
  const page = await visit(`#/calls/${asked}`);
  const { policyVersion = "" } = world.entry(asked) ?? {};
  await page
    .locator(".lead")
    .getByRole("link", { name: policyVersion.slice(0, 12) })
    .click();
  await page.getByRole("heading", { name: `Policy ${policyVersion.slice(0, 12)}` }).waitFor();
});

test("a version that this replica does not have is said so", async () => {
  const page = await visit(`#/policy/versions/${"0".repeat(64)}`);
  await page.getByText("CONFIGURATION_NOT_FOUND").waitFor();
  await page.getByText("Another replica may have used it.").waitFor();
});

test("without configuration:read there are no links to the policy", async () => {
  const page = await visit(`#/calls/${asked}`, { holds: [] });
  await page.locator(".lead").getByText("The operators' rule releases matches the call.").waitFor();
  expect(await page.locator('a[href^="#/policy"]').count()).toBe(0);
});

test.each([
  ["light", 1440],
  ["dark", 1440],
  ["light", 360],
  ["dark", 360],
] as const)("the pages are accessible: %s, %d px", async (colorScheme, width) => {
  const page = await visit("#/policy", { colorScheme, viewport: { width, height: 800 } });
  await page.locator(".versions li").first().waitFor();
  const href = (await page.locator(".versions a").first().getAttribute("href")) ?? "";
  for (const fragment of ["#/policy", "#/policy/destructive", "#/policy/network", "#/policy/versions", href]) {
    await page.goto(`${world.consoleUrl}/console${fragment}`);
    await page.locator(".versions li, .difference").first().waitFor();
    expect([fragment, await hindrances(page)]).toEqual([fragment, []]);
  }
});
