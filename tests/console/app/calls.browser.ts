import { expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { checkProof, readProof } from "../../../src/audit/chain/proof.ts";
import { hindrances } from "../../support/accessibility.ts";
import { writeGeneratedDay } from "../../support/audit-lines.ts";
import { consoleVisits } from "../../support/console-visits.ts";
import { until } from "../../support/until.ts";
import { ConsoleWorld } from "./console-world.ts";

const HOSTILE = '<img src=x onerror="document.title=1">\u202e\u0007 evil';
const DAY = "2026-01-15";
const LONG_DAY = "2026-01-10";

const keys = generateKeyPairSync("ed25519");
const world = new ConsoleWorld();
let ran: string;

const { visitPage: visit, open } = consoleVisits(world, {
  async start() {
    writeFileSync(join(world.folder, "key.pem"), keys.privateKey.export({ type: "pkcs8", format: "pem" }));
    writeGeneratedDay(join(world.folder, "audit"), DAY, 250);
    writeGeneratedDay(join(world.folder, "audit"), LONG_DAY, 1_050);
    await world.start({ audit: { dir: "audit", checkpointKeyFile: "key.pem" } });
    const id = await world.ask("announce", { text: HOSTILE }, { reason: HOSTILE });
    await world.decide(id, "approve", { reason: `because ${HOSTILE}` });
    ran = (await world.call("announce", { text: HOSTILE })).body.traceId;
    await world.call("nothing_such", {});
  },
});

const rowsOf = (page: Page) => page.locator(".records tbody tr");

async function texts(page: Page, cell: string): Promise<readonly string[]> {
  return page.locator(`.records td.${cell}`).allInnerTexts();
}

test("the filters are in the URL: what a link names is found, and a changed filter changes the URL", async () => {
  const page = await visit("#/calls?tool=announce&decision=ALLOWED");
  await rowsOf(page).first().waitFor();
  expect(await page.locator(".records th").allInnerTexts()).toEqual(["Time", "Decision", "Tool", "Caller", "Duration"]);
  expect(await texts(page, "cell-tool")).toEqual(["announce"]);
  expect(await page.getByLabel("Tool", { exact: true }).inputValue()).toBe("announce");
  await page.getByLabel("Decision").selectOption("PENDING");
  await page.getByText("asked a person").first().waitFor();
  expect(page.url()).toEndWith("#/calls?decision=PENDING&tool=announce");
  await page.goBack();
  await page.locator(".records").getByText("allowed", { exact: true }).waitFor();
  await page.reload();
  await page.locator(".records").getByText("allowed", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Clear" }).click();
  await page.getByText("nothing_such").waitFor();
  expect(page.url()).toEndWith("#/calls");
});

test("a row says why its call was refused", async () => {
  await world.call("announce", { text: "x" }, { token: await world.agent({ permissions: ["other:do"] }) });
  const page = await visit("#/calls?code=PERMISSION_DENIED");
  const row = rowsOf(page).filter({ hasText: "The caller's token lacks the permission deeds:do." });
  await row.first().waitFor();
});

test("further filters are open where a link sets one, and no longer after a link that sets none", async () => {
  const page = await visit("#/calls?code=PERMISSION_DENIED");
  const code = page.getByLabel("Refusal code");
  await code.waitFor();
  await until("the link's filter", async () => (await code.inputValue()) === "PERMISSION_DENIED" || undefined);
  await page.getByRole("link", { name: "Calls", exact: true }).click();
  await code.waitFor({ state: "hidden" });
  await page.getByText(/^More filters/).click();
  await code.waitFor();
});

test("what is typed while a filter searches stays, and so does the focus; the back button fills the fields again", async () => {
  const page = await visit("#/calls");
  await rowsOf(page).first().waitFor();
  await page.getByLabel("Tool", { exact: true }).fill("announce");
  await page.keyboard.press("Tab");
  await page.keyboard.type("agent", { delay: 20 });
  await page.waitForURL(/tool=announce/);
  await page.getByText(/^\d+ calls, all of them$/).waitFor();
  const caller = page.getByLabel("Caller", { exact: true });
  expect(await caller.inputValue()).toBe("agent");
  expect(await page.evaluate("document.activeElement.id")).toBe("filter-sub");
  await page.keyboard.type("-7");
  await page.keyboard.press("Enter");
  await page.waitForURL(/sub=agent-7/);
  expect(await page.evaluate("document.activeElement.id")).toBe("filter-sub");
  await page.goBack();
  await page.waitForURL((url) => !url.hash.includes("sub="));
  await until("the field", async () => ((await caller.inputValue()) === "" ? true : undefined));
  expect(await page.getByLabel("Tool", { exact: true }).inputValue()).toBe("announce");
});

test("an invalid filter is refused in words, and the page goes on", async () => {
  const page = await visit("#/calls?from=soon");
  await page.getByRole("alert").getByText("MALFORMED_REQUEST").waitFor();
  await page.getByLabel("From").fill("1h");
  await page.keyboard.press("Enter");
  await rowsOf(page).first().waitFor();
});

test("a long result comes page by page, each call once", async () => {
  const page = await visit(`#/calls?from=${DAY}&to=2026-01-16`);
  await page.getByRole("button", { name: "Show more" }).waitFor();
  expect(await rowsOf(page).count()).toBe(100);
  await page.getByRole("button", { name: "Show more" }).click();
  await until("200 rows", async () => ((await rowsOf(page).count()) === 200 ? true : undefined));
  await page.getByRole("button", { name: "Show more" }).click();
  await page.getByText("250 calls, all of them").waitFor();
  const links = await page
    .locator(".records .cell-time a")
    .evaluateAll((all) => all.map((link) => link.getAttribute("href")));
  expect(new Set(links).size).toBe(250);
});

/** Counts how often the page writes a time: each row when it is rendered, and the line for printing every second. */
const COUNT_TIMES = `window.times = 0;
  const { get } = Object.getOwnPropertyDescriptor(Intl.DateTimeFormat.prototype, "format");
  Object.defineProperty(Intl.DateTimeFormat.prototype, "format", { get() { times += 1; return get.call(this); } });`;

// With all rows rendered again at each step, paging holds up the browser for a quarter of a second on a busy machine.
test("a page that is added is rendered alone; beyond a thousand rows, the next ones take their place", async () => {
  const page = await visit(`#/calls?from=${LONG_DAY}&to=2026-01-11`, { script: COUNT_TIMES });
  await rowsOf(page).first().waitFor();
  const times: number[] = [];
  for (let rows = 100; rows < 1_000; rows += 100) {
    const before = Number(await page.evaluate("times"));
    await page.getByRole("button", { name: "Show more" }).click();
    await page.locator(`.records tbody tr:nth-child(${rows + 100})`).waitFor({ state: "attached" });
    await page.getByRole("button", { name: /^Show (more|the next)/ }).waitFor();
    times.push(Number(await page.evaluate("times")) - before);
  }
  expect(Math.max(...times)).toBeLessThan(150);
  await page.getByRole("button", { name: "Show the next calls instead of these" }).click();
  await page.getByText("1050 calls, all of them").waitFor();
  expect(await rowsOf(page).count()).toBe(50);
  await page.getByRole("button", { name: "Back to the start" }).click();
  await until("the first page", async () => ((await rowsOf(page).count()) === 100 ? true : undefined));
});

test("new calls appear while they are followed; a pause holds them back", async () => {
  const page = await visit("#/calls?tool=followed_tool");
  await page.getByText("No call matches").waitFor();
  await page.getByRole("button", { name: "Follow" }).click();
  await page.getByText("Live", { exact: true }).waitFor();
  await world.call("followed_tool", {});
  await world.call("another_tool", {});
  await until("the new row", async () => ((await rowsOf(page).count()) === 1 ? true : undefined));
  await page.getByRole("button", { name: "Pause" }).click();
  await world.call("followed_tool", {});
  await page.getByRole("button", { name: "Show 1 new call" }).waitFor();
  expect(await rowsOf(page).count()).toBe(1);
  await page.getByRole("button", { name: "Resume" }).click();
  await until("both rows", async () => ((await rowsOf(page).count()) === 2 ? true : undefined));
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Follow" }).waitFor();
});

test("a call tells its story: verdict, stages, approval, votes, lines; hostile text stays text", async () => {
  const page = await visit("#/calls?tool=announce&decision=ALLOWED");
  await rowsOf(page).first().locator(".cell-time a").click();
  await page.getByRole("heading", { name: /announce/ }).waitFor();
  expect(page.url()).toContain(`#/calls/${ran}?`);
  for (const stage of ["auth", "permission", "approval", "execution", "output"]) {
    await page.locator(".stages-axis").getByText(stage, { exact: true }).waitFor();
  }
  const events = await page.locator(".event strong").allInnerTexts();
  expect(events).toContain("An approval was requested");
  expect(events).toContain("Approved");
  expect(events).toContain("The call ended: allowed");
  await page.locator(".event .said").getByText("because <img").waitFor();
  expect(await page.locator("img").count()).toBe(0);
  expect(await page.locator(".said .piece-escape").first().textContent()).toBe("\\u{202e}");
  await page.locator(".event summary").first().click();
  await page.locator(".event figure").first().getByText('"type": "approval.asked"').waitFor();
  await page.getByRole("link", { name: "Open this call" }).click();
  await page.getByText("asked a person").first().waitFor();
  await page.getByRole("link", { name: "← All calls" }).click();
  await page.getByRole("heading", { name: "Calls" }).waitFor();
});

test("a story begins with what was asked, who decided and why, and how it ended; the time comes last", async () => {
  const page = await visit(`#/calls/${ran}`, { holds: ["tools:read", "configuration:read"] });
  const lead = page.locator(".lead");
  await lead.getByText("agent-7").waitFor();
  expect(await page.locator(".story h2").allInnerTexts()).toEqual([
    ...["What was asked", "Who decided, and why", "How it ended", "Its arguments", "What came back"],
    "Where the time went",
    ...["What happened, in 7 steps", "Proof of this line"],
  ]);
  await lead.getByText("No rule lets this call run by itself, so a person decides.").waitFor();
  await lead.getByText("Approved by alice for this call alone.").waitFor();
  await lead.getByText("The call ran and was answered.").waitFor();
  expect(await lead.getByRole("link", { name: "The rule default" }).getAttribute("href")).toBe("#/policy/default");
});

test("an argument that was not logged is named, with the setting that says so", async () => {
  const page = await visit(`#/calls/${ran}`, { holds: ["tools:read"] });
  const omission = page.locator(".lead .omission");
  await omission.getByText("no rule allows it").waitFor();
  expect(await omission.getByRole("link", { name: "inputPolicy" }).getAttribute("href")).toBe("#/tools/announce");
  expect(await omission.locator("li code").allInnerTexts()).toEqual(["text"]);
});

test("a refusal is said in words: the permission that is missing, and that nobody approved", async () => {
  const token = await world.agent({ sub: "intern", permissions: [] });
  const { traceId } = (await world.call("announce", { text: "x" }, { token })).body;
  const page = await visit(`#/calls/${traceId}`);
  const lead = page.locator(".lead");
  await lead.getByText("The caller's token lacks the permission deeds:do.").waitFor();
  await lead.getByText("Nothing ran.").waitFor();
  await lead.getByText("PERMISSION_DENIED").waitFor();
  await lead.getByText("none is in the log").waitFor();
  expect(await lead.getByText("Approved by").count()).toBe(0);
});

test("a person's denial names the person, and what the agent was told", async () => {
  const id = await world.ask("drop_tables", { text: "customers" });
  await world.decide(id, "deny", { reason: "not today" });
  const { traceId } = (await world.call("drop_tables", { text: "customers" })).body;
  const lead = (await visit(`#/calls/${traceId}`)).locator(".lead");
  await lead.getByText("The tool is destructive: a person decides about each of its calls.").waitFor();
  await lead.getByText("Denied by alice.").waitFor();
  await lead.getByText("An approver denied the call. Nothing ran.").waitFor();
  await lead.getByText("alice: “not today”").waitFor();
});

test("an agent is stopped from the story of its call", async () => {
  const page = await visit(`#/calls/${ran}`, { holds: ["halts:read", "halts:write"] });
  await page.locator(".story-actions").getByRole("button", { name: "Stop this agent …" }).click();
  await page.getByRole("dialog").getByText("agent-7").waitFor();
});

test("an unknown call, and an id that is markup, are said not to be there", async () => {
  const page = await visit("#/calls/no-such-call");
  await page.getByText("Nothing in the audit has this id.").waitFor();
  await page.goto(`${world.consoleUrl}/console#/calls/${encodeURIComponent("<b>x</b>")}`);
  await page.getByText("ENTRY_NOT_FOUND").waitFor();
});

test("the proof of a call is saved, and checks with the public key", async () => {
  const page = await visit(`#/calls/${ran}`);
  const proof = await until("a checkpoint that covers the call", async () => {
    const saving = page.waitForEvent("download", { timeout: 2_000 }).catch(() => undefined);
    await page.getByRole("button", { name: "Download inclusion proof" }).click();
    const path = await (await saving)?.path();
    return path === undefined ? undefined : readProof(readFileSync(path, "utf8"));
  });
  expect([checkProof(proof, [keys.publicKey]).ok, proof.line.includes(ran)]).toEqual([true, true]);
});

test("a call that was refused before any policy does not say that policies allowed it", async () => {
  const page = await visit("#/calls?tool=nothing_such");
  await rowsOf(page).first().locator(".cell-time a").click();
  await page.getByText("No policy denied the call, and nobody was asked").waitFor();
  expect(await page.getByText("Every policy allowed").count()).toBe(0);
});

test("the result of a search is saved as CSV and JSONL", async () => {
  const page = await visit(`#/calls?from=${DAY}&to=2026-01-16&classification=write`);
  await rowsOf(page).first().waitFor();
  for (const [name, lines] of [
    [/^CSV/, 51],
    [/^JSONL/, 50],
  ] as const) {
    await page.getByText("Export", { exact: true }).click();
    const saving = page.waitForEvent("download");
    await page.getByRole("button", { name }).click();
    const saved = readFileSync(await (await saving).path(), "utf8");
    expect(saved.trimEnd().split("\n")).toHaveLength(lines);
  }
  await page
    .getByText(/was saved/)
    .first()
    .waitFor();
});

test("the keyboard alone reaches a filter, a row and the way back", async () => {
  const page = await visit("#/calls");
  await rowsOf(page).first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("nothing_such");
  await page.keyboard.press("Enter");
  await until("one row", async () => ((await rowsOf(page).count()) === 1 ? true : undefined));
  await page.getByRole("heading", { name: "Calls" }).focus();
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: /nothing_such/ }).waitFor();
  await page.keyboard.press("b");
  await page.getByRole("heading", { name: "Calls" }).waitFor();
});

test("an operator without audit:read has no page of calls", async () => {
  const visitor = await open();
  await visitor.signIn(await world.person({ sub: "ada", permissions: ["approvals:decide"] }));
  expect(await visitor.page.getByRole("link", { name: "Calls" }).count()).toBe(0);
});

test.each([
  ["light", 1440],
  ["dark", 1440],
  ["light", 360],
  ["dark", 360],
] as const)("the pages are accessible: %s, %d px", async (colorScheme, width) => {
  const page = await visit("#/calls", { colorScheme, viewport: { width, height: 800 } });
  for (const fragment of ["#/calls", "#/calls?code=INVALID_INPUT&order=oldest", `#/calls/${ran}`]) {
    await page.goto(`${world.consoleUrl}/console${fragment}`);
    await page.locator(".records, .empty, .event").first().waitFor();
    expect([fragment, await hindrances(page)]).toEqual([fragment, []]);
  }
});
