import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mint, type Verified } from "../../src/core/evidence.ts";
import { openListeners } from "../../src/http/connections/listening.ts";
import { type Endpoint, endpoint, endpointsWith, perListener, routesOf } from "../../src/http/endpoint.ts";
import type { HttpExchange } from "../../src/http/exchange.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import type { ServedTenant } from "../../src/http/server-options.ts";
import { Tenants } from "../../src/http/tenants.ts";
import { type CallerVerifier, createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import type { TenantChoice } from "../../src/pipeline/identity/tenants.ts";
import { REQUESTS_PER_TURN } from "../../src/pipeline/limits/turns.ts";
import { until } from "../support/until.ts";
import { AGENTS_SERVERS, type AgentsServer } from "./agents-servers.ts";
import { LIMITS } from "./front/front-stand.ts";
import { serverParts } from "./server-parts.ts";

const clock = (): number => 0;
const NOBODY = createCallerVerifier({ issuers: [], clock });

/** Accepts the token that is the name, and nothing else. */
function callersOf(name: string): CallerVerifier {
  const caller = {
    issuer: "https://issuer.test",
    subject: `agent of ${name}`,
    permissions: [],
    actors: [],
    expiresAt: 60,
  };
  return {
    ...NOBODY,
    verify: (authorization, ...more) =>
      authorization === `Bearer ${name}`
        ? Promise.resolve(mint<Verified>({ caller }))
        : NOBODY.verify("Bearer x", ...more),
    knows: (authorization) => authorization === `Bearer ${name}`,
  };
}

const { selfGuarded } = endpointsWith();
const declared = { summary: "", audited: "no" } as const;
const plain = { status: 200, headers: {} } as const;
/** Owners of the requests that wait. */
const waiting: string[] = [];
const counted = perListener(() => ({ requests: 0 }));

/** Endpoints whose answers name their owner. */
function endpointsOf(owner: string): readonly Endpoint[] {
  const agents = { ...declared, audience: "agents" } as const;
  return [
    selfGuarded({
      ...agents,
      ...{ method: "GET", path: "/things/:id" },
      receive: async ({ params, query }) => ({ ...plain, body: JSON.stringify([owner, params["id"], query]) }),
    }),
    selfGuarded({
      ...agents,
      ...{ method: "GET", path: `/only-${owner}` },
      receive: async () => ({ ...plain, body: owner }),
    }),
    selfGuarded({
      ...agents,
      ...{ method: "GET", path: "/counted" },
      async receive(_exchange, services) {
        const state = counted(services);
        state.requests += 1;
        return { ...plain, body: `${owner} ${state.requests}` };
      },
    }),
    selfGuarded({
      ...agents,
      ...{ method: "GET", path: "/wait" },
      async receive(_exchange, services) {
        const closing = Promise.withResolvers<void>();
        services.onClosing(closing.resolve);
        waiting.push(owner);
        await closing.promise;
        return { ...plain, body: `${owner} ends` };
      },
    }),
    endpoint({
      ...agents,
      ...{ method: "GET", path: "/me" },
      handle: ({ caller }) => ({ ...plain, body: caller.subject }),
    }),
    endpoint({
      ...agents,
      ...{ method: "GET", path: "/adapted" },
      adapt: ({ status }) => ({ ...plain, body: `${owner} ${status}` }),
      handle: () => plain,
    }),
    endpoint({
      ...declared,
      audience: "anybody",
      method: "GET",
      path: "/public",
      handle: () => ({ ...plain, body: owner }),
    }),
    endpoint({
      ...agents,
      ...{ method: "GET", path: "/stream" },
      handle: () => ({
        ...plain,
        async stream(client) {
          client.write(owner);
          client.end();
        },
      }),
    }),
  ];
}

const signed = (owner: string) =>
  selfGuarded({
    ...declared,
    ...{ method: "POST", path: "/hooks/:name", audience: "signers" },
    receive: async ({ params }) => ({ ...plain, body: `${owner} ${params["name"]}` }),
  });

const tenant = (name: string, integration: string): ServedTenant => ({
  name,
  endpoints: [...endpointsOf(name), signed(name)],
  callers: callersOf(name),
  metrics: createMetrics({ tenant: name }),
  journal: async () => {},
  logError: () => {},
  concurrentRequestsMax: () => 2_048,
  limits: LIMITS,
  isIntegration: (asked) => asked === integration,
});

async function open(http: AgentsServer) {
  const callers = callersOf("service");
  const listenerTenants = new Tenants([tenant("acme", "chat"), tenant("globex", "desk")], {
    own: callers,
    choice: { of: ({ authorization }) => /^Bearer (acme|globex)$/.exec(authorization ?? "")?.[1] },
  });
  const options = serverParts({ callers, clock, journal: async () => {}, limits: LIMITS });
  const endpoints = endpointsOf("service");
  return openListeners({ ...options, http, listenerTenants }, { host: "127.0.0.1", port: 0, endpoints });
}

describe.each(AGENTS_SERVERS)("with the HTTP server %s, a request is answered by the tenant that it names", (http) => {
  let listeners: Awaited<ReturnType<typeof open>>;
  beforeAll(async () => {
    listeners = await open(http);
  });
  afterAll(() => listeners.close());

  async function send(path: string, token?: string, method = "GET") {
    const headers = { connection: "close", ...(token !== undefined && { authorization: `Bearer ${token}` }) };
    const answer = await fetch(`${listeners.url}${path}`, { method, headers });
    return { status: answer.status, allow: answer.headers.get("allow"), body: await answer.text() };
  }

  async function all(path: string): Promise<readonly string[]> {
    const answers = await Promise.all(["service", "acme", "globex", undefined].map((token) => send(path, token)));
    return answers.map(({ body, status }) => (status === 200 ? body : String(status)));
  }

  test("with the parameters and the query of its path", async () => {
    const [service, acme, , nobody] = await all("/things/a%2Fb?c=d");
    expect(JSON.parse(acme ?? "")).toEqual(["acme", "a/b", { c: "d" }]);
    expect([service, nobody].map((text) => JSON.parse(text ?? "")[0])).toEqual(["service", "service"]);
  });

  test("whose routes alone count", async () => {
    expect(await all("/only-acme")).toEqual(["404", "acme", "404", "404"]);
    expect(await all("/only-service")).toEqual(["service", "404", "404", "service"]);
    const { status, allow, body } = await send("/only-acme", "acme", "PUT");
    expect([status, allow, JSON.parse(body).error.code]).toEqual([405, "GET", "METHOD_NOT_ALLOWED"]);
    expect((await send("/only-acme", "globex", "PUT")).status).toBe(404);
    expect(JSON.parse((await send("/things/%zz", "acme")).body).error.code).toBe("ROUTE_NOT_FOUND");
  });

  test("with the state of its own requests", async () => {
    for (const token of ["acme", "acme", "globex", "service"]) await send("/counted", token);
    expect(await all("/counted")).toEqual(["service 2", "acme 3", "globex 2", "service 3"]);
  });

  test("whose verifier checks the token", async () => {
    expect(await all("/me")).toEqual(["agent of service", "agent of acme", "agent of globex", "401"]);
    expect((await send("/me", "initech")).status).toBe(401);
  });

  test("also where answers are adapted, public, or streams", async () => {
    expect(await all("/adapted")).toEqual(["service 200", "acme 200", "globex 200", "service 401"]);
    expect(await all("/public")).toEqual(["service", "acme", "globex", "service"]);
    expect(await all("/stream")).toEqual(["service", "acme", "globex", "401"]);
  });

  test("by the name of its integration, if the request is signed", async () => {
    const to = async (name: string, token?: string) => (await send(`/hooks/${name}`, token, "POST")).body;
    expect([await to("chat"), await to("desk")]).toEqual(["acme chat", "globex desk"]);
    // A token does not matter here.
    expect(await to("chat", "globex")).toBe("acme chat");
    expect(JSON.parse(await to("unknown")).error.code).toBe("ROUTE_NOT_FOUND");
  });

  test("what waits ends when the listener closes", async () => {
    const own = await open(http);
    const answers = ["acme", "globex", "service"].map(async (token) => {
      const headers = { authorization: `Bearer ${token}`, connection: "close" };
      return (await fetch(`${own.url}/wait`, { headers })).text();
    });
    await until("the requests", () => (waiting.length === answers.length ? true : undefined));
    waiting.length = 0;
    await own.close();
    expect(await Promise.all(answers)).toEqual(["acme ends", "globex ends", "service ends"]);
  });
});

describe("requests that arrive at once", () => {
  const choice: Pick<TenantChoice, "of"> = {
    of: ({ authorization = "" }) => /^Bearer (acme|globex)/.exec(authorization)?.[1],
  };

  /** Sends these tokens in one turn of the event loop; returns those that are answered in the same turn. */
  async function inOneTurn(tokens: readonly string[]): Promise<readonly string[]> {
    const own = callersOf("service");
    const parts = serverParts({ callers: own, clock, journal: async () => {}, limits: LIMITS });
    const served = new Tenants([tenant("acme", "chat"), tenant("globex", "desk")], { own, choice });
    const dispatch = served.on({
      name: "agents",
      parts,
      own: [],
      routes: routesOf(endpointsOf("service"), "agents", parts),
    });
    const answered: string[] = [];
    const answers = tokens.map(async (token) => {
      const raw = { method: "GET", url: "/counted", headers: { authorization: `Bearer ${token}` }, socket: {} };
      const exchange = { raw, params: {} } as unknown as HttpExchange;
      await dispatch.answer(exchange, async () => plain);
      answered.push(token);
    });
    // Runs before the next turn, which is asked for later.
    const first = await new Promise<readonly string[]>((resolve) => setImmediate(() => resolve([...answered])));
    await Promise.all(answers);
    expect(answered).toHaveLength(tokens.length);
    return first;
  }

  const many = (token: string) => Array.from({ length: 3 * REQUESTS_PER_TURN }, () => token);
  const countOf = (tokens: readonly string[]) =>
    Object.fromEntries(
      Map.groupBy(tokens, (token) => token)
        .entries()
        .map(([token, all]) => [token, all.length]),
    );

  test("are answered by turns: one tenant's wait for none of another's or the service's", async () => {
    const first = await inOneTurn([...many("acme"), "globex", "service"]);
    expect(countOf(first)).toEqual({ acme: REQUESTS_PER_TURN, globex: 1, service: 1 });
  });

  test("with tokens that merely name a tenant delay none of that tenant's callers", async () => {
    const first = await inOneTurn([...many("acme, says the forger"), ...many("a forger"), "acme", "service"]);
    expect(countOf(first)).toEqual({ "acme, says the forger": REQUESTS_PER_TURN, acme: 1, service: 1 });
  });
});
