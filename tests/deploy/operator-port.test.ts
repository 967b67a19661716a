import { expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { startService } from "../../src/cli/service.ts";
import { StartupError } from "../../src/core/errors.ts";
import { defineTool } from "../../src/index.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";
import { until } from "../support/until.ts";

const issuers = new LiveIssuers();

function configuration(folder: string, tools: readonly unknown[], operator: object) {
  const written = {
    server: { port: 0, operator },
    tools,
    audit: { dir: "./audit", durability: "write" },
    jwt: { issuers: issuers.profiles() },
    log: { level: "silent" },
  };
  return readConfig(written, { folder, environment: {}, origin: "test" });
}

test("while the service drains, the operators' port says so, and closes last", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-operator-")));
  const begun = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const slow = defineTool({
    name: "slow",
    description: "Ends when it is told to",
    classification: "read",
    permissions: { required: ["slow:run"] },
    input: z.strictObject({}),
    handler: async () => {
      begun.resolve();
      await release.promise;
      return { ok: true };
    },
    output: z.strictObject({ ok: z.boolean() }),
    outputPolicy: { ok: "allow" },
  });
  const service = await startService(configuration(folder, [slow], { port: 0 }));
  const authorization = `Bearer ${await issuers.token({ kind: "good", sub: "a", permissions: ["slow:run"] })}`;
  const answer = fetch(`${service.url}/call`, {
    method: "POST",
    headers: { authorization, "content-type": "application/json" },
    body: '{"tool":"slow","args":{}}',
  });
  await begun.promise;
  const drained = service.drain();
  const told = await until("the operators' port to tell of the drain", async () => {
    const response = await fetch(`${service.operatorUrl}/readyz`);
    return response.status === 503 ? response.json() : undefined;
  });
  expect(told).toEqual({ status: "not_ready", reasons: ["draining"] });
  expect((await fetch(`${service.operatorUrl}/healthz`)).status).toBe(200);
  release.resolve();
  expect(await (await answer).json()).toMatchObject({ status: "success", result: { ok: true } });
  await drained;
  expect(await fetch(`${service.operatorUrl}/healthz`).catch(() => "gone")).toBe("gone");
  rmSync(folder, { recursive: true, force: true });
});

test("a port in use is named by its field, and the call listener does not stay open", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-operator-")));
  const other = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
  const failed = await startService(configuration(folder, ["."], { port: other.port })).catch(
    (error: unknown) => error,
  );
  expect(failed).toBeInstanceOf(StartupError);
  expect(String(failed)).toContain(`server.operator.port: ${other.port} is in use`);
  // The audit's directory takes one writer: it was given back.
  const again = await startService(configuration(folder, ["."], { port: 0 }));
  await again.drain();
  other.stop(true);
  rmSync(folder, { recursive: true, force: true });
});

test("without a section there is no such listener", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-operator-")));
  const { operator: _, ...server } = configuration(folder, ["."], {}).server;
  const service = await startService({ ...configuration(folder, ["."], {}), server });
  expect(service.operatorUrl).toBeUndefined();
  await service.drain();
  rmSync(folder, { recursive: true, force: true });
});

test("an address of another machine is named by its field, with the value to write", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-operator-")));
  const elsewhere = configuration(folder, ["."], { host: "192.0.2.7", port: 0 });
  const failed = await startService(elsewhere).catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(StartupError);
  expect((failed as StartupError).problems).toEqual([
    "server.operator.host: 192.0.2.7 cannot be listened at (EADDRNOTAVAIL): write an address of this machine, or 0.0.0.0 for all of them",
  ]);
  rmSync(folder, { recursive: true, force: true });
});

test("operators learn whether the audit takes lines, others do not", async () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-operator-")));
  const service = await startService(configuration(folder, ["."], { port: 0 }));
  const token = await issuers.token({ kind: "operator", sub: "prometheus", permissions: ["metrics:read"] });
  const ask = async (headers: Record<string, string>) =>
    (await fetch(`${service.operatorUrl}/readyz`, { headers })).json();
  expect(await ask({ authorization: `Bearer ${token}` })).toMatchObject({ status: "ready", audit: { status: "ok" } });
  expect(await ask({})).toEqual({ status: "ready" });
  await service.drain();
  rmSync(folder, { recursive: true, force: true });
});
