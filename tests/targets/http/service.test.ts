import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Reply } from "../../support/asking-service.ts";
import { blocksOf } from "../../support/documented.ts";
import { GuideService } from "./guide-service.ts";

interface Seen {
  readonly method: string;
  readonly target: string;
  readonly headers: Headers;
  readonly body: string;
}

/** The service of the guide to HTTP. */
class OrdersService extends GuideService {
  readonly seen: Seen[] = [];
  answer: (request: Request) => Response = () => new Response(null, { status: 500 });

  constructor() {
    super(["orders:read", "orders:write"]);
  }

  /** `auth` replaces the guide's. */
  async start(auth?: (origin: string) => object): Promise<void> {
    const blocks = blocksOf("docs/http.md");
    const manifests = blocks.filter(({ language }) => language === "ts");
    const guide = {
      settings: blocks.find(({ language }) => language === "yaml")?.text ?? "",
      ...{ system: "orders", baseUrl: "https://orders.internal:8443/api", auth },
      files: {
        "secrets/orders-token": "first-token\n",
        ...Object.fromEntries(manifests.map(({ text }, index) => [`tools/order-${index}.ts`, text])),
      },
    };
    await this.serve(guide, async (request) => {
      const { pathname, search } = new URL(request.url);
      const { method, headers } = request;
      this.seen.push({ method, target: `${pathname}${search}`, headers, body: await request.text() });
      return this.answer(request);
    });
  }
}

describe("the guide's service", () => {
  const service = new OrdersService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  test("reads: the answer is filtered, the request carries the credentials", async () => {
    service.answer = () => Response.json({ state: "open", email: "ann@example.com", totalCents: 1250, internal: "x" });
    const { http, body } = await service.call("order_get", { order: "A-7" });
    expect([http, body.result.state, body.result.totalCents]).toEqual([200, "open", 1250]);
    expect(JSON.stringify(body)).not.toMatch(/ann@example|internal/);
    const last = service.seen.at(-1);
    expect([last?.method, last?.target, last?.headers.get("authorization")]).toEqual([
      ...["GET", "/api/orders/A-7", "Bearer first-token"],
    ]);
    expect(service.entry(body.traceId)).toMatchObject({
      decision: "ALLOWED",
      tool: { name: "order_get", classification: "read", targetSystem: "orders" },
    });
  });

  test("a change asks a person, who sees the exact request, and then sends it once", async () => {
    service.answer = () => Response.json({ state: "cancelled" }, { status: 201 });
    const before = service.seen.length;
    const args = { order: "A-7", reason: "stock", notify: false };
    const asked = await service.call("order_cancel", args);
    expect([asked.http, service.seen.length]).toEqual([202, before]);
    const { id } = asked.body.approval;
    const shown = await service.send("GET", `/approvals/${id}`, { token: await service.person() });
    expect(shown.body.approval.view.target).toMatchObject({
      ...{ system: "orders", kind: "http", method: "POST" },
      url: expect.stringMatching(/^https:\/\/localhost:\d+\/api\/orders\/A-7\/cancellation\?notify=false$/),
      body: { reason: "stock", source: "agent" },
      tls: { serverName: "localhost" },
    });
    expect(JSON.stringify(shown.body)).not.toContain("first-token");
    await service.decide(id, "approve");
    const done = await service.call("order_cancel", args, { approval: { id } });
    expect(done).toMatchObject({ http: 200, body: { result: { state: "cancelled" } } });
    const last = service.seen.at(-1);
    expect([service.seen.length, last?.body]).toEqual([before + 1, '{"reason":"stock","source":"agent"}']);
    expect(last?.headers.get("idempotency-key")).toBe(done.body.traceId);
    expect(service.entry(done.body.traceId)).toMatchObject({ decision: "ALLOWED", approval: { id } });
  });

  test.each([
    [404, "TARGET_REFUSED", "NOT_FOUND"],
    [403, "TARGET_FAILED", "PERMISSION_DENIED"],
    [302, "TARGET_FAILED", "UNKNOWN"],
    [503, "TARGET_UNAVAILABLE", "UNAVAILABLE"],
  ])("status %d is %s, in the answer and in the audit", async (status, code, name) => {
    service.answer = () => new Response("secret-detail", { status, headers: { location: "/elsewhere" } });
    const { body } = await service.call("order_get", { order: "B-1" });
    expect(body.error).toMatchObject({ code, stage: "EXECUTION", details: { status: name, httpStatus: status } });
    expect(service.entry(body.traceId)).toMatchObject({ decision: "ERROR", error: { code } });
    expect(JSON.stringify([body, service.entry(body.traceId)])).not.toContain("secret-detail");
  });

  const raw = (body: string): Response => new Response(body, { headers: { "content-type": "application/json" } });

  test("values that readers of JSON read differently: refused with the field's path where they are released, else dropped", async () => {
    const members = '"state":"open","email":"ann@example.com"';
    service.answer = () => raw(`{${members},"totalCents":1250,"shard":9007199254740993,"x":1,"x":2,"__proto__":{}}`);
    expect((await service.call("order_get", { order: "A-7" })).body.result).toMatchObject({ totalCents: 1250 });
    service.answer = () => raw(`{${members},"totalCents":9007199254740993}`);
    const { body } = await service.call("order_get", { order: "A-7" });
    expect(body.error).toMatchObject({
      ...{ code: "INVALID_OUTPUT", stage: "OUTPUT", retryable: false, details: { field: "totalCents" } },
      message:
        "The target's answer was withheld: readers of JSON read its field totalCents differently (an integer beyond 2^53-1).",
    });
    expect(service.entry(body.traceId)).toMatchObject({ decision: "ERROR", error: { code: "INVALID_OUTPUT" } });
  });

  test("the agent learns how long to wait, and the request is sent once", async () => {
    service.answer = () => new Response(null, { status: 429, headers: { "retry-after": "30" } });
    const before = service.seen.length;
    const token = await service.agent({ permissions: ["orders:read"] });
    const response = await fetch(`${service.url}/call`, {
      method: "POST",
      headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
      body: JSON.stringify({ tool: "order_get", args: { order: "A-7" } }),
    });
    const { error, traceId } = (await response.json()) as Reply["body"];
    expect([response.status, response.headers.get("retry-after")]).toEqual([503, "30"]);
    expect(error).toMatchObject({ code: "TARGET_UNAVAILABLE", retryable: true, retryAfterMs: 30_000 });
    expect(service.entry(traceId)).toMatchObject({ decision: "ERROR", error: { code: "TARGET_UNAVAILABLE" } });
    expect(service.seen).toHaveLength(before + 1);
  });

  test("an argument that would leave the path is refused before anything is sent", async () => {
    const before = service.seen.length;
    const { body } = await service.call("order_get", { order: "../admin" });
    expect(body.error).toMatchObject({ code: "INVALID_INPUT", stage: "VALIDATION" });
    expect(service.entry(body.traceId)).toMatchObject({ decision: "DENIED" });
    expect(service.seen).toHaveLength(before);
  });

  test("a replaced token file is used at once, after a 401 in the same call", async () => {
    service.answer = ({ headers }) => {
      writeFileSync(join(service.folder, "secrets/orders-token"), "second-token\n");
      const isNew = headers.get("authorization") === "Bearer second-token";
      return isNew
        ? Response.json({ state: "open", email: "a@b.test", totalCents: 1 })
        : new Response(null, { status: 401 });
    };
    const before = service.seen.length;
    expect((await service.call("order_get", { order: "A-8" })).http).toBe(200);
    expect(service.seen).toHaveLength(before + 2);
    service.answer = () => new Response(null, { status: 401 });
    expect((await service.call("order_get", { order: "A-8" })).body.error).toMatchObject({
      ...{ code: "TARGET_FAILED", details: { status: "UNAUTHENTICATED", httpStatus: 401 } },
    });
    expect(service.seen).toHaveLength(before + 3);
  });

  test("is among the systems of /readyz", async () => {
    const token = await service.person({ permissions: ["metrics:read"] });
    const { body } = await service.send("GET", "/readyz", { token });
    expect(body.systems.orders).toEqual({
      circuit: "closed",
      connections: expect.any(Number),
      certificateExpiresAt: null,
      calls: { inFlight: 0, max: 256 },
    });
  });
});

