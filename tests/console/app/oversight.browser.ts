import { afterAll, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { appendFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { verifyLog } from "../../../src/audit/verify/verify.ts";
import { hindrances } from "../../support/accessibility.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { until } from "../../support/until.ts";
import { ConsoleWorld } from "./console-world.ts";

const HOLDS = ["configuration:read", "grants:manage", "modes:manage", "audit:read"];

const world = new ConsoleWorld();
let receiverStatus = 200;
const receiver = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  fetch: () => new Response("", { status: receiverStatus }),
});
const { visitPage: visit } = consoleVisits(world, {
  async start() {
    const { privateKey } = generateKeyPairSync("ed25519");
    writeFileSync(join(world.folder, "key.pem"), privateKey.export({ type: "pkcs8", format: "pem" }));
    await world.start({
      audit: {
        dir: "audit",
        checkpointKeyFile: "key.pem",
        export: [{ type: "loki", name: "archive", url: receiver.url.origin }],
      },
    });
  },
  holds: HOLDS,
});
afterAll(async () => {
  await receiver.stop(true);
});

test("a session and what was approved for it are shown, and end when an operator confirms it", async () => {
  const token = await world.agent();
  const { session } = (await world.send("POST", "/sessions", { token, body: {} })).body;
  const args = { text: "For the session" };
  const asked = await world.call("announce", args, { session: session.id });
  await world.decide(asked.body.approval.id, "approve", { scope: "session" });
  expect((await world.call("announce", args, { session: session.id })).http).toBe(200);
  const page = await visit("#/sessions");
  await page.locator(".records code").getByText(session.id.slice(0, 20)).waitFor();
  await page.getByRole("button", { name: "Revoke …" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Back" }).click();
  expect(await page.getByRole("button", { name: "Revoke …" }).count()).toBe(1);
  await page.getByRole("button", { name: "Revoke …" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke this approval" }).click();
  await page.getByText("No approval covers further calls now.").waitFor();
  expect((await world.call("announce", args, { session: session.id })).http).toBe(202);
  await page.getByRole("button", { name: "Mode …" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("radio", { name: /^autoEdit/ }).check();
  await dialog.getByLabel("For", { exact: true }).selectOption("an hour");
  expect(await hindrances(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Set the mode" }).click();
  await page.locator(".records").getByText("writes files without asking").waitFor();
  expect(world.journal().findLast(({ type }) => type === "session.mode")).toMatchObject({
    mode: "autoEdit",
    decider: { subject: "olga" },
  });
  await page.getByRole("button", { name: "End …" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "End this session" }).click();
  await page.getByText("No session is open").waitFor();
});

test("the configuration in use is shown without paths", async () => {
  const page = await visit("#/policy");
  await page.locator("summary", { hasText: "approvals" }).click();
  await page.locator(".settings").getByText('"two-teams"').waitFor();
  await page.locator("summary", { hasText: "audit" }).click();
  await page.getByText('"dir": "[path]"').waitFor();
  expect(await page.locator("main").textContent()).not.toContain(world.folder);
});

test("the report says how people decided", async () => {
  const id = await world.ask("announce", { text: "Reported" });
  await world.decide(id, "deny");
  const page = await visit("#/report");
  await page.locator(".figures").getByText("requests", { exact: true }).waitFor();
  await page.getByRole("region", { name: "Figures of the approvers" }).getByText("alice").waitFor();
  await page.getByLabel("Period").selectOption("30d");
  await page.getByRole("region", { name: "Figures of the tools" }).getByText("announce").waitFor();
});

test("the report shows the hours of each approver as bars, and as a table", async () => {
  const id = await world.ask("announce", { text: "By the hour" });
  await world.decide(id, "approve");
  const page = await visit("#/report");
  const chart = page.getByRole("region", { name: "Chart of requests and decisions by approver and hour" });
  const row = chart.locator("figure", { hasText: "alice" });
  const totals = /^(\d+) asked, (\d+) decided, (\d+) approved within 3 s/;
  const [, asked, decided, quick] = totals.exec((await row.getByRole("img").getAttribute("aria-label")) ?? "") ?? [];
  expect([Number(asked), Number(decided), Number(quick)].every((each) => each > 0)).toBe(true);
  expect(await row.locator("title").first().textContent()).toContain(": asked ");
  await page.getByText("As a table").click();
  const table = page.getByRole("region", { name: "Requests and decisions by approver and hour", exact: true });
  await table.getByRole("row", { name: /alice/ }).first().waitFor();
  expect(await hindrances(page)).toEqual([]);
});

test("a late answer for one period does not replace that of the period chosen after it", async () => {
  const page = await visit("#/report");
  const period = page.getByLabel("Period");
  await period.waitFor();
  const answer = Promise.withResolvers<void>();
  await page.route("**/approvals/report?from=30d", async (route) => {
    await answer.promise;
    await route.continue();
  });
  await period.focus();
  await period.selectOption("30d");
  await page.getByText("Reading …").waitFor();
  await page.locator(".head-range:focus").waitFor();
  await period.selectOption("1d");
  await page.locator(".figures").waitFor();
  const late = page.waitForResponse(/from=30d/);
  answer.resolve();
  await (await late).finished();
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
  expect(await page.locator(".figures").count()).toBe(1);
});

test("the keys p and s go from one page with this letter to the next", async () => {
  const page = await visit("#/policy", { holds: [...HOLDS, "metrics:read"] });
  await page.locator(".settings").waitFor();
  for (const title of ["Systems", "Sessions", "Systems"]) {
    await page.keyboard.press("p");
    await page.keyboard.press("s");
    await page.getByRole("heading", { name: title, exact: true }).waitFor();
  }
});

test("an intact audit is said to be intact; a changed line is named", async () => {
  const page = await visit("#/evidence");
  await page.locator(".callout").getByText("The audit is intact.").waitFor();
  const [day = ""] = readdirSync(join(world.folder, "audit")).filter((name) => name.endsWith(".jsonl"));
  appendFileSync(join(world.folder, "audit", day), '{"timestamp":"2026-01-01T00:00:00.000Z","forged":true}\n');
  await page.getByRole("button", { name: "Verify again" }).click();
  await page.locator(".callout").getByText("The audit is not intact.").waitFor();
});

test("evidence names the key and its fingerprint, and the command to copy verifies a copy of the log", async () => {
  const page = await visit("#/evidence", { permissions: ["clipboard-read", "clipboard-write"] });
  const { keys } = (await world.send("GET", "/audit/keys", { token: await world.operator("olga", ["audit:read"]) }))
    .body;
  const section = page.getByRole("region", { name: "Verify it elsewhere" });
  await section.getByText(keys[0].verifierKey, { exact: true }).waitFor();
  const shown = await section.locator("dd").nth(1).textContent();
  expect(shown?.replaceAll(" ", "")).toBe(keys[0].sha256);
  await section.getByRole("button", { name: "Copy the command: verify the copy" }).click();
  await page.getByText("Copied.").waitFor();
  const command = String(await page.evaluate("navigator.clipboard.readText()"));
  expect(command).toBe(`stc audit verify --dir ./copy-of-the-audit --key '${keys[0].verifierKey}'`);
});

test("the lines have the same numbers in the console as for the command line", async () => {
  const page = await visit("#/evidence");
  await page.locator(".callout[role=status]").waitFor();
  const calls = page.locator("section", { has: page.getByRole("heading", { name: "Calls", exact: true }) });
  const [stream] = verifyLog({ dir: join(world.folder, "audit"), keys: [] }).streams;
  expect(stream?.lines).toBeGreaterThan(0);
  await calls.getByText(`${stream?.lines} (seq 0 to ${stream?.lastSeq})`).waitFor();
});

test.each(["#/evidence", "#/report"])("%s prints without the parts that nobody can use on paper", async (fragment) => {
  const page = await visit(fragment, { colorScheme: "dark", viewport: { width: 718, height: 1_000 } });
  await page.locator("main .facts").first().waitFor();
  await page.emulateMedia({ media: "print" });
  const hidden = "[...document.querySelectorAll('.top, button, select')].filter((one) => one.checkVisibility()).length";
  expect(await page.evaluate(hidden)).toBe(0);
  await page.getByText(/^Safe Tool Call .* Printed .* by olga\. Times are those of /).waitFor();
  expect(await page.evaluate("getComputedStyle(document.documentElement).colorScheme")).toBe("light");
  expect(await page.evaluate("document.documentElement.scrollWidth - innerWidth")).toBe(0);
});

test("exporters say when their receiver last accepted lines, and since when it fails", async () => {
  const page = await visit("#/evidence");
  const row = page
    .getByRole("region", { name: "Exporters of the audit" })
    .getByRole("row", { name: /archive journal/ });
  await row.getByText("up to date").waitFor();
  receiverStatus = 503;
  await world.ask("announce", { text: "Not exported" });
  const section = page.locator("section", { has: page.getByRole("heading", { name: "Export" }) });
  await until("the failure", async () => {
    await section.getByRole("button", { name: "Refresh" }).click();
    return (await row.getByText("failing").count()) === 1 ? true : undefined;
  });
  expect(await hindrances(page)).toEqual([]);
  receiverStatus = 200;
});

test.each([
  ["light", 1440],
  ["dark", 360],
  ["dark", 1440],
  ["light", 360],
] as const)("the pages are accessible: %s, %d px", async (colorScheme, width) => {
  const page = await visit("#/sessions", { colorScheme, viewport: { width, height: 800 } });
  for (const fragment of ["#/sessions", "#/report", "#/evidence"]) {
    await page.goto(`${world.consoleUrl}/console${fragment}`);
    await page.locator(".empty, .records, .settings, .figures, .callout").first().waitFor();
    expect([fragment, await hindrances(page)]).toEqual([fragment, []]);
  }
});
