import { describe, expect, test } from "bun:test";
import { consoleVisits } from "../../support/console-visits.ts";
import { AGENTS_AUDIENCE } from "../../support/tokens.ts";
import { ConsoleWorld } from "./console-world.ts";

/** Agents that choose every text they can, links from elsewhere, and two people in one tab. */

const world = new ConsoleWorld();

const MAY = ["deeds:do", "workspace:bash", "workspace:fs:write", "operators:ask"];

const { visit } = consoleVisits(world, {
  holds: ["halts:read", "halts:write", "configuration:read", "tools:read", "metrics:read"],
  start: () => {
    const other = { issuer: "https://evil.example", audience: AGENTS_AUDIENCE, algorithms: ["ES256"] };
    const issuers = [...world.issuers.profiles(), { ...other, jwks: { keys: [world.issuers.agents.jwk] } }];
    return world.start({ jwt: { issuers } });
  },
  clean: async () => {
    const { body } = await world.send("GET", "/approvals?limit=200", { token: await world.operator() });
    for (const { id } of body.approvals) await world.decide(id, "deny");
  },
});

const agent = (sub: string, claims = {}): Promise<string> => world.agent({ sub, permissions: MAY, claims });

describe("rows and the band of a request", () => {
  test.each([
    ["a name that is a sentence", "bot. Approved by alice. bot", '"bot. Approved by alice. bot"'],
    ["a name with quotes", 'x" of "y', '"x\\" of \\"y"'],
    ["a name of letters that look like others", "рау-bot", "рау-bot\\u{440}\\u{430}\\u{443}-bot"],
    ["a name with a full-width letter", "ａgent-7", "ａgent-7\\u{ff41}gent-7"],
    ["a name with a mathematical letter", "𝐚gent-7", "𝐚gent-7\\u{1d41a}gent-7"],
    ["a name with a phonetic letter", "ɑgent-7", "ɑgent-7\\u{251}gent-7"],
  ])("%s", async (_title, sub, shown) => {
    const id = await world.ask("announce", { text: sub }, { token: await agent(sub) });
    const { page, row, open } = await visit().then((visitor) => ({
      page: visitor.page,
      row: visitor.row.bind(visitor),
      open: visitor.open.bind(visitor),
    }));
    await row(id).locator(".headline").waitFor();
    expect(await row(id).locator(".row-who").textContent()).toBe(`announce · ${shown}`);
    await open(id);
    expect(await page.locator(".band-who p").textContent()).toStartWith(`${shown} of https://idp.test asks on its own`);
  });

  test("the actor is named where one asks for somebody, and no name looks like a further actor", async () => {
    const token = await agent("ann", { act: { sub: "bot", act: { sub: "svc, by alice" } } });
    const id = await world.ask("announce", { text: "for ann" }, { token });
    const visitor = await visit();
    await visitor.row(id).locator(".headline").waitFor();
    expect(await visitor.row(id).locator(".row-who").textContent()).toBe("announce · bot for ann");
    await visitor.open(id);
    const who = await visitor.page.locator(".band-who p").textContent();
    expect(who).toStartWith('bot (called by "svc, by alice") asks for ann of https://idp.test');
  });

  test("callers that differ by their issuer only have it next to their names", async () => {
    const text = { text: "the same" };
    const own = await world.ask("announce", text, { token: await agent("billing") });
    const token = await world.issuers.token({ kind: "other issuer", sub: "billing", permissions: MAY });
    const others = await world.ask("announce", text, { token });
    const { row } = await visit().then((visitor) => ({ row: visitor.row.bind(visitor) }));
    await row(others).locator(".headline").waitFor();
    expect(await row(own).locator(".row-who").textContent()).toBe("announce · billing of https://idp.test");
    expect(await row(others).locator(".row-who").textContent()).toBe("announce · billing of https://evil.example");
  });

  test("blank lines, arrows and paths show what will run", async () => {
    const long = `@project/${"safe-".repeat(49)}evil.sh`;
    const asked = [
      [await world.ask("bash", { command: `true${" \n".repeat(60)}rm -rf x` }), "Runs true ↵rm -rf x"],
      [await world.ask("bash", { command: "echo ok ↵ # done" }), "Runs echo ok \\u{21b5} # done"],
      [
        await world.ask("fs_write", { path: "@project/a (+0 −0 lines)", content: "x\n" }),
        'Creates "@project/a (+0 −0 lines)" (+1 −0 lines)',
      ],
      [await world.ask("fs_write", { path: long, content: "x\n" }), /^Creates @project\/safe.*….*-evil\.sh \(\+1/],
    ] as const;
    const visitor = await visit();
    for (const [id, line] of asked) {
      await visitor.row(id).locator(".headline").waitFor();
      const text = (await visitor.row(id).locator(".headline").textContent()) ?? "";
      if (typeof line === "string") expect(text).toBe(line);
      else expect(text).toMatch(line);
    }
  });

  test("choices of a question that nobody can tell apart are refused", async () => {
    const { http, body } = await world.call(
      "ask_operator",
      { question: "Go on?", choices: ["yes", "yes "] },
      { token: await agent("agent-7") },
    );
    expect([http, body.error.code]).toEqual([400, "INVALID_INPUT"]);
    expect(body.error.message).toContain("differ in more than spaces");
    expect(world.entry(body.traceId)).toMatchObject({ decision: "DENIED", error: { code: "INVALID_INPUT" } });
  });
});

describe("the product's sentences", () => {
  test("Home quotes the name of a tool that there is not", async () => {
    const name = "x. All is well: nothing needs you. Approve the request of agent-7";
    for (let calls = 0; calls < 11; calls += 1) await world.call(name, {});
    const { page, go } = await visit().then((visitor) => ({ page: visitor.page, go: visitor.go.bind(visitor) }));
    await go("#/");
    const need = page.locator(".need", { hasText: "TOOL_NOT_FOUND" });
    await need.waitFor();
    expect(await need.textContent()).toContain(`most of them to "${name.slice(0, 64)}…".`);
  });

  test("a story quotes names and words, and stops the actor", async () => {
    const token = await agent("ann", { act: { sub: "bot" } });
    const args = { text: "pay" };
    const id = await world.ask("announce", args, { token });
    const sub = "bob. Denied by carol, human:https://people.test|dora";
    const bob = await world.person({ sub, permissions: ["approvals:decide"] });
    await world.decide(id, "approve", { token: bob, reason: "ok” Approved by dora: “fine" });
    const { body } = await world.call("announce", args, { token });
    expect(body.status).toBe("success");
    const visitor = await visit();
    await visitor.go(`#/calls/${body.traceId}`);
    const decided = visitor.page.locator(".lead-step", { hasText: "Who decided, and why" });
    await decided.getByText("Approved by").first().waitFor();
    const shown = '"bob. Denied by carol,%20human:https://people.test|dora"';
    expect(await decided.locator(".decided-by").allInnerTexts()).toEqual([`Approved by ${shown} for this call alone.`]);
    expect(await decided.locator(".said").textContent()).toEndWith(': “ok" Approved by dora: "fine”');
    await visitor.page.getByRole("button", { name: "Stop this agent …" }).click();
    await visitor.page.locator("dialog").getByText("bot", { exact: true }).waitFor();
  });
});

test("a link shows what it names, sends nothing but readings, and its words are no sentences of the page", async () => {
  const id = await world.ask("announce", { text: "linked" });
  const visitor = await visit();
  const sent: string[] = [];
  visitor.page.on("request", (one) => {
    if (one.method() !== "GET") sent.push(`${one.method()} ${one.url()}`);
  });
  const words = encodeURIComponent("x. Your session has ended: sign in at https://evil.example");
  const links = [
    ...[`#/approvals/${id}?decision=approve&press=a`, "#/limits?kind=all&reason=x", "#/calls?follow=1&export=csv"],
    ...["#/agents/..%2F..%2Fapprovals/x", "#/calls/..", "#/tools/..%2Fapprovals", "#/tools/__proto__", "#/__proto__"],
    ...["#/policy/versions/..%2F..%2Fapprovals", `#/policy/${words}`],
  ];
  for (const link of links) {
    await visitor.go(link);
    await visitor.page.locator("main h1").first().waitFor();
    await visitor.page.locator(".loading").first().waitFor({ state: "hidden" });
  }
  expect(sent).toEqual([]);
  const unknown = visitor.page.locator(".callout", { hasText: "has no rule" });
  expect(await unknown.textContent()).not.toContain("matches the call");
});

test("the next person in the same tab finds nothing of the one before", async () => {
  const visitor = await visit();
  const { page } = visitor;
  await visitor.go("#/approvals");
  await page.getByRole("searchbox").fill("nothing-like-this");
  await visitor.go("#/agents");
  await page.getByRole("searchbox").fill("nobody");
  await page.evaluate("globalThis.isSamePage = true");
  await page.locator(".account summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Operator's token").waitFor();
  const id = await world.ask("announce", { text: "for the next" });
  await visitor.signIn(await world.operator("otto"));
  await visitor.go("#/approvals");
  await visitor.row(id).locator(".headline").waitFor();
  expect(await page.getByRole("searchbox").inputValue()).toBe("");
  expect(await page.evaluate("globalThis.isSamePage")).toBeUndefined();
});

test("what a printed page leaves out is said on paper, too", async () => {
  const token = await agent("ann", { act: { sub: `bot-${"7".repeat(200)}` } });
  const { body } = await world.call("announce", { text: "printed" }, { token });
  const { page, go } = await visit().then((visitor) => ({ page: visitor.page, go: visitor.go.bind(visitor) }));
  await go(`#/calls/${body.traceId}`);
  await page.locator(".lead").waitFor();
  await page.emulateMedia({ media: "print" });
  expect(await page.locator(".lead .more").textContent()).toBe("… 84 more characters");
  await page.locator(".lead .more").waitFor();
  expect(await page.getByRole("button").count()).toBe(1);
});
