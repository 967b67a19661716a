import { z } from "zod";
import { OPERATED_ADDRESSES } from "../../src/egress/addresses.ts";
import type { EgressTls } from "../../src/egress/client.ts";
import { RotatingClient } from "../../src/egress/rotating-client.ts";
import { openHubClient } from "../../src/hub/client/client.ts";
import { HubConnection, type HubConnectionOptions } from "../../src/hub/client/connection.ts";
import type { HubMethod, PushSource } from "../../src/hub/contract.ts";
import { ConnectedMembers } from "../../src/hub/server/connected.ts";
import { HubListener, type HubListenerOptions } from "../../src/hub/server/listener.ts";
import { type MemberRule, Members } from "../../src/hub/server/members.ts";
import { MethodRoom, Methods } from "../../src/hub/server/methods.ts";
import { RefusalLines } from "../../src/hub/server/refusal-lines.ts";
import { type Served, ServedTenants } from "../../src/hub/server/served-tenants.ts";
import { Streams } from "../../src/hub/server/streams.ts";
import type { CallerVerifier } from "../../src/pipeline/caller-context.ts";

interface ServedParts {
  readonly methods?: readonly HubMethod[];
  readonly sources?: readonly PushSource[];
}

interface HubOptions extends ServedParts {
  readonly tenants?: Readonly<Record<string, ServedParts>>;
  readonly rules?: readonly MemberRule[];
  readonly tls?: HubListenerOptions["tls"];
  readonly tokens?: Pick<CallerVerifier, "verify">;
  readonly perMemberMax?: number;
  readonly port?: number;
}

export type Line = { readonly type: string; readonly [member: string]: unknown };

/** A hub with methods of the test. */
export async function openHub({ rules = [], tenants = {}, ...options }: HubOptions = {}) {
  const clock = Date.now;
  const monotonic = (): number => performance.now();
  const lines: Line[] = [];
  const errors: unknown[] = [];
  const logError = (message: string, error: unknown): void => void errors.push(`${message}: ${error}`);
  const observed: string[] = [];
  const room = new MethodRoom();
  const servedOf = ({ methods = [], sources = [] }: ServedParts, at = ""): Served => ({
    methods: new Methods(methods, { perMemberMax: () => options.perMemberMax ?? 64, room }),
    streams: new Streams({ sources, clock, monotonic, logError }),
    connected: new ConnectedMembers(clock),
    observe: (method, outcome) => void observed.push(`${at}${method} ${outcome}`),
  });
  const served = new ServedTenants(servedOf(options));
  for (const [tenant, parts] of Object.entries(tenants)) served.add(tenant, servedOf(parts, `${tenant}: `));
  const { connected, streams } = served.own;
  const { listener, port } = await HubListener.open({
    host: "127.0.0.1",
    port: options.port ?? 0,
    tls: options.tls,
    members: new Members({
      rules: () => rules,
      issuers: () => ["https://callers.test"],
      tokens: options.tokens,
      clock,
    }),
    served,
    refusals: new RefusalLines({ clock, journal: async (line) => void lines.push(line) }),
    clock,
    monotonic,
    logError,
  });
  return { listener, port, lines, errors, served, connected, streams, observed };
}

/** A method whose requests stay open until `open` is called. */
export function slowMethod() {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  let running = 0;
  const method: HubMethod<unknown> = {
    name: "slow",
    input: z.unknown(),
    async handle() {
      running += 1;
      await gate;
      return { value: null, now: 1 };
    },
  };
  return { method, open, running: () => running };
}

interface MemberOptions {
  readonly port: number;
  readonly scheme?: "http" | "https";
  readonly tls?: EgressTls;
  readonly token?: () => string;
  readonly tenant?: string;
  readonly instance?: string;
  readonly requestMs?: number;
  readonly monotonic?: () => number;
  readonly newId?: () => string;
}

type Reached = Omit<MemberOptions, "requestMs" | "monotonic" | "newId">;

function reach({ port, scheme = "http", tls, token, tenant, instance = "log-1" }: Reached): HubConnectionOptions {
  const url = new URL(`${scheme}://${scheme === "https" ? "localhost" : "127.0.0.1"}:${port}`);
  return {
    url,
    connections: new RotatingClient({
      system: "hub",
      url,
      addresses: OPERATED_ADDRESSES,
      tls: scheme === "https" ? (tls ?? {}) : undefined,
      connectionsMax: 8,
      keepsUnfinished: true,
    }),
    ...(token !== undefined && { token }),
    tenant,
    facts: () => ({ instance, version: "0.0.0", policyVersion: "abc" }),
  };
}

/** A member that sends each request once. */
export function openConnection(options: Reached): HubConnection {
  return new HubConnection(reach(options));
}

export function openMember({
  requestMs = 60_000,
  monotonic = () => performance.now(),
  newId = () => crypto.randomUUID(),
  ...reached
}: MemberOptions) {
  return openHubClient({
    ...reach(reached),
    monotonic,
    random: Math.random,
    newId,
    log: () => {},
    requestMs,
  });
}
