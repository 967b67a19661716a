import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import { readConfig } from "../../src/config.ts";
import { REFUSALS } from "../../src/core/errors.ts";
import { ROOT } from "./sources.ts";

// Below the project's folder, so that `safe-tool-call` is found as a reader's own package would find it.
mkdirSync(join(ROOT, "var"), { recursive: true });
const folder = mkdtempSync(join(ROOT, "var", "readme-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function blocks(file: string, language: string): readonly string[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))].map(
    ([, block = ""]) => block,
  );
}

test("the README's program runs and prints what its comments say", async () => {
  const [program = ""] = blocks("README.md", "ts");
  const file = join(folder, "example.ts");
  writeFileSync(file, program);
  const child = Bun.spawn([process.execPath, file], {
    cwd: folder,
    stdout: "pipe",
    stderr: "pipe",
    env: { PATH: process.env["PATH"] ?? "" },
  });
  const [said, complained] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect(complained).toBe("");
  expect(said.trim().split("\n")).toEqual([
    '{"number":"AB-123456","total":4200,"buyer":{"name":"A** L*******"}}',
    "denied INVALID_INPUT",
    "true",
  ]);
});

test("the README's configuration is one", () => {
  const [yaml = ""] = blocks("README.md", "yaml");
  const config = readConfig(parse(yaml), { folder, environment: {}, origin: "README.md" });
  expect(config.jwt.issuers).toHaveLength(2);
});

test("the README's refusal table is the code's", () => {
  const rows = [...readFileSync(join(ROOT, "README.md"), "utf8").matchAll(/^\| ([A-Z_]+) \| (\w+) \| (\d+) \|/gm)];
  const documented = Object.fromEntries(
    rows.map(([, code = "", stage, http]) => [code, { stage, http: Number(http) }]),
  );
  const real = Object.entries(REFUSALS).map(([code, row]) => [
    code,
    { stage: code === "INTERNAL" ? "any" : row.stage, http: row.http },
  ]);
  expect(documented).toEqual(Object.fromEntries(real));
});

test("the page of threats speaks of refusals that there are", () => {
  const text = readFileSync(join(ROOT, "docs/threats.md"), "utf8");
  const named = [...new Set(text.match(/\b[A-Z]+(?:_[A-Z]+)+\b/g))];
  expect(named.length).toBeGreaterThan(15);
  expect(named.filter((code) => !Object.hasOwn(REFUSALS, code))).toEqual([]);
});

test("the scripts that the documents name exist", () => {
  const scripts = Object.keys(
    (JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { scripts: object }).scripts,
  );
  const named = ["README.md", "tools/README.md", "src/README.md"].flatMap((file) =>
    [...readFileSync(join(ROOT, file), "utf8").matchAll(/bun(?:@[\d.]+)? run (?:--silent )?([a-z:]+)/g)].map(
      ([, name = ""]) => name,
    ),
  );
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter((name) => !scripts.includes(name))).toEqual([]);
});

test.each(blocks("tools/README.md", "ts").map((block, index) => [index, block] as const))(
  "manifest %i of tools/README.md loads",
  async (index, block) => {
    const file = join(folder, `manifest-${index}.ts`);
    writeFileSync(file, block);
    const exported: Record<string, unknown> = await import(file);
    expect(Object.keys(exported)).toHaveLength(1);
    const [tool] = Object.values(exported) as { make?: (config: unknown) => unknown }[];
    const { z } = await import("zod");
    const config = {
      oneOf: () => z.enum(["self"]),
      sample: () => "self",
      repository: () => ROOT,
      gitDirectory: () => ROOT,
      setting: () => "x",
      path: () => "/x",
      has: () => false,
    };
    expect(() => tool?.make?.(config)).not.toThrow();
  },
);

test("the project speaks of itself alone", () => {
  const texts = ["README.md", "src/README.md", "tools/README.md", "CHANGELOG.md"].map((file) =>
    readFileSync(join(ROOT, file), "utf8"),
  );
  expect(texts.filter((text) => /\/work\/|issue #|\bseed \d/i.test(text))).toEqual([]);
});
