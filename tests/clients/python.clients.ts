import { afterAll, expect, test } from "bun:test";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { VERSION } from "../../src/core/version.ts";
import { ClientService } from "../support/client-service.ts";
import { ModelServer, type ModelTurn } from "../support/model-server.ts";
import { pythonWith } from "../support/python.ts";
import { startServiceChild } from "../support/service-child-process.ts";
import { environmentOf, run } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const TESTS = join(import.meta.dir, "python");
const CLIENT = join(PROJECT, "clients/python");
const python = await pythonWith(join(TESTS, "requirements.txt"));

const service = await new ClientService().start();
const storeless = await new ClientService({ issuers: service.issuers }).start({ approvals: false });

interface Order {
  readonly do: string;
  readonly id: string;
  readonly reason: string;
  readonly subject: string;
  readonly count: number;
  readonly script: readonly ModelTurn[];
  readonly field: "results" | "tools";
}

let model = new ModelServer([]);

/** A service in a process of its own, which a test kills and starts again on the same port. */
const childFolder = mkdtempSync(join(tmpdir(), "stc-python-child-"));
let child: Bun.Subprocess | undefined;
let childPort = 0;

async function startChild(): Promise<string> {
  const { process: started, url, token } = await startServiceChild(childFolder, childPort);
  child = started;
  childPort = Number(new URL(url).port);
  return JSON.stringify({ url, token });
}

function childDeeds(): readonly string[] {
  const path = join(childFolder, "deeds.txt");
  return existsSync(path) ? readFileSync(path, "utf8").trim().split("\n") : [];
}

async function killChild(): Promise<void> {
  child?.kill("SIGKILL");
  await child?.exited;
}

/** What the Python tests ask of the service's other side. */
const ORDERS: Readonly<Record<string, (order: Order) => unknown>> = {
  url: () => service.url,
  storeless: () => storeless.url,
  token: ({ subject }) => service.token(subject),
  approve: ({ id }) => service.approve(id),
  deny: ({ id, reason }) => service.deny(id, reason),
  open: () => service.open(),
  deeds: () => [...service.deeds, ...storeless.deeds],
  failures({ count }) {
    service.failures = count;
  },
  async model({ script }) {
    await model.end();
    // The model's server must never see the token of the service.
    model = new ModelServer(script, [await service.token()]);
    return model.url;
  },
  heard: ({ field }) => model.heard.at(-1)?.[field],
  listed: () => model.heard.at(-1)?.body.tools,
  problems: () => model.problems,
  restart: () => service.restart(Number(new URL(service.url).port)),
  child: () => startChild(),
  kill: () => killChild(),
  childDeeds: () => childDeeds(),
};

const control = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  async fetch(request) {
    const order = (await request.json()) as Order;
    const done = await ORDERS[order.do]?.(order);
    return Response.json(typeof done === "string" || Array.isArray(done) ? done : null);
  },
});

afterAll(async () => {
  await killChild();
  rmSync(childFolder, { recursive: true });
  await control.stop(true);
  await model.end();
  await storeless.end();
  await service.end();
});

const environment = environmentOf({
  CONTROL_URL: String(control.url),
  PYTHONPATH: join(CLIENT, "src"),
  PYTHONDONTWRITEBYTECODE: "1",
  EXAMPLES: join(CLIENT, "examples"),
  HYPOTHESIS_STORAGE_DIRECTORY: join(PROJECT, "var/python/hypothesis"),
});

/** Runs a file of tests; pytest itself says which of them failed. */
async function pytest(file: string): Promise<void> {
  const argv = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", TESTS, join(TESTS, file)];
  const { code, out } = await run(argv, { env: environment });
  expect(code === 0 ? "" : out).toBe("");
}

test("the Python client against the real service: test_client.py", () => pytest("test_client.py"));

test.concurrent("the adapters with the real frameworks: test_adapters.py", () => pytest("test_adapters.py"));

