import { afterAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseAllDocuments } from "yaml";
import { readConfig } from "../../../src/config.ts";
import { FILE_REFUSALS } from "../../../src/handlers/fs/refusals.ts";

const PROJECT = join(import.meta.dir, "../../..");
const text = readFileSync(join(PROJECT, "docs/workspace.md"), "utf8");

// Below the project's folder, so that `safe-tool-call` is found as a reader's own package would find it.
mkdirSync(join(PROJECT, "var"), { recursive: true });
const folder = mkdtempSync(join(PROJECT, "var", "workspace-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function blocks(language: string): readonly string[] {
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, "gm"))].map(
    ([, block = ""]) => block,
  );
}

test("the document's program runs and prints what its comments say", async () => {
  const [program = ""] = blocks("ts");
  symlinkSync(join(PROJECT, "tools"), join(folder, "tools"));
  writeFileSync(join(folder, "example.ts"), program);
  const child = Bun.spawn([process.execPath, "example.ts"], {
    cwd: folder,
    stdout: "pipe",
    stderr: "pipe",
    env: { PATH: process.env["PATH"] ?? "" },
  });
  const [said, complained] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  expect(complained).toBe("");
  const told = [...program.matchAll(/console\.log\(.*\); +\/\/ (.*)$/gm)].map(([, comment = ""]) => comment);
  expect(said.trim().split("\n")).toEqual(told);
  expect(told).toHaveLength(4);
  expect(readFileSync(join(folder, "repository/src/greet.ts"), "utf8")).toContain("Hello, $");
}, 20_000);

test("the document's configurations are some", () => {
  for (const block of blocks("yaml")) {
    const [document] = parseAllDocuments(block);
    const written = {
      tools: ["./tools"],
      audit: { dir: "./audit" },
      jwt: { issuers: [{ issuer: "https://x", jwksUri: "https://x/jwks" }] },
      ...(document?.toJS() as object),
    };
    expect(() => readConfig(written, { folder, environment: {}, origin: "docs/workspace.md" })).not.toThrow();
  }
});

test("the document's table of refusals is the code's", () => {
  const rows = [...text.matchAll(/^\| ((?:`E\w+` ?)+) \| (\w+) \|/gm)].flatMap(([, codes = "", status]) =>
    [...codes.matchAll(/`(\w+)`/g)].map(([, code = ""]) => [code, status] as const),
  );
  expect(Object.fromEntries(rows)).toEqual(
    Object.fromEntries(Object.entries(FILE_REFUSALS).map(([code, row]) => [code, row.status])),
  );
});
