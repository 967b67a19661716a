import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { packClient, TSC } from "../../deploy/release/npm.ts";
import { launchBrowser } from "../support/browser.ts";
import { ClientService } from "../support/client-service.ts";
import { blocksOf } from "../support/documented.ts";
import { until } from "../support/until.ts";
import { runProgram, runtimePath } from "./runtimes.ts";

/** The package as npm packs it, installed into an empty project: its types, and what it does on each runtime. */
const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-package-")));
const project = join(folder, "project");
const service = new ClientService();

const PROGRAM = `import { RefusedError, SafeToolCallClient, unwrap } from "safe-tool-call-client";

export async function use(url, token) {
  const client = new SafeToolCallClient({ url, token });
  const read = unwrap(await client.call("read_note", { title: "a" }));
  const later = unwrap(await client.call("flaky_note", { title: "b" }));
  const sent = unwrap(await client.run("send_note", { to: "ada", note: "hello" }));
  let refused;
  try {
    unwrap(await client.call("read_note", { title: 7 }));
  } catch (error) {
    refused = error instanceof RefusedError && error.code;
  }
  const tools = await client.tools();
  return { read, later, sent, refused, tools: tools.length };
}
`;
const EXPECTED = {
  read: { done: "read a" },
  later: { done: "read b" },
  sent: { done: "sent to ada" },
  ...{ refused: "INVALID_INPUT", tools: 4 },
};

beforeAll(async () => {
  const tarball = await packClient(folder);
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "project", private: true, type: "module" }));
  await runProgram(["npm", "install", "--no-audit", "--no-fund", tarball], { cwd: project });
  writeFileSync(join(project, "use.js"), PROGRAM);
  const main = `import { use } from "./use.js";\nconsole.log(JSON.stringify(await use(process.env.STC_URL, process.env.STC_TOKEN)));\n`;
  writeFileSync(join(project, "main.js"), main);
});
afterAll(async () => {
  await service.end();
  rmSync(folder, { recursive: true, force: true });
});

test("the package holds what its users need, and depends on nothing", async () => {
  const installed = join(project, "node_modules/safe-tool-call-client");
  const files = readdirSync(installed, { recursive: true }).map(String).sort();
  const adapters = ["ai-sdk", "anthropic", "core", "google", "langchain", "openai", "openai-agents"];
  const sources = [...adapters.map((name) => `adapters/${name}`), "client", "errors", "requests", "schema"];
  const modules = sources.flatMap((name) => [`dist/${name}.d.ts`, `dist/${name}.js`]);
  expect(files).toEqual(["LICENSE", "README.md", "dist", "dist/adapters", ...modules, "package.json"].sort());
  expect(readdirSync(join(project, "node_modules")).filter((name) => !name.startsWith("."))).toEqual([
    "safe-tool-call-client",
  ]);
});

test.each([
  ["NodeNext", "NodeNext"],
  ["ESNext", "Bundler"],
])("its declarations are strict with module %s and resolution %s", async (module, moduleResolution) => {
  const program = `import { ConnectionError, SafeToolCallClient, unwrap, type ToolCallResult, type RefusalCode } from "safe-tool-call-client";
const client = new SafeToolCallClient({ url: "https://tools.example", token: async () => "t", fetch });
const result: ToolCallResult<{ done: string }> = await client.run<{ done: string }>("send_note", { to: "ada" });
if (result.status === "denied" || result.status === "error") {
  const code: RefusalCode = result.error.code;
  console.log(code);
} else if (result.status === "pending") console.log(result.approval.id);
else console.log(result.result.done);
const done: string = unwrap(result).done;
const [first] = await client.tools("anthropic");
console.log(done, first?.input_schema);
const dry = await client.call("send_note", {}, { dryRun: true });
if (dry.status === "dryRun") console.log(dry.verdict);
// @ts-expect-error: not a format
await client.tools("xml");
export const lost = (error: unknown): boolean => error instanceof ConnectionError && error.mayHaveRun;
`;
  writeFileSync(join(project, "typed.ts"), program);
  const compilerOptions = {
    ...{ module, moduleResolution, target: "ES2022", lib: ["ES2022", "DOM"], types: [] },
    ...{ strict: true, noEmit: true, skipLibCheck: false, exactOptionalPropertyTypes: true },
  };
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["typed.ts"] }));
  expect(await runProgram([...TSC, "-p", project], { cwd: project })).toBe("");
});

/** Starts the service anew and approves what is asked, until the work has ended. */
async function served<T>(work: (url: string, token: string) => Promise<T>, sections: object = {}): Promise<T> {
  service.failures = 1;
  await service.start({ ...sections });
  const outcome = work(service.url, await service.token());
  let ended = false;
  const end = outcome.then(
    () => true,
    () => true,
  );
  void end.then(() => {
    ended = true;
  });
  const open = await until("an approval request", async () => (ended ? { id: "" } : (await service.open())[0]));
  if (open.id !== "") await service.approve(open.id);
  return outcome.finally(() => service.stop());
}

const programs: readonly (readonly [string, () => Promise<readonly string[]>])[] = [
  ["Node 20", async () => [await runtimePath("node20")]],
  ["Node 24", async () => [await runtimePath("node24")]],
  ["Bun", async () => [process.execPath, "run"]],
];

test.each(programs)("it calls, retries and waits for an approval on %s", async (_name, program) => {
  const command = [...(await program()), "main.js"];
  const written = await served((url, token) =>
    runProgram(command, { cwd: project, env: { STC_URL: url, STC_TOKEN: token } }),
  );
  expect(JSON.parse(written)).toEqual(EXPECTED);
});

test.each(["docs/clients.md", "clients/typescript/README.md"])("the program in %s runs", async (page) => {
  const { text = "" } = blocksOf(page).find(({ language }) => language === "ts") ?? {};
  writeFileSync(
    join(project, "documented.ts"),
    text
      .replace('"https://tools.example"', "process.env.STC_URL ?? ''")
      .replace("readToken()", "process.env.STC_TOKEN ?? ''"),
  );
  const written = await served((url, token) =>
    runProgram([process.execPath, "documented.ts"], { cwd: project, env: { STC_URL: url, STC_TOKEN: token } }),
  );
  expect(written).toContain("sent to ada");
});

test("it works on a page whose server passes requests on to the service", async () => {
  let target = "";
  const html = `<script type="importmap">{"imports":{"safe-tool-call-client":"/dist/client.js"}}</script>`;
  const proxy = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    idleTimeout: 120,
    fetch(request) {
      const { pathname, search } = new URL(request.url);
      if (pathname === "/") return new Response(html, { headers: { "content-type": "text/html" } });
      if (pathname === "/use.js") return new Response(Bun.file(join(project, "use.js")));
      if (pathname.startsWith("/dist/")) {
        return new Response(Bun.file(join(project, "node_modules/safe-tool-call-client", pathname)));
      }
      return fetch(`${target}${pathname.replace(/^\/stc/, "")}${search}`, request);
    },
  });
  const browser = await launchBrowser();
  try {
    const origin = `http://127.0.0.1:${proxy.port}`;
    const page = await browser.newPage();
    await page.goto(origin);
    const result = await served(
      (url, token) => {
        target = url;
        // Bun would resolve an import in a function.
        return page.evaluate(`import("/use.js").then(({ use }) => use("${origin}/stc", ${JSON.stringify(token)}))`);
      },
      { server: { port: 0, allowedOrigins: [origin] } },
    );
    expect(result).toEqual(EXPECTED);
  } finally {
    await browser.close();
    await proxy.stop(true);
  }
});
