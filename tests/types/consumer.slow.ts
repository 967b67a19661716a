import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../..");

/** What `bun init` writes: a library's types are its sources, and those are read under the flags of whoever uses it. */
const CONSUMER = {
  lib: ["ESNext"],
  target: "ESNext",
  module: "Preserve",
  moduleResolution: "bundler",
  allowImportingTsExtensions: true,
  verbatimModuleSyntax: true,
  noEmit: true,
  strict: true,
  skipLibCheck: true,
  noFallthroughCasesInSwitch: true,
  noUncheckedIndexedAccess: true,
  noImplicitOverride: true,
};

test.each([
  ["as `bun init` writes it", {}],
  [
    "strict, and nothing else",
    { noUncheckedIndexedAccess: false, noImplicitOverride: false, verbatimModuleSyntax: false },
  ],
])("the library's types are valid in a project whose tsconfig is %s", async (_title, flags) => {
  const folder = mkdtempSync(join(tmpdir(), "stc-consumer-"));
  try {
    const compilerOptions = { ...CONSUMER, ...flags, types: [], typeRoots: [join(ROOT, "node_modules")] };
    const files = [join(ROOT, "src/index.ts"), join(ROOT, "node_modules/bun-types/index.d.ts")];
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files }));
    const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
    const child = Bun.spawn([process.execPath, tsc, "-p", folder], { stdout: "pipe", stderr: "pipe" });
    expect(await new Response(child.stdout).text()).toBe("");
    expect(await child.exited).toBe(0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
