import { describe, expect, test } from "bun:test";
import { createServer, type Server, type Socket } from "node:net";
import axe from "axe-core";
import type { Page, Route } from "playwright-core";
import { consoleVisits } from "../../support/console-visits.ts";
import { until } from "../../support/until.ts";
import { ConsoleWorld } from "./console-world.ts";

const world = new ConsoleWorld();

const { visit, open: stranger } = consoleVisits(world);

describe("signing in", () => {
  test("a wrong token is refused in words, and the right one opens the first page", async () => {
    const visitor = await stranger();
    const { page } = visitor;
    await page.getByLabel("Operator's token").fill("not a token");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("UNAUTHENTICATED").waitFor();
    expect(await page.getByLabel("Operator's token").inputValue()).toBe("");
    await visitor.signIn(await world.operator());
    await page.getByRole("heading", { name: /^Approvals/ }).waitFor();
    expect(await page.title()).toContain("Approvals");
  });

  test("nothing that signs in stays in the page: neither the token nor the cookie", async () => {
    const token = await world.operator();
    const visitor = await stranger();
    await visitor.signIn(token);
    const kept = (await visitor.page.evaluate(
      "JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, document.documentElement.outerHTML])",
    )) as string;
    expect(kept).not.toContain(token);
    expect(await visitor.page.evaluate("document.cookie")).toBe("");
  });

  test("a link that was used or is made up says so, and leaves the URL", async () => {
    const visitor = await stranger();
    await visitor.go("#link=made-up");
    await visitor.page.reload();
    await visitor.page.getByRole("alert").waitFor();
    expect(visitor.page.url()).not.toContain("link");
  });

  test("what a link says in the name of the identity provider is not shown", async () => {
    const { page } = await stranger();
    const said = new URLSearchParams({ error: "access_denied", error_description: "Call the help desk of Mallory" });
    await page.goto(`${world.consoleUrl}/console/oidc?${said}`);
    await page.getByText("The identity provider did not sign you in").waitFor();
    expect(await page.getByText("Mallory").count()).toBe(0);
    expect(page.url()).toBe(`${world.consoleUrl}/console`);
    // After this tab has left for the provider, its reason is.
    await page.evaluate("sessionStorage.setItem('stc-console-return', '')");
    await page.goto(`${world.consoleUrl}/console/oidc?${said}`);
    await page.getByText("Call the help desk of Mallory").waitFor();
  });

  test("someone without a page's permission does not see the page", async () => {
    const visitor = await stranger();
    await visitor.signIn(await world.person({ sub: "rita", permissions: ["grants:manage"] }));
    await visitor.page.getByText("Your token has none of the permissions that a page needs").waitFor();
    expect(await visitor.page.getByRole("link", { name: "Approvals" }).count()).toBe(0);
  });

  test("signing out ends the session in the service and in the page", async () => {
    const visitor = await visit();
    const { page } = visitor;
    await page.locator(".account summary").click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Operator's token").waitFor();
    await page.reload();
    await page.getByLabel("Operator's token").waitFor();
  });

  test("nothing that one person has searched remains for the next", async () => {
    const visitor = await visit();
    const { page } = visitor;
    const filter = page.getByLabel(/^Filter requests/);
    await filter.fill("secret project");
    await page.locator(".account summary").click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await visitor.signIn(await world.operator("pete"));
    await visitor.go("#/approvals");
    await filter.waitFor();
    expect(await filter.inputValue()).toBe("");
  });

  test("a sign-out that the service refuses is shown as such, and can be repeated", async () => {
    const visitor = await visit();
    const { page } = visitor;
    const refuse = (route: Route) =>
      route.request().method() === "DELETE" ? route.fulfill({ status: 503, json: {} }) : route.fallback();
    await page.route("**/console/session", refuse);
    await page.locator(".account summary").click();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByText("Not signed out").waitFor();
    await page.unroute("**/console/session", refuse);
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Operator's token").waitFor();
  });
});

describe("a session that ends", () => {
  test("with its token: the page says so, and the next sign-in returns to the same request", async () => {
    const id = await world.ask("announce", { text: "Outlives a session" });
    const visitor = await stranger();
    const { page } = visitor;
    const permissions = ["approvals:decide"];
    await visitor.signIn(await world.person({ sub: "olga", permissions, lifetime: "8 seconds" }));
    await visitor.open(id);
    await page.getByText("Your session has ended.").waitFor();
    await visitor.signIn(await world.operator());
    await page.locator(".plan").getByText('text: "Outlives a session"').waitFor();
  });
});

