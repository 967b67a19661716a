import { afterAll, beforeAll, expect, test } from "bun:test";
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { OPERATOR_PERMISSIONS } from "../../src/core/operator-permissions.ts";
import { Visitor } from "../console/app/visitor.ts";
import { browserPath, launchBrowser } from "../support/browser.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { freePorts } from "../support/ports.ts";
import { processorMsOf } from "../support/processor-time.ts";
import { type Ended, environmentOf, run, SIGNATURES_NOT_CHECKED } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/** Long: the single binary is compiled as the image compiles it, and walks the road far from this repository. */
const COMPILE_TIMEOUT_MS = 180_000;
/**
 * Processor time from the start of the process to `/readyz`, the least of a few starts, as a multiple of that of `stc --version`. The
 * start searches the configuration for secrets before it is kept: the first call does not wait for the detectors to be made.
 */
const READY_RATIO_MAX = 20;
const STARTS = 12;
const FROM_SOURCES = [
  ...[process.execPath, "--no-env-file", "--config=/dev/null", "--no-install"],
  join(PROJECT, "src/cli/main.ts"),
];
/** A user that this machine does not know. */
const NOBODY = 64_999;

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-compile-")));
const binary = join(folder, "bin", "stc");
const place = join(folder, "etc");
const issuers = new LiveIssuers();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const MANIFEST = `
import { defineTool, freeText } from "safe-tool-call";
import { z } from "zod";
import { GREETING } from "./shared/greeting.ts";
export const greet = defineTool({
  name: "greet", description: "Greet somebody", classification: "read", permissions: { required: ["greet:read"] },
  input: z.strictObject({ name: z.string().max(20) }),
  handler: async ({ name }) => ({ greeting: GREETING + name, zod: z.object({}) instanceof z.ZodObject }),
  output: z.object({ greeting: z.string(), zod: z.boolean() }), outputPolicy: { greeting: "allow", zod: "allow" },
});
export const say = defineTool(() => ({
  name: "say", description: "Say it", classification: "read", permissions: { required: ["greet:read"] },
  input: z.strictObject({ words: freeText(50) }),
  target: { system: "echo", cli: { command: "echo", argsBuilder: ({ words }) => ["--", words] } },
  output: z.object({ text: z.string() }), outputPolicy: { text: "allow" },
}));
`;

function configuration(port: number, tools: string): string {
  return JSON.stringify({
    server: { port },
    tools: [tools],
    audit: { dir: join(folder, "audit") },
    approvals: { store: `sqlite://${join(folder, "approvals.sqlite")}` },
    jwt: { issuers: issuers.profiles() },
    commands: { allowed: ["echo"], confinement: "prefer" },
    log: { level: "silent" },
  });
}

function stc(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return run([binary, ...args], { cwd: place, env });
}

beforeAll(async () => {
  // The steps of the Dockerfile's first stage, in a fresh directory.
  const source = join(folder, "source");
  mkdirSync(source);
  for (const file of ["package.json", "bun.lock", "bunfig.toml", "tsconfig.json"]) {
    copyFileSync(join(PROJECT, file), join(source, file));
  }
  for (const part of ["deploy/patches", "src"]) cpSync(join(PROJECT, part), join(source, part), { recursive: true });
  cpSync(join(PROJECT, "docs/configuration.schema.json"), join(source, "docs/configuration.schema.json"));
  const install = ["install", "--frozen-lockfile", "--production", "--silent"];
  expect(await run([process.execPath, ...install], { cwd: source })).toMatchObject({ code: 0, err: "" });
  const compiled = await run([process.execPath, "run", "compile"], { cwd: source });
  expect(compiled.code).toBe(0);
  mkdirSync(join(folder, "bin"));
  copyFileSync(join(source, "dist", "stc"), binary);
  chmodSync(binary, 0o755);
  // Nothing that it was made of is left.
  rmSync(source, { recursive: true });
  mkdirSync(join(place, "tools", "shared"), { recursive: true });
  writeFileSync(join(place, "tools", "greet.ts"), MANIFEST);
  writeFileSync(join(place, "tools", "shared", "greeting.ts"), 'export const GREETING = "hello ";');
  // What the working directory would slip in.
  writeFileSync(join(place, "bunfig.toml"), 'preload = ["./slipped-in.ts"]');
  writeFileSync(join(place, "slipped-in.ts"), 'console.log("slipped in");');
  writeFileSync(join(place, ".env"), "STC_PORT=1\nSTC_LOG_LEVEL=nonsense\n");
  writeFileSync(join(place, "stc.yaml"), configuration(0, "./tools"));
}, COMPILE_TIMEOUT_MS);

