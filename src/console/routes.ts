import { z } from "zod";
import { Refusal } from "../core/errors.ts";
import type { CallerContext, EpochMs } from "../core/types.ts";
import { VERSION } from "../core/version.ts";
import { deniedAnswer, json } from "../http/answers.ts";
import { type Endpoint, type EndpointAnswer, endpoint } from "../http/endpoint.ts";
import type { ConsoleListener } from "../http/server-options.ts";
import { Console, type ConsoleOptions, signInBody } from "./console.ts";
import { type ConsolePage, loadPage } from "./page.ts";
import type { Links } from "./sessions.ts";

const consoleOnly = { listeners: ["console"], audited: "no" } as const;
const anybody = { ...consoleOnly, audience: "anybody" } as const;
const operators = { ...consoleOnly, audience: "operators", anyPermission: true } as const;

const ownSession = z.object({
  sub: z.string(),
  iss: z.string(),
  tenant: z.string().optional().describe("The tenant of the service whose operator this is."),
  permissions: z.array(z.string()),
  expiresAt: z.iso.datetime(),
  endsAt: z.iso.datetime(),
});

const IMMUTABLE = "public, max-age=31536000, immutable";

/** Returns the console, and its part of the listener. */
export function openConsole(options: ConsoleOptions): {
  readonly console: Console;
  readonly listener: ConsoleListener;
} {
  const console = new Console(options);
  return { console, listener: { ...console.listener(), endpoints: consoleEndpoints(console) } };
}

/** Returns the endpoints of the console itself. */
export function consoleEndpoints(console: Console): readonly Endpoint[] {
  return [...pages(), ...sessions(console)];
}

function pages(): readonly Endpoint[] {
  let loaded: Promise<ConsolePage> | undefined;
  const load = (): Promise<ConsolePage> => {
    loaded ??= loadPage().catch((error: unknown) => {
      loaded = undefined;
      throw error;
    });
    return loaded;
  };
  return [
    endpoint({
      ...anybody,
      method: "GET",
      path: "/console",
      // Where an OpenID provider sends the browser: the page finishes the sign-in.
      alsoAt: () => ["/console/oidc"],
      summary: "The operators' console, a page for browsers.",
      responses: { 200: { type: "text/html" } },
      async handle() {
        const { html } = await load();
        return { status: 200, headers: { "content-type": "text/html; charset=utf-8" }, body: html };
      },
    }),
    endpoint({
      ...anybody,
      method: "GET",
      path: "/console/assets/:name",
      summary: "A script or style of the console.",
      params: z.object({ name: z.string() }),
      headers: z.object({ "Accept-Encoding": z.string().optional() }),
      responses: { 200: { type: "text/plain" } },
      async handle({ params: { name }, headers: { "Accept-Encoding": accepted = "" } }): Promise<EndpointAnswer> {
        const asset = (await load()).assets.get(name);
        if (asset === undefined) return deniedAnswer(404, "ROUTE_NOT_FOUND", "The console has no such file.");
        const headers = { "content-type": asset.type, "cache-control": IMMUTABLE, vary: "Accept-Encoding" };
        if (!acceptsGzip(accepted)) return { status: 200, headers, body: asset.text };
        return { status: 200, headers: { ...headers, "content-encoding": "gzip" }, body: asset.gzip };
      },
    }),
  ];
}

/** Reads `Accept-Encoding`; a weight of 0 refuses a coding (RFC 9110, 12.5.3). */
function acceptsGzip(accepted: string): boolean {
  return accepted.split(",").some((part) => /^\s*gzip\s*(?:;\s*q=(?:0?\.\d*[1-9]\d*|1(?:\.0*)?)\s*)?$/i.test(part));
}

function sessions(console: Console): readonly Endpoint[] {
  const own: readonly Endpoint[] = [
    endpoint({
      ...anybody,
      method: "GET",
      path: "/console/settings",
      summary: "How people sign in to the console.",
      handle: () => json(200, { ...console.settings, version: VERSION }),
    }),
    endpoint({
      ...anybody,
      method: "POST",
      path: "/console/session",
      summary: "Sign in to the console. Only its own page may.",
      body: signInBody,
      responses: { 200: { schema: ownSession.extend({ key: z.string() }) } },
      audited: "change",
      async handle({ raw, body }, services) {
        const { session, grant, cookies } = await console.signIn(raw, body, services);
        const facts = sessionFacts(grant.caller, session.endsAtMs);
        return { ...json(200, { key: session.key, ...facts }), cookies };
      },
    }),
    endpoint({
      ...operators,
      method: "GET",
      path: "/console/session",
      summary: "Who is signed in to the console, and until when.",
      responses: { 200: { schema: ownSession } },
      handle({ caller, session }) {
        if (session === undefined) throw noSession();
        return json(200, sessionFacts(caller, session.endsAtMs));
      },
    }),
    endpoint({
      ...operators,
      method: "DELETE",
      path: "/console/session",
      summary: "Sign out of the console.",
      responses: { 204: { type: "none" } },
      audited: "change",
      async handle({ session }): Promise<EndpointAnswer> {
        if (session === undefined) throw noSession();
        await session.end("signed_out");
        return { status: 204, headers: {}, cookies: console.removedCookies() };
      },
    }),
  ];
  const signIn = endpoint({
    ...anybody,
    method: "POST",
    path: "/console/sign-in",
    summary: "Begin a sign-in at the OpenID provider: the URL to which the browser goes.",
    responses: { 200: { schema: z.object({ url: z.url() }) } },
    async handle({ raw }): Promise<EndpointAnswer> {
      const { url, cookies } = await console.beginSignIn(raw);
      return { ...json(200, { url }), cookies };
    },
  });
  const { links } = console;
  const link = links && linkEndpoint(links);
  return [...own, ...(console.settings.oidc ? [signIn] : []), ...(link === undefined ? [] : [link])];
}

function linkEndpoint(links: Links): Endpoint {
  return endpoint({
    ...operators,
    method: "POST",
    path: "/console/links",
    summary: "Make a link that signs in once, within a minute, with the token of this request. Development only.",
    headers: z.object({ Authorization: z.string().optional(), Host: z.string() }),
    responses: { 200: { schema: z.object({ link: z.string(), url: z.string() }) } },
    handle({ headers: { Authorization: authorization, Host: host } }) {
      if (authorization === undefined) {
        throw new Refusal("MALFORMED_REQUEST", "Send an operator's token: Authorization: Bearer <token>.");
      }
      const made = links.create(authorization.slice("Bearer ".length));
      const port = /:\d{1,5}$/.exec(host)?.[0] ?? "";
      return json(200, { link: made, url: `http://localhost${port}/console#link=${made}` });
    },
  });
}

function noSession(): Refusal {
  return new Refusal("UNAUTHENTICATED", "This request has no session of the console: it was sent with a token.");
}

function sessionFacts({ subject, issuer, tenant, permissions, expiresAt }: CallerContext, endsAtMs: EpochMs) {
  const iso = (ms: EpochMs): string => new Date(ms).toISOString();
  return {
    sub: subject,
    iss: issuer,
    ...(tenant !== undefined && { tenant }),
    permissions,
    expiresAt: iso(expiresAt * 1_000),
    endsAt: iso(endsAtMs),
  };
}
