import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { REFUSALS } from "../../src/core/refusals.ts";
import { ROOT, sources } from "./sources.ts";

test("the table of refusals equals the code's", () => {
  const rows = [...readFileSync(join(ROOT, "docs/errors.md"), "utf8").matchAll(/^\| ([A-Z_]+) \| (\w+) \| (\d+) \|/gm)];
  const documented = Object.fromEntries(
    rows.map(([, code = "", stage, http]) => [code, { stage, http: Number(http) }]),
  );
  const real = Object.entries(REFUSALS).map(([code, row]) => [
    code,
    { stage: code === "INTERNAL" ? "any" : row.stage, http: row.http },
  ]);
  expect(documented).toEqual(Object.fromEntries(real));
});

test("the threats page names only existing refusals", () => {
  const text = readFileSync(join(ROOT, "docs/threats.md"), "utf8");
  const named = [...new Set(text.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g))];
  expect(named.length).toBeGreaterThan(15);
  expect(named.filter((code) => !Object.hasOwn(REFUSALS, code))).toEqual([]);
});

test("every message that the troubleshooting page quotes is in the code", () => {
  const code = sources("src")
    .map(({ text }) => text)
    .join("\n");
  const rows = readFileSync(join(ROOT, "docs/troubleshooting.md"), "utf8").match(/^\| .*$/gm) ?? [];
  const quoted = rows.flatMap((row) => (row.split("|")[1] ?? "").match(/`[^`]+`/g) ?? []);
  // "…" stands for what differs from case to case.
  const parts = quoted.flatMap((message) => message.slice(1, -1).split("…")).filter((part) => part.trim().length > 3);
  expect(parts.length).toBeGreaterThan(50);
  expect(parts.filter((part) => !code.includes(part.trim()))).toEqual([]);
});

test("the conformance page says only of existing names that they meet a requirement", () => {
  const page = readFileSync(join(ROOT, "docs/conformance.md"), "utf8");
  const tables = page.split("| requirement | met by |").slice(1);
  const rows = tables.flatMap((table) => table.split("\n\n")[0]?.match(/^\| .*$/gm) ?? []);
  const named = rows.flatMap((row) => [...row.matchAll(/`([A-Za-z]+)(?:\([^`]*\))?`/g)].map(([, name = ""]) => name));
  const code = sources("src")
    .map(({ text }) => text)
    .join("\n");
  expect(rows.length).toBeGreaterThan(50);
  expect(named.length).toBeGreaterThan(50);
  expect(named.filter((name) => !new RegExp(`\\b${name}\\b`).test(code))).toEqual([]);
});

test("the scripts that the documents name exist", () => {
  const scripts = Object.keys(
    (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: object }).scripts,
  );
  const named = ["README.md", "tools/README.md", "src/README.md"].flatMap((file) =>
    [
      ...readFileSync(join(ROOT, file), "utf8").matchAll(/bun(?:@[\d.]+)? run (?:--silent )?([a-z:]+(?:-[a-z]+)*)/g),
    ].map(([, name = ""]) => name),
  );
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter((name) => !scripts.includes(name))).toEqual([]);
});

test("the project mentions only itself", () => {
  const texts = ["README.md", "src/README.md", "tools/README.md", "CHANGELOG.md"].map((file) =>
    readFileSync(join(ROOT, file), "utf8"),
  );
  expect(texts.filter((text) => /\/work\/|issue #|\bseed \d/i.test(text))).toEqual([]);
});
