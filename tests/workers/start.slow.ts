import { afterEach, expect, test } from "bun:test";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { journalEntries } from "../support/audit-files.ts";
import { EndingWorld } from "../support/ending-world.ts";
import { isRunning } from "../support/processes.ts";
import { manifest } from "../support/reload-service.ts";
import { runStc } from "../support/stc.ts";
import { until } from "../support/until.ts";

const server = { port: 0, workers: 2, operator: { port: 0 } } as const;
const reload = { perMinuteMax: 6_000, importTimeoutMs: 60_000 } as const;

let world: EndingWorld | undefined;
afterEach(async () => {
  await world?.remove();
  world = undefined;
});

test("a port at which another service listens is refused, although that service would share it", async () => {
  world = new EndingWorld({ server, reload });
  await world.start();
  const port = Number(new URL(world.url).port);
  const other = new EndingWorld({ server: { ...server, port }, reload });
  const { code, err } = await runStc(["serve", "--config", other.world.file]);
  expect({ code, err }).toEqual({ code: 78, err: expect.stringContaining(`server.port: ${port} is in use`) });
  await other.remove();
});

test("settings that several workers cannot share are refused with file and field", async () => {
  world = new EndingWorld({ server: { ...server, socket: "./stc.sock" }, approvals: {}, reload });
  const { code, err } = await runStc(["check", "--config", world.world.file]);
  expect(code).not.toBe(0);
  expect(err).toContain(`${world.world.file}: server.socket: cannot be listened at by several workers`);
  expect(err).toContain(`${world.world.file}: server.workers: needs approvals.store`);
});

test("a tool whose limit cannot be divided is refused with its name", async () => {
  world = new EndingWorld({ server, reload });
  world.world.write(
    "tools/one.ts",
    `import { defineTool } from "safe-tool-call";
import { z } from "zod";
export const one = defineTool({
  name: "one", description: "One at a time", classification: "read", category: "read",
  limits: { concurrentCallsMax: 1 }, permissions: { required: ["hello:say"] }, input: z.strictObject({}),
  target: { system: "greetings", handler: async () => ({ said: "one" }) },
  output: z.strictObject({ said: z.string() }), outputPolicy: { said: "allow" },
});
`,
  );
  const { code, err } = await runStc(["check", "--config", world.world.file]);
  expect(code).not.toBe(0);
  expect(err).toContain("one: limits.concurrentCallsMax: 1 cannot be divided among 2 workers");
});

test("the variable of a worker without a parent is refused", async () => {
  world = new EndingWorld({ server, reload });
  const { code, err } = await runStc(["serve", "--config", world.world.file], { env: { STC_WORKER: "1" } });
  expect({ code, err }).toEqual({ code: 78, err: expect.stringContaining("STC_WORKER is set") });
});

test("several workers serve TLS at one port", async () => {
  const { makeCertificates } = await import("../../src/cli/development/certificates.ts");
  world = new EndingWorld({ server: { ...server, tls: { certFile: "./cert.pem", keyFile: "./key.pem" } }, reload });
  const { rootCert, server: made } = await makeCertificates({
    notBefore: new Date(0),
    notAfter: new Date(4_102_444_800_000),
  });
  writeFileSync(join(world.world.folder, "cert.pem"), made.cert);
  writeFileSync(join(world.world.folder, "key.pem"), made.key);
  await world.start();
  expect(world.url).toStartWith("https://");
  const token = await world.world.agent();
  const said = await Promise.all(
    Array.from({ length: 24 }, async () => {
      const response = await fetch(`${world?.url}/call`, {
        method: "POST",
        keepalive: false,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json", connection: "close" },
        body: JSON.stringify({ tool: "hello", args: {} }),
        tls: { ca: rootCert, checkServerIdentity: () => undefined },
      });
      return ((await response.json()) as { result: { said: string } }).result.said;
    }),
  );
  expect(new Set(said)).toEqual(new Set(["first"]));
});

/** Adds a tool whose loading by a worker waits for a file. Returns what the worker waits for. */
function addWaitingTool({ world: service }: EndingWorld, worker: number) {
  const [started, go] = ["started", "go"].map((name) => join(service.folder, name)) as [string, string];
  const text = manifest({ name: "waiting" });
  service.write(
    "tools/waiting.ts",
    `${text}
import { existsSync, writeFileSync } from "node:fs";
if (process.env.STC_WORKER === "${worker}" && !existsSync(${JSON.stringify(go)})) {
  writeFileSync(${JSON.stringify(started)}, String(process.pid));
  while (!existsSync(${JSON.stringify(go)})) await new Promise((resolve) => setTimeout(resolve, 10));
}
`,
  );
  const pid = () =>
    until("a worker that is starting", () =>
      existsSync(started) ? Number(readFileSync(started, "utf8")) || undefined : undefined,
    );
  return { pid, complete: () => writeFileSync(go, "") };
}

const endsIn = ({ auditDir }: EndingWorld) => journalEntries(auditDir).filter(({ type }) => type === "worker.ended");

test("a worker that gets SIGTERM while it starts ends in order when it has started, and is replaced", async () => {
  world = new EndingWorld({ server, reload });
  const { pid: starting, complete } = addWaitingTool(world, 2);
  const begun = world.start();
  const pid = await starting();
  process.kill(pid, "SIGTERM");
  complete();
  await begun;
  const running = world;
  const ended = await until("its end", () => endsIn(running)[0]);
  expect(ended).toMatchObject({ worker: 2, pid, code: 0, signal: null });
  expect(await world.end("SIGTERM")).toMatchObject({ code: 0 });
});

test("a service that gets SIGTERM while a worker starts ends in order with all workers", async () => {
  world = new EndingWorld({ server, reload });
  const { pid: starting, complete } = addWaitingTool(world, 2);
  const begun = world.start().catch(() => {});
  const pid = await starting();
  world.child.kill("SIGTERM");
  complete();
  await world.child.exited;
  await begun;
  expect(world.child.exitCode).toBe(0);
  expect(
    endsIn(world)
      .map(({ worker, code }) => [worker, code])
      .toSorted(),
  ).toEqual([
    [1, 0],
    [2, 0],
  ]);
  await until("the worker's end", () => (isRunning(pid) ? undefined : true));
  expect((await runStc(["audit", "verify", "--dir", world.auditDir])).out).toContain("all logs:\nok");
});

test("a worker that is still starting when its parent is killed ends, too", async () => {
  world = new EndingWorld({ server, reload });
  const { pid: starting, complete } = addWaitingTool(world, 2);
  const begun = world.start().catch(() => {});
  const pid = await starting();
  await world.end("SIGKILL");
  complete();
  await begun;
  await until("the worker's end", () => (isRunning(pid) ? undefined : true));
});
