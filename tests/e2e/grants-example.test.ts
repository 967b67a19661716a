import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parse } from "yaml";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { AskingService, type CallExtras, type Loose, type Reply } from "../support/asking-service.ts";
import { readConfigFile } from "../support/build.ts";
import { PROJECT } from "../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/grants");
const ORDER = { order: "A-7", cents: 900, reason: "late", note: "Sorry" };

/** The example's service; its API is on this machine. */
class ExampleService extends AskingService {
  readonly refunds: Loose[] = [];
  #api: Bun.Server<undefined> | undefined;

  async start(): Promise<this> {
    const certificates = await makeCertificates({ notBefore: new Date(0), notAfter: new Date("2099-01-01") });
    this.#api = Bun.serve({
      ...{ hostname: "127.0.0.1", port: 0, tls: certificates.server },
      fetch: async (request) => {
        this.refunds.push({ path: new URL(request.url).pathname, ...((await request.json()) as object) });
        return Response.json({ refund: `r-${this.refunds.length}` });
      },
    });
    for (const folder of ["tools", "certs"]) mkdirSync(join(this.folder, folder), { recursive: true });
    writeFileSync(join(this.folder, "certs/internal-ca.pem"), certificates.rootCert);
    for (const name of readdirSync(join(EXAMPLE, "tools"))) {
      writeFileSync(join(this.folder, "tools", name), readFileSync(join(EXAMPLE, "tools", name)));
    }
    const { tools, approvals, systems } = parse(readFileSync(join(EXAMPLE, "stc.yaml"), "utf8")) as Loose;
    systems.orders.http.baseUrl = `https://localhost:${this.#api.port}/api`;
    systems.orders.http.addresses = ["loopback"];
    await this.run({ tools, approvals, systems });
    return this;
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#api?.stop(true);
  }

  override agent(order: Parameters<AskingService["agent"]>[0] = {}): Promise<string> {
    return super.agent({ permissions: ["orders:refund"], ...order });
  }

  async call(args: unknown, { token, ...rest }: CallExtras = {}): Promise<Reply> {
    const body = { tool: "refund_order", args, ...rest };
    return this.send("POST", "/call", { token: token ?? (await this.agent()), body });
  }
}

const service = new ExampleService();
beforeAll(() => service.start());
afterAll(() => service.end());

test("the example's configuration and tools are valid", () => {
  expect(readConfigFile(join(EXAMPLE, "stc.yaml"), {}).tools).toEqual(["./tools"]);
  expect(dirname(EXAMPLE)).toEndWith("docs/examples");
});

test("one approval covers several refunds within its bounds, through HTTP and MCP", async () => {
  const asked = await service.call(ORDER);
  expect(asked.body.approval.options).toEqual(["cancel", "once", "bounded"]);
  const { id } = asked.body.approval;
  const approver = (sub: string, permissions: readonly string[]) => service.person({ sub, permissions });
  const decision = { scope: "bounded", grant: { runs: 4, minutes: 10 } };
  const stranger = await approver("bob", ["approvals:decide"]);
  expect((await service.decide(id, "approve", { token: stranger, ...decision })).http).toBe(403);
  const token = await approver("ann", ["approvals:decide", "approvals:payments"]);
  expect((await service.decide(id, "approve", { token, ...decision })).http).toBe(200);

  expect((await service.call(ORDER)).body).toMatchObject({ result: { refund: "r-1" } });
  expect((await service.call({ ...ORDER, order: "B-8", cents: 2_500 })).http).toBe(200);
  for (const outside of [{ cents: 2_501 }, { reason: "fraud" }, { reason: "goodwill" }]) {
    expect((await service.call({ ...ORDER, ...outside })).http).toBe(202);
  }
  const elsewhere = await service.agent({ sub: "agent-8" });
  expect((await service.call(ORDER, { token: elsewhere })).http).toBe(202);

  const params = { name: "refund_order", arguments: { ...ORDER, order: "C-9", note: "by MCP" } };
  const overMcp = await service.send("POST", "/mcp", {
    token: await service.agent(),
    headers: { accept: "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18" },
    body: { jsonrpc: "2.0", id: 1, method: "tools/call", params },
  });
  expect(overMcp.body.result.structuredContent).toEqual({ refund: "r-3" });
  expect((await service.call({ order: "D-1", cents: 1, reason: "damaged" })).http).toBe(200);
  expect((await service.call(ORDER)).http).toBe(202);
  expect(service.refunds.map(({ path, cents }) => [path, cents])).toEqual([
    ["/api/orders/A-7/refunds", 900],
    ["/api/orders/B-8/refunds", 2_500],
    ["/api/orders/C-9/refunds", 900],
    ["/api/orders/D-1/refunds", 1],
  ]);
});
