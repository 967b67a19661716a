import { expect, test } from "bun:test";
import { hindrances } from "../../support/accessibility.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { ConsoleWorld } from "./console-world.ts";
import type { VisitOptions } from "./visitor.ts";

const HOLDS = ["metrics:read", "tools:read", "halts:read", "halts:write"];

const world = new ConsoleWorld();

const { visitPage } = consoleVisits(world, {
  async start() {
    await world.start({
      audit: { dir: "audit", export: [{ type: "loki", name: "archive", url: "http://127.0.0.1:1" }] },
    });
  },
  holds: HOLDS,
});
const visit = (options?: VisitOptions) => visitPage("#/", options);

test("shows what needs somebody, and leads to where it is dealt with", async () => {
  const id = await world.ask("announce", { text: "Waits at home" });
  for (let at = 0; at < 10; at += 1) await world.call("announce", { text: at });
  const token = await world.operator("olga", ["halts:write"]);
  const body = { kind: "tool", tool: "rotate_keys", reason: "Keys are counted" };
  const { http, body: answer } = await world.send("POST", "/halts", { token, body });
  expect(http).toBe(201);
  const page = await visit();
  const needs = page.getByRole("region", { name: "Needs somebody" });
  await needs.getByText("The exporter archive has failed for").waitFor();
  await needs.getByText("INVALID_INPUT rose to 10 calls in the last hour").click();
  await page.locator(".records").getByText("INVALID_INPUT").first().waitFor();
  expect(page.url()).toEndWith("#/calls?from=1h&code=INVALID_INPUT");
  await page.goBack();
  await needs.getByText("The tool rotate_keys is halted by olga").click();
  await page.getByRole("heading", { name: "Limits" }).waitFor();
  await page.goBack();
  const waiting = page.getByRole("region", { name: "1 request waits for a decision" });
  await waiting.getByRole("link").click();
  await page.locator("#request-title").waitFor();
  expect(page.url()).toEndWith(`#/approvals/${id}`);
  await page.goBack();
  await world.decide(id, "deny");
  await waiting.waitFor({ state: "detached" });
  await world.send("DELETE", `/halts/${answer.halt.id}`, { token });
  await page.getByRole("button", { name: "Check again" }).click();
  await page.getByRole("region", { name: "In order" }).getByText("Nothing is halted.").waitFor();
});

test("says that nothing needs anybody, and names what was not checked", async () => {
  const page = await visit({ holds: [] });
  await page.getByText("Checked just now").waitFor();
  await page.route("**/audit/stats?*", (route) => route.fulfill({ json: NO_REFUSALS }));
  await page.route("**/audit/exporters", (route) => route.fulfill({ json: { exporters: [] } }));
  const asked: string[] = [];
  page.on("request", (sent) => asked.push(new URL(sent.url()).pathname));
  await page.getByRole("button", { name: "Check again" }).click();
  await page.getByText("Nothing needs you now.").waitFor();
  await page
    .getByText("Not checked, because your token does not permit it: Systems (metrics:read), Halts (halts:read)")
    .waitFor();
  expect(asked.toSorted()).toEqual(["/audit/exporters", "/audit/stats"]);
});

test("a part that cannot be read needs somebody; the others are shown", async () => {
  const page = await visit();
  await page.route("**/systems", (route) => route.fulfill({ status: 503, json: {} }));
  await page.getByRole("button", { name: "Check again" }).click();
  await page.getByText("Systems: nothing is known now. The service answered with status 503. (HTTP_503)").waitFor();
  await page.getByRole("region", { name: "In order" }).getByText("none is quarantined").waitFor();
});

test.each([
  ["light", 1366],
  ["dark", 390],
  ["dark", 1366],
  ["light", 390],
] as const)("is accessible: %s, %d px", async (colorScheme, width) => {
  const id = await world.ask("drop_tables", { text: `customers ${colorScheme} ${width}` });
  const page = await visit({ colorScheme, viewport: { width, height: 800 } });
  await page.getByRole("region", { name: "In order" }).waitFor();
  expect(await hindrances(page)).toEqual([]);
  await world.decide(id, "deny");
});

const NO_REFUSALS = { now: { calls: 0, refusals: [] }, before: { calls: 0, refusals: [] }, changes: [] };
