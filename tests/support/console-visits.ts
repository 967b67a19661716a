import { afterAll, afterEach, beforeAll, expect } from "bun:test";
import type { Browser, Page } from "playwright-core";
import type { ConsoleWorld } from "../console/app/console-world.ts";
import { type VisitOptions, Visitor } from "../console/app/visitor.ts";
import { launchBrowser } from "./browser.ts";
import { until } from "./until.ts";

/** Refreshes the page until its counts are whole: within the time limit of a reading, a busy machine may not read the whole audit. */
export async function untilWhole(page: Page): Promise<void> {
  await until("all of the day's calls", async () => {
    await page.getByText("Reading …").waitFor({ state: "detached" });
    if ((await page.getByText("There are too many calls to count at once").count()) === 0) return true;
    await page.getByRole("button", { name: "Refresh" }).click();
    return undefined;
  });
}

interface VisitsOptions {
  /** Starts the service, and does what all tests of the file need. Default: the world's own start. */
  readonly start?: () => Promise<unknown>;
  /** Permissions that visitors hold beyond an approver's. */
  readonly holds?: readonly string[];
  /** Removes what a test has left in the service. */
  readonly clean?: () => Promise<unknown>;
}

interface Visits {
  /** Lets a person sign in, who then sees the approvals; of another service with `to`. */
  readonly visit: (options?: VisitOptions, to?: ConsoleWorld) => Promise<Visitor>;
  /** Lets a person sign in and open the page of a fragment. */
  readonly visitPage: (fragment: string, options?: VisitOptions) => Promise<Page>;
  /** Opens the console for somebody who is not signed in. */
  readonly open: (options?: VisitOptions) => Promise<Visitor>;
  /** Returns a request once it is decided. `by`: the visitor whose decision is sent now; without it, decisions are sent in their own time. */
  readonly decided: (id: string, by?: Visitor) => Promise<Readonly<Record<string, unknown>>>;
}

/**
 * Starts a service and a browser before the tests of a file, and ends them afterwards. After each test, the browsers of its visitors
 * are closed, and none of them may have reported an error.
 */
export function consoleVisits(
  world: ConsoleWorld,
  { start = () => world.start(), holds, clean }: VisitsOptions = {},
): Visits {
  const visitors: Visitor[] = [];
  let browser: Browser | undefined;
  beforeAll(async () => {
    browser = await launchBrowser();
    await start();
  });
  afterEach(async () => {
    const problems = visitors.flatMap((visitor) => visitor.problems);
    await Promise.all(visitors.splice(0).map((visitor) => visitor.close()));
    await clean?.();
    expect(problems).toEqual([]);
  });
  afterAll(async () => {
    await browser?.close();
    await world.end();
  });

  const opened = async (how: "open" | "signedIn", options: VisitOptions, to = world): Promise<Visitor> => {
    if (browser === undefined) throw new Error("the browser has not started");
    const visitor = await Visitor[how](browser, to, { ...(holds !== undefined && { holds }), ...options });
    visitors.push(visitor);
    return visitor;
  };
  const visit: Visits["visit"] = (options = {}, to = world) => opened("signedIn", options, to);
  return {
    visit,
    open: (options = {}) => opened("open", options),
    async decided(id, by) {
      await by?.sendNow();
      const token = await world.operator("watcher");
      return until("a decision", async () => {
        const { body } = await world.send("GET", `/approvals/${id}?wait=20`, { token });
        return body.approval.state === "pending" ? undefined : body.approval;
      });
    },
    async visitPage(fragment, options) {
      const visitor = await visit(options);
      await visitor.go(fragment);
      return visitor.page;
    },
  };
}
