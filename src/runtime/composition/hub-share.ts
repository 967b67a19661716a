import type { OpenedApprovals } from "../../approvals/approvals.ts";
import type { StateOperations } from "../../database/operations.ts";
import type { CountedBundle, MemberState } from "../../hub/server/connected.ts";
import type { HubOutcome, TenantMember } from "../../hub/server/served-tenants.ts";

/** The parts of a service with which a hub answers its members: of the service that has the hub, or of one of its tenants. */
export interface HubShare {
  readonly approvals: Pick<OpenedApprovals, "forMember" | "memberEvents">;
  readonly operations: StateOperations;
  readonly onHubRequest?: ((method: string, outcome: HubOutcome, ms: number) => void) | undefined;
}

/** Members of a hub. */
export interface HubMembers<Member extends MemberState = MemberState> {
  members(): readonly Member[];
  /** Number of members' instances whose stream is open. */
  connected(): number;
  /** Counts these by the version and the state of their bundle. */
  bundles(): readonly CountedBundle[];
}

/** The members that a service sees: those of a tenant, or all of a hub. */
export interface SeenMembers extends HubMembers<TenantMember> {
  /** Without those of tenants, which the tenants' own metrics count. */
  readonly own: HubMembers;
}

/** A tenant's part of a hub. */
export interface TenantHub extends SeenMembers {
  /** Ends the streams. Members of the tenant are asked to reconnect. */
  close(): void;
}
