import { afterEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { EndingWorld } from "../support/ending-world.ts";
import { runStc } from "../support/stc.ts";

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
