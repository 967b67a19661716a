import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { SignJWT } from "jose";
import { z } from "zod";
import { defineTool } from "../../src/index.ts";
import { AskingService, type Reply } from "../support/asking-service.ts";
import { type TenantName, TenantService } from "../support/tenant-service.ts";
import { makeSigningKey } from "../support/tokens.ts";
import { until } from "../support/until.ts";

const WORKLOADS = { issuer: "https://workloads.test", audience: "stc-hub" } as const;
const PERMISSIONS = ["approvals:decide", "halts:read", "halts:write", "metrics:read"];

/** A sidecar: a service without a database, for the callers of one tenant. */
class Sidecar extends AskingService {
  readonly ran: string[] = [];

  async start(hub: { readonly url: string; readonly tenant: string; readonly token: string }, service: TenantService) {
    writeFileSync(join(this.folder, "token"), hub.token);
    const deed = defineTool({
      ...{ name: "do_write", description: "Does a deed", classification: "write", category: "write" },
      permissions: { required: ["deeds:do"] },
      input: z.strictObject({}),
      handler: async () => {
        this.ran.push(hub.tenant);
        return { by: hub.tenant };
      },
      output: z.object({ by: z.string() }),
      outputPolicy: { by: "allow" },
    });
    await this.run({
      tools: [deed],
      hub: { url: hub.url, tenant: hub.tenant, tokenFile: "./token", requestMs: 30_000 },
      jwt: { issuers: service.tokens.profiles().flatMap((issuer) => ofTenant(issuer, hub.tenant)) },
    });
  }
}

/** Leaves out issuers without tenants. */
function ofTenant({ tenants, ...issuer }: Record<string, unknown>, name: string): readonly object[] {
  return tenants === undefined ? [] : [{ ...issuer, tenants: { claim: "tenant", names: [name] } }];
}

/** Two sidecars, of a tenant each, at one hub that keeps its approvals as `approvals` says. */
export function testSidecars(name: string, approvals: (folder: string) => Promise<object> | object): void {
  describe(name, () => {
    const service = new TenantService();
    const workloads = makeSigningKey("ES256", "workloads-1");
    const sidecars = { acme: new Sidecar(), globex: new Sidecar() };
    type Sidecars = keyof typeof sidecars;

    beforeAll(async () => {
      const jwks = { keys: [workloads.jwk] };
      await service.start({
        approvals: await approvals(service.folder),
        hub: {
          listen: { port: 0 },
          tokens: [{ ...WORKLOADS, algorithms: ["ES256"], jwks }],
          members: [
            { subject: "acme-*", tenant: "acme" },
            { subject: "globex-*", tenant: "globex" },
          ],
        },
      });
      for (const [tenant, sidecar] of Object.entries(sidecars)) {
        await sidecar.start({ url: service.hubUrl, tenant, token: await workload(`${tenant}-1`) }, service);
      }
    }, 60_000);
    afterAll(async () => {
      for (const sidecar of Object.values(sidecars)) await sidecar.end();
      await service.end();
    });

    function workload(subject: string): Promise<string> {
      const { alg, kid, privateKey } = workloads;
      return new SignJWT({})
        .setProtectedHeader({ alg, kid, typ: "JWT" })
        .setIssuer(WORKLOADS.issuer)
        .setAudience(WORKLOADS.audience)
        .setSubject(subject)
        .setIssuedAt("1 second ago")
        .setExpirationTime("10 minutes")
        .sign(privateKey);
    }

    async function call(at: Sidecars, of: TenantName = at, approval?: { readonly id: string }): Promise<Reply> {
      const token = await service.agentOf(of);
      const body = { tool: "do_write", args: {}, ...(approval && { approval }) };
      return sidecars[at].send("POST", "/call", { token, body });
    }

    async function operator(of: TenantName, method: string, path: string, body?: unknown): Promise<Reply> {
      return service.send(method, path, { token: await service.operatorOf(of, PERMISSIONS), body });
    }

    test("equal calls ask the people of each tenant, and each runs when its own have approved", async () => {
      const asked = { acme: await call("acme"), globex: await call("globex") };
      expect([asked.acme.http, asked.globex.http]).toEqual([202, 202]);
      const inbox = async (of: TenantName): Promise<readonly string[]> =>
        (await operator(of, "GET", "/approvals")).body.approvals.map(({ id }: { id: string }) => id);
      const { id } = asked.acme.body.approval;
      expect(await inbox("acme")).toEqual([id]);
      expect(await inbox("globex")).toEqual([asked.globex.body.approval.id]);
      expect(await inbox(undefined)).toEqual([]);
      for (const other of ["globex", undefined] as const) {
        const decided = await operator(other, "POST", `/approvals/${id}/decisions`, { decision: "approve" });
        expect([decided.http, decided.body.error.code]).toEqual([404, "APPROVAL_NOT_FOUND"]);
      }
      expect((await operator("acme", "POST", `/approvals/${id}/decisions`, { decision: "approve" })).http).toBe(200);
      expect((await call("acme", "acme", { id })).body.result).toEqual({ by: "acme" });
      expect((await call("globex")).http).toBe(202);
      expect([sidecars.acme.ran, sidecars.globex.ran]).toEqual([["acme"], []]);
      const of = (tenant: TenantName) => service.journalOf(tenant).filter(({ type }) => type.startsWith("approval."));
      // The outcome follows the answer.
      await until("the outcome", () => of("acme").find(({ type }) => type === "approval.settled"));
      expect(of("acme").map(({ type }) => type)).toEqual([
        "approval.asked",
        "approval.voted",
        "approval.claimed",
        "approval.settled",
      ]);
      expect(new Set(of("globex").map(({ type }) => type))).toEqual(new Set(["approval.asked"]));
      expect(of(undefined)).toEqual([]);
    }, 60_000);

    test("a sidecar accepts the callers of its tenant alone", async () => {
      const refused = await call("acme", "globex");
      expect([refused.http, refused.body.error.code]).toEqual([401, "UNAUTHENTICATED"]);
      expect(sidecars.acme.entries().at(-1)).toMatchObject({ decision: "DENIED", error: { code: "UNAUTHENTICATED" } });
    }, 60_000);

    test("a halt of the service for a tenant stops the calls of this tenant's sidecar alone, until it is lifted", async () => {
      const set = await operator(undefined, "POST", "/halts", { kind: "all", tenant: "globex", reason: "drill" });
      expect(set.http).toBe(201);
      await until("the halt", async () => ((await call("globex")).body.error?.code === "HALTED" ? true : undefined));
      expect((await call("acme")).body.error?.code).toBeUndefined();
      await operator(undefined, "DELETE", `/halts/${set.body.halt.id}`);
      await until("its end", async () => ((await call("globex")).http === 202 ? true : undefined));
    }, 60_000);

    test("operators see the members of their tenant, those of the service all with their tenants", async () => {
      const seen = async (of: TenantName) =>
        (await operator(of, "GET", "/members")).body.members.map(
          ({ name, tenant, connected }: { name: string; tenant?: string; connected: boolean }) =>
            `${tenant} ${name} ${connected}`,
        );
      expect(await seen(undefined)).toEqual([
        "acme acme-1@https://workloads.test true",
        "globex globex-1@https://workloads.test true",
      ]);
      expect(await seen("acme")).toEqual(["undefined acme-1@https://workloads.test true"]);
    }, 60_000);
  });
}