describe("a system whose tokens are exchanged for the caller's", () => {
  const service = new OrdersService();
  beforeAll(() =>
    service.start((origin) => ({
      tokenExchange: {
        ...{ tokenUrl: `${origin}/token`, clientId: "stc", clientSecretFile: "secrets/orders-token" },
        ...{ caFile: "certs/internal-ca.pem", audience: "orders" },
      },
    })),
  );
  afterAll(() => service.end());

  test("the API gets the exchanged token, and the caller's own token goes only to the token endpoint", async () => {
    service.answer = ({ url }) =>
      url.endsWith("/token")
        ? Response.json({ access_token: "exchanged", token_type: "Bearer", expires_in: 60 })
        : Response.json({ state: "open", email: "a@b.test", totalCents: 1 });
    const token = await service.agent({ permissions: ["orders:read"] });
    const call = { token, body: { tool: "order_get", args: { order: "A-7" } } };
    const { http, body } = await service.send("POST", "/call", call);
    expect(http).toBe(200);
    const [exchange, request, ...more] = service.seen;
    expect([exchange?.target, request?.target, more.length]).toEqual(["/token", "/api/orders/A-7", 0]);
    expect(new URLSearchParams(exchange?.body).get("subject_token")).toBe(token);
    expect(request?.headers.get("authorization")).toBe("Bearer exchanged");
    expect(JSON.stringify([...(request?.headers ?? [])])).not.toContain(token);
    expect(JSON.stringify([body, service.entries(), service.journal()])).not.toMatch(/exchanged|eyJ/);
  });
});