test("`stc check` loads manifests that it was not compiled with, and imports only what it needs", async () => {
  const { code, out, err } = await stc(["check", "--config", "stc.yaml"]);
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toStartWith("ok: 2 tools\n");
  expect(out).not.toContain("slipped in");
});

test("commands are confined as when it runs from source", async () => {
  const args = ["check", "--config", join(place, "stc.yaml"), "--json"];
  const [compiled, interpreted] = await Promise.all([run([binary, ...args]), run([...FROM_SOURCES, ...args])]);
  expect(JSON.parse(compiled.out)).toEqual(JSON.parse(interpreted.out));
});

test("the process of a SQLite database is confined as when it runs from source", async () => {
  const started = join(folder, "started");
  mkdirSync(started);
  expect(await run([binary, "init", "--database"], { cwd: started })).toMatchObject({ code: 0 });
  const args = ["check", "--config", join(started, "stc.yaml"), "--json"];
  const [compiled, interpreted] = await Promise.all([run([binary, ...args]), run([...FROM_SOURCES, ...args])]);
  expect(compiled).toMatchObject({ code: 0 });
  expect(JSON.parse(compiled.out)).toEqual(JSON.parse(interpreted.out));
});

test("a manifest that names a missing package is refused, and nothing is downloaded", async () => {
  const other = join(folder, "other");
  mkdirSync(other);
  writeFileSync(join(other, "tool.ts"), 'import pad from "left-pad"; export const tool = pad;');
  writeFileSync(join(place, "other.yaml"), configuration(0, other));
  const { code, err } = await stc(["check", "--config", "other.yaml"]);
  expect(code).toBe(78);
  expect(err).toContain("left-pad");
  expect(readdirSync(other)).toEqual(["tool.ts"]);
});

test("the shipped manifests behave the same", async () => {
  const systems = {
    "customer-master-service": { endpoint: "localhost:1", plaintext: true, proto: join(PROJECT, "proto") },
  };
  const written = { ...(JSON.parse(configuration(0, join(PROJECT, "tools/customer-data"))) as object), systems };
  writeFileSync(join(place, "shipped.yaml"), JSON.stringify(written));
  const { code, out } = await stc(["check", "--config", "shipped.yaml"]);
  expect(code).toBe(0);
  expect(out).toStartWith("ok: 7 tools\n");
});

test("policies in Cedar are decided in the binary, far from the packages that it was made of", async () => {
  writeFileSync(
    join(place, "rules.cedar"),
    'permit(principal == Client::"ann", action, resource) when { context.arg_name like "w*" };',
  );
  const decisionPoints = [{ name: "rules", cedar: { policiesFile: "./rules.cedar" } }];
  writeFileSync(
    join(place, "cedar.yaml"),
    JSON.stringify({ ...(JSON.parse(configuration(0, "./tools")) as object), decisionPoints }),
  );
  const planned = async (name: string) => {
    const args = ["plan", "greet", JSON.stringify({ name }), "--sub", "ann", "--config", "cedar.yaml"];
    const { out, err } = await stc(args);
    expect(err).toBe("");
    return JSON.parse(out).decisionPoints.rules.answer.verdict;
  };
  expect([await planned("world"), await planned("moon")]).toEqual(["allow", "deny"]);
});

