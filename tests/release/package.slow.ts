import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packService } from "../../deploy/release/npm.ts";
import { runtimePath } from "../clients/runtimes.ts";
import { blockNamed } from "../support/documented.ts";
import { freePorts } from "../support/ports.ts";
import { environmentOf, run as runIn } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";
import { missing } from "../targets/command/confinement/stand.ts";

/** The package as people install it: with npm as a command, and with Bun as a library. */
const MEBIBYTE = 1_048_576;
const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc package ")));
const prefix = join(folder, "prefix");
const project = join(folder, "project");
const service = join(folder, "my-service");
const installed = join(prefix, "lib/node_modules/safe-tool-call");
const port = freePorts();
let tarball = "";

/** Runs a program in an environment without variables of ours. TypeScript would leave its cache in the temporary folder. */
const run = (argv: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}) =>
  runIn(argv, { cwd, env: { NODE_DISABLE_COMPILE_CACHE: "1", npm_config_update_notifier: "false", ...env } });

const NPM = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];

beforeAll(async () => {
  tarball = await packService(folder);
  expect(await run([...NPM, "--global", "--prefix", prefix, tarball], folder)).toMatchObject({ code: 0 });
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the package", () => {
  const files = (): readonly string[] =>
    readdirSync(installed, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !entry.parentPath.includes("/node_modules/@oven"))
      .map((entry) => join(entry.parentPath, entry.name));

  test("depends on Bun alone, runs nothing when it is installed, and is small", () => {
    const manifest = JSON.parse(readFileSync(join(installed, "package.json"), "utf8"));
    const names = Object.keys(manifest.optionalDependencies);
    expect(names.toSorted()).toEqual(
      ["darwin-aarch64", "darwin-x64", "linux-aarch64", "linux-aarch64-musl", "linux-x64", "linux-x64-musl"].map(
        (platform) => `@oven/bun-${platform}`,
      ),
    );
    expect(new Set(Object.values(manifest.optionalDependencies))).toEqual(new Set([Bun.version]));
    expect([manifest.dependencies, manifest.scripts, manifest.engines]).toEqual([
      undefined,
      undefined,
      { node: ">=20" },
    ]);
    expect(manifest.peerDependenciesMeta).toEqual({ zod: { optional: true } });
    expect(readdirSync(join(installed, "node_modules/@oven"))).toHaveLength(1);
    expect(statSync(tarball).size).toBeLessThan(5 * MEBIBYTE);
  });

  test("has the same files on every machine: no path of the builder, no source, and no time", async () => {
    const top = readdirSync(installed).filter((name) => name !== "node_modules");
    expect(top.toSorted()).toEqual([
      "CHANGELOG.md",
      "LICENSE",
      "README.md",
      "THIRD_PARTY",
      "bin",
      "docs",
      "lib",
      "package.json",
      "types",
    ]);
    const paths = [PROJECT, folder, "stc-npm-"];
    const named = files().filter((file) => paths.some((path) => readFileSync(file).includes(path)));
    expect(named).toEqual([]);
    expect(files().filter((file) => /(?<!\.d)\.ts$|\.map$/.test(file))).toEqual([]);
    const { out } = await run(["tar", "--list", "--verbose", "--utc", "--full-time", "--file", tarball], folder);
    const facts = out
      .trim()
      .split("\n")
      .map((line) => line.split(/\s+/).toSpliced(2, 1).slice(0, 4).join(" "));
    expect(new Set(facts)).toEqual(
      new Set(["-rw-r--r-- 0/0 1985-10-26 08:15:00", "-rwxr-xr-x 0/0 1985-10-26 08:15:00"]),
    );
    expect(facts.filter((fact) => fact.startsWith("-rwx"))).toHaveLength(1);
  });
});

