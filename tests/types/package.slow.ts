import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const ROOT = resolve(import.meta.dir, "../..");
const MEBIBYTE = 1_048_576;
const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc package ")));
const project = join(folder, "project");
const installed = join(project, "node_modules/safe-tool-call");

/** What `bun init -y` writes. */
const TSCONFIG = {
  lib: ["ESNext"],
  target: "ESNext",
  module: "Preserve",
  moduleDetection: "force",
  jsx: "react-jsx",
  allowJs: true,
  moduleResolution: "bundler",
  allowImportingTsExtensions: true,
  verbatimModuleSyntax: true,
  noEmit: true,
  strict: true,
  skipLibCheck: true,
  noFallthroughCasesInSwitch: true,
  noUncheckedIndexedAccess: true,
  noImplicitOverride: true,
  types: ["bun"],
};

/** Stricter than ours: sources of the package would not pass. */
const STRICTER = { noPropertyAccessFromIndexSignature: true, noUnusedLocals: true, isolatedDeclarations: false };

const CONSUMER = `import { defineTool, SafeToolCall } from "safe-tool-call";
import { z } from "zod";

const tool = defineTool({
  name: "find_order",
  description: "Finds an order",
  classification: "read",
  permissions: { required: ["orders:read"] },
  input: z.strictObject({ number: z.string() }),
  handler: async ({ number }) => ({ number }),
  output: z.object({ number: z.string() }),
  outputPolicy: { number: "allow" },
});
const { publicKey } = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"]);
const key = { ...(await crypto.subtle.exportKey("jwk", publicKey)), alg: "ES256", kid: "a" };
const stc = SafeToolCall.create({
  tools: [tool],
  audit: { dir: "./audit" },
  jwt: { issuer: "https://idp.example", audience: "safe-tool-call", jwks: { keys: [key] } } as never,
});
const call: Promise<{ readonly status: string }> = stc.call(tool, { number: "1" }, "token");
// @ts-expect-error the tool's own input type
stc.call(tool, { number: 1 }, "token");
console.log(stc.listTools({ format: "openai", strict: true }).length, (await call).status);
await stc.close();
`;

/** TypeScript would leave its cache in the temporary folder. */
const env = { ...process.env, NODE_DISABLE_COMPILE_CACHE: "1" };

async function run(command: readonly string[], cwd: string): Promise<{ readonly code: number; readonly text: string }> {
  const child = Bun.spawn([...command], { cwd, stdout: "pipe", stderr: "pipe", env });
  const [out, error] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, text: `${out}${error}` };
}

beforeAll(async () => {
  const packed = await run([process.execPath, "pm", "pack", "--destination", folder], ROOT);
  expect([packed.code, packed.text]).toEqual([0, expect.stringContaining(".tgz")]);
  const [tarball = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  mkdirSync(project);
  const manifest = {
    name: "project",
    module: "index.ts",
    type: "module",
    private: true,
    devDependencies: { "@types/bun": "latest", typescript: "5.9.3" },
    dependencies: { "safe-tool-call": `file:${join(folder, tarball)}`, zod: "4.6.7" },
  };
  writeFileSync(join(project, "package.json"), JSON.stringify(manifest));
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions: TSCONFIG, files: ["index.ts"] }));
  writeFileSync(join(project, "index.ts"), CONSUMER);
  const added = await run([process.execPath, "install"], project);
  expect([added.code, added.text]).toEqual([0, expect.anything()]);
}, 300_000);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("the package has the sources, their declarations and the contract of the development stand, and is small", () => {
  const [tarball = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  expect(
    readdirSync(installed)
      .filter((name) => name !== "node_modules" && name !== ".bun-tag")
      .toSorted(),
  ).toEqual([
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "bunfig.toml",
    "dist",
    "docs",
    "package.json",
    "proto",
    "src",
    "tsconfig.json",
  ]);
  expect(readdirSync(join(installed, "dist"))).toEqual(["types"]);
  expect(readdirSync(join(installed, "docs"))).toEqual(["configuration.schema.json"]);
  expect(statSync(join(folder, tarball)).size).toBeLessThan(3 * MEBIBYTE);
  const declarations = [...new Bun.Glob("**/*").scanSync(join(installed, "dist/types"))];
  expect(declarations.filter((name) => !name.endsWith(".d.ts"))).toEqual([]);
});

test("no declaration names a folder of the machine that made it", async () => {
  for await (const path of new Bun.Glob("**/*.d.ts").scan({ cwd: join(installed, "dist/types"), absolute: true })) {
    expect(await Bun.file(path).text()).not.toContain(ROOT);
  }
});

test.each([
  ["TypeScript 5, as `bun init` configures it", () => join(project, "node_modules/typescript/bin/tsc"), []],
  [
    "TypeScript 5 with stricter settings, which do not check the package",
    () => join(project, "node_modules/typescript/bin/tsc"),
    Object.entries(STRICTER).flatMap(([name, value]) => [`--${name}`, String(value)]),
  ],
  ["the TypeScript of this package", () => join(ROOT, "node_modules/typescript/bin/tsc"), []],
] as const)("a consumer's types are checked by %s", async (_, tsc, flags) => {
  const checked = await run([process.execPath, tsc(), "-p", project, ...flags], project);
  expect([checked.text, checked.code]).toEqual(["", 0]);
});

test("the library runs, and so does stc", async () => {
  const ran = await run([process.execPath, "index.ts"], project);
  expect([ran.text, ran.code]).toEqual(["1 denied\n", 0]);
  const stc = join(project, "node_modules/.bin/stc");
  const { publicKey } = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, [
    "sign",
    "verify",
  ]);
  const key = { ...(await crypto.subtle.exportKey("jwk", publicKey)), alg: "ES256", kid: "a" };
  writeFileSync(join(project, "keys.json"), JSON.stringify({ keys: [key] }));
  writeFileSync(
    join(project, "order.ts"),
    CONSUMER.slice(0, CONSUMER.indexOf("const {")).replace("const tool", "export const tool"),
  );
  const issuer = { issuer: "https://idp.example", audience: "safe-tool-call", jwksFile: "keys.json" };
  writeFileSync(
    join(project, "stc.json"),
    JSON.stringify({ tools: ["order.ts"], audit: { dir: "check-audit" }, jwt: { issuers: [issuer] } }),
  );
  const checked = await run([stc, "check", "--config", "stc.json"], project);
  expect([checked.text, checked.code]).toEqual([expect.stringContaining("ok: 1 tools"), 0]);
});

test("a linked clone, which has no declarations, is type-checked by its sources", async () => {
  const linked = join(folder, "linked");
  mkdirSync(join(linked, "node_modules"), { recursive: true });
  symlinkSync(ROOT, join(linked, "node_modules/safe-tool-call"));
  for (const name of ["zod", "@types", "bun-types", "typescript"])
    symlinkSync(join(project, "node_modules", name), join(linked, "node_modules", name));
  writeFileSync(join(linked, "tsconfig.json"), JSON.stringify({ compilerOptions: TSCONFIG, files: ["index.ts"] }));
  writeFileSync(join(linked, "index.ts"), CONSUMER);
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const checked = await run([process.execPath, tsc, "-p", linked, "--traceResolution"], linked);
  expect(checked.text).toContain("src/index.ts");
  expect(checked.code).toBe(0);
});
