import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import manifest from "../../package.json";
import { Collector } from "../runtime/telemetry/collector.ts";
import { inTime } from "../support/in-time.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { freePorts } from "../support/ports.ts";
import { environmentOf, run } from "../support/stc.ts";
import { until } from "../support/until.ts";
import { PROJECT } from "../support/world.ts";

/** Two seconds for the traces, and the rest of an end on a machine that does other things, too. */
const END_MS_MAX = 5_000;

const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-traces-")));
const binary = join(folder, "stc");
const issuers = new LiveIssuers();
afterAll(() => rmSync(folder, { recursive: true, force: true }));

beforeAll(async () => {
  const [, ...compile] = manifest.scripts.compile.replace("dist/stc", binary).split(" ");
  expect((await run([process.execPath, ...compile], { cwd: PROJECT })).code).toBe(0);
  mkdirSync(join(folder, "tools"));
});

interface Life {
  readonly child: Bun.Subprocess;
  readonly collector: Collector;
  /** A call of nobody's, which is traced like any other. */
  readonly call: () => Promise<number>;
}

async function start(): Promise<Life> {
  const collector = new Collector();
  const port = freePorts();
  const written = {
    server: { port },
    tools: ["./tools"],
    audit: { dir: "./audit" },
    approvals: { store: "sqlite://./approvals.sqlite" },
    jwt: { issuers: issuers.profiles() },
    log: { level: "silent" },
    telemetry: { traces: { endpoint: collector.url, sendEveryMs: 20 } },
  };
  writeFileSync(join(folder, "stc.yaml"), JSON.stringify(written));
  const child = Bun.spawn([binary, "serve", "--config", "stc.yaml"], {
    ...{ cwd: folder, stdout: "ignore", stderr: "inherit" },
    env: environmentOf({
      OTEL_EXPORTER_OTLP_HEADERS: "x-planted=1",
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9",
      HTTP_PROXY: "http://127.0.0.1:9",
    }),
  });
  const url = `http://127.0.0.1:${port}`;
  await until("the service to be ready", async () => {
    if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}`);
    const answer = await fetch(`${url}/readyz`).catch(() => undefined);
    return answer?.ok === true ? true : undefined;
  });
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ tool: "none", args: {} });
  return { child, collector, call: async () => (await fetch(`${url}/call`, { method: "POST", headers, body })).status };
}

test("the single binary sends traces to the configured collector and nowhere else", async () => {
  const { child, collector, call } = await start();
  expect(await call()).toBe(401);
  await until("its trace", () => (collector.names.includes("POST /call") ? true : undefined));
  expect(collector.requests.map(({ headers }) => headers.get("x-planted"))).toEqual([null]);
  child.kill("SIGTERM");
  expect(await child.exited).toBe(0);
  await collector.close();
});

test("a collector that hangs does not delay its end", async () => {
  await inTime(1, END_MS_MAX, async () => {
    const { child, collector, call } = await start();
    collector.answer = () => new Promise(() => {});
    await call();
    await until("a request that hangs", () => (collector.requests.length > 0 ? true : undefined));
    await call();
    const begun = Bun.nanoseconds();
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
    const ms = (Bun.nanoseconds() - begun) / 1e6;
    await collector.close();
    return ms;
  });
});