/** Runs a program to its end, which must be a success. */
async function succeed(
  argv: readonly string[],
  cwd: string,
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { code, out, err } = await run(argv, { cwd, env: { ...process.env, ...env, PYTHONDONTWRITEBYTECODE: "1" } });
  expect(code === 0 ? "" : `${argv.join(" ")}: ${out}${err}`).toBe("");
  return out;
}

const CONSUMER = `import os
from safe_tool_call import Client, RefusedError, unwrap

with Client(os.environ["STC_URL"], os.environ["STC_TOKEN"]) as client:
    result = client.call("read_note", {"title": "wheel"})
    if result["status"] == "pending":
        print(result["approval"]["id"])
    elif result["status"] == "success":
        print(result["result"]["done"], result["filteredFields"])
    else:
        print(result["error"]["code"])
    try:
        unwrap(client.call("no_such_tool"))
    except RefusedError as error:
        print(error.code)
`;

/** Runs at the same time as the tests of the adapters, with a service of its own: those change the other services. */
test.concurrent("the wheel installs into an empty environment, where a strictly typed program uses it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stc-wheel-"));
  const own = await new ClientService().start();
  try {
    cpSync(CLIENT, join(folder, "source"), { recursive: true, filter: (path) => !path.includes("__pycache__") });
    await succeed([python, "-m", "build", "--no-isolation", "--outdir", "dist", "source"], folder);
    const built = readdirSync(join(folder, "dist")).sort();
    expect(built).toEqual([
      `safe_tool_call_client-${VERSION}-py3-none-any.whl`,
      `safe_tool_call_client-${VERSION}.tar.gz`,
    ]);
    await succeed([python, "-m", "venv", "empty"], folder);
    const empty = join(folder, "empty/bin/python3");
    const needed = /^(?:httpx|httpcore|h11|anyio|idna|certifi|typing-extensions)==/;
    const pinned = readFileSync(join(TESTS, "requirements.txt"), "utf8").split(/\n(?=[a-z])/);
    writeFileSync(join(folder, "needed.txt"), pinned.filter((each) => needed.test(each)).join("\n"));
    const install = [empty, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"];
    await succeed([...install, "--require-hashes", "--requirement", "needed.txt"], folder);
    await succeed([...install, "--no-index", `dist/${built[0]}`], folder);
    writeFileSync(join(folder, "consumer.py"), CONSUMER);
    const mypy = [python, "-m", "mypy", "--strict", "--python-version", "3.10", "--cache-dir", join(folder, "mypy")];
    await succeed([...mypy, "--python-executable", empty, "consumer.py"], folder);
    const env = { STC_URL: own.url, STC_TOKEN: await own.token() };
    expect(await succeed([empty, "consumer.py"], folder, env)).toBe("read wheel []\nTOOL_NOT_FOUND\n");
    await succeed(
      [...mypy, "source/src", ...readdirSync(join(CLIENT, "examples")).map((name) => `source/examples/${name}`)],
      folder,
      {
        MYPYPATH: join(folder, "source/src"),
      },
    );
  } finally {
    await own.end();
    rmSync(folder, { recursive: true, force: true });
  }
});

test("every file is Python 3.10", async () => {
  const program =
    "import ast, pathlib, sys; [ast.parse(p.read_text(), feature_version=(3, 10)) for p in pathlib.Path(sys.argv[1]).rglob('*.py')]";
  await succeed([python, "-c", program, CLIENT], CLIENT);
});

test("the example in the package's README runs", async () => {
  const readme = readFileSync(join(CLIENT, "README.md"), "utf8");
  const program = /```python\n([\s\S]*?)```/.exec(readme)?.[1] ?? "";
  const env = { ...environment, STC_URL: service.url, STC_TOKEN: await service.token("readme") };
  const running = run([python, "-c", program], { env });
  let hasEnded = false;
  void running.then(() => {
    hasEnded = true;
  });
  while (!hasEnded) {
    for (const { id } of await service.open()) await service.approve(id);
    await Bun.sleep(50);
  }
  expect(await running).toMatchObject({ code: 0, out: "{'done': 'sent to ada'}\n" });
});
