import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import { hindrances } from "../../support/accessibility.ts";
import { launchBrowser } from "../../support/browser.ts";
import { type TenantName, TenantService } from "../../support/tenant-service.ts";
import { Visitor } from "./visitor.ts";

const HOLDS = ["metrics:read", "tenants:read", "halts:read", "halts:write", "audit:read"];
const world = new TenantService();
const visitors: Visitor[] = [];
let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
  await world.start({ server: { port: 0, console: { port: 0 } } });
});
afterEach(async () => {
  const problems = visitors.flatMap((visitor) => visitor.problems);
  await Promise.all(visitors.splice(0).map((visitor) => visitor.close()));
  expect(problems).toEqual([]);
});
afterAll(async () => {
  await browser.close();
  await world.end();
});

async function visit(tenant: TenantName, fragment: string, holds = HOLDS) {
  const visitor = await Visitor.open(browser, world);
  visitors.push(visitor);
  await visitor.signIn(await world.operatorOf(tenant, holds));
  await visitor.go(fragment);
  return visitor.page;
}

test("an operator of the service halts a tenant, and sees which tenants there are and that it is halted", async () => {
  const page = await visit(undefined, "#/limits");
  await page.getByRole("button", { name: "Halt calls …" }).click();
  await page.getByLabel("All calls").check();
  await page.getByLabel("Whose calls").selectOption("acme");
  await page.getByLabel("Why. Agents are not told").fill("INC-4711");
  expect(await hindrances(page)).toEqual([]);
  await page.getByRole("button", { name: "Continue …" }).click();
  const dialog = page.getByRole("dialog", { name: "Halt these calls?" });
  await dialog.getByText("of tenant acme").waitFor();
  await dialog.getByRole("button", { name: "Halt now", disabled: false }).click();
  const row = page.locator(".records tbody tr").first();
  await row.getByText("of tenant acme").waitFor();
  expect((await world.callTo("acme", "do_read")).body.error.code).toBe("HALTED");
  expect((await world.callTo("globex", "do_read")).http).toBe(200);
  await page.goto(`${world.consoleUrl}/console#/systems`);
  const section = page.getByRole("region", { name: "Tenants", exact: true });
  await section.getByText("all halted").waitFor();
  expect(await section.locator("tbody tr").allTextContents()).toEqual([
    expect.stringMatching(/^acmeall halted03ok/),
    expect.stringMatching(/^globexaccepted03ok/),
  ]);
  expect(await page.locator(".top .tenant").count()).toBe(0);
  expect(await hindrances(page)).toEqual([]);
});

test("without the permission, an operator of the service sees how many tenants there are", async () => {
  const page = await visit(undefined, "#/systems", ["metrics:read"]);
  const section = page.getByRole("region", { name: "Tenants", exact: true });
  await section.getByText("2 tenants. Listing them needs the permission tenants:read.").waitFor();
});

test("an operator of a tenant sees its name at the top, no tenants, and halts its own calls only", async () => {
  const page = await visit("globex", "#/systems");
  await page.getByText("The service accepts calls.").waitFor();
  expect(await page.locator(".account summary").textContent()).toBe("Signed in as olga, tenant globex");
  expect(await page.getByRole("region", { name: "Tenants", exact: true }).count()).toBe(0);
  await page.locator(".account summary").click();
  await page.locator(".account .menu").getByText("globex").waitFor();
  await page.goto(`${world.consoleUrl}/console#/limits`);
  await page.getByRole("button", { name: "Halt calls …" }).click();
  await page.getByLabel("All calls").waitFor();
  expect(await page.getByLabel("Whose calls").count()).toBe(0);
  expect(await hindrances(page)).toEqual([]);
});

test("an operator of a tenant sees the service's halts that stop its calls, and can lift only its own", async () => {
  const halt = async (by: TenantName, body: Readonly<Record<string, unknown>>) =>
    (await world.send("POST", "/halts", { token: await world.operatorOf(by, HOLDS), body })).body.halt.id;
  const agent = { kind: "caller", issuer: "https://tenants.test", subject: "agent-7" };
  const ids = [
    await halt(undefined, { ...agent, tenant: "globex", reason: "INC-4712: it mails customers", forSeconds: 3_600 }),
    await halt(undefined, { kind: "tool", tool: "do_write", reason: "about acme" }),
    await halt(undefined, { kind: "session", session: "of-acme", reason: "about acme", cancelRunning: true }),
    await halt("globex", { kind: "tool", tool: "slow_read", reason: "too slow" }),
  ];
  const page = await visit("globex", "#/limits");
  const rows = page.locator(".records tbody tr");
  await rows.nth(3).waitFor();
  expect(await rows.allTextContents()).toEqual([
    expect.stringMatching(
      /^caller agent-7.*INC-4712: it mails customersthe service's operators, .*in .*by the service only$/,
    ),
    expect.stringMatching(/^tool do_writenot shownthe service's operators, .*when it is liftedby the service only$/),
    expect.stringMatching(/^session that is not shown and running onesnot shownthe service's .*by the service only$/),
    expect.stringMatching(/^tool slow_readtoo slowolga.*Lift …$/),
  ]);
  expect(await page.getByText(/acme/).count()).toBe(0);
  expect(await hindrances(page)).toEqual([]);
  await page.goto(`${world.consoleUrl}/console#/`);
  await page.getByText("The caller agent-7 is halted by the service's operators").waitFor();
  await page.getByText("A session is halted by the service's operators").waitFor();
  // On the agent's page, the tenant's operators can only add a halt of their own.
  await page.goto(`${world.consoleUrl}/console#/agents/${encodeURIComponent(agent.issuer)}/agent-7`);
  await page.getByText("by the service's operators").waitFor();
  await page.getByRole("button", { name: "Stop this agent …" }).waitFor();
  expect(await hindrances(page)).toEqual([]);
  // The agent belongs to the tenant, so the service itself does not list it.
  const ofService = await visit(undefined, "#/agents");
  const halts = ofService.waitForResponse(/\/halts$/);
  await ofService.reload();
  await (await halts).finished();
  await ofService.getByText("No call in the last day").waitFor();
  expect(await ofService.getByText("agent-7").count()).toBe(0);
  for (const [at, id] of ids.entries())
    await world.send("DELETE", `/halts/${id}`, {
      token: await world.operatorOf(at === 3 ? "globex" : undefined, HOLDS),
    });
});