/** What a newcomer does. Each test needs the service that this one writes. */
describe("npm install --global, with Node and nothing else", () => {
  const stc = join(prefix, "bin/stc");
  const config = ["--config", join(service, "stc.yaml")];
  const url = `http://127.0.0.1:${port}`;
  const env = { STC_PORT: String(port) };
  /** Nodes that differ for the launcher: the older one stays as a parent, the newer one becomes the service. */
  const nodes = { node20: "stays as the parent", node24: "becomes the service" } as const;
  const versions = Object.entries(nodes) as [keyof typeof nodes, string][];

  const SAY = `import { defineTool, freeText } from "safe-tool-call";
import { z } from "zod";
export const say = defineTool(() => ({
  name: "say", description: "Say it", classification: "read", permissions: { required: ["notes:read"] },
  input: z.strictObject({ words: freeText(50) }),
  target: { system: "echo", cli: { command: "echo", argsBuilder: ({ words }) => ["--", words] } },
  output: z.object({ text: z.string() }), outputPolicy: { text: "allow" },
}));
`;

  beforeAll(async () => {
    const [, init = ""] = blockNamed("README.md: npm i -g safe-tool-call").text.split("\n");
    const written = await paste(init);
    expect(written).toMatchObject({ code: 0, err: "" });
    expect(written.out).toContain("stc serve --config stc.yaml");
    writeFileSync(join(service, "tools/say.ts"), SAY);
    const confinement = missing === undefined ? "require" : "prefer";
    appendFileSync(join(service, "stc.yaml"), `commands: ${JSON.stringify({ allowed: ["echo"], confinement })}\n`);
  });

  const started: Bun.Subprocess[] = [];
  // A test that fails must not leave a service on the port.
  afterEach(async () => {
    for (const launcher of started.splice(0)) {
      launcher.kill("SIGKILL");
      await launcher.exited;
    }
  });

  /** Runs commands of a page as a reader does. */
  const paste = (text: string) =>
    run(["bash", "-ec", text], folder, { STC_URL: url, PATH: `${join(prefix, "bin")}:${process.env["PATH"]}` });

  /** Starts the service and waits until it takes calls. */
  async function serve(node: keyof typeof nodes) {
    const launcher = Bun.spawn([await runtimePath(node), stc, "serve", ...config], {
      cwd: folder,
      env: environmentOf(env),
      stdio: ["ignore", "ignore", "inherit"],
    });
    started.push(launcher);
    await until("the service to be ready", async () => {
      if (launcher.exitCode !== null) throw new Error(`ended with ${launcher.exitCode}`);
      return (await isReady()) || undefined;
    });
    return launcher;
  }

  const isReady = (): Promise<boolean> =>
    fetch(`${url}/readyz`).then(
      ({ ok }) => ok,
      () => false,
    );

  test("stc has its version, and both names", async () => {
    const { version } = JSON.parse(readFileSync(join(PROJECT, "package.json"), "utf8"));
    for (const name of ["stc", "safe-tool-call"]) {
      expect(await run([join(prefix, "bin", name), "--version"], folder)).toEqual({
        code: 0,
        out: `${version}\n`,
        err: "",
      });
    }
  });

  test("stc check loads manifests that import the package and zod, where neither is installed", async () => {
    const [, check = ""] = blockNamed("docs/install.md: stc init my-service").text.split("\n");
    expect(await paste(check)).toMatchObject({ code: 0, out: expect.stringMatching(/^ok: \d+ tools$/m) });
  });

  test("npm test runs the fixtures of the service", async () => {
    expect(await paste("cd my-service; npm test")).toMatchObject({ code: 0 });
  });

  test.each(versions)("%s %s: governed calls, a confined command, and a drain on SIGTERM", async (node) => {
    const launcher = await serve(node);
    const [read = ""] = blockNamed("README.md: cd my-service").text.split("stc call add_note");
    const found = await paste(read);
    expect(found).toMatchObject({ code: 0, out: expect.stringContaining('"author": "a**@e******.com"') });
    const said = await paste(`cd my-service; stc call say '{"words":"hi"}' --token-file agent.token`);
    expect(said).toMatchObject({ code: 0, out: expect.stringContaining('"text": "-- hi\\n"') });
    expect(isService(launcher.pid)).toBe(node === "node24");
    launcher.kill("SIGTERM");
    expect(await launcher.exited).toBe(0);
    expect(await isReady()).toBe(false);
    const verified = await run([stc, "audit", "verify", "--dir", join(service, "var/audit")], folder);
    expect(verified.out).toMatch(/^ok/m);
  });

  test.skipIf(missing !== undefined)("commands are confined as from a clone", async () => {
    const { out } = await run([stc, "check", ...config, "--json"], folder);
    expect(JSON.parse(out).confinement).toMatchObject({ tools: { say: "confined" }, faults: {} });
  });

  test.each(versions)("%s %s: after SIGKILL, no service keeps the port and the audit", async (node) => {
    const launcher = await serve(node);
    const pids = [launcher.pid, ...childrenOf(launcher.pid).filter(isService)];
    launcher.kill("SIGKILL");
    await launcher.exited;
    await until("the end of the service", () => (pids.some(isService) ? undefined : true));
    const next = await serve(node);
    next.kill("SIGTERM");
    expect(await next.exited).toBe(0);
  });

  test.each(versions)("%s %s: exit codes and output are exact", async (node) => {
    const launcher = [await runtimePath(node), stc];
    expect(await run([...launcher, "health", "--url", url], folder)).toMatchObject({ code: 2 });
    expect(await run([...launcher, "call", "x", "--token-file", "/nonexistent"], folder)).toMatchObject({ code: 64 });
    expect(await run([...launcher, "nonsense"], folder)).toMatchObject({ code: 64, out: "" });
    const check = await run([...launcher, "check", "--config", "missing.yaml"], folder);
    expect([check.code, check.err]).toEqual([78, expect.stringContaining("missing.yaml")]);
    const development = await run([...launcher, "serve", "--dev"], folder);
    expect([development.code, development.err]).toEqual([78, expect.stringContaining("needs the repository")]);
  });

  test("a service that a signal ends gives the exit code of shells", async () => {
    const launcher = await serve("node20");
    const [child = 0] = childrenOf(launcher.pid).filter(isService);
    process.kill(child, "SIGKILL");
    expect(await launcher.exited).toBe(137);
  });

  test("the working directory changes nothing: no variables, settings or code of it", async () => {
    const place = join(folder, "place");
    mkdirSync(place);
    writeFileSync(join(place, "bunfig.toml"), 'preload = ["./slipped-in.ts"]');
    writeFileSync(join(place, "slipped-in.ts"), 'console.log("slipped in");');
    writeFileSync(join(place, ".env"), "STC_PORT=1\nSTC_LOG_LEVEL=nonsense\n");
    const { code, out } = await run([stc, "check", ...config], place);
    expect([code, out]).toEqual([0, expect.not.stringContaining("slipped in")]);
  });
});

