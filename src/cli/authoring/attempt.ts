import type { ShownAnswer } from "../filter.ts";
import type { Cause } from "./causes.ts";
import type { Denial } from "./denials.ts";

/** One thing that a target did. */
export interface Observation {
  readonly what: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

interface Issue {
  readonly path: string;
  readonly message: string;
  readonly received: string;
}

/** Everything that the author of a tool sees of one run. */
export interface Attempt {
  readonly tool: string;
  /** Whether an agent would have got an answer. */
  readonly ok: boolean;
  /** The decisions of a service before the run. None of them was applied. */
  notApplied?: {
    readonly verdict: string;
    readonly reasons: readonly string[];
    readonly permissions: readonly string[];
  };
  input?: unknown;
  issues?: readonly Issue[];
  plan?: unknown;
  readonly observed: Observation[];
  denials?: readonly Denial[];
  /** The handler's answer, before the output schema. */
  raw?: unknown;
  released?: ShownAnswer;
  withheld?: { readonly code: string; readonly issues: readonly { readonly path: string; readonly message: string }[] };
  /** The refusal that an agent would get. */
  refusal?: { readonly code: string; readonly message: string; readonly details?: unknown };
  causes?: readonly Cause[];
  readonly timings: { readonly stage: string; readonly ms: number }[];
}
