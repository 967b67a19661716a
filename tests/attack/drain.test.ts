import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { startService } from "../../src/cli/service.ts";
import { defineTool } from "../../src/index.ts";
import { AGENTS_SERVERS } from "../http/agents-servers.ts";
import { auditEntries, journalEntries } from "../support/audit-files.ts";
import { readConfig } from "../support/build.ts";
import { LiveIssuers } from "../support/live-tokens.ts";

describe.each(AGENTS_SERVERS)("with the HTTP server %s", (http) => {
  let folder: string;

  beforeAll(() => {
    folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-attack-")));
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** A service with one tool whose function never ends and listens to nobody, and a call of it under way. */
  async function stuckService(classification: "read" | "write") {
    const started = Promise.withResolvers<void>();
    const stuck = defineTool({
      name: "case_stuck",
      description: "Never answers",
      classification,
      category: classification === "read" ? "read" : "network",
      permissions: { required: ["case:run"] },
      approval: { needsApproval: () => false },
      input: z.strictObject({}),
      handler: () => {
        started.resolve();
        return new Promise<never>(() => {});
      },
      output: z.strictObject({}),
      outputPolicy: {},
    });
    const issuers = new LiveIssuers();
    const dir = join(folder, classification);
    const written = {
      server: { port: 0, http, drainTimeoutMs: 50 },
      tools: [stuck],
      audit: { dir },
      jwt: { issuers: issuers.profiles() },
      log: { level: "silent" },
    };
    const service = await startService(readConfig(written, { folder, environment: {}, origin: "test" }));
    const authorization = await issuers.authorization({ kind: "good", sub: "agent-7", permissions: ["case:run"] });
    const call = fetch(`${service.url}/call`, {
      method: "POST",
      headers: { authorization: authorization ?? "", "content-type": "application/json" },
      body: '{"tool":"case_stuck","args":{}}',
    }).catch(() => undefined);
    await started.promise;
    return { service, call, dir };
  }

  test("a read that cannot be cancelled does not delay the drain, and has its audit entry", async () => {
    const { service, call, dir } = await stuckService("read");
    await service.drain();
    expect((await call)?.status).toBe(503);
    expect(auditEntries(dir)).toMatchObject([
      { decision: "DENIED", error: { code: "SHUTTING_DOWN" }, caller: { sub: "agent-7" } },
    ]);
    expect(journalEntries(dir).at(-1)).toMatchObject({ type: "service.stopped" });
  });

  // The call's scope has to be ended by the shutdown before the audit is closed.
  test("a change that the shutdown cuts off has its audit entry: OUTCOME_UNKNOWN", async () => {
    const { service, call, dir } = await stuckService("write");
    await service.drain();
    await call;
    expect(auditEntries(dir)).toMatchObject([{ decision: "ERROR", error: { code: "OUTCOME_UNKNOWN" } }]);
  });
});
