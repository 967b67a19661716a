import { afterEach, beforeEach, expect, test } from "bun:test";
import { SignJWT } from "jose";
import { readKeys, signMessage } from "../../src/approvals/notify/signature.ts";
import { journalEntries } from "../support/audit-files.ts";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { auditDirOf } from "../support/tenant-service.ts";
import { makeSigningKey } from "../support/tokens.ts";
import { until } from "../support/until.ts";

/** A reload after which an issuer speaks for a tenant no more. */

const [FORMER, PEOPLE, PLATFORM] = ["https://former.test", "https://people.test", "https://platform.test"] as const;
const SECRET = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
const decisions = { secretFile: "./key", people: { U1: { issuer: PEOPLE, subject: "olga" } } };
const TENANTS = {
  acme: { tools: ["./acme"], approvals: { webhooks: [{ name: "chat", decisions }] } },
  globex: { tools: ["./globex"] },
};
const BOTH = ["acme", "globex"];
const key = makeSigningKey("ES256", "key-1");

/** Returns the issuers' profiles. `former`, `people`: the tenants that these issuers speak for; undefined: the issuer is not configured. */
function issuersWith(former: readonly string[] | undefined, people: readonly string[] = BOTH) {
  const profile = (issuer: string, operators: boolean) => ({
    ...{ issuer, operators, audience: audienceOf(operators), algorithms: ["ES256"], jwks: { keys: [key.jwk] } },
  });
  return [
    ...(former === undefined ? [] : [{ ...profile(FORMER, false), tenants: { names: former } }]),
    { ...profile(PEOPLE, true), tenants: { names: people } },
    profile(PLATFORM, true),
  ];
}

function audienceOf(operators: boolean): string {
  return operators ? "safe-tool-call-operators" : "safe-tool-call";
}

function tokenOf(issuer: string, permissions: readonly string[]): Promise<string> {
  const isPlatform = issuer === PLATFORM;
  return new SignJWT({ sub: `somebody of ${issuer}`, permissions, ...(!isPlatform && { tenant: "acme" }) })
    .setProtectedHeader({ alg: "ES256", kid: "key-1", typ: "JWT" })
    .setIssuer(issuer)
    .setAudience(audienceOf(issuer !== FORMER))
    .setIssuedAt("1 second ago")
    .setExpirationTime("10 minutes")
    .sign(key.privateKey);
}

let service: ReloadService;

beforeEach(async () => {
  service = new ReloadService({
    ...{ tools: [], tenants: TENANTS, approvals: { store: "sqlite://./approvals.sqlite" } },
    jwt: { issuers: issuersWith(BOTH) },
  });
  service.write("key", SECRET);
  for (const name of BOTH) {
    service.write(`${name}/hello.ts`, manifest({ says: `${name} 1` }));
    service.write(`${name}/send.ts`, manifest({ name: "send", classification: "write", says: `${name} sent` }));
  }
  await service.start();
});
afterEach(() => service.end());

const broken = { ...TENANTS, acme: { ...TENANTS.acme, limits: { oddMax: 1 } } };

test.each([
  ["that adopts it", TENANTS, ["globex"], "changed"],
  ["whose own part is refused", broken, ["globex"], "refused"],
  ["without the issuer, whose own part is refused", broken, undefined, "refused"],
])("the reload ends cached tokens and waiting calls of a tenant %s", async (_title, tenants, names, outcome) => {
  const [agent, operator] = [await tokenOf(FORMER, ["hello:say"]), await tokenOf(PEOPLE, ["approvals:decide"])];
  expect(await service.says({}, agent)).toBe("acme 1");
  const waiting = fetch(`${service.running.url}/call`, {
    method: "POST",
    headers: { authorization: `Bearer ${agent}`, "content-type": "application/json", prefer: "wait=50" },
    body: JSON.stringify({ tool: "send", args: {} }),
  });
  const id = await until("an approval request", async () => {
    const { body } = await service.send("GET", "/approvals", { token: operator });
    return body.approvals[0]?.id;
  });
  service.configure({ jwt: { issuers: issuersWith(names) }, tenants });
  const reloaded = await service.reload(await tokenOf(PLATFORM, ["service:reload"]));
  expect([reloaded.body.service, reloaded.body.tenants.acme]).toEqual(["changed", outcome]);
  expect(await service.says({}, agent)).toBe("UNAUTHENTICATED");
  const decided = await service.send("POST", `/approvals/${id}/decisions`, {
    ...{ token: operator, body: { decision: "approve" } },
  });
  expect(decided.http).toBe(200);
  const ended = await waiting;
  expect([ended.status, await ended.json()]).toMatchObject([401, { error: { code: "UNAUTHENTICATED" } }]);
});

test("the reload ends decisions that the tenant's integration signs for a person of a lost issuer", async () => {
  const [agent, operator] = [await tokenOf(FORMER, ["hello:say"]), await tokenOf(PEOPLE, ["approvals:decide"])];
  const { body } = await service.call({ tool: "send" }, agent);
  const path = `/approvals/${body.approval.id}`;
  const found = await service.send("GET", path, { token: operator });
  const reload = async (people: readonly string[]): Promise<string> => {
    service.configure({ jwt: { issuers: issuersWith(BOTH, people) }, tenants: TENANTS });
    const reloaded = await service.reload(await tokenOf(PLATFORM, ["service:reload"]));
    return reloaded.body.tenants.acme;
  };
  const { planDigest } = found.body.approval;
  // Without the person's issuer, the tenant's part has a problem: the integration stays the former one.
  expect(await reload(["globex"])).toBe("refused");
  expect(await decide({ approvalId: body.approval.id, planDigest })).toEqual([
    403,
    { code: "PERMISSION_DENIED", message: "This person is no longer an operator." },
  ]);
  expect((await service.send("GET", path, { token: operator })).http).toBe(401);
  expect((await service.send("GET", path, { token: agent })).body.approval.state).toBe("pending");
  expect(journalEntries(auditDirOf(service.folder, "acme")).at(-1)).toMatchObject({
    ...{ type: "approval.forged", webhook: "chat", reason: "revoked_user", code: "PERMISSION_DENIED" },
  });
  expect(await reload(BOTH)).not.toBe("refused");
  expect((await decide({ approvalId: body.approval.id, planDigest }))[0]).toBe(200);
});

/** An approval by the person U1 of acme's integration. */
async function decide(about: { readonly approvalId: string; readonly planDigest: string }) {
  const body = JSON.stringify({ ...about, decision: "approve", decidedBy: { user: "U1" } });
  const signed = signMessage(
    { id: crypto.randomUUID(), body },
    { keys: readKeys(SECRET, "verify"), nowMs: Date.now() },
  );
  const headers = { ...signed, "content-type": "application/json" };
  const answer = await fetch(`${service.running.url}/webhooks/chat/decisions`, { method: "POST", headers, body });
  const { error } = (await answer.json()) as ReturnType<typeof JSON.parse>;
  return [answer.status, error && { code: error.code, message: error.message }];
}
