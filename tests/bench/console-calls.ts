import { join } from "node:path";
import type { Browser } from "playwright-core";
import { ConsoleWorld } from "../console/app/console-world.ts";
import { Visitor } from "../console/app/visitor.ts";
import { writeGeneratedDay } from "../support/audit-lines.ts";

/** Measures the pages of the console that show many calls: a million in ten days. */
const CALLS = 1_000_000;
const DAYS = 10;
/** Pages of a hundred rows: the table is full after ten, and begins again. */
const PAGES = 25;
/** One call in this number has the decision that is searched for: the log has less than a page of them. */
const RARE = 9_973;
const DAY_MS = 86_400_000;
const WAIT_MS_MAX = 20_000;

const OBSERVE = `window.bench = { longTasks: [] };
  new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) bench.longTasks.push(duration); })
    .observe({ type: "longtask", buffered: true });`;

export const CALLS_LIMITS = {
  ...{ callsFirstRowMs: 1_000, rareFirstRowMs: 1_000, nextPageMs: 300, pagingLongestTaskMs: 50 },
} as const;

export async function callsFigures(browser: Browser): Promise<Readonly<Record<keyof typeof CALLS_LIMITS, number>>> {
  const world = new ConsoleWorld();
  let count = 0;
  for (let at = 1; at <= DAYS; at += 1) {
    const day = new Date(Date.now() - at * DAY_MS).toISOString().slice(0, 10);
    writeGeneratedDay(join(world.folder, "audit"), day, CALLS / DAYS, (line) => {
      count += 1;
      return count % RARE === 0 ? line.replace('"decision":"ALLOWED"', '"decision":"ERROR"') : line;
    });
  }
  await world.start({ audit: { dir: "audit" } });
  const { page } = await Visitor.signedIn(browser, world, { script: OBSERVE });
  /** Returns how long it takes until an expression is true. */
  const timed = async (act: string, isDone: string): Promise<number> => {
    const at = performance.now();
    await page.evaluate(act);
    while ((await page.evaluate(isDone)) !== true) {
      if (performance.now() - at > WAIT_MS_MAX) throw new Error(`not within ${WAIT_MS_MAX} ms: ${isDone}`);
      await Bun.sleep(5);
    }
    return performance.now() - at;
  };
  try {
    const hasRow = `document.querySelector(".records tbody tr") !== null`;
    // Before the index is made, which the first search begins.
    const rareFirstRowMs = await timed(`location.hash = "#/calls?decision=ERROR"`, hasRow);
    await page.evaluate(`location.hash = "#/approvals"`);
    await page.locator(".page-approvals").waitFor();
    await page.reload();
    const callsFirstRowMs = await timed(`location.hash = "#/calls"`, hasRow);
    await page.waitForTimeout(1_000);
    await page.evaluate("bench.longTasks.splice(0)");
    const steps: number[] = [];
    for (let at = 0; at < PAGES; at += 1) {
      const spent = await timed(
        `bench.first = document.querySelector(".cell-time a").href;
         bench.count = document.querySelectorAll(".records tbody tr").length;
         document.querySelector(".table-foot button").click()`,
        `document.querySelector(".table-foot button") !== null && document.querySelector(".cell-time a") !== null &&
         (document.querySelectorAll(".records tbody tr").length !== bench.count ||
          document.querySelector(".cell-time a").href !== bench.first)`,
      );
      steps.push(spent);
      await page.waitForTimeout(100);
    }
    const longTasks = (await page.evaluate("bench.longTasks")) as readonly number[];
    return {
      callsFirstRowMs: Math.round(callsFirstRowMs),
      rareFirstRowMs: Math.round(rareFirstRowMs),
      nextPageMs: Math.round(steps.toSorted((one, other) => one - other)[PAGES >> 1] ?? Number.NaN),
      pagingLongestTaskMs: Math.round(Math.max(0, ...longTasks)),
    };
  } finally {
    await page.context().close();
    await world.end();
  }
}
