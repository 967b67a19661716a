import type { ApprovalCallback } from "../../approvals/callback.ts";
import type { EntryDraft } from "../../audit/entry.ts";
import type { WrittenBatch } from "../../audit/journal/line-writer.ts";
import type { Capacity } from "../../core/capacity.ts";
import type { CertificateEvent, UpstreamEvent } from "../../core/target-kind.ts";
import type { ServiceHalts } from "../../halts/halts.ts";
import type { BundleFact } from "../../hub/bundle-fact.ts";
import type { HubOutcome } from "../../hub/server/served-tenants.ts";
import type { CallRecordLog } from "../../pipeline/call-record.ts";
import type { TenantChoice } from "../../pipeline/identity/tenants.ts";
import type { ReviewResult } from "../../pipeline/identity/token-review.ts";
import type { RateTable } from "../../pipeline/limits/rates-shared.ts";
import type { Config } from "../config/config.ts";
import type { ReloadCandidate, ReloadEvent } from "../reload/types.ts";
import type { HubShare, TenantHub } from "./hub-share.ts";
import type { RevocationEvent } from "./identity.ts";

/** Callbacks for the surrounding program. The library may omit all of them. */
export interface Hooks {
  readonly observe?: (entry: EntryDraft) => void;
  readonly onBatch?: (batch: WrittenBatch) => void;
  readonly log?: (line: CallRecordLog) => void;
  readonly onCertificates?: (event: CertificateEvent) => void;
  readonly onToolApprove?: ApprovalCallback | undefined;
  /** True in the library: the embedding program determines the approvers, and may change shared globals at any time. */
  readonly isEmbedded?: boolean;
  /** Called when processes that a command left running were killed. */
  readonly onSurvivors?: (survivors: { readonly command: string; readonly count: number }) => void;
  /** Called when the tools of an MCP server were quarantined or restored, when it failed, and with what it prints. */
  readonly onUpstream?: (event: UpstreamEvent) => void;
  readonly onRevocations?: (event: RevocationEvent) => void;
  readonly onTokenReview?: (result: ReviewResult) => void;
  /**
   * Reads the configuration again, with a candidate in place of the part in use; undefined: no reload.
   * @throws {StartupError}
   */
  readonly readAgain?: ((candidate?: ReloadCandidate) => Config | Promise<Config>) | undefined;
  /** Receives the result of a reload and the configuration that is in use after it. */
  readonly onReload?: (event: ReloadEvent, config: Config) => void;
  /** Where a worker counts calls together with the others of its parent; undefined in every other process. */
  readonly rateTable?: RateTable | undefined;
  /** The calls that the process carries out at once: one object for the service and its tenants; undefined without tenants. */
  readonly capacity?: Capacity | undefined;
  /** Returns the state of the fleet's bundle, which a member tells its hub. */
  readonly bundle?: (() => BundleFact | undefined) | undefined;
  /** Returns the choice of tenants by the issuers that the service uses now, for one of its tenants; undefined in the service itself. */
  readonly choice?: (() => TenantChoice) | undefined;
  /** The halts of the service that also stop calls of this tenant; undefined in the service itself. */
  readonly serviceHalts?: ServiceHalts | undefined;
  /** Lets the hub of the service serve the members of one of its tenants; undefined in the service itself. */
  readonly serviceHub?: ((share: HubShare) => TenantHub) | undefined;
  /** Receives for what the start waits, once. */
  readonly onWait?: (message: string) => void;
  /** Receives each request of a hub's member: its method, how it ended, and its duration. */
  readonly onHubRequest?: ((method: string, outcome: HubOutcome, ms: number) => void) | undefined;
  /** Receives errors that belong to no call. */
  readonly logError?: (message: string, cause: unknown) => void;
}

/** Sources of time and randomness. */
export interface Capabilities {
  /** Returns Unix milliseconds. */
  readonly clock: () => number;
  /** Returns milliseconds, never decreasing. */
  readonly monotonic: () => number;
  readonly fill: (words: BigUint64Array<ArrayBuffer>) => void;
  /** Returns a UUIDv7. */
  readonly ids: () => string;
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly random: () => number;
}
