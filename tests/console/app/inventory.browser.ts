import { afterAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { hindrances } from "../../support/accessibility.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { until } from "../../support/until.ts";
import { HostileWorld, hostileTool } from "../../targets/mcp/world.ts";
import { ConsoleWorld } from "./console-world.ts";

const HOSTILE = '<img src=x onerror="document.title=1">\u202e evil';
const HOLDS = ["tools:read", "metrics:read"];

/** A service with a tool that its server has changed. */
class ChangedWorld extends HostileWorld {
  async begin(): Promise<void> {
    this.tell("changes.json", { echo: { description: `Does echo ${HOSTILE}` } });
    const definition = { name: "echo", description: "Does echo" };
    await this.run({
      server: { port: 0, console: { port: 0 } },
      tools: [hostileTool("echo", { definitionSha256: "0".repeat(64), definition }), hostileTool("who")],
      systems: { hostile: { mcp: this.serverEntry() } },
      commands: { confinement: "prefer", launchers: 0 },
    });
  }
}

/** A policy engine that is out of order. */
const engine = Bun.serve({
  ...{ hostname: "127.0.0.1", port: 0 },
  fetch: () => new Response("<img src=x> out of order", { status: 500 }),
});
const decisionPoints = [
  { name: "house-rules", when: { tools: ["announce"] }, cedar: { policiesFile: "rules.cedar" } },
  {
    ...{ name: "company", when: { tools: ["rotate_keys"] } },
    authzen: { url: `http://127.0.0.1:${engine.port}`, addresses: ["loopback"], retries: 0 },
  },
];

const world = new ConsoleWorld();
const changed = new ChangedWorld();
const { visitPage: visit, open } = consoleVisits(world, {
  async start() {
    writeFileSync(join(world.folder, "rules.cedar"), '@id("never") forbid(principal, action, resource);');
    await Promise.all([world.start({ decisionPoints }), changed.begin()]);
  },
  holds: HOLDS,
});
afterAll(async () => {
  await Promise.all([world.end(), changed.end(), engine.stop(true)]);
});

test("tools are listed and filtered, and one says who may call it and what is released", async () => {
  const page = await visit("#/tools");
  await page.getByText("8 tools").waitFor();
  await page.getByLabel(/Filter tools/).fill("shop");
  await until("one row", async () => ((await page.locator(".records tbody tr").count()) === 1 ? true : undefined));
  await page.getByRole("link", { name: "create_order" }).click();
  await page.getByRole("heading", { name: /create_order/ }).waitFor();
  await page.getByText('"path": "/customers/{customer}/orders"').waitFor();
  await page.locator("dd").getByText("deeds:do").waitFor();
  await page.getByRole("link", { name: "Its latest calls" }).click();
  expect(page.url()).toEndWith("#/calls?tool=create_order");
});

test("a tool's page says what would happen to a call, to those who may ask", async () => {
  const without = await visit("#/tools/create_order");
  await without.getByRole("heading", { name: /create_order/ }).waitFor();
  expect(await without.getByText("What would happen").count()).toBe(0);
  const page = await visit("#/tools/create_order", { holds: [...HOLDS, "policy:explain"] });
  await page.getByLabel("Caller").fill("agent-7");
  await page.getByLabel("Permissions").fill("nothing:else");
  await page.getByRole("button", { name: "Ask the policies" }).click();
  await page.getByText("would be refused").waitFor();
  await page.getByText("PERMISSION_DENIED").waitFor();
  await page.getByLabel("Arguments as JSON").fill("[]");
  await page.getByRole("button", { name: "Ask the policies" }).click();
  await page.getByText("The arguments are not a JSON object.").waitFor();
  await page.getByLabel("Permissions").fill("deeds:do");
  await page.getByLabel("Arguments as JSON").fill("{}");
  await page.getByRole("button", { name: "Ask the policies" }).click();
  await page.getByText("INVALID_INPUT").first().waitFor();
});

test("an unknown tool is said not to be there", async () => {
  const page = await visit(`#/tools/${encodeURIComponent("<b>x</b>")}`);
  await page.getByText("TOOL_NOT_FOUND").waitFor();
});

test("systems show addresses and calls, and lead to their tools", async () => {
  const page = await visit("#/systems");
  await page.getByText("The service accepts calls.").waitFor();
  const shop = page.locator(".card-system", { hasText: "shop" });
  await shop.getByText(/^http:\/\/127\.0\.0\.1:\d+\/api$/).waitFor();
  await shop.getByText("0 of 256").waitFor();
  await shop.getByText("circuit closed").waitFor();
  await shop.getByRole("link", { name: "create_order" }).click();
  await page.getByRole("heading", { name: /create_order/ }).waitFor();
});

test("decision points show their verdicts, their state and the last error", async () => {
  const args = { text: "now" };
  for (const tool of ["announce", "rotate_keys"]) {
    expect((await world.call(tool, args)).body.error.code).toBe("POLICY_DENIED");
  }
  const page = await visit("#/systems");
  const points = page.getByRole("region", { name: "Decision points" });
  const rules = points.locator(".card-system", { hasText: "house-rules" });
  await rules.waitFor();
  expect(await rules.locator("dd").allTextContents()).toEqual(["0 allow, 1 deny, 0 ask", "0", "1", "0"]);
  const company = points.locator(".card-system", { hasText: "company" });
  await company.getByText(/^circuit /).waitFor();
  const facts = await company.locator("dd").allTextContents();
  expect(facts).toEqual(["0 allow, 1 deny, 0 ask", "1", expect.stringMatching(/: .*500/), "0 of 256"]);
  expect(await page.locator("img").count()).toBe(0);
});

test("the service's own listeners are next to the systems", async () => {
  const page = await visit("#/systems");
  const listeners = page.getByRole("region", { name: "Listeners of this service" });
  await listeners.getByText(world.consoleUrl, { exact: true }).waitFor();
  expect(await listeners.getByRole("heading", { level: 3 }).allTextContents()).toEqual(["Calls", "Console"]);
});

test("a tool that its server changed says what changed, as text", async () => {
  const visitor = await open({ url: changed.consoleUrl });
  await visitor.signIn(await changed.person({ permissions: HOLDS }));
  await visitor.go("#/tools");
  const { page } = visitor;
  await page.locator("tr", { hasText: "echo" }).getByText("quarantined").waitFor();
  await page.getByRole("link", { name: "echo" }).click();
  await page
    .getByRole("figure", { name: "What its server changed" })
    .getByText(/Does echo <img src=x/)
    .waitFor();
  expect(await page.locator("img").count()).toBe(0);
  await visitor.go("#/systems");
  await page.locator(".card-system.bad", { hasText: "hostile" }).waitFor();
});

test.each([
  ["light", 1440],
  ["dark", 1440],
  ["light", 360],
  ["dark", 360],
] as const)("the pages are accessible: %s, %d px", async (colorScheme, width) => {
  const page = await visit("#/tools", { colorScheme, viewport: { width, height: 800 } });
  for (const fragment of ["#/tools", "#/tools/bash", "#/systems"]) {
    await page.goto(`${world.consoleUrl}/console${fragment}`);
    await page.locator(".records, .story-columns, .card-system").first().waitFor();
    expect([fragment, await hindrances(page)]).toEqual([fragment, []]);
  }
});