test("variables that take over the runtime are refused, and development needs the repository", async () => {
  const taken = await stc(["check", "--config", "stc.yaml"], { BUN_OPTIONS: "--smol" });
  expect(taken).toMatchObject({ code: 78, err: expect.stringContaining("BUN_OPTIONS is set") });
  const development = await stc(["serve", "--dev"]);
  expect(development).toMatchObject({ code: 78, err: expect.stringContaining("needs the repository") });
  const token = await stc(["token", "--sub", "a"]);
  expect(token).toMatchObject({ code: 64, err: expect.stringContaining("needs the repository") });
});

test("`stc serve` answers governed calls, is ready in time, and drains on SIGTERM", async () => {
  const [times, bare]: [number[], number[]] = [[], []];
  for (let start = 0; start < STARTS; start += 1) {
    const { exitCode, resourceUsage } = Bun.spawnSync([binary, "--version"], { env: environmentOf({}) });
    expect(exitCode).toBe(0);
    bare.push(Number(resourceUsage.cpuTime.total) / 1_000);
    times.push(await oneLife(start === 0));
  }
  const [best, shortest] = [Math.min(...times), Math.min(...bare)];
  console.log(
    `start to ready: least ${best} ms of processor time, ${(best / shortest).toFixed(1)} times as long as \`stc --version\``,
  );
  expect(best / shortest).toBeLessThanOrEqual(READY_RATIO_MAX);
  const lines = readdirSync(join(folder, "audit"))
    .filter((name) => name.endsWith(".jsonl"))
    .flatMap((name) =>
      readFileSync(join(folder, "audit", name), "utf8")
        .trim()
        .split("\n"),
    );
  expect(lines.map((line) => (JSON.parse(line) as { tool: { name: string } }).tool.name)).toEqual(["greet", "say"]);
  const verified = await stc(["audit", "verify", "--dir", join(folder, "audit")]);
  expect(verified.code).toBe(SIGNATURES_NOT_CHECKED);
});

test("the binary contains the console's page, whole and compressed, with the code of every page", async () => {
  const [port, consolePort] = [freePorts(), freePorts()];
  const written = JSON.parse(configuration(port, "./tools")) as { readonly server: object };
  const server = { ...written.server, console: { port: consolePort } };
  writeFileSync(join(place, "console.yaml"), JSON.stringify({ ...written, server }));
  const child = Bun.spawn([binary, "serve", "--config", "console.yaml"], {
    cwd: place,
    env: environmentOf({}),
    stdout: "ignore",
    stderr: "inherit",
  });
  const url = `http://127.0.0.1:${consolePort}`;
  const html = await until("the console", async () => {
    const answer = await fetch(`${url}/console`).catch(() => undefined);
    return answer?.ok === true ? answer.text() : undefined;
  });
  const paths = [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, path = ""]) => path);
  expect(paths.map((path) => path.split(".").at(-1)).toSorted()).toEqual(["css", "js"]);
  for (const path of paths) {
    expect(path).toStartWith("/console/assets/");
    const answer = await fetch(`${url}${path}`, { headers: { "accept-encoding": "gzip" } });
    expect([answer.status, answer.headers.get("content-encoding")]).toEqual([200, "gzip"]);
    expect((await answer.text()).length).toBeGreaterThan(20);
  }
  const files = await scriptsFrom(url, paths);
  expect(files.size).toBeGreaterThan(10);
  if (browserPath() !== undefined) await openEveryPage(url);
  expect((await stc(["console", "--config", "console.yaml"])).out).toBe(`${url}/console\n`);
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
});

/** Returns the scripts that the page loads, now or when somebody opens a page: each names the others that it needs. */
async function scriptsFrom(url: string, paths: readonly string[]): Promise<ReadonlySet<string>> {
  const read = new Set<string>();
  const left = paths.filter((path) => path.endsWith(".js"));
  for (let path = left.pop(); path !== undefined; path = left.pop()) {
    if (read.has(path)) continue;
    read.add(path);
    const answer = await fetch(url + path);
    expect([path, answer.status]).toEqual([path, 200]);
    for (const [, name = ""] of (await answer.text()).matchAll(/"(\/[^"\s]+\.js)"/g)) left.push(name);
  }
  return read;
}

