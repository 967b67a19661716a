import { readFileSync } from "node:fs";
import { join } from "node:path";
import { PROJECT } from "./world.ts";

/** Every page that the repository brings along. */
export const PAGES: readonly string[] = ["*.md", "{docs,tools,src,deploy,proto,certs,audit-logs,tests}/**/*.md"]
  .flatMap((pattern) => [...new Bun.Glob(pattern).scanSync(PROJECT)])
  .sort();

export function textOf(page: string): string {
  return readFileSync(join(PROJECT, page), "utf8");
}

/** The names under which a page's headings are linked to. */
export function anchorsOf(page: string): ReadonlySet<string> {
  const headings = [...textOf(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = ""]) => heading);
  return new Set(
    headings.map((heading) =>
      heading
        .toLowerCase()
        .replace(/[^\p{L}\p{N}\s_-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

/** What stands between two fences. */
export interface Block {
  readonly page: string;
  /** Empty where the fence names none. */
  readonly language: string;
  /** Without the indentation of the fence. */
  readonly text: string;
  /** The page and the first line: how a list names the block. */
  readonly name: string;
}

export function blocksOf(page: string): readonly Block[] {
  return [...textOf(page).matchAll(/^( *)```(\S*).*\n([\s\S]*?)^ *```/gm)].map((fenced) => {
    const [, indent = "", language = "", written = ""] = fenced;
    const text = written.replaceAll(new RegExp(`^${indent}`, "gm"), "");
    const [first = ""] = text.trim().split("\n");
    return { page, language, text, name: `${page}: ${first}` };
  });
}

export const BLOCKS: readonly Block[] = PAGES.flatMap(blocksOf);

/** The one block whose name begins so. */
export function blockNamed(begin: string): Block {
  const [block, ...more] = BLOCKS.filter(({ name }) => name.startsWith(begin));
  if (block === undefined || more.length > 0) throw new Error(`${more.length + 1} blocks begin with ${begin}`);
  return block;
}
