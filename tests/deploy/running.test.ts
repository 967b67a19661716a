import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { RunningService } from "../../src/cli/service.ts";
import { HELM } from "./helm.ts";
import { Pod, RUN } from "./pod.ts";

const CUSTOMER = "3f0c9a52-6b1e-4c77-9d3a-000000000001";

describe.skipIf(HELM === undefined).each(RUN.map((base) => [base] as const))("the %s as it is deployed", (base) => {
  const pod = new Pod();
  let service: RunningService;
  beforeAll(async () => {
    service = await pod.start(base);
  });
  afterAll(() => pod.close());

  async function call(tool: string, args: unknown, token: string) {
    const response = await fetch(`${service.url}/call`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ tool, args }),
    });
    return { http: response.status, ...((await response.json()) as Record<string, unknown>) };
  }

  test("a service account calls a tool of the image over mutual TLS and gets a masked result", async () => {
    const answer = await call("get_customer", { customerId: CUSTOMER }, await pod.agentToken("researcher"));
    expect(answer).toMatchObject({ http: 200, status: "success", result: { customer: { customerId: CUSTOMER } } });
    expect(JSON.stringify(answer)).not.toContain("@");
  });

  test("and a tool of the ConfigMap", async () => {
    const answer = await call("find_runbook", { alert: "SafeToolCallDown" }, await pod.agentToken("researcher"));
    expect(answer).toMatchObject({
      status: "success",
      result: { url: "https://runbooks.example/safe-tool-call/down" },
    });
  });

  test.each([
    ["another service account has no permissions", "other", {}],
    ["whatever its token lists", "other", { permissions: ["customer-data:read"], scope: "customer-data:read" }],
    ["nor is a name of the language one", "constructor", {}],
  ])("%s", async (_title, account, claims) => {
    const answer = await call("get_customer", { customerId: CUSTOMER }, await pod.agentToken(account, claims));
    expect(answer).toMatchObject({ http: 403, error: { code: "PERMISSION_DENIED" } });
  });

  test("permissions in a token add nothing to those of the configuration", async () => {
    const token = await pod.agentToken("researcher", { permissions: ["customer-data:write", "customer-data:export"] });
    const answer = await call("update_customer_status", {}, token);
    expect(answer).toMatchObject({ http: 403, error: { code: "PERMISSION_DENIED" } });
  });

  test("probes and Prometheus know it by its address alone", async () => {
    const headers = { host: "10.244.1.17:9787" };
    const ready = await fetch(`${service.operatorUrl}/readyz`, { headers });
    expect([ready.status, await ready.json()]).toEqual([200, { status: "ready" }]);
    expect((await fetch(`${service.operatorUrl}/healthz`, { headers })).status).toBe(200);
    const authorization = `Bearer ${await pod.operatorToken(["metrics:read"])}`;
    expect((await fetch(`${service.operatorUrl}/metrics`, { headers: { ...headers, authorization } })).status).toBe(
      200,
    );
    // The standalone service has no operators' endpoints on the agents' port at all.
    const elsewhere = await fetch(`${service.url}/metrics`, { headers: { ...headers, authorization } });
    expect(elsewhere.status).toBe(base === "sidecar" ? 403 : 404);
  });

  test.each([
    ["no token", undefined, 401],
    ["an agent's token", "agent", 401],
    ["an operator's without metrics:read", "operator", 403],
    ["a web page", "page", 403],
  ])("metrics are not available to %s", async (_title, who, status) => {
    const agent = `Bearer ${await pod.agentToken("researcher")}`;
    const operator = `Bearer ${await pod.operatorToken(who === "page" ? ["metrics:read"] : ["audit:read"])}`;
    const headers: Record<string, string> = {
      ...(who !== undefined && { authorization: who === "agent" ? agent : operator }),
      ...(who === "page" && { origin: "https://evil.example" }),
    };
    expect((await fetch(`${service.operatorUrl}/metrics`, { headers })).status).toBe(status);
  });

  test.each(["/call", "/rpc", "/tools", "/approvals", "/audit", "/events", "/sessions"])(
    "the operators' port has no %s",
    async (path) => {
      const authorization = `Bearer ${await pod.operatorToken(["audit:read", "approvals:decide"])}`;
      const method = path === "/call" || path === "/rpc" ? "POST" : "GET";
      const answer = await fetch(`${service.operatorUrl}${path}`, { method, headers: { authorization } });
      expect([answer.status, await answer.json()]).toMatchObject([404, { error: { code: "ROUTE_NOT_FOUND" } }]);
    },
  );

  test("the console is for browsers, under its public name and with TLS alone", async () => {
    const { consoleUrl = "" } = service;
    if (base === "sidecar") return expect(consoleUrl).toBe("");
    const ask = async (path: string, host: string) => {
      const tls = { rejectUnauthorized: false };
      return (await fetch(`${consoleUrl}${path}`, { headers: { host }, tls })).status;
    };
    expect(consoleUrl).toStartWith("https://");
    expect(await ask("/console", "console.stc.example")).toBe(200);
    expect(await ask("/console", "evil.example")).toBe(403);
    expect(await ask("/audit", "console.stc.example")).toBe(401);
    expect(await ask("/call", "console.stc.example")).toBe(404);
    for (const base of [service.url, service.operatorUrl]) expect((await fetch(`${base}/console`)).status).toBe(404);
  });

  test("the mounted key signs every line of the audit", async () => {
    await service.drain();
    const { streams, checkpoints } = pod.verifiedAudit();
    expect([...streams.map(({ damage }) => damage), checkpoints.damage]).toEqual([undefined, undefined, undefined]);
    expect(streams.map(({ lines }) => lines > 0)).toEqual([true, true]);
    expect(checkpoints.checkpoints).toBeGreaterThan(1);
    expect(checkpoints.signed).toBe(checkpoints.checkpoints);
  });
});

test.skipIf(HELM === undefined).each(RUN.map((base) => [base]))(
  "the %s answers a call as a program of its own, and drains on SIGTERM",
  async (base) => {
    const pod = new Pod();
    const { program, url } = await pod.startProcess(base);
    const response = await fetch(`${url}/call`, {
      method: "POST",
      headers: { authorization: `Bearer ${await pod.agentToken("researcher")}`, "content-type": "application/json" },
      body: JSON.stringify({ tool: "find_runbook", args: { alert: "SafeToolCallDown" } }),
    });
    expect([response.status, await response.json()]).toMatchObject([200, { status: "success" }]);
    expect(await program.end("SIGTERM")).toBe(0);
    expect(pod.verifiedAudit().streams.map(({ damage }) => damage)).toEqual([undefined, undefined]);
    await pod.close();
  },
);
