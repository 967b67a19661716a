import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { requireIntegrity } from "../../deploy/release/binaries.ts";
import { RUNTIMES } from "../../deploy/release/runtimes.ts";
import { PROJECT } from "../support/world.ts";

const read = (path: string): string => readFileSync(join(PROJECT, path), "utf8");

interface NpmManifest {
  readonly repository: { readonly url: string };
}

interface PythonProject {
  readonly license: string;
  readonly "license-files": readonly string[];
  readonly authors: readonly object[];
  readonly classifiers: readonly string[];
  readonly urls: Readonly<Record<string, string>>;
}

const service = JSON.parse(read("package.json")) as NpmManifest;
const { project } = Bun.TOML.parse(read("clients/python/pyproject.toml")) as { readonly project: PythonProject };

test("all packages carry the license of the project", () => {
  for (const copy of ["clients/typescript/LICENSE", "clients/python/LICENSE"]) expect(read(copy)).toBe(read("LICENSE"));
  expect(project).toMatchObject({ license: "Apache-2.0", "license-files": ["LICENSE"] });
});

test("the Python package says who made it, where it comes from, and what it runs on", () => {
  const repository = service.repository.url.replace(/^git\+/, "");
  const page = repository.replace(/\.git$/, "");
  expect(project.authors).not.toEqual([]);
  expect(project.urls["Repository"]).toBe(repository);
  expect(project.urls["Homepage"]).toBe(page);
  for (const url of Object.values(project.urls)) {
    expect(url).toStartWith(page);
    const [, file] = /\/blob\/main\/(.+)$/.exec(url) ?? [];
    if (file !== undefined) expect(read(file).length).toBeGreaterThan(0);
  }
  expect(project.classifiers).toContain("Programming Language :: Python :: 3.10");
});

test("a fetched package must have the integrity of the table", () => {
  const row = { name: "@oven/bun-linux-x64", integrity: `sha512-${Bun.SHA512.hash("abc", "base64")}` };
  expect(() => requireIntegrity(Buffer.from("abc"), row)).not.toThrow();
  expect(() => requireIntegrity(Buffer.from("abd"), row)).toThrow("@oven/bun-linux-x64: expected integrity sha512-");
  for (const runtime of RUNTIMES) {
    expect(() => requireIntegrity(Buffer.from("abc"), { ...runtime, name: runtime.package })).toThrow(runtime.package);
  }
});