test("a restart of the service ends no session that is in its store: the request stays open, and new ones arrive", async () => {
  const id = await world.ask("announce", { text: "Outlives the service" });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.open(id);
  await world.stop();
  await page.locator(".banner").getByText("The service cannot be reached.").waitFor();
  await page.getByText(/^Not live; next attempt in/).waitFor();
  // Nothing that changes every second is read aloud.
  expect(await page.locator(".live-off [role=status]").textContent()).toBe("Not live");
  // Once the last pending request has ended, neither the list nor the open request repeats the message.
  await page.getByRole("alert").first().waitFor({ state: "detached" });
  expect(await page.getByText("cannot be reached").count()).toBe(1);
  expect(await page.getByRole("alert").count()).toBe(0);
  await world.start();
  await page.getByText("Live", { exact: true }).waitFor();
  await page.locator(".plan").getByText('text: "Outlives the service"').waitFor();
  const next = await world.ask("announce", { text: "After the restart" });
  await visitor.row(next).waitFor();
});

test("a page without a stream reads again by itself when the service is back", async () => {
  const line = await Line.open(Number(new URL(world.consoleUrl).port));
  try {
    const visitor = await stranger({ url: line.url });
    const { page } = visitor;
    await visitor.signIn(await world.person({ sub: "rita", permissions: ["tools:read", "metrics:read"] }));
    await visitor.go("#/systems");
    await page.getByText("The service accepts calls.").waitFor();
    line.cut();
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.locator(".banner").getByText("The service cannot be reached.").waitFor();
    expect(await page.getByText("The service accepts calls.").count()).toBe(1);
    await visitor.go("#/tools");
    await page.getByText("Waiting for the service …").waitFor();
    line.mend();
    await page
      .getByRole("heading", { name: /^Tools/ })
      .getByText(/tools$/)
      .waitFor();
    expect(await page.getByText("The service cannot be reached.").count()).toBe(0);
  } finally {
    line.close();
  }
});

// A tab stays open for days, and the service is replaced meanwhile: the names of the scripts of its pages are others then.
test("a page whose code the service no longer has says so, and loads the console again only when somebody asks for it", async () => {
  const visitor = await visit();
  const { page } = visitor;
  const loaded = (await page.evaluate(`performance.getEntriesByType("resource").map(({ name }) => name)`)) as string[];
  const asked: string[] = [];
  const isOther = (url: URL): boolean => url.pathname.endsWith(".js") && !loaded.includes(url.href);
  await page.route(isOther, (request) => {
    asked.push(request.request().url());
    return request.fulfill({ status: 404, json: { error: { code: "ROUTE_NOT_FOUND", message: "no such file" } } });
  });
  const again = page.getByRole("button", { name: "Load the console again" });
  /** Waits until the page's clock has ticked: what repeats by itself would have done so. */
  const asksNoMore = async (): Promise<void> => {
    const before = asked.length;
    await page.waitForTimeout(1_200);
    expect([asked.length, await page.evaluate("window.isSamePage")]).toEqual([before, true]);
  };
  await page.evaluate("window.isSamePage = true");
  await visitor.go("#/calls");
  await page.getByRole("alert").getByText("The service may have another version by now").waitFor();
  expect(asked.length).toBeGreaterThan(0);
  await asksNoMore();
  await again.click();
  await page.getByRole("alert").getByText("the service still does not have the code of this page").waitFor();
  expect(await page.evaluate("window.isSamePage")).toBeUndefined();
  await page.evaluate("window.isSamePage = true");
  await asksNoMore();
  await page.getByRole("link", { name: "Approvals" }).click();
  await page.getByRole("heading", { name: /^Approvals/ }).waitFor();
  await page.unroute(isOther);
  await visitor.go("#/calls");
  await page.getByRole("button", { name: "Search" }).waitFor();
  expect(await page.evaluate(`sessionStorage.getItem("stc-console-loaded-again")`)).toBeNull();
});

