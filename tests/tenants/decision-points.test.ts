import { afterAll, beforeAll, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { decision, evaluations, pointAt } from "../decision-points/authzen-service.ts";
import { RawServer } from "../support/raw-server.ts";
import { type TenantName, TenantService } from "../support/tenant-service.ts";

/** Tenants that have the decision points of their service, and callers with the same issuer and subject. */

const ALL: readonly TenantName[] = [undefined, "acme", "globex"];
const POLICIES = `permit(principal, action, resource)
  unless { context has tenant && context.tenant == "globex" && principal.tenant == "globex" };`;
const service = new TenantService();
let asked: RawServer;

beforeAll(async () => {
  asked = await RawServer.start();
  asked.answer = () => decision(true);
  writeFileSync(join(service.folder, "rules.cedar"), POLICIES);
  const rules = { name: "rules", cedar: { policiesFile: "./rules.cedar" } };
  await service.start({ decisionPoints: [pointAt(asked), rules] });
});
afterAll(async () => {
  await service.end();
  asked.close();
});

/** The tenants in the questions since the last look. */
function tenantsAsked(): readonly unknown[] {
  return evaluations({ ...asked, requests: asked.requests.splice(0) } as RawServer).map(
    ({ body }) => body.subject.properties.tenant,
  );
}

test("a decision point of the service is told the tenant of each call, and can decide by it", async () => {
  const codes: unknown[] = [];
  for (const tenant of ALL) {
    const { body } = await service.callTo(tenant, "do_read");
    codes.push(body.error?.code ?? body.result.by);
  }
  expect(tenantsAsked()).toEqual(ALL);
  expect(codes).toEqual(["service", "acme", "POLICY_DENIED"]);
});

test("an operator's evaluation tells it the tenant, too; without the agent's token, the call is denied before it is asked", async () => {
  for (const tenant of ALL) {
    const token = await service.operatorOf(tenant, ["policy:evaluate"]);
    for (const more of [{}, { token: await service.agentOf(tenant) }]) {
      const issuer = tenant === undefined ? "https://platform.test" : "https://tenants.test";
      const subject = { type: "user", id: "agent-7", properties: { issuer, ...more } };
      const body = { subject, action: { name: "tools/call" }, resource: { type: "tool", id: "do_read" } };
      const { http, body: decided } = await service.send("POST", "/access/v1/evaluation", { token, body });
      expect([http, decided.decision]).toEqual([200, "token" in more && tenant !== "globex"]);
    }
  }
  expect(tenantsAsked()).toEqual(ALL);
});
