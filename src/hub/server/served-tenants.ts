import type { HubMember } from "../contract.ts";
import { HubUnavailable } from "../errors.ts";
import type { ConnectedMembers, CountedBundle, MemberState } from "./connected.ts";
import type { Methods } from "./methods.ts";
import type { Streams } from "./streams.ts";

/** Outcome of a request, for the metrics. */
export type HubOutcome = "answered" | "refused" | "busy" | "unavailable" | "unauthenticated";

/** The parts that answer the members of one tenant, or of the service itself. No part is another tenant's. */
export interface Served {
  readonly methods: Methods;
  readonly streams: Streams;
  readonly connected: ConnectedMembers;
  readonly observe?: ((method: string, outcome: HubOutcome, ms: number) => void) | undefined;
}

/** An instance of a member, with its tenant. */
export interface TenantMember extends MemberState {
  /** Undefined for a member of the service itself. */
  readonly tenant?: string | undefined;
}

/** The service itself and its tenants, as their members reach them. */
export class ServedTenants {
  readonly own: Served;
  readonly #tenants = new Map<string, Served>();

  constructor(own: Served) {
    this.own = own;
  }

  /** Serves the members of a tenant from now on. */
  add(tenant: string, served: Served): void {
    if (this.#tenants.has(tenant)) throw new Error(`the hub serves the tenant ${tenant} already`);
    this.#tenants.set(tenant, served);
  }

  /** Ends the streams of a tenant, and serves its members no longer. */
  remove(tenant: string): void {
    this.#tenants.get(tenant)?.streams.close();
    this.#tenants.delete(tenant);
  }

  /**
   * Returns the parts that answer the member. A tenant is not there while it starts, and while it ends.
   *
   * @throws {HubUnavailable}
   */
  of({ tenant }: Pick<HubMember, "tenant">): Served {
    const served = tenant === undefined ? this.own : this.#tenants.get(tenant);
    if (served === undefined) throw new HubUnavailable("the hub does not serve the member's tenant now");
    return served;
  }

  /** Returns the instances of all members. */
  members(): readonly TenantMember[] {
    const own: readonly TenantMember[] = this.own.connected.list();
    const others = [...this.#tenants].flatMap(([tenant, { connected }]) =>
      connected.list().map((member) => ({ ...member, tenant })),
    );
    return [...own, ...others];
  }

  /** Number of instances of all members whose stream is open. */
  get connected(): number {
    return this.#all().reduce((sum, { connected }) => sum + connected.connected, 0);
  }

  /** The counts of each tenant, one after another. */
  bundles(): readonly CountedBundle[] {
    return this.#all().flatMap(({ connected }) => connected.bundles());
  }

  /** Ends all streams: members open them again, and are identified again. */
  endStreams(): void {
    for (const { streams } of this.#all()) streams.endAll();
  }

  close(): void {
    for (const { streams } of this.#all()) streams.close();
  }

  #all(): readonly Served[] {
    return [this.own, ...this.#tenants.values()];
  }
}
