import { afterAll, expect, test } from "bun:test";
import { join } from "node:path";
import { ClientService } from "../support/client-service.ts";
import { ModelServer, type ModelTurn } from "../support/model-server.ts";
import { pythonWith } from "../support/python.ts";
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
  problems: () => model.problems,
  restart: () => service.restart(Number(new URL(service.url).port)),
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

test("the adapters with the real frameworks: test_adapters.py", () => pytest("test_adapters.py"));
