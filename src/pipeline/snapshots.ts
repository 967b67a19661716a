import type { Detector } from "../detection/sensitive.ts";
import type { ApprovalGate } from "./approval-gate.ts";
import type { CallerContext } from "./caller-context.ts";
import type { Registry } from "./registry.ts";

/** The result of reading configuration, manifests and keys once. A reload replaces it as a whole. */
export interface Snapshot {
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly gate: ApprovalGate;
  /** Finds secrets and personal data by the rules of this configuration. */
  readonly detector: Detector;
}

/** The snapshot that a call keeps using, whatever a reload replaces meanwhile. */
export interface Entered extends Snapshot {
  /** Every call leaves exactly once: the last call to leave a replaced snapshot closes its targets. */
  leave(): void;
}

export interface Snapshots {
  /** Returns the current snapshot for work that is not a call. */
  current(): Snapshot;
  enter(): Entered;
}
