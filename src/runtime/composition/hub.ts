import type { AuditLog } from "../../audit/audit-log.ts";
import { errorText, systemCode } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import type { StateOperations } from "../../database/operations.ts";
import { approvalMethods } from "../../hub/methods/approvals.ts";
import { selfMethod } from "../../hub/methods/self.ts";
import { stateMethods, statePushes, sweepState } from "../../hub/methods/state.ts";
import { ConnectedMembers, type CountedBundle, type MemberState } from "../../hub/server/connected.ts";
import { HubListener, type HubListenerOptions } from "../../hub/server/listener.ts";
import { Members } from "../../hub/server/members.ts";
import { Methods } from "../../hub/server/methods.ts";
import { RefusalLines } from "../../hub/server/refusal-lines.ts";
import { Streams } from "../../hub/server/streams.ts";
import type { Config } from "../config/config.ts";
import type { StoredApprovals } from "./approvals.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import type { HubSettings } from "./hub-settings.ts";

const REQUESTS_PER_MEMBER_MAX = 64;
const SWEEP_EVERY_MS = 60_000;

interface HubParts extends Pick<Capabilities, "clock" | "monotonic">, Pick<Hooks, "logError" | "onHubRequest"> {
  readonly settings: NonNullable<HubSettings["listen"]>;
  readonly approvals: Pick<StoredApprovals, "forMember" | "memberEvents">;
  readonly operations: StateOperations;
  readonly journal: AuditLog["journal"];
}

/** The end of a hub to which members connect. */
export interface RunningHub {
  /** `https://host:port` with the actual port. */
  readonly url: string;
  members(): readonly MemberState[];
  /** Number of members' instances whose stream is open. */
  connected(): number;
  /** Counts these by the version and the state of their bundle. */
  bundles(): readonly CountedBundle[];
  certificateExpiresAt(): number | undefined;
  /** Adopts who may connect from a changed configuration. */
  change(config: Config): void;
  close(): Promise<void>;
}

/** @throws {StartupError} when the address cannot be listened at */
export async function openHub(config: Config, parts: HubParts): Promise<RunningHub> {
  const { settings, approvals, operations, clock, monotonic, journal, logError = () => {}, onHubRequest } = parts;
  const { host, port, tls, tokens } = settings;
  let inUse = config;
  const perMemberMax = config.hub?.requestsPerMemberMax ?? REQUESTS_PER_MEMBER_MAX;
  const connected = new ConnectedMembers(clock);
  const streams = new Streams({ sources: statePushes(operations), clock, monotonic, logError });
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
    methods: new Methods(
      [...approvalMethods(approvals), ...stateMethods(operations), selfMethod(operations)],
      () => perMemberMax,
    ),
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
    const sweep = (): void => {
      sweepState(operations).catch((error: unknown) =>
        logError("what members no longer use could not be deleted", error),
      );
    };
    const sweeping = setInterval(sweep, SWEEP_EVERY_MS);
    sweeping.unref();
    return {
      url: `${tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${actual}`,
      members: () => connected.list(),
      connected: () => connected.connected,
      bundles: () => connected.bundles(),
      certificateExpiresAt: () => listener.certificateExpiresAt(),
      change(config: Config) {
        const isSame = JSON.stringify(config.hub?.members) === JSON.stringify(inUse.hub?.members);
        inUse = config;
        if (!isSame) streams.endAll();
      },
      async close() {
        clearInterval(sweeping);
        await listener.close();
      },
    };
  } catch (error) {
    streams.close();
    const reason = systemCode(error) === "EADDRINUSE" ? `${port} is in use` : errorText(error);
    throw new StartupError([`hub.listen: ${reason}`]);
  }
}
