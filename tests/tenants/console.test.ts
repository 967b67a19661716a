import { afterAll, beforeAll, expect, test } from "bun:test";
import { cookieIn, outcomeOf } from "../console/console-stand.ts";
import { type TenantName, TenantService } from "../support/tenant-service.ts";

const service = new TenantService();
beforeAll(() => service.start({ server: { port: 0, console: { port: 0 } } }));
afterAll(() => service.end());

const PERMISSIONS = ["approvals:decide", "metrics:read", "tenants:read"];

interface Session {
  readonly cookie: string;
  readonly key: string;
}

/** Sends a request as the console's page does. */
function send(
  path: string,
  { method = "GET", body, session }: { method?: string; body?: unknown; session?: Session } = {},
) {
  const headers = {
    "sec-fetch-site": "same-origin",
    connection: "close",
    ...(method !== "GET" && { origin: service.consoleUrl }),
    ...(body !== undefined && { "content-type": "application/json" }),
    ...(session && { cookie: `stc_console=${session.cookie}`, "stc-console-key": session.key }),
  };
  return fetch(`${service.consoleUrl}${path}`, {
    method,
    headers,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

async function signIn(tenant: TenantName, former?: Session): Promise<Session> {
  const token = await service.operatorOf(tenant, PERMISSIONS);
  const request = { method: "POST", body: { token }, ...(former && { session: former }) };
  const answer = await send("/console/session", request);
  expect(answer.status).toBe(200);
  const { key } = (await answer.json()) as { readonly key: string };
  return { key, cookie: cookieIn(answer, "stc_console") };
}

async function outcome(path: string, session: Session, method = "GET"): Promise<string> {
  return outcomeOf(await send(path, { method, session }));
}

test("a session of the console reaches the tenant of its operator alone", async () => {
  const [acme, globex, own] = [await signIn("acme"), await signIn("globex"), await signIn(undefined)];
  const { body } = await service.callTo("acme", "do_write", { headers: { prefer: "wait=0" } });
  const path = `/approvals/${body.approval.id}`;
  expect(await outcome(path, acme)).toBe("200");
  expect(await outcome(path, globex)).toStartWith("404");
  expect(await outcome(path, own)).toStartWith("404");
  expect([await outcome("/tenants", own), await outcome("/tenants", acme)]).toEqual(["200", "404 ROUTE_NOT_FOUND"]);
});

test("a session of a tenant's operator shows who is signed in, goes on after a probe, and ends by its sign-out", async () => {
  const acme = await signIn("acme");
  const shown = await send("/console/session", { session: acme });
  expect(((await shown.json()) as { readonly sub: string }).sub).toBe("olga");
  // The probe is open to anybody, and shows details to the session's operator.
  const readiness = (await (await send("/readyz", { session: acme })).json()) as Record<string, unknown>;
  expect(Object.keys(readiness)).toContain("audit");
  expect((await send("/console", { session: acme })).status).toBe(200);
  expect(await outcome("/console/session", acme)).toBe("200");
  expect(await outcome("/console/session", acme, "DELETE")).toBe("204");
  expect(await outcome("/approvals", acme)).toBe("401 UNAUTHENTICATED");
});

test("a sign-in with the session of another tenant's operator replaces that session", async () => {
  const acme = await signIn("acme");
  const globex = await signIn("globex", acme);
  expect(await outcome("/approvals", acme)).toBe("401 UNAUTHENTICATED");
  expect(await outcome("/approvals", globex)).toBe("200");
});

test("sessions of one tenant's operator end none of another with the same issuer and name; the journal names the tenant", async () => {
  const globex = await signIn("globex");
  const first = await signIn("acme");
  for (let more = 0; more < 16; more += 1) await signIn("acme");
  expect(await outcome("/approvals", first)).toBe("401 UNAUTHENTICATED");
  expect(await outcome("/approvals", globex)).toBe("200");
  const lines = service.journalOf(undefined).filter(({ type }) => type.startsWith("console.signed"));
  expect(lines.at(-2)).toMatchObject({ type: "console.signedOut", why: "too_many", operatorTenant: "acme" });
  expect(lines.at(-1)).toMatchObject({ type: "console.signedIn", operatorTenant: "acme" });
  await signIn(undefined);
  expect(service.journalOf(undefined).at(-1)).not.toHaveProperty("operatorTenant");
});

test("an agent's token, and one of a tenant that there is not, open no session", async () => {
  for (const token of [await service.agentOf("acme"), await service.operatorOf("initech" as TenantName, PERMISSIONS)]) {
    expect(await outcomeOf(await send("/console/session", { method: "POST", body: { token } }))).toBe(
      "401 UNAUTHENTICATED",
    );
  }
});