// During an update, the page may be of one replica and its scripts of another, which has other names for them.
test("a page without its script says that it has not opened, instead of staying empty", async () => {
  const { page } = await stranger();
  const hint = page.getByText("The console has not opened.");
  expect(await hint.count()).toBe(0);
  await page.route(/\.js$/, (request) => request.fulfill({ status: 404, body: "" }));
  await page.reload();
  await hint.waitFor();
  await page.unroute(/\.js$/);
  await page.reload();
  await page.getByLabel("Operator's token").waitFor();
  expect(await hint.count()).toBe(0);
});

test("a connection that breaks: the page says so, and shows afterwards what happened meanwhile", async () => {
  const line = await Line.open(Number(new URL(world.consoleUrl).port));
  try {
    const visitor = await visit({ url: line.url });
    const { page } = visitor;
    await page.getByText("Live", { exact: true }).waitFor();
    const before = await world.ask("announce", { text: "Before the break" });
    await visitor.row(before).waitFor();
    line.cut();
    await page.getByText(/^Not live; next attempt in/).waitFor();
    await world.decide(before, "deny", { reason: "while nobody looked" });
    const meanwhile = await world.ask("announce", { text: "During the break" });
    line.mend();
    await visitor.row(meanwhile).waitFor();
    await visitor.row(before).waitFor({ state: "detached" });
    await page.getByText("Live", { exact: true }).waitFor();
  } finally {
    line.close();
  }
});

describe("navigation", () => {
  const OF_ALL = ["tools:read", "metrics:read", "halts:read", "configuration:read"];

  test("shows the pages in three groups on a laptop", async () => {
    const { page } = await visit({ holds: OF_ALL, viewport: { width: 1366, height: 768 } });
    const nav = page.getByRole("navigation", { name: "Pages" });
    for (const [group, title] of [
      ["Work", "Approvals"],
      ["Systems", "Tools"],
      ["Evidence", "Report"],
    ] as const) {
      await nav.getByRole("list", { name: group }).getByRole("link", { name: title }).waitFor();
    }
    expect(await page.evaluate("document.querySelector('.top nav').scrollWidth <= innerWidth - 200")).toBe(true);
  });

  test("fits a phone: the groups in one line, and the pages of the current group below", async () => {
    const { page } = await visit({ holds: OF_ALL, viewport: { width: 390, height: 844 } });
    for (const group of ["Systems", "Evidence", "Work"]) {
      await page.getByRole("navigation", { name: "Groups of pages" }).getByRole("link", { name: group }).click();
      await page.getByRole("navigation", { name: `Pages: ${group}` }).waitFor();
      const cut =
        "[...document.querySelectorAll('.top nav')].filter((nav) => nav.scrollWidth > nav.clientWidth).length";
      expect([group, await page.evaluate(cut)]).toEqual([group, 0]);
      expect(await violationsOf(page)).toEqual([]);
    }
  });

  test("keys scroll the page while the navigation has the focus, and nothing scrolls the navigation away", async () => {
    const visitor = await visit({ holds: OF_ALL, viewport: { width: 1366, height: 400 } });
    const { page } = visitor;
    await page.getByRole("link", { name: "Tools" }).click();
    await page.getByRole("heading", { name: /^Tools/ }).waitFor();
    const scrolled = (): Promise<number> =>
      page.evaluate("document.querySelector('main :is(.detail-scroll, .sheet)').scrollTop");
    await page.getByText("rotate_keys").first().waitFor();
    await page.keyboard.press("End");
    await until("the end of the page", async () => ((await scrolled()) > 0 ? true : undefined));
    expect(await page.evaluate("document.documentElement.scrollHeight <= innerHeight")).toBe(true);
    await page.keyboard.press("Home");
    await until("its start", async () => ((await scrolled()) === 0 ? true : undefined));
  });

  test("the key of the navigation is no key of a page, and a page's key leads nowhere", async () => {
    const id = await world.ask("create_order", { customer: "C", items: ["a"], note: "by key" });
    const visitor = await visit();
    const { page } = visitor;
    await visitor.open(id);
    await page.keyboard.press("g");
    await page.getByRole("form", { name: "Approve several calls" }).waitFor();
    await page.keyboard.press("Escape");
    await page.keyboard.press("p");
    await page.keyboard.press("c");
    await page.getByRole("heading", { name: "Calls" }).waitFor();
    await world.decide(id, "deny", { reason: "done" });
  });
});

