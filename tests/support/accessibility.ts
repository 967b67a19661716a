import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";

const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  readonly id: string;
  readonly nodes: readonly { readonly html: string }[];
}

/** Returns what a page has that hinders people: axe's violations, and content wider than the page. */
export async function hindrances(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE);
  const found = (await page.evaluate("axe.run().then(({ violations }) => violations)")) as readonly Violation[];
  const excess = Number(await page.evaluate("document.documentElement.scrollWidth - innerWidth"));
  return [
    ...found.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`)),
    ...(excess > 0 ? [`the page is ${excess} px too wide`] : []),
  ];
}
