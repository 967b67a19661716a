import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Endpoint } from "../../src/http/endpoint.ts";
import { AGENTS_SERVERS } from "../http/agents-servers.ts";
import { bodyOf, CONSOLE_ENDPOINTS, ENDPOINTS } from "../http/server-parts.ts";
import type { Reply } from "../support/asking-service.ts";
import { TENANTS, TenantsWorld } from "./tenants-world.ts";

/** Tokens that are genuine but for the tenant that they name, at every endpoint. */

const ID = "01900000-0000-7000-8000-000000000000";
/** A token that is for another service altogether is refused in the same words. */
const MESSAGE = "The token is not meant for this service: ask for one with the issuer and audience that it expects.";

const WRONG: readonly (readonly [title: string, claim: unknown])[] = [
  ["no tenant", undefined],
  ["a tenant that is not there", "initech"],
  ["a list", ["acme"]],
  ["a list of both", [...TENANTS]],
  ["an object", { acme: true }],
  ["null", null],
  ["a number", 1],
  ["true", true],
  ["the empty text", ""],
  ["another case", "Acme"],
  ["a space after it", "acme "],
  ["a space before it", " acme"],
  ["a line end", "acme\n"],
  ["a NUL", "acme\0"],
  ["a sign without width", "ac\u200bme"],
  ["a Cyrillic letter", "\u0430cme"],
  ["full-width letters", "\uff41\uff43\uff4d\uff45"],
  ["two names", "acme,globex"],
  ["a path", "../acme"],
  ["a member of every object", "constructor"],
  ["the prototype", "__proto__"],
];

function reasonFor(claim: unknown): string {
  if (claim === undefined) return "the claim is missing";
  return typeof claim === "string" ? "the issuer may not speak for the one that is named" : "the claim is not a text";
}

/** Endpoints that no service of this test has. */
const MISSING = new Set(["/members", "/reload"]);

const guarded = ENDPOINTS.filter(
  ({ audience, path }) => audience !== "anybody" && audience !== "signers" && !MISSING.has(path),
).map((endpoint) => [`${endpoint.method} ${endpoint.path}`, endpoint] as const);

for (const http of AGENTS_SERVERS) {
  describe(http, () => {
    const world = new TenantsWorld();
    beforeAll(() => world.start({ http }));
    afterAll(() => world.end());

    const tokenFor = ({ audience }: Endpoint, claim: unknown): Promise<string> =>
      audience === "operators" ? world.operatorOf(claim) : world.agentOf(claim);

    test.each(guarded)(
      "%s refuses every claim that names none of its tenants in the same words",
      async (name, endpoint) => {
        const lines = () => TENANTS.map((tenant) => [world.entriesOf(tenant).length, world.journalOf(tenant).length]);
        const [before, own] = [lines(), world.entriesOf(undefined).length];
        for (const [title, claim] of WRONG) {
          const { http: status, body } = await sent(world, endpoint, await tokenFor(endpoint, claim));
          const { code, message } = codeOf(body);
          expect([title, status, code, message]).toEqual([title, 401, "UNAUTHENTICATED", MESSAGE]);
        }
        expect(lines()).toEqual(before);
        // Only calls are recorded: by the service itself, with no caller.
        const recorded = world.entriesOf(undefined).slice(own);
        const isCall = name === "POST /call" || name === "POST /mcp";
        expect(recorded.map(({ error, caller }) => [error?.code, caller.sub])).toEqual(
          isCall ? WRONG.map(() => ["UNAUTHENTICATED", "anonymous"]) : [],
        );
        // The audit says why, in words that have nothing of the claim.
        expect(recorded.map(({ decisionReasons }) => decisionReasons)).toEqual(
          isCall ? WRONG.map(([, claim]) => [{ point: "tenant", verdict: "deny", reason: reasonFor(claim) }]) : [],
        );
      },
    );

    test("a tenant's issuer cannot speak for the other tenant", async () => {
      const of = async (claim: string): Promise<Reply> =>
        world.send("POST", "/call", {
          token: await world.acmesOwn(claim),
          body: { tool: "notes_read", args: { text: "a" } },
        });
      expect((await of("acme")).http).toBe(200);
      expect((await of("globex")).body.error).toMatchObject({ code: "UNAUTHENTICATED", message: MESSAGE });
      expect(world.done).toEqual({ acme: ["a"], globex: [] });
    });

    test.each(["agents", "console"] as const)(
      "on the listener %s, a forged token learns nothing of which tenants there are: every name gets one answer at each route",
      async (listener) => {
        const different: unknown[] = [];
        for (const endpoint of ROUTES) {
          const answers = await Promise.all(
            ["acme", "globex", "initech", undefined].map(async (tenant) => {
              const order = { kind: "other key", sub: "eve", permissions: [], claims: { tenant } } as const;
              const reply = await sent(world, endpoint, await world.issuers.token(order), listener);
              return shown(reply);
            }),
          );
          if (new Set(answers).size > 1) different.push([endpoint.method, endpoint.path, answers]);
        }
        expect(different).toEqual([]);
      },
    );
  });
}

type Route = Pick<Endpoint, "method" | "path" | "body">;

const ROUTES: readonly Route[] = [
  ...[...ENDPOINTS, ...CONSOLE_ENDPOINTS],
  { method: "GET", path: "/nothing" },
  // Another method than that of the service's own endpoint.
  { method: "PUT", path: "/tenants" },
];

/** Sends a valid request to an endpoint. */
function sent(
  world: TenantsWorld,
  route: Route,
  token: string,
  listener: "agents" | "console" = "agents",
): Promise<Reply> {
  const { method, path } = route;
  const isMcp = path === "/mcp";
  const body = CALLS[path] ?? bodyOf(route);
  const stream = { accept: "text/event-stream", "mcp-protocol-version": "2025-11-25" };
  const url = listener === "agents" ? world.url : world.consoleUrl;
  return world.send(method, new URL(path.replaceAll(/:\w+/g, ID), url).href, {
    token,
    ...(method === "GET" ? isMcp && { headers: stream } : body !== undefined && { body }),
  });
}

const CALLS: Readonly<Record<string, unknown>> = {
  "/call": { tool: "notes_read", args: { text: "a" } },
  "/console/session": { token: "x" },
  "/console/sign-in": {},
  "/mcp": { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "notes_read", arguments: { text: "a" } } },
};

function codeOf(body: Reply["body"]): { readonly code: string; readonly message: string } {
  const { error } = body;
  return typeof error.code === "number"
    ? { code: error.data.code, message: error.message.replace(`${error.data.code}: `, "") }
    : error;
}

function shown({ http, headers, body }: Reply): string {
  const text = typeof body === "string" ? body : JSON.stringify(body).replace(/"traceId":"[^"]+"/, "");
  return [http, headers.get("allow"), headers.get("www-authenticate"), text].join("\n");
}
