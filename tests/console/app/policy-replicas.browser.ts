import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { launchBrowser } from "../../support/browser.ts";
import { EndingWorld } from "../../support/ending-world.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { ConsoleWorld } from "./console-world.ts";
import { Visitor } from "./visitor.ts";

/** The Policy page of several processes: each journals the versions it has used, and a call may be another one's. */
const native = findPostgres();
const HOLDS = ["configuration:read", "audit:read", "service:reload"];
const RULE = { name: "releases", when: { tool: "announce" }, risk: "medium" };
const visitors: Visitor[] = [];
let browser: Browser;

beforeAll(async () => {
  browser = await launchBrowser();
});
afterEach(async () => {
  const problems = visitors.flatMap((visitor) => visitor.problems);
  await Promise.all(visitors.splice(0).map((visitor) => visitor.close()));
  expect(problems).toEqual([]);
});
afterAll(() => browser?.close());

async function visit(consoleUrl: string, token: string): Promise<Page> {
  const visitor = await Visitor.open(browser, { consoleUrl });
  visitors.push(visitor);
  await visitor.signIn(token);
  return visitor.page;
}

const go = (page: Page, fragment: string) => page.goto(page.url().replace(/#.*/, fragment));

/** Opens the version that judged a call from the call's story. */
async function versionOf(page: Page, traceId: string): Promise<string> {
  await go(page, `#/calls/${traceId}`);
  const link = page.locator('.lead a[href^="#/policy/versions/"]');
  const version = (await link.textContent()) ?? "";
  await link.click();
  return version;
}

// The console is the parent's, and the calls are the workers': their versions must be the parent's.
test("calls of workers lead to the versions that the parent has recorded, before and after a reload", async () => {
  const world = new EndingWorld({ server: { port: 0, workers: 2, operator: { port: 0 }, console: { port: 0 } } });
  try {
    await world.start();
    const consoleUrl = /"consoleUrl":"([^"]+)"/.exec(world.log())?.[1] ?? "";
    const page = await visit(consoleUrl, await world.world.operator(HOLDS));
    await go(page, "#/policy");
    const history = page.getByRole("region", { name: "History" });
    await history.getByText("in use", { exact: true }).waitFor();
    const call = async (): Promise<string> => {
      const response = await fetch(`${world.url}/call`, {
        method: "POST",
        headers: { authorization: `Bearer ${await world.world.agent()}`, "content-type": "application/json" },
        body: JSON.stringify({ tool: "asking", args: {} }),
      });
      return ((await response.json()) as { readonly traceId: string }).traceId;
    };
    const before = await versionOf(page, await call());
    await page.getByRole("heading", { name: `Policy ${before}` }).waitFor();
    world.world.configure({
      server: { port: 0, workers: 2, operator: { port: 0 }, console: { port: 0 } },
      approvals: {
        store: "sqlite://./approvals.sqlite",
        rules: [{ name: "no-asking", when: { tool: "asking" }, verdict: "deny" }],
      },
      audit: { dir: "./audit" },
      log: { level: "info" },
    });
    const reloaded = await fetch(`${world.url}/reload`, {
      method: "POST",
      headers: { authorization: `Bearer ${await world.world.operator(HOLDS)}` },
    });
    expect([reloaded.status, await reloaded.json()]).toMatchObject([200, { status: "changed" }]);
    const after = await versionOf(page, await call());
    expect(after).not.toBe(before);
    await page.getByRole("heading", { name: `Policy ${after}` }).waitFor();
    await page
      .getByRole("figure", { name: /^Change of approvals\.rules/ })
      .first()
      .waitFor();
    await go(page, "#/policy");
    await history.getByText("in use", { exact: true }).waitFor();
    expect(await history.locator(".versions li").count()).toBe(2);
    await history.getByText("by olga").waitFor();
    await page.getByRole("button", { name: /^Count the last/ }).click();
    await page
      .locator(".policy-rules li", { hasText: "no-asking" })
      .getByText("1 call", { exact: false })
      .first()
      .waitFor();
  } finally {
    await world.remove();
  }
});

test.skipIf(native === undefined)(
  "each replica shows the versions that it has used; one that only another has used is said so",
  async () => {
    const server: PostgresServer = await startPostgres(native ?? "");
    const url = await server.createDatabase("policy");
    const one = new ConsoleWorld();
    const other = new ConsoleWorld({ issuers: one.issuers });
    const start = (world: ConsoleWorld, verdict: string): Promise<ConsoleWorld> => {
      writeFileSync(join(world.folder, "url"), url, { mode: 0o600 });
      const approvals = { store: undefined, storeUrlFile: "./url", rules: [{ ...RULE, verdict }] };
      return world.start({ approvals });
    };
    try {
      await start(one, "ask");
      await start(other, "ask");
      const traceOf = async (world: ConsoleWorld): Promise<string> => {
        const { body } = await world.call("announce", { text: "now" });
        return body.traceId;
      };
      const token = await one.operator("olga", HOLDS);
      const [first, second] = [await visit(one.consoleUrl, token), await visit(other.consoleUrl, token)];
      const ofOne = await versionOf(first, await traceOf(one));
      await first.getByRole("heading", { name: `Policy ${ofOne}` }).waitFor();
      await versionOf(second, await traceOf(other));
      await second.getByText(/as the replica .* has recorded/).waitFor();
      // A rolling update: the one has the new configuration already, and the other does not know it.
      await one.stop();
      await start(one, "deny");
      await first.reload();
      const changed = await versionOf(first, await traceOf(one));
      expect(changed).not.toBe(ofOne);
      await first.getByRole("figure", { name: "Change of approvals.rules[releases].verdict" }).waitFor();
      await go(second, first.url().replace(/^.*#/, "#"));
      await second.getByText("CONFIGURATION_NOT_FOUND").waitFor();
      await second.getByText("Another replica may have used it.").waitFor();
      await go(second, "#/policy");
      await second.getByText(/^As the replica .* has used them, newest first\.$/).waitFor();
      await second.getByText("in use", { exact: true }).waitFor();
      expect(await second.locator(".versions li").count()).toBe(1);
    } finally {
      await Promise.all([one.end(), other.end()]);
      await server.end();
    }
  },
);
