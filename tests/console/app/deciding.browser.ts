import { expect, test } from "bun:test";
import { consoleVisits } from "../../support/console-visits.ts";
import { ConsoleWorld } from "./console-world.ts";

/** What is decided is what the page shows, also when the approver goes elsewhere and returns. */

const world = new ConsoleWorld();
const { visit, decided } = consoleVisits(world, {
  start: () =>
    world.start({
      approvals: {
        policies: [{ name: "why", when: { tools: ["rotate_keys"] }, require: { count: 1 }, reasonRequired: "always" }],
      },
    }),
  async clean() {
    const token = await world.operator();
    const { approvals } = (await world.send("GET", "/approvals?state=pending", { token })).body;
    for (const { id } of approvals) await world.decide(id, "deny", { reason: "cleaned up" });
  },
});

test("the reason of a denial that was not made is not sent with the approval", async () => {
  const id = await world.ask("announce", { text: "Denied at first" });
  const visitor = await visit();
  await visitor.open(id);
  await visitor.ready(/^Deny/).click();
  await visitor.page.getByLabel(/^Reason for the agent/).fill("never do this");
  await visitor.page.keyboard.press("Escape");
  await visitor.ready(/^Approve once/).click();
  const { state, decisionReason } = await decided(id, visitor);
  expect({ state, decisionReason }).toEqual({ state: "approved", decisionReason: undefined });
});

test("a reason that a policy wants is sent with the approval", async () => {
  const id = await world.ask("rotate_keys", { text: "With a reason" });
  const visitor = await visit();
  await visitor.open(id);
  await visitor.page.getByLabel(/^Reason \(required\)/).fill("agreed in the meeting");
  await visitor.ready(/^Approve once/).click();
  expect(await decided(id, visitor)).toMatchObject({ state: "approved", decisionReason: "agreed in the meeting" });
});

test("a decision that was not sent yet is shown on the page to which the approver goes, and can be undone there", async () => {
  const id = await world.ask("announce", { text: "Looked up meanwhile" });
  const visitor = await visit({ isPatient: true });
  const { page } = visitor;
  await visitor.open(id);
  await visitor.ready(/^Approve once/).click();
  await page.locator(".top").getByRole("link", { name: "Calls" }).click();
  await page.locator(".outgoing-list").getByText("Approving announce").waitFor();
  await page.locator(".outgoing-list").getByRole("button", { name: /^Undo/ }).click();
  await page.getByText("Undone: nothing was sent about announce.").waitFor();
  await page.locator("#request-title").waitFor();
});

test("at high risk, the page says that not all of it was on the screen, until its end was; it keeps nobody from approving", async () => {
  const text = Array.from({ length: 200 }, (_, at) => `line ${at}`).join("\n");
  const id = await world.ask("drop_tables", { text });
  const visitor = await visit();
  await visitor.open(id);
  const { page } = visitor;
  await page.keyboard.press("e");
  const note = page.getByText("Not all of what will run was on the screen.");
  await note.waitFor();
  await visitor.ready(/^Approve once/).waitFor();
  await page.locator(".detail .more-plan").first().scrollIntoViewIfNeeded();
  await note.waitFor({ state: "detached" });
  await visitor.open(await world.ask("announce", { text }));
  await page.keyboard.press("e");
  await visitor.ready(/^Approve once/).waitFor();
  expect(await note.count()).toBe(0);
});

test("the first press for a call of high risk does not count after a visit to another page", async () => {
  const id = await world.ask("drop_tables", { text: "Twice" });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.open(id);
  await visitor.ready(/^Approve once/).click();
  await page.getByRole("button", { name: /^Press again/ }).waitFor();
  await page.locator(".top").getByRole("link", { name: "Home" }).click();
  await page.getByRole("heading", { name: "Home" }).waitFor();
  await page.goBack();
  await page.getByRole("button", { name: /^Approve once/ }).waitFor();
  expect(await page.getByRole("button", { name: /^Press again/ }).count()).toBe(0);
});

test("of several denials that do not count, one notice says so", async () => {
  const ids = [await world.ask("announce", { text: "Raced 1" }), await world.ask("announce", { text: "Raced 2" })];
  const visitor = await visit({ isPatient: true });
  const { page } = visitor;
  for (const id of ids) await visitor.row(id).getByRole("checkbox").check();
  await page.getByRole("button", { name: "Deny …", exact: true }).click();
  await page.getByLabel("One reason for all of them").fill("too late");
  await page.getByRole("button", { name: "Deny 2 requests" }).click();
  for (const id of ids) await world.decide(id, "approve");
  await visitor.sendNow();
  await page.getByText("2 of 2 requests were not denied.").waitFor();
  expect(await page.locator(".notice").count()).toBe(1);
  await page.locator(".notice").getByText("Your decision on announce does not count: approved by").waitFor();
});

test("requests are not denied together without a reason that a policy of one of them wants", async () => {
  const ids = [
    await world.ask("announce", { text: "No reason" }),
    await world.ask("rotate_keys", { text: "A reason" }),
  ];
  const visitor = await visit();
  const { page } = visitor;
  for (const id of ids) await visitor.row(id).getByRole("checkbox").check();
  await page.getByRole("button", { name: "Deny …", exact: true }).click();
  const deny = page.getByRole("button", { name: "Deny 2 requests" });
  await deny.click({ force: true });
  expect(await page.locator(".outgoing").count()).toBe(0);
  await page.getByLabel("One reason for all of them (required)").fill("both are wrong");
  await deny.click();
  await visitor.sendNow();
  for (const id of ids) expect(await decided(id)).toMatchObject({ state: "denied", decisionReason: "both are wrong" });
});
