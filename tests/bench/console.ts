import { ConsoleWorld } from "../console/app/console-world.ts";
import { Visitor } from "../console/app/visitor.ts";
import { launchBrowser } from "../support/browser.ts";
import { CALLS_LIMITS, callsFigures } from "./console-calls.ts";

/**
 * Measures the console in a real browser: what its first load transfers, when it can be used, how long a request takes to appear
 * in the inbox, long tasks and layout shifts, then the same with many requests, how long `j` takes, and pages of a million calls:
 * `bun run bench:console`.
 * Medians; the limits are promises of the product.
 */
const LOADS = 9;
const REQUESTS = 20;
const WAITING = 20;
const MANY = 300;
const STEPS = 40;
/** How long the inbox is left alone with many requests: what it does every second is among the long tasks. */
const REST_MS = 3_000;
const LIMITS = {
  ...{ scriptGzipBytes: 61_440, interactiveMs: 1_000, inboxMs: 300, layoutShift: 0.1 },
  ...{ manyFirstRowMs: 1_000, manyLongestTaskMs: 50, stepMs: 50 },
  ...CALLS_LIMITS,
} as const;

const OBSERVE = `window.bench = { rows: {}, longTasks: [], shift: 0, usableMs: undefined };
  new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) bench.longTasks.push(duration); })
    .observe({ type: "longtask", buffered: true });
  new PerformanceObserver((list) => { for (const one of list.getEntries()) if (!one.hadRecentInput) bench.shift += one.value; })
    .observe({ type: "layout-shift", buffered: true });
  new MutationObserver(() => {
    for (const row of document.querySelectorAll(".row[id]")) bench.rows[row.id.slice(4)] ??= Date.now();
    if (document.querySelector(".row .badge") !== null) bench.usableMs ??= performance.now();
  }).observe(document, { childList: true, subtree: true });`;

interface Measured {
  readonly rows: Readonly<Record<string, number>>;
  readonly longTasks: readonly number[];
  readonly shift: number;
  readonly usableMs?: number;
}

const median = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

const world = await new ConsoleWorld().start();
const browser = await launchBrowser();
const visitor = await Visitor.signedIn(browser, world, { script: OBSERVE });
const { page } = visitor;
const measured = async (): Promise<Measured> => (await page.evaluate("bench")) as Measured;

for (let at = 0; at < WAITING; at += 1) await world.ask("announce", { text: `waiting ${at}` });

const loads: Measured[] = [];
for (let at = 0; at < LOADS; at += 1) {
  await page.reload();
  await page.locator(".row .badge").first().waitFor();
  await page.getByText("Live", { exact: true }).waitFor();
  loads.push(await measured());
}
const scriptGzipBytes = (await page.evaluate(
  `performance.getEntriesByType("resource").filter(({ name }) => name.endsWith(".js")).reduce((sum, one) => sum + one.encodedBodySize, 0)`,
)) as number;

const inbox: number[] = [];
for (let at = 0; at < REQUESTS; at += 1) {
  const sentAt = Date.now();
  const id = await world.ask("announce", { text: `measured ${at}` });
  await visitor.row(id).waitFor({ state: "attached" });
  inbox.push(((await measured()).rows[id] ?? Number.NaN) - sentAt);
}
const end = await measured();

for (let from = WAITING + REQUESTS; from < MANY; from += 20) {
  await Promise.all(Array.from({ length: 20 }, (_, at) => world.ask("announce", { text: `many ${from + at}` })));
}
const lastRow = page.locator(`[aria-label='Waiting requests'] .row:nth-child(${MANY})`);
const manyLoads: Measured[] = [];
const longest = ({ longTasks }: Measured): number => Math.max(0, ...longTasks);
for (let at = 0; at < LOADS; at += 1) {
  await page.reload();
  await lastRow.waitFor({ state: "attached" });
  await page.waitForTimeout(REST_MS);
  manyLoads.push(await measured());
}
const steps: number[] = [];
for (let at = 0; at < STEPS; at += 1) {
  // From the key to the frame that shows the row as open.
  const spent = await page.evaluate(`new Promise((resolve) => {
    const before = location.hash, at = performance.now();
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
    if (location.hash === before) throw new Error("j opened nothing");
    requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - at)));
  })`);
  steps.push(spent as number);
  await page.locator("#request-title").waitFor();
}
await visitor.close();
await world.end();
const calls = await callsFigures(browser);
await browser.close();

const figures = {
  scriptGzipBytes,
  interactiveMs: Math.round(median(loads.map(({ usableMs = Number.NaN }) => usableMs))),
  inboxMs: median(inbox),
  layoutShift: Number(Math.max(end.shift, ...loads.map(({ shift }) => shift)).toFixed(3)),
  manyFirstRowMs: Math.round(median(manyLoads.map(({ usableMs = Number.NaN }) => usableMs))),
  manyLongestTaskMs: Math.round(median(manyLoads.map(longest))),
  stepMs: Math.round(median(steps)),
  ...calls,
};
const longestTaskMs = Math.round(Math.max(longest(end), ...loads.map(longest)));
process.stdout.write(
  `${JSON.stringify({ ...figures, longTasks: median(loads.map(({ longTasks }) => longTasks.length)), longestTaskMs })}\n`,
);
const missed = Object.entries(LIMITS).filter(([name, most]) => !(figures[name as keyof typeof figures] <= most));
for (const [name, most] of missed) process.stdout.write(`${name}: at most ${most}\n`);
process.exit(missed.length === 0 ? 0 : 1);
