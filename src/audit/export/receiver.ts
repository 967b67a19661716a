import type { z } from "zod";
import type { EpochMs } from "../../core/types.ts";
import type { DayPart } from "../archive/part.ts";
import type { SettledLog } from "../audit-log.ts";
import type { UpkeepState } from "../store/upkeep.ts";
import type { ExportLine } from "./batch.ts";
import type { SendOutcome } from "./sender.ts";

/** How a receiver answered a request with audit lines. */
export type ReceiverOutcome =
  /** The lines were accepted, except for `rejected` of them, which must not be sent again. */
  { readonly kind: "taken"; readonly rejected: number } | Exclude<SendOutcome, { readonly kind: "taken" }>;

interface OpenedReceiver {
  /** Returns the state of its work on what it has stored; undefined before the first lines, or without such work. */
  upkeep?(): UpkeepState | undefined;
  /** Notes that it has accepted every line of a stream before a time, as far as it has the lines. Never rejects. */
  settled?(settled: SettledLog, signal: AbortSignal): Promise<ReceiverOutcome>;
  /** Closes its connections. */
  close?(): Promise<void>;
}

/** The receiver of one entry of `audit.export`. */
export interface Receiver extends OpenedReceiver {
  /** Delivers lines, oldest first, unless the signal aborts. No lines: asks whether the receiver accepts requests. Never rejects. */
  deliver(lines: readonly ExportLine[], signal: AbortSignal): Promise<ReceiverOutcome>;
}

/** How an archive answered: it holds this many bytes of a part, or the part must be sent again. */
export type ArchiveOutcome =
  | { readonly kind: "taken"; readonly bytes: number }
  | (Extract<SendOutcome, { readonly kind: "later" }> & {
      /** The archive already holds something else in its place. */
      readonly isConflict: boolean;
    });

/** A receiver of day files as they are. A part is never given up, since a line that it does not hold would be lost with its file. */
export interface Archive extends OpenedReceiver {
  /** How long lines may wait for further ones, in milliseconds. */
  readonly intervalMs: number;
  /** Stores a part, unless it is stored already. Never rejects. */
  store(part: DayPart, signal: AbortSignal): Promise<ArchiveOutcome>;
  /** Asks whether the archive accepts requests. Never rejects. */
  probe(signal: AbortSignal): Promise<ArchiveOutcome>;
}

interface ReceiverParts {
  /** Returns the absolute path of a path in the configuration. */
  readonly path: (path: string) => string;
  /** Signatures of requests name the time. */
  readonly clock: () => EpochMs;
  /** The tenant whose log is sent; undefined: the service itself. */
  readonly tenant?: string | undefined;
  /** Reports a problem with a setting of the entry. */
  readonly problem: (setting: string, message: string) => void;
}

/** A kind of export. The configuration's schema and its reference are derived from these declarations. */
export interface AuditExporter<
  Type extends string = string,
  Settings extends z.ZodObject = z.ZodObject,
  Target extends Receiver | Archive = Receiver | Archive,
> {
  /** Value of `audit.export[].type`. */
  readonly type: Type;
  /** Settings of an entry besides `type` and `name`. */
  readonly settings: Settings;
  /** Opens a receiver without contacting it; returns undefined after a problem. */
  open(settings: z.output<Settings>, parts: ReceiverParts): Target | undefined;
}
