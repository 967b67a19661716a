/**
 * The requester of a reload. `watch` does nothing when the files have not changed; `library` is the embedder; `bundle` tries a new
 * bundle.
 */
export type ReloadRequester =
  | "watch"
  | "signal"
  | "library"
  | "bundle"
  | { readonly issuer: string; readonly subject: string };

/** A part of the configuration that one reload tries. */
export interface ReloadCandidate {
  /** Returns the configuration as it was read, with this part. @throws {StartupError} */
  readonly amend: (written: unknown) => unknown;
  /** Called when the configuration with this part is in use, before another reload reads. */
  readonly adopted: () => void;
}

export interface ReloadOrder {
  /** True for a tenant's part in a reload of the service, which was counted already: what the tenant does must not prevent it. */
  readonly isPart?: boolean;
}

export type Reloaded =
  | ({ readonly outcome: "changed" | "unchanged"; readonly generation: number; readonly sha256: string } & WithTenants)
  /** Nothing has changed, except in the parts that `each` names; each problem names its file or field. */
  | ({ readonly outcome: "refused"; readonly problems: readonly string[] } & WithTenants)
  /** Nothing was read or applied. */
  | { readonly outcome: "busy"; readonly reason: BusyReason; readonly retryAfterMs: number };

/** Outcomes of a reload by part, in a service with tenants. Each part adopts its configuration whole, or keeps the former one. */
interface WithTenants {
  readonly each?: {
    readonly service: "changed" | "unchanged" | "refused";
    readonly tenants: Readonly<Record<string, "changed" | "unchanged" | "refused" | "busy">>;
  };
}

/**
 * `rate`: too many reloads per minute; `lingering`: too many replaced snapshots with running calls; `closing`: the service
 * shuts down.
 */
export type BusyReason = "rate" | "lingering" | "closing";

export interface ConfigurationState {
  /** Counted from 1 at the start. */
  readonly generation: number;
  /** Hex, over configuration, manifests and the files that they name. */
  readonly sha256: string;
  /** ISO 8601. */
  readonly since: string;
  /** The last reload, if it was refused; `at` in ISO 8601. */
  readonly lastRefused: { readonly at: string; readonly problems: number } | null;
}

export interface ReloadEvent {
  readonly type: "configuration.changed" | "configuration.refused";
  readonly by: string;
  readonly generation: number;
  readonly problems?: readonly string[];
}
