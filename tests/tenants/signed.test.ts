import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { jwtVerify } from "jose";
import { createReceiptVerifier } from "../../src/approvals/receipts/receipt-verifier.ts";
import { type TenantName, TenantService } from "../support/tenant-service.ts";

/** Assertions for systems and receipts of decisions, which the service signs, say which tenant they are about. */

const ALL: readonly TenantName[] = [undefined, "acme", "globex"];
const named = ALL.map((tenant) => [tenant ?? "the service itself", tenant] as const);
const TOOL = `
name: get_order
description: Get one order
classification: read
permissions: { required: ["deeds:do"] }
target: { system: orders, http: { method: GET, path: /order } }
input: { type: object, properties: {}, additionalProperties: false }
output: { type: object, properties: { state: { type: string } }, required: [state] }
outputPolicy: { state: allow }
`;

const service = new TenantService();
const assertion = generateKeyPairSync("ed25519");
/** One key signs the receipts of all: their names alone tell them apart. */
const receipts = generateKeyPairSync("ed25519");
/** The last assertion that each system got, by the path of its base URL. */
const received = new Map<string, string>();
const system = Bun.serve({
  ...{ hostname: "127.0.0.1", port: 0 },
  fetch(request) {
    received.set(new URL(request.url).pathname, request.headers.get("x-caller-assertion") ?? "");
    return Response.json({ state: "sent" });
  },
});

const nameOf = (tenant: TenantName): string => tenant ?? "service";

function writeKey(name: string, key: KeyObject): string {
  writeFileSync(join(service.folder, name), key.export({ type: "pkcs8", format: "pem" }), { mode: 0o600 });
  return `./${name}`;
}

beforeAll(async () => {
  writeFileSync(join(service.folder, "get-order.tool.yaml"), TOOL);
  const systems = (tenant: TenantName) => {
    const baseUrl = `http://127.0.0.1:${system.port}/${nameOf(tenant)}`;
    return { orders: { http: { baseUrl, plaintext: true, addresses: ["loopback"] } } };
  };
  const tools = ["./get-order.tool.yaml"];
  const receiptKeyFile = writeKey("receipts.pem", receipts.privateKey);
  const of = (tenant: TenantName) => ({ systems: systems(tenant), approvals: { receiptKeyFile } });

  await service.start(
    {
      assertion: { issuer: "https://proxy.test", keyFile: writeKey("assertion.pem", assertion.privateKey) },
      tools: [...service.tools("service"), ...tools],
      systems: systems(undefined),
      approvals: { store: "sqlite://./approvals.sqlite", deployment: "prod", receiptKeyFile },
    },
    {
      acme: { tools: [...service.tools("acme"), ...tools], ...of("acme") },
      globex: { tools: [...service.tools("globex"), ...tools], ...of("globex") },
    },
  );
});
afterAll(async () => {
  await system.stop(true);
  await service.end();
});

test.each(named)("the system of %s gets an assertion that names its tenant", async (_, tenant) => {
  expect((await service.callTo(tenant, "get_order")).body.result).toEqual({ state: "sent" });
  const token = received.get(`/${nameOf(tenant)}/order`) ?? "";
  const { payload } = await jwtVerify(token, assertion.publicKey, { issuer: "https://proxy.test", audience: "orders" });
  expect([payload.sub, payload["tenant"], "tenant" in payload]).toEqual(["agent-7", tenant, tenant !== undefined]);
});

describe("a receipt of a decision", () => {
  const deploymentOf = (tenant: TenantName): string => (tenant === undefined ? "prod" : `prod/${tenant}`);

  test.each(named)("of %s names the deployment and the tenant, and verifies only as that", async (_, tenant) => {
    const { id: approvalId } = (await service.callTo(tenant, "do_write")).body.approval;
    const decider = await service.operatorOf(tenant, ["approvals:decide"]);
    const decided = await service.decide(approvalId, "approve", { token: decider });
    expect(decided.http).toBe(200);
    const token = await service.agentOf(tenant);
    const { body } = await service.send("GET", `/approvals/${approvalId}`, { token });
    const issuer = tenant === undefined ? "https://platform.test" : "https://tenants.test";
    const checked = await Promise.all(
      [...ALL.map(deploymentOf), "acme"].map(async (deployment) => {
        const publicKey = String(createPublicKey(receipts.privateKey).export({ type: "spki", format: "pem" }));
        const verifier = createReceiptVerifier({
          publicKey,
          deployment,
          requester: { issuer, subject: "agent-7" },
          now: Date.now,
        });
        const check = await verifier.verify(body.receipt, { approvalId });
        return check.valid ? "valid" : check.code;
      }),
    );
    const expected = ALL.map((other) => (other === tenant ? "valid" : "RECEIPT_ISSUER"));
    expect(checked).toEqual([...expected, "RECEIPT_ISSUER"]);
  });
});
