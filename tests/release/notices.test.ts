import { expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { licenseViolations, NOTICES_FILE, notices } from "../../deploy/release/notices.ts";
import { bundledPackages, productionPackages } from "../../deploy/release/packages.ts";

test("every package that the service asks for has a permitted license", async () => {
  const packages = await productionPackages();
  expect(packages.length).toBeGreaterThan(100);
  expect(licenseViolations(packages)).toEqual([]);
});

test("a license that is not permitted, unknown or missing is reported with the package", () => {
  const licenses = ["GPL-3.0-only", "AGPL-3.0", "SEE LICENSE IN LICENSE", "(MIT OR GPL-2.0)", "none", "mit"];
  const reported = licenseViolations(licenses.map((license, row) => ({ id: `package-${row}@1.0.0`, license })));
  expect(reported).toHaveLength(licenses.length);
  expect(reported[0]).toStartWith("package-0@1.0.0: license GPL-3.0-only; permitted are ");
  for (const license of ["MIT", "ISC", "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause"]) {
    expect(licenseViolations([{ id: "fine@1.0.0", license }])).toEqual([]);
  }
});

test("THIRD_PARTY is what `bun run notices` writes", async () => {
  expect(readFileSync(NOTICES_FILE, "utf8") === (await notices())).toBe(true);
});

test("THIRD_PARTY names every bundled package and holds the text of its license and of its NOTICE", async () => {
  const text = readFileSync(NOTICES_FILE, "utf8").replaceAll(/\s+/g, " ");
  const packages = await bundledPackages();
  expect(packages.length).toBeGreaterThan(80);
  expect(packages.filter(({ id, license }) => !text.includes(`${id} (${license})`))).toEqual([]);
  const files = packages.flatMap(({ folder }) =>
    ["LICENSE", "LICENSE.md", "LICENSE.txt", "NOTICE"].map((name) => join(folder, name)).filter(existsSync),
  );
  expect(files.length).toBeGreaterThan(80);
  const missing = files.filter((file) => !text.includes(readFileSync(file, "utf8").trim().replaceAll(/\s+/g, " ")));
  expect(missing).toEqual([]);
});

test("THIRD_PARTY says what Bun contains", () => {
  const text = readFileSync(NOTICES_FILE, "utf8");
  expect(text).toContain(`bun@${Bun.version} (MIT, and the licenses of the libraries in it)`);
  expect(text).toContain("JavaScriptCore");
});
