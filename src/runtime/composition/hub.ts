import { randomBytes } from "node:crypto";
import type { AuditLog } from "../../audit/audit-log.ts";
import { errorText, systemCode } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import { present } from "../../core/present.ts";
import type { CertificateEvent } from "../../core/target-kind.ts";
import { VERSION } from "../../core/version.ts";
import { OPERATED_ADDRESSES } from "../../egress/addresses.ts";
import { RotatingClient } from "../../egress/rotating-client.ts";
import { openHubClient } from "../../hub/client/client.ts";
import type { HubClient, HubMethod, PushSource } from "../../hub/contract.ts";
import { ConnectedMembers, type MemberState } from "../../hub/server/connected.ts";
import { HubListener, type HubListenerOptions } from "../../hub/server/listener.ts";
import { Members } from "../../hub/server/members.ts";
import { Methods } from "../../hub/server/methods.ts";
import { RefusalLines } from "../../hub/server/refusal-lines.ts";
import { Streams } from "../../hub/server/streams.ts";
import type { Config } from "../config/config.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import type { HubSettings } from "./hub-settings.ts";

const REQUESTS_PER_MEMBER_MAX = 64;
const REQUEST_MS = 1_000;
/** Connections of a member for requests; the stream has one of its own. */
const CONNECTIONS_MAX = 8;
const ID_BYTES = 16;

interface HubParts extends Pick<Capabilities, "clock" | "monotonic">, Pick<Hooks, "logError" | "onHubRequest"> {
  readonly settings: NonNullable<HubSettings["listen"]>;
  readonly methods: readonly HubMethod[];
  readonly sources: readonly PushSource[];
  readonly journal: AuditLog["journal"];
}

/** The end of a hub to which members connect. */
export interface RunningHub {
  /** `https://host:port` with the actual port. */
  readonly url: string;
  members(): readonly MemberState[];
  /** Number of members' instances whose stream is open. */
  connected(): number;
  certificateExpiresAt(): number | undefined;
  /** Adopts who may connect from a changed configuration. */
  change(config: Config): void;
  close(): Promise<void>;
}

/** @throws {StartupError} when the address cannot be listened at */
export async function openHub(config: Config, parts: HubParts): Promise<RunningHub> {
  const { settings, methods, sources, clock, monotonic, journal, logError = () => {}, onHubRequest } = parts;
  const { host, port, tls, tokens } = settings;
  let inUse = config;
  const perMemberMax = config.hub?.requestsPerMemberMax ?? REQUESTS_PER_MEMBER_MAX;
  const connected = new ConnectedMembers(clock);
  const streams = new Streams({ sources, clock, monotonic, logError });
  const options: HubListenerOptions = {
    host,
    port,
    tls,
    members: new Members({
      rules: () => inUse.hub?.members ?? [],
      issuers: () => inUse.jwt.issuers.flatMap(({ issuer, operators }) => (operators ? [] : [issuer])),
      tokens,
      clock,
    }),
    methods: new Methods(methods, () => perMemberMax),
    streams,
    connected,
    refusals: new RefusalLines({ journal, clock }),
    clock,
    monotonic,
    logError,
    observe: onHubRequest,
  };
  try {
    const { listener, port: actual } = await HubListener.open(options);
    return {
      url: `${tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${actual}`,
      members: () => connected.list(),
      connected: () => connected.connected,
      certificateExpiresAt: () => listener.certificateExpiresAt(),
      change(config: Config) {
        inUse = config;
      },
      close: () => listener.close(),
    };
  } catch (error) {
    streams.close();
    const reason = systemCode(error) === "EADDRINUSE" ? `${port} is in use` : errorText(error);
    throw new StartupError([`hub.listen: ${reason}`]);
  }
}

interface MemberParts extends Pick<Capabilities, "clock" | "monotonic" | "random"> {
  readonly settings: NonNullable<HubSettings["member"]>;
  readonly log: (message: string, cause: unknown) => void;
  readonly onCertificates?: ((event: CertificateEvent) => void) | undefined;
  /** Returns the id of this process's log. */
  readonly instance: () => string | undefined;
  /** Returns the version of the configuration in use; undefined before there is one. */
  readonly policyVersion: () => string | undefined;
}

/** Connects to the hub. The start does not wait for it. */
export function openMember({ hub: section }: Config, parts: MemberParts): HubClient {
  const { settings, clock, monotonic, random, log, onCertificates, instance, policyVersion } = parts;
  const { readToken: token, secured } = settings;
  const url = new URL(present(section?.url, "the hub's URL"));
  const connections = new RotatingClient({
    system: "hub",
    url,
    addresses: OPERATED_ADDRESSES,
    tls: url.protocol === "https:" ? (secured?.tls ?? {}) : undefined,
    certificates: secured?.certificates,
    connectionsMax: CONNECTIONS_MAX,
  });
  connections.watch({ now: clock, report: onCertificates ?? (() => {}) });
  return openHubClient({
    url,
    connections,
    token,
    facts: () => ({ instance: instance() ?? "unknown", version: VERSION, policyVersion: policyVersion() }),
    newId: () => randomBytes(ID_BYTES).toString("base64url"),
    monotonic,
    random,
    log,
    requestMs: section?.requestMs ?? REQUEST_MS,
  });
}
