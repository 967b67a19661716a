import { afterEach, beforeEach, expect, test } from "bun:test";
import { SignJWT } from "jose";
import { manifest, ReloadService } from "../support/reload-service.ts";
import { makeSigningKey } from "../support/tokens.ts";
import { until } from "../support/until.ts";

/** A reload after which an issuer speaks for a tenant no more. */

const [FORMER, PEOPLE, PLATFORM] = ["https://former.test", "https://people.test", "https://platform.test"] as const;
const TENANTS = { acme: { tools: ["./acme"] }, globex: { tools: ["./globex"] } };
const key = makeSigningKey("ES256", "key-1");

function issuersWith(names: readonly string[] | undefined) {
  const profile = (issuer: string, operators: boolean) => ({
    ...{ issuer, operators, audience: audienceOf(operators), algorithms: ["ES256"], jwks: { keys: [key.jwk] } },
  });
  const both = { names: ["acme", "globex"] };
  return [
    ...(names === undefined ? [] : [{ ...profile(FORMER, false), tenants: { names } }]),
    { ...profile(PEOPLE, true), tenants: both },
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
    jwt: { issuers: issuersWith(["acme", "globex"]) },
  });
  for (const name of ["acme", "globex"]) {
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