/** Opens each page of the console, whose code is in a file of its own, in a browser. */
async function openEveryPage(url: string): Promise<void> {
  const browser = await launchBrowser();
  try {
    const visitor = await Visitor.open(browser, { consoleUrl: url });
    await visitor.signIn(
      await issuers.token({ kind: "operator", sub: "olga", permissions: Object.keys(OPERATOR_PERMISSIONS) }),
    );
    const { page } = visitor;
    const pages = await page
      .locator("nav a")
      .evaluateAll((links) => links.map((link) => link.getAttribute("href") ?? ""));
    expect(pages.length).toBeGreaterThan(8);
    for (const fragment of pages) {
      await visitor.go(fragment);
      await page.locator("main h1").waitFor();
      // Wait until the page's code and data have arrived and the placeholder is gone.
      await page.locator("main .loading").first().waitFor({ state: "detached" });
      expect([fragment, await page.locator("main .problem").allTextContents()]).toEqual([fragment, []]);
    }
    expect(visitor.problems).toEqual([]);
  } finally {
    await browser.close();
  }
}

const setpriv = process.getuid?.() === 0 ? Bun.which("setpriv") : null;

test.skipIf(setpriv === null)("it runs as a user without name, home and capabilities", async () => {
  const own = join(folder, "own");
  mkdirSync(own);
  chownSync(own, NOBODY, NOBODY);
  chmodSync(folder, 0o755);
  const port = freePorts();
  const written = JSON.parse(configuration(port, join(place, "tools"))) as object;
  const audit = { dir: join(own, "audit") };
  const approvals = { store: `sqlite://${join(own, "approvals.sqlite")}` };
  writeFileSync(join(place, "own.yaml"), JSON.stringify({ ...written, audit, approvals }));
  const ids = ["--reuid", String(NOBODY), "--regid", String(NOBODY), "--clear-groups", "--no-new-privs"];
  const argv = [setpriv ?? "", ...ids, "--bounding-set=-all", binary, "serve", "--config", join(place, "own.yaml")];
  const child = Bun.spawn(argv, {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "", BUN_RUNTIME_TRANSPILER_CACHE_PATH: "0" },
    stdout: "ignore",
    stderr: "inherit",
  });
  const url = `http://127.0.0.1:${port}`;
  await until("the service to be ready", async () => {
    if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}`);
    const answer = await fetch(`${url}/readyz`).catch(() => undefined);
    return answer?.ok === true ? true : undefined;
  });
  await governedCalls(url);
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
});

/** Starts the service, waits until it is ready, and ends it. Returns the processor time until it was ready, in milliseconds. */
async function oneLife(withCalls: boolean): Promise<number> {
  const port = freePorts();
  writeFileSync(join(place, "stc.yaml"), configuration(port, "./tools"));
  const child = Bun.spawn([binary, "serve", "--config", "stc.yaml"], {
    cwd: place,
    env: environmentOf({}),
    stdout: "ignore",
    stderr: "inherit",
  });
  const url = `http://127.0.0.1:${port}`;
  const readyMs = await until("the service to be ready", async () => {
    const answer = await fetch(`${url}/readyz`).catch(() => undefined);
    return answer?.ok === true ? processorMsOf(child.pid) : undefined;
  });
  if (withCalls) await governedCalls(url);
  const health = await stc(["health", "--ready"], { STC_URL: url });
  expect(health).toEqual({ code: 0, out: "", err: "" });
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
  expect((await stc(["health", "--url", url])).code).toBe(2);
  return readyMs;
}

async function governedCalls(url: string): Promise<void> {
  const authorization = `Bearer ${await issuers.token({ kind: "good", sub: "agent-7", permissions: ["greet:read"] })}`;
  const call = async (tool: string, args: object): Promise<unknown> => {
    const headers = { authorization, "content-type": "application/json" };
    const body = JSON.stringify({ tool, args });
    return (await fetch(`${url}/call`, { method: "POST", headers, body })).json();
  };
  expect(await call("greet", { name: "Ada" })).toMatchObject({ result: { greeting: "hello Ada", zod: true } });
  expect(await call("say", { words: "hi" })).toMatchObject({ status: "success" });
}
