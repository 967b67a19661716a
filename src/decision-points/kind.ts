import type { z } from "zod";
import type { GivenApproval, PointState } from "../core/policy-point.ts";
import type { TargetContext, WatchOptions } from "../core/target-kind.ts";
import type { CallerContext, Json, Tool } from "../core/types.ts";
import type { UrlContext } from "../egress/settings.ts";

/**
 * A kind of decision point that the configuration can name under `decisionPoints`. `kinds.ts` lists the kinds of a build;
 * the configuration's schema and its reference, `stc check`, `/readyz` and metrics are derived from the list.
 */
export interface DecisionPointKind<Key extends string = string, Settings extends z.ZodType = z.ZodType> {
  /** The key of an entry that holds this kind's settings. */
  readonly key: Key;
  /** Keys of files must end in `File`: then no tool can access the files, and a reload notices changes to them. */
  readonly settings: Settings;
  /** True when the point is another system: its answers may be cached, and may offer to ask a person. */
  readonly isRemote: boolean;
  /** Reads the settings' files, and connects to nothing. Adds errors to `context.problems`; returns undefined after one. */
  open(settings: z.output<Settings>, context: PointContext): Promise<OpenedPoint | undefined>;
}

export interface PointContext extends UrlContext, Pick<TargetContext, "random"> {
  /** Name of the point, for messages. */
  readonly name: string;
  /** Field of the settings: `decisionPoints[0].authzen`. */
  readonly field: string;
  readonly timeoutMs: number;
  /** Issuers of agents' tokens: a subject is unique only within one. */
  readonly issuers: readonly string[];
}

/** The question whether a call may run. */
export interface PointQuestion {
  readonly tool: Tool;
  readonly caller: CallerContext;
  /** The parsed arguments as far as the point may see them; undefined when it may see none. */
  readonly args: { readonly [name: string]: Json } | undefined;
  readonly traceId: string | undefined;
  /** The approval that is about to be used. */
  readonly approval?: GivenApproval | undefined;
}

export interface PointAnswer {
  readonly allows: boolean;
  /** For operators: texts of the point, unbounded. */
  readonly reasons: readonly string[];
  /** True for a denial that the point lets a person lift. */
  readonly mayAsk?: boolean;
}

export interface OpenedPoint {
  /** Answers a question. An exception or a rejection denies the call; only operators read its text. */
  evaluate(question: PointQuestion): PointAnswer | Promise<PointAnswer>;
  /** Returns what `evaluate` would ask, without asking. */
  preview(question: PointQuestion): Json;
  state?(): Pick<PointState, "circuit" | "calls" | "facts">;
  /** Receives the tools that the point decides about, once they are loaded. Returns observations for `stc check`. */
  prepare?(tools: readonly Tool[]): readonly string[];
  /** True when answers may depend on claims of the caller's token or on the time. */
  readonly readsMoment?: boolean;
  /** Observations for `stc check` that are not errors. */
  readonly notes?: readonly string[];
  /** Starts watching the files that may change without a reload. */
  watch?(options: WatchOptions): void;
  close(): void | Promise<void>;
}
