import { openSharedState } from "../../src/database/shared-state.ts";
import { DETECTOR } from "../../src/detection/sensitive.ts";
import { type Endpoint, endpointsOf } from "../../src/http/endpoint.ts";
import { createMetrics } from "../../src/http/metrics.ts";
import type { ServerOptions } from "../../src/http/server-options.ts";
import { MODULES, type ServedParts } from "../../src/modules.ts";
import { type CallerVerifier, createCallerVerifier } from "../../src/pipeline/caller-context.ts";
import { createRegistry } from "../../src/pipeline/registry.ts";

/** Every endpoint of the build, as it is declared. */
export const ENDPOINTS: readonly Endpoint[] = (
  await Promise.all(MODULES.endpoints.map((file) => file.declared()))
).flat();

/** The endpoints of the console itself, with everything that it can have. */
export const CONSOLE_ENDPOINTS = await consoleEndpoints();

async function consoleEndpoints() {
  const { openConsole } = await MODULES.console();
  const { console, listener } = openConsole({
    listener: { host: "127.0.0.1", hasTls: false, hasSocket: false, publicUrl: undefined, allowedHosts: [] },
    oidc: {
      ...{ issuer: "https://login.example", clientId: "console", scopes: ["openid"] },
      ...{ clientSecret: () => undefined, rootCert: undefined },
    },
    ...{ isDevelopment: true, clock: () => 0, journal: async () => {}, logError: () => {} },
    state: openSharedState({ now: () => 0, monotonic: () => 0 }),
    ...{ refusalLinesPerMinuteMax: () => 0, callers: createCallerVerifier({ issuers: [], clock: () => 0 }) },
  });
  await console.close();
  return listener.endpoints;
}

/** Parts of a service that a test gives its listener: others stand in for them. */
type GivenParts = { readonly [Part in keyof ServedParts]?: unknown };

interface Given extends Partial<ServerOptions>, Omit<GivenParts, keyof ServerOptions> {
  readonly callers: CallerVerifier;
  readonly clock: () => number;
  readonly journal: ServerOptions["journal"];
}

async function nowhere(): Promise<never> {
  throw new Error("no call is made here");
}

/** Options of a listener that takes no calls and has no tools. */
export function serverParts(given: Given): ServerOptions & GivenParts {
  return {
    ...{ bodyBytesMax: 1_048_576, bodyDepthMax: 32, bodyKeysMax: 1_000, requestTimeoutMs: 5_000 },
    ...{ headerBytesMax: 16_384, headersTimeoutMs: 10_000, concurrentRequestsMax: () => 2_048 },
    ...{ allowedHosts: [], allowedOrigins: [], metrics: createMetrics() },
    proxy: { call: nowhere, rejectRequest: nowhere },
    registry: createRegistry([], {} as never, () => ""),
    auditStore: () => undefined,
    ...{ notReady: () => [], readiness: async () => ({}), isEnding: () => false },
    logError: () => {},
    detector: () => DETECTOR,
    ...given,
  };
}

/** The endpoints of files whose parts the service has; the files get the parts that the test gave. */
export function endpointsWith(parts: GivenParts): Promise<readonly Endpoint[]> {
  return endpointsOf(MODULES.endpoints, parts as ServedParts);
}

/** A valid body where one is demanded: bodies are checked before tokens. */
export function bodyOf({ body, path }: Pick<Endpoint, "body" | "path">): string | undefined {
  if (body === undefined) return undefined;
  const found = BODIES.find((value) => body.safeParse(value).success);
  if (found === undefined) throw new Error(`add a valid body of ${path} to BODIES`);
  return JSON.stringify(found);
}
const BODIES: readonly unknown[] = [
  ...[{ decision: "deny" }, { mode: "default", expiresInSeconds: 60 }, { seconds: 60 }],
  { subject: { type: "user", id: "a" }, action: { name: "tools/call" }, resource: { type: "tool", id: "t" } },
  { issuer: "https://agents.example", subject: "a", reason: "drill" },
  { issuer: "https://agents.example", subject: "a", text: "Pay" },
  { kind: "all", reason: "drill" },
  { quota: "daily" },
  { tool: "a" },
];
