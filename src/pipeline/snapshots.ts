import type { ApprovalGate } from "./approval-gate.ts";
import type { CallerContext } from "./caller-context.ts";
import type { Registry } from "./registry.ts";

/** What is made of one reading of configuration, manifests and keys. A reload exchanges it as a whole. */
export interface Snapshot {
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly gate: ApprovalGate;
}

/** One that a call keeps to from here on, whatever is exchanged meanwhile. */
export interface Entered extends Snapshot {
  /** Every call leaves exactly once: the last one of an exchanged generation closes its targets. */
  leave(): void;
}

export interface Snapshots {
  /** For what is no call. */
  current(): Snapshot;
  enter(): Entered;
}