test("keys can be switched off in this browser, for software that turns speech into keys", async () => {
  const id = await world.ask("announce", { text: "Hears voices" });
  const visitor = await visit();
  const { page } = visitor;
  await visitor.open(id);
  await page.keyboard.press("?");
  await page.getByLabel("Use these keys in this browser").uncheck();
  await page.keyboard.press("Escape");
  await page.reload();
  await visitor.ready(/^Approve once/).waitFor();
  await page.keyboard.press("a");
  expect(await page.locator(".outgoing").count()).toBe(0);
  await page.locator(".account summary").click();
  await page.getByRole("button", { name: /^Keyboard help/ }).click();
  await page.getByLabel("Use these keys in this browser").check();
  await page.keyboard.press("Escape");
  await page.keyboard.press("d");
  await page.getByLabel(/^Reason for the agent/).waitFor();
});

describe("theme", () => {
  test("follows the system, and a choice is kept in this browser", async () => {
    const visitor = await visit({ colorScheme: "dark" });
    const { page } = visitor;
    const background = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
    const dark = await background();
    await page.locator(".account summary").click();
    await page.getByRole("radio", { name: "Light" }).check();
    const light = await background();
    expect(light).not.toBe(dark);
    await page.reload();
    await page.locator(".layout").waitFor();
    expect(await background()).toBe(light);
  });
});

describe.each(["light", "dark"] as const)("accessibility, %s", (colorScheme) => {
  test("signing in, with and without an error", async () => {
    const { page } = await stranger({ colorScheme });
    await page.getByLabel("Operator's token").waitFor();
    expect(await violationsOf(page)).toEqual([]);
    await page.getByLabel("Operator's token").fill("wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
    expect(await violationsOf(page)).toEqual([]);
  });

  test.each([
    [1440, 900],
    [360, 640],
  ])("approvals at %i px: list, request, denial, menu, keyboard help", async (width, height) => {
    const own = `${width} ${colorScheme}`;
    const ids = [
      await world.ask("announce", { text: `\u202e${"long ".repeat(2_000)}${own}` }),
      await world.ask("drop_tables", { text: `customers ${own}` }, { reason: "They are empty." }),
      await world.ask("rotate_keys", { text: `signing ${own}` }),
      await world.ask("ask_operator", { question: `Which? ${own}`, choices: ["a", "b"] }),
      await world.ask("create_order", { customer: "C", items: ["a"], note: own }),
    ];
    await world.decide(await world.ask("announce", { text: `done ${own}` }), "deny", { reason: "no" });
    const visitor = await visit({ colorScheme, viewport: { width, height } });
    const { page } = visitor;
    await visitor
      .row(ids[0] ?? "")
      .locator(".badge")
      .waitFor();
    expect(await violationsOf(page)).toEqual([]);
    for (const id of ids) {
      await visitor.open(id);
      await page.waitForTimeout(600);
      expect(await violationsOf(page)).toEqual([]);
    }
    await visitor.ready(/^Deny/).click();
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole("button", { name: /^Back/ }).click();
    await page.locator(".account summary").click();
    expect(await violationsOf(page)).toEqual([]);
    await page.getByRole("button", { name: /^Keyboard help/ }).click();
    expect(await violationsOf(page)).toEqual([]);
    for (const id of ids)
      await world.decide(id, "deny", { reason: "done", token: await world.operator("tina", ["approvals:team"]) });
  });
});

/** Returns the rules of WCAG 2.2 AA, and of good practice, that the page violates, with the first place. */
async function violationsOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  const result = (await page.evaluate("axe.run(document)")) as axe.AxeResults;
  return result.violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
}

/** A line to a port, which can break. */
class Line {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async open(port: number): Promise<Line> {
    const server = createServer();
    const line = new Line(server);
    server.on("connection", (socket) => line.#pass(socket, port));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return line;
  }

  get url(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  mend(): void {
    this.#isCut = false;
  }

  close(): void {
    this.cut();
    this.#server.close();
  }

  #pass(socket: Socket, port: number): void {
    if (this.#isCut) {
      socket.destroy();
      return;
    }
    void Bun.connect({
      hostname: "127.0.0.1",
      port,
      socket: {
        open: (service) => {
          socket.on("data", (piece) => void service.write(piece));
          socket.on("close", () => service.end());
        },
        data: (_, piece) => void socket.write(piece),
        close: () => {
          socket.destroy();
        },
      },
    });
    this.#sockets.add(socket);
    socket.on("error", () => {});
    socket.on("close", () => this.#sockets.delete(socket));
  }
}
