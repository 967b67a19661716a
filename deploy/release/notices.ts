import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { bundledPackages, type Package } from "./packages.ts";
import { MANIFEST, ROOT } from "./source.ts";

/** The notices that every artifact with code of others carries. Generated: `bun run notices` writes it. */
export const NOTICES_FILE = join(ROOT, "THIRD_PARTY");

/**
 * The licenses that a package of the service may have. Each permits use in a program under Apache-2.0 and asks for no more than its
 * notice.
 */
const PERMITTED = new Set(["0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"]);

const RULE = `\n${"=".repeat(80)}\n\n`;
const NOTICE_FILE = /^(licen[cs]e|copying|notice)\b/i;

/** The text of MIT, for packages that name the license and carry no file of it. */
const MIT = `Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`;

/** Returns what is wrong with the licenses of the packages, one line for each. */
export function licenseViolations(packages: readonly Pick<Package, "id" | "license">[]): readonly string[] {
  return packages
    .filter(({ license }) => !PERMITTED.has(license))
    .map(({ id, license }) => `${id}: license ${license}; permitted are ${[...PERMITTED].join(", ")}`);
}

/** Returns the text of `THIRD_PARTY`. Packages with the same notice share one section. */
export async function notices(): Promise<string> {
  const sections = new Map<string, string[]>();
  for (const found of await bundledPackages()) {
    const text = noticeOf(found);
    sections.set(text, [...(sections.get(text) ?? []), `${found.id} (${found.license})`]);
  }
  const texts = [...sections].map(([text, names]) => `${names.join("\n")}\n\n${text}`);
  return [introduction(), bunNotice(), ...texts].join(RULE);
}

function introduction(): string {
  return `Safe Tool Call is licensed under Apache-2.0 (file LICENSE). It contains code of the packages below, under
their own licenses. The single binaries and the image also contain Bun ${MANIFEST.engines.bun}; the npm package fetches it.
`;
}

/** Returns Bun's own page about its license and the libraries in it, from the documentation of the pinned version. */
function bunNotice(): string {
  const page = readFileSync(join(ROOT, "node_modules/bun-types/docs/project/license.mdx"), "utf8");
  const text = page.replace(/^---\n[\s\S]*?\n---\n/, "").trim();
  return `bun@${MANIFEST.engines.bun} (MIT, and the licenses of the libraries in it)\n\nCopyright (c) the authors of Bun\n\n${MIT}\n${text}\n`;
}

function noticeOf({ id, author, license, folder }: Package): string {
  const files = readdirSync(folder).filter((name) => NOTICE_FILE.test(name));
  if (files.length > 0)
    return files
      .toSorted()
      .map((name) => textOf(join(folder, name)))
      .join("\n");
  if (license === "Apache-2.0") return textOf(join(ROOT, "LICENSE"));
  if (license === "MIT") return `Copyright (c) ${author}\n\n${MIT}`;
  throw new Error(`${id}: carries no license file, and the text of ${license} is not known here`);
}

function textOf(path: string): string {
  return `${readFileSync(path, "utf8")
    .replaceAll("\r\n", "\n")
    .replaceAll(/[ \t]+$/gm, "")
    .trim()}\n`;
}

if (import.meta.main) await Bun.write(NOTICES_FILE, await notices());