describe("without the Bun of the platform", () => {
  const other = join(folder, "other");
  const stc = join(other, "node_modules/.bin/stc");
  beforeAll(async () => {
    mkdirSync(other);
    expect(await run([...NPM, "--omit=optional", tarball], other)).toMatchObject({ code: 0 });
  });

  const version = (env: Readonly<Record<string, string>> = {}) => run([stc, "--version"], folder, env);

  test("one line says what is missing", async () => {
    const [platform = ""] = readdirSync(join(installed, "node_modules/@oven"));
    expect(await version()).toEqual({
      code: 69,
      out: "",
      err: `stc: Bun ${Bun.version} is missing: install the optional dependency @oven/${platform}, or set STC_BUN to the path of Bun ${Bun.version}\n`,
    });
  });

  test("STC_BUN names another one, of the same version", async () => {
    expect(await version({ STC_BUN: process.execPath })).toMatchObject({ code: 0, err: "" });
    const fake = join(folder, "fake bun");
    writeFileSync(fake, "#!/bin/sh\necho 1.3.0\necho more\n", { mode: 0o755 });
    expect(await version({ STC_BUN: fake })).toEqual({
      ...{ code: 69, out: "" },
      err: `stc: STC_BUN: ${fake} is not Bun ${Bun.version}: its version is 1.3.0\n`,
    });
    const unknown = await version({ STC_BUN: "./missing" });
    expect([unknown.code, unknown.err]).toEqual([
      69,
      `stc: STC_BUN: ${join(folder, "missing")} cannot be run (ENOENT)\n`,
    ]);
  });

  test("the package `bun` of the same version will do, another version will not", async () => {
    const bun = join(other, "node_modules/bun");
    mkdirSync(join(bun, "bin"), { recursive: true });
    symlinkSync(process.execPath, join(bun, "bin/bun.exe"));
    writeFileSync(join(bun, "package.json"), JSON.stringify({ name: "bun", version: "1.3.0" }));
    expect((await version()).code).toBe(69);
    writeFileSync(join(bun, "package.json"), JSON.stringify({ name: "bun", version: Bun.version }));
    expect(await version()).toMatchObject({ code: 0, err: "" });
  });
});

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

