import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { readConfig } from "../../support/build.ts";
import { loadFor } from "../../support/kinds.ts";

// Below the project, so that manifests find `safe-tool-call` and zod as they would in a package of their own.
const VAR = resolve(import.meta.dir, "../../../var");
mkdirSync(VAR, { recursive: true });
const folder = mkdtempSync(join(VAR, "tools-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const tool = (name: string, changes = "") => `
import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const ${name} = defineTool({
  name: "${name}", description: "d", classification: "read", permissions: { required: ["a:b"] },
  input: z.strictObject({}), handler: () => ({ ok: true }), output: z.strictObject({ ok: z.boolean() }), outputPolicy: { ok: "allow" },
  ${changes}
});
`;

const FILES: Readonly<Record<string, string>> = {
  "good/one.ts": tool("one") + tool("two").split("\n").slice(3).join("\n"),
  "good/deep/three.ts": tool("three"),
  "good/shared.ts": "export const notATool = 1; export type X = string;",
  "good/again.ts": 'export { one } from "./one.ts";',
  "good/skipped.test.ts": "throw new Error('tests are no manifests');",
  "good/.hidden/four.ts": tool("four"),
  "bad/broken.ts": tool("broken", 'timeoutMs: -1, outputPolicy: { nope: "allow" },'),
  "bad/throws.ts": "throw new Error('at import');",
  "bad/syntax.ts": "export const = 1;",
  "bad/fine.ts": tool("fine"),
  "several/all.ts":
    tool("first", "timeoutMs: -1,") +
    ["second", "third"].map((name) => tool(name, "timeoutMs: 0,").split("\n").slice(3).join("\n")).join("\n") +
    tool("sound").split("\n").slice(3).join("\n"),
  "twice/a.ts": tool("same"),
  "twice/b.ts": tool("same"),
  "configured/repo.ts": tool("placeholder")
    .replace("defineTool({", "defineTool((config) => ({")
    .replace("z.strictObject({})", 'z.strictObject({ repo: config.oneOf("git", "repositories") })')
    .replace(/\}\);\s*$/, "}));"),
};

beforeAll(() => {
  for (const [path, text] of Object.entries(FILES)) {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
});

function load(tools: readonly unknown[], systems: Record<string, unknown> = {}) {
  const written = {
    tools: [...tools],
    systems,
    audit: { dir: "audit" },
    jwt: { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] },
  } as never;
  return loadFor(readConfig(written, { folder, environment: {}, origin: "config" }));
}

test("a folder's tools are all loaded, each once", async () => {
  const { tools, problems } = await load(["good", "./good/one.ts"]);
  expect(problems).toEqual([]);
  expect(tools.map(({ name }) => name).sort()).toEqual(["one", "three", "two"]);
});

test("one broken manifest does not hide the next, and each is named by file, tool and field", async () => {
  const { tools, problems } = await load(["bad"]);
  expect(tools.map(({ name }) => name)).toEqual(["fine"]);
  expect(problems.join("\n")).toMatch(/bad\/broken\.ts: tool broken: timeoutMs: /);
  expect(problems.join("\n")).toMatch(/bad\/throws\.ts: cannot be loaded: at import/);
  expect(problems.join("\n")).toMatch(/bad\/syntax\.ts: cannot be loaded: /);
});

test("the errors of all tools of one file are reported at once, and its valid tools are loaded", async () => {
  const { tools, problems } = await load(["several"]);
  expect(tools.map(({ name }) => name)).toEqual(["sound"]);
  expect(problems).toEqual(
    ["first", "second", "third"].map(
      (name) => `several/all.ts: tool ${name}: timeoutMs: must be a whole number from 1 to 600000`,
    ),
  );
});

test("a name can be used once", async () => {
  const { problems } = await load(["twice"]);
  expect(problems).toEqual(["twice/b.ts: tool same: name: is already taken by twice/a.ts"]);
});

test("a missing path is named", async () => {
  expect((await load(["nowhere"])).problems[0]).toMatch(/^tools\[0\]: .*nowhere cannot be read \(ENOENT\)$/);
});

test("a value that is not a tool is named", async () => {
  expect((await load([{}])).problems).toEqual(["tools[0]: is neither a path nor made by defineTool"]);
});

test("a tool without a configured target is left out, with a note", async () => {
  const { tools, notRegistered, problems } = await load(["configured"], { git: { repositories: {} } });
  expect([tools, problems]).toEqual([[], []]);
  expect(notRegistered).toEqual(["configured/repo.ts: not registered: systems.git.repositories is empty"]);
});

test("a tool gets its closed list from the configuration", async () => {
  const { tools } = await load(["configured"], { git: { repositories: { self: "." } } });
  expect(tools[0]?.input.safeParse({ repo: "self" }).success).toBe(true);
  expect(tools[0]?.input.safeParse({ repo: "other" }).success).toBe(false);
});
