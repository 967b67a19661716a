import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SignJWT } from "jose";
import { parse } from "yaml";
import { makeCertificates } from "../../src/cli/development/certificates.ts";
import { AskingService, type Loose, type Reply } from "../support/asking-service.ts";
import { readConfigFile } from "../support/build.ts";
import { BLOCKS, blockNamed } from "../support/documented.ts";
import type { TokenOrder } from "../support/live-tokens.ts";
import { run } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const EXAMPLE = join(PROJECT, "docs/examples/roles");

/** The example's service. Its issuers are those of the tests, and its desk is on this machine. */
class ExampleService extends AskingService {
  #desk: Bun.Server<undefined> | undefined;

  async start(): Promise<void> {
    const certificates = await makeCertificates({ notBefore: new Date(0), notAfter: new Date("2099-01-01") });
    this.#desk = Bun.serve({
      ...{ hostname: "127.0.0.1", port: 0, tls: certificates.server },
      fetch: ({ url }) =>
        Response.json(url.endsWith("/refund") ? { state: "refunded" } : { subject: "It broke", state: "open" }),
    });
    const folder = realpathSync(this.folder);
    for (const name of ["tools", "certs"]) mkdirSync(join(folder, name));
    writeFileSync(join(folder, "certs/internal-ca.pem"), certificates.rootCert);
    for (const name of readdirSync(join(EXAMPLE, "tools"))) {
      writeFileSync(join(folder, "tools", name), readFileSync(join(EXAMPLE, "tools", name)));
    }
    const { tools, systems, roles, bindings, jwt } = parse(readFileSync(join(EXAMPLE, "stc.yaml"), "utf8"));
    systems.desk.http.baseUrl = `https://localhost:${this.#desk.port}/api`;
    systems.desk.http.addresses = ["loopback"];
    const [agents, people] = this.issuers.profiles();
    const [login, ci, operators] = jwt.issuers;
    const known: Readonly<Record<string, unknown>> = {
      [login.issuer]: agents?.["issuer"],
      [operators.issuer]: people?.["issuer"],
    };
    const issuers = [{ ...agents, groupsClaim: login.groupsClaim }, { ...agents, issuer: ci.issuer }, { ...people }];
    const placed = bindings.map((binding: Loose) => ({ ...binding, issuer: known[binding.issuer] ?? binding.issuer }));
    const approvals = { store: "sqlite://./approvals.sqlite", mode: "yolo" };
    await this.run({ tools, systems, roles, bindings: placed, jwt: { issuers }, approvals });
  }

  async call(tool: string, args: Loose, order: Partial<TokenOrder>): Promise<Reply> {
    return this.send("POST", "/call", { token: await this.agent({ permissions: [], ...order }), body: { tool, args } });
  }

  override async end(): Promise<void> {
    await super.end();
    await this.#desk?.stop(true);
  }
}

test("the configuration of the example is valid", () => {
  const { roles, bindings } = readConfigFile(join(EXAMPLE, "stc.yaml"), {});
  expect([Object.keys(roles), bindings.length]).toEqual([["support", "refunds", "reporting", "access-reviewer"], 4]);
});

describe("the example with roles", () => {
  const service = new ExampleService();
  beforeAll(() => service.start());
  afterAll(() => service.end());

  const ticket = { ticket: "T-1" };
  const refund = { order: "A-1", cents: 100 };
  const group = (name: string) => ({ realm_access: { roles: [name] } });

  test("an agent of the group reads tickets, and the audit names its role", async () => {
    const { http, body } = await service.call("ticket_read", ticket, { sub: "ann", claims: group("support-agents") });
    expect([http, body.result]).toEqual([200, { subject: "It broke", state: "open" }]);
    expect(service.entry(body.traceId)?.caller).toEqual({
      ...{ sub: "ann", iss: "https://idp.test", permissions: ["tickets:read"], roles: ["support"] },
    });
  });

  test("an agent of another group, or with the group in another claim, is refused", async () => {
    for (const claims of [group("support"), { groups: ["support-agents"] }, group("support-agents ")]) {
      const { http, body } = await service.call("ticket_read", ticket, { sub: "ann", claims });
      expect([http, body.error.code, body.error.details.missingPermissions]).toEqual([
        ...[403, "PERMISSION_DENIED"],
        ["tickets:read"],
      ]);
      expect(service.entry(body.traceId)?.caller.roles).toBeUndefined();
    }
  });

  test("only the named agent refunds", async () => {
    const claims = group("support-agents");
    const named = await service.call("order_refund", refund, { sub: "agent-7", claims });
    expect([named.http, named.body.result]).toEqual([200, { state: "refunded" }]);
    expect(service.entry(named.body.traceId)?.caller.roles).toEqual(["refunds", "support"]);
    const other = await service.call("order_refund", refund, { sub: "agent-77", claims });
    expect([other.http, other.body.error.code]).toEqual([403, "PERMISSION_DENIED"]);
  });

  test("a workflow needs the repository and the branch, from its own issuer", async () => {
    const call = async (claims: Record<string, unknown>): Promise<unknown> => {
      const { privateKey, kid } = service.issuers.agents;
      const token = await new SignJWT({ sub: "job", ...claims })
        .setProtectedHeader({ alg: "ES256", kid, typ: "JWT" })
        .setAudience("safe-tool-call")
        .setIssuedAt()
        .setExpirationTime("5 minutes")
        .sign(privateKey);
      const { http, body } = await service.send("POST", "/call", {
        token,
        body: { tool: "ticket_read", args: ticket },
      });
      return body.error?.code ?? http;
    };
    const workflow = { iss: "https://ci.example.com", repository: "example/reports", ref: "refs/heads/main" };
    expect(await call(workflow)).toBe(200);
    expect(await call({ ...workflow, ref: "refs/heads/main2" })).toBe("PERMISSION_DENIED");
    expect(await call({ ...workflow, repository: ["example/reports", 1] })).toBe("PERMISSION_DENIED");
    expect(await call({ ...workflow, iss: "https://idp.test" })).toBe("PERMISSION_DENIED");
  });

  test("an operator with the role asks for decisions at the AuthZEN endpoint", async () => {
    const ask = async (sub: string, id: string): Promise<readonly unknown[]> => {
      const body = {
        ...{ subject: { type: "user", id: "agent-7", properties: { issuer: "https://idp.test" } } },
        ...{ action: { name: "tools/call" }, resource: { type: "tool", id } },
      };
      const token = await service.person({ sub, permissions: [] });
      const reply = await service.send("POST", "/access/v1/evaluation", { token, body });
      return [reply.http, reply.body.decision ?? reply.body.error.code];
    };
    expect(await ask("gateway", "order_refund")).toEqual([200, true]);
    expect(await ask("gateway", "ticket_read")).toEqual([200, false]);
    expect(await ask("olga", "order_refund")).toEqual([403, "PERMISSION_DENIED"]);
  });

  test.skipIf(Bun.which("curl") === null)("the question of docs/decision-points.md gets its answer", async () => {
    const asked = blockNamed('docs/decision-points.md: curl -s "$STC_URL/access').text.replace(
      "https://idp.example",
      "https://idp.test",
    );
    const [answer] = BLOCKS.filter(({ name }) =>
      name.startsWith('docs/decision-points.md: { "decision": true, "context": { "planned"'),
    );
    const TOKEN = await service.person({ sub: "gateway", permissions: [] });
    const { code, out } = await run(["/bin/sh", "-c", asked], { env: { STC_URL: service.url, TOKEN } });
    expect([code, JSON.parse(out)]).toEqual([0, JSON.parse(answer?.text ?? "")]);
  });
});