describe("bun add, as a library", () => {
  beforeAll(async () => {
    mkdirSync(project);
    const manifest = {
      name: "project",
      module: "index.ts",
      type: "module",
      private: true,
      devDependencies: { "@types/bun": "latest", typescript: "5.9.3" },
      dependencies: { "safe-tool-call": `file:${tarball}`, zod: "4.6.7" },
    };
    writeFileSync(join(project, "package.json"), JSON.stringify(manifest));
    writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions: TSCONFIG, files: ["index.ts"] }));
    writeFileSync(join(project, "index.ts"), CONSUMER);
    expect(await run([process.execPath, "install"], project)).toMatchObject({ code: 0 });
  }, 300_000);

  const OLDER = "node_modules/typescript/bin/tsc";
  const NEWER = join(PROJECT, OLDER);
  const flagsOf = (options: object): readonly string[] =>
    Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]);

  test.each([
    ["TypeScript 5, as `bun init` configures it", OLDER, {}],
    ["TypeScript 5 with stricter settings, which do not check the package", OLDER, STRICTER],
    ["the TypeScript of this repository", NEWER, {}],
    ["the TypeScript of this repository, which also checks the declarations", NEWER, { skipLibCheck: false }],
  ])("a consumer's types are checked by %s", async (_, tsc, options) => {
    const checked = await run([process.execPath, tsc, "-p", project, ...flagsOf(options)], project);
    expect(checked).toEqual({ code: 0, out: "", err: "" });
  });

  test("the library runs, and so does stc", async () => {
    expect(await run([process.execPath, "index.ts"], project)).toEqual({ code: 0, out: "1 denied\n", err: "" });
    const checked = await run(
      [join(project, "node_modules/.bin/stc"), "check", "--config", join(service, "stc.yaml")],
      project,
    );
    expect(checked).toMatchObject({ code: 0, out: expect.stringMatching(/^ok: \d+ tools$/m) });
  });

  test("a linked clone, which has no declarations, is type-checked by its sources", async () => {
    const linked = join(folder, "linked");
    mkdirSync(join(linked, "node_modules"), { recursive: true });
    symlinkSync(PROJECT, join(linked, "node_modules/safe-tool-call"));
    for (const name of ["zod", "@types", "bun-types", "typescript"])
      symlinkSync(join(project, "node_modules", name), join(linked, "node_modules", name));
    writeFileSync(join(linked, "tsconfig.json"), JSON.stringify({ compilerOptions: TSCONFIG, files: ["index.ts"] }));
    writeFileSync(join(linked, "index.ts"), CONSUMER);
    const checked = await run([process.execPath, NEWER, "-p", linked, "--traceResolution"], linked);
    expect(checked.out).toContain("src/index.ts");
    expect(checked.code).toBe(0);
  });
});

function childrenOf(parent: number): readonly number[] {
  return readdirSync("/proc")
    .filter((pid) => textOf(`/proc/${pid}/status`).includes(`\nPPid:\t${parent}\n`))
    .map(Number);
}

/** Returns whether a process runs the bundle, other than as a launcher of commands. */
function isService(pid: number): boolean {
  return /lib\/(?:main|launched)\.js\0serve/.test(textOf(`/proc/${pid}/cmdline`));
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
