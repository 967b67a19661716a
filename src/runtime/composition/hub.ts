import type { AuditLog } from "../../audit/audit-log.ts";
import { errorText, systemCode } from "../../core/error-text.ts";
import { StartupError } from "../../core/errors.ts";
import type { StateOperations } from "../../database/operations.ts";
import { approvalMethods } from "../../hub/methods/approvals.ts";
import { withMemberHalts } from "../../hub/methods/member-halts.ts";
import { selfMethod } from "../../hub/methods/self.ts";
import { stateMethods, statePushes, sweepState } from "../../hub/methods/state.ts";
import { ConnectedMembers } from "../../hub/server/connected.ts";
import { HubListener } from "../../hub/server/listener.ts";
import { Members } from "../../hub/server/members.ts";
import { MethodRoom, Methods } from "../../hub/server/methods.ts";
import { RefusalLines } from "../../hub/server/refusal-lines.ts";
import { type Served, ServedTenants } from "../../hub/server/served-tenants.ts";
import { Streams } from "../../hub/server/streams.ts";
import type { Config } from "../config/config.ts";
import { agentIssuers } from "../config/tenants.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import type { HubSettings } from "./hub-settings.ts";
import type { HubMembers, HubShare, SeenMembers, TenantHub } from "./hub-share.ts";

const REQUESTS_PER_MEMBER_MAX = 64;
const SWEEP_EVERY_MS = 60_000;

interface HubParts extends HubShare, Pick<Capabilities, "clock" | "monotonic">, Pick<Hooks, "logError"> {
  readonly settings: NonNullable<HubSettings["listen"]>;
  readonly journal: AuditLog["journal"];
}

/** The end of a hub to which members connect. */
export interface RunningHub extends SeenMembers {
  /** Answers the members of a tenant from now on. Until then, they are asked to reconnect. */
  serve(tenant: string, share: HubShare): TenantHub;
  /** `https://host:port` with the actual port. */
  readonly url: string;
  certificateExpiresAt(): number | undefined;
  /** Adopts who may connect from a changed configuration. */
  change(config: Config): void;
  close(): Promise<void>;
}

/** @throws {StartupError} when the address cannot be listened at */
export async function openHub(config: Config, parts: HubParts): Promise<RunningHub> {
  const { settings, clock, monotonic, journal, logError = () => {} } = parts;
  const { host, port, tls, tokens } = settings;
  let inUse = config;
  const perMemberMax = config.hub?.requestsPerMemberMax ?? REQUESTS_PER_MEMBER_MAX;
  const room = new MethodRoom();
  const swept = new Set<StateOperations>();
  const servedOf = ({ approvals, operations, onHubRequest }: HubShare): Served => {
    swept.add(operations);
    const methods = [...approvalMethods(approvals), ...stateMethods(operations), selfMethod(operations)];
    return {
      methods: new Methods(methods, { perMemberMax: () => perMemberMax, room }),
      streams: new Streams({ sources: statePushes(operations), clock, monotonic, logError }),
      connected: new ConnectedMembers(clock),
      observe: onHubRequest,
    };
  };
  const served = new ServedTenants(servedOf({ ...parts, operations: withMemberHalts(parts.operations) }));
  const members = new Members({
    rules: () => inUse.hub?.members ?? [],
    issuers: (tenant) => agentIssuers({ jwt: inUse.jwt, tenant, hub: undefined }).map(({ issuer }) => issuer),
    tokens,
    clock,
  });
  const refusals = new RefusalLines({ journal, clock });
  try {
    const opening = { host, port, tls, members, served, refusals, clock, monotonic, logError };
    const { listener, port: actual } = await HubListener.open(opening);
    const sweep = async (): Promise<void> => {
      for (const operations of [...swept]) {
        await sweepState(operations).catch((error: unknown) =>
          logError("what members no longer use could not be deleted", error),
        );
      }
    };
    const sweeping = setInterval(() => void sweep(), SWEEP_EVERY_MS);
    sweeping.unref();
    return {
      url: `${tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${actual}`,
      serve(name, { operations, ...share }) {
        const own = withMemberHalts(operations, { name, service: parts.operations });
        const tenant = servedOf({ ...share, operations: own });
        served.add(name, tenant);
        const members = membersOf(tenant);
        return {
          ...members,
          own: members,
          close() {
            swept.delete(own);
            served.remove(name);
          },
        };
      },
      own: membersOf(served.own),
      members: () => served.members(),
      connected: () => served.connected,
      bundles: () => served.bundles(),
      certificateExpiresAt: () => listener.certificateExpiresAt(),
      change(config: Config) {
        const isSame = JSON.stringify(config.hub?.members) === JSON.stringify(inUse.hub?.members);
        inUse = config;
        if (!isSame) served.endStreams();
      },
      async close() {
        clearInterval(sweeping);
        await listener.close();
      },
    };
  } catch (error) {
    served.close();
    const reason = systemCode(error) === "EADDRINUSE" ? `${port} is in use` : errorText(error);
    throw new StartupError([`hub.listen: ${reason}`]);
  }
}

function membersOf({ connected }: Served): HubMembers {
  return {
    members: () => connected.list(),
    connected: () => connected.connected,
    bundles: () => connected.bundles(),
  };
}
