import type { z } from "zod";
import type { UpkeepState } from "../store/upkeep.ts";
import type { ExportLine } from "./batch.ts";
import type { SendOutcome } from "./sender.ts";

/** How a receiver answered a request with audit lines. */
export type ReceiverOutcome =
  /** The lines were accepted, except for `rejected` of them, which must not be sent again. */
  { readonly kind: "taken"; readonly rejected: number } | Exclude<SendOutcome, { readonly kind: "taken" }>;

/** The receiver of one entry of `audit.export`. */
export interface Receiver {
  /** Delivers lines, oldest first, unless the signal aborts. No lines: asks whether the receiver accepts requests. Never rejects. */
  deliver(lines: readonly ExportLine[], signal: AbortSignal): Promise<ReceiverOutcome>;
  /** Returns the state of its work on what it has stored; undefined before the first lines, or without such work. */
  upkeep?(): UpkeepState | undefined;
  /** Closes its connections. */
  close?(): Promise<void>;
}

interface ReceiverParts {
  /** Returns the absolute path of a path in the configuration. */
  readonly path: (path: string) => string;
  /** Reports a problem with a setting of the entry. */
  readonly problem: (setting: string, message: string) => void;
}

/** A kind of export. The configuration's schema and its reference are derived from these declarations. */
export interface AuditExporter<Type extends string = string, Settings extends z.ZodObject = z.ZodObject> {
  /** Value of `audit.export[].type`. */
  readonly type: Type;
  /** Settings of an entry besides `type` and `name`. */
  readonly settings: Settings;
  /** Opens a receiver without contacting it; returns undefined after a problem. */
  open(settings: z.output<Settings>, parts: ReceiverParts): Receiver | undefined;
}
