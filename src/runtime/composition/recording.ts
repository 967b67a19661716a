import type { AuditLog } from "../../audit/audit-log.ts";
import type { EntryDraft } from "../../audit/entry.ts";
import {
  callerSource,
  callerSumEntry,
  createCallerLimit,
  LOW_DISK_SOURCES_MAX,
  sumEntry,
  UNAUTHENTICATED_SOURCES_MAX,
  UnauthenticatedLimit,
  type UnauthenticatedSum,
} from "../../audit/unauthenticated.ts";
import { hmacSha256Hex, sha256Hex } from "../../core/digest.ts";
import type { Receipt } from "../../core/evidence.ts";
import { type CallRecordOptions, createCallRecords } from "../../pipeline/call-record.ts";
import type { Config } from "../config/config.ts";
import type { Capabilities, Hooks } from "./hooks.ts";

interface RecordingParts
  extends Capabilities,
    Pick<CallRecordOptions, "tracer" | "refusalFor">,
    Pick<Hooks, "observe" | "log"> {
  readonly audit: AuditLog;
  readonly limits: Config["limits"];
  /** The key of the argument hashes; undefined: plain hashes. */
  readonly hashKey: Uint8Array | undefined;
}

export function openRecording({ clock, monotonic, ids, tracer, audit, hashKey, refusalFor, ...parts }: RecordingParts) {
  const { limits, observe = () => {}, log = () => {} } = parts;
  const unauthenticated = new UnauthenticatedLimit({
    get linesPerMinuteMax() {
      return audit.isDiskLow() ? 0 : limits.strangerLinesPerMinute;
    },
    get sourcesMax() {
      return audit.isDiskLow() ? LOW_DISK_SOURCES_MAX : UNAUTHENTICATED_SOURCES_MAX;
    },
  });
  const callers = createCallerLimit();
  const sums = [
    new UnauthenticatedSums({ limit: unauthenticated, audit, ids, clock }),
    new UnauthenticatedSums({ limit: callers, audit, ids, clock, entryOf: callerSumEntry }),
  ];
  const callRecords = createCallRecords({
    clock,
    monotonic,
    ids,
    tracer,
    observe,
    log,
    refusalFor,
    hashArgs: (sent) => hashArgs(sent, hashKey),
    hashAlg: hashKey === undefined ? "sha256" : "hmac-sha256",
    record: (entry, request) => record(audit, { unauthenticated, callers }, { entry, request, clock }),
  });
  return {
    callRecords,
    /** Writes the sums of unauthenticated clients and stops the timer. Never rejects. */
    async stop(): Promise<void> {
      await Promise.all(sums.map((sum) => sum.stop()));
    },
  };
}

/** Interval between two rounds. A crash loses the counts since the last round. */
const ROUND_EVERY_MS = 10_000;
/** Maximum number of sums of the current minute per round. Further sums are written at the end of the minute. */
const SUMS_PER_ROUND_MAX = 10;
/** Maximum number of sums that wait for the disk at once: the rest of the audit's queue is for calls. */
const AT_ONCE_MAX = 64;

interface UnauthenticatedSumsParts {
  readonly limit: UnauthenticatedLimit;
  readonly audit: Pick<AuditLog, "append">;
  readonly ids: () => string;
  readonly entryOf?: typeof sumEntry;
  /** Returns Unix milliseconds. */
  readonly clock: () => number;
}

/**
 * Writes the entries with the sums of unauthenticated clients, one round at a time. A sum that the audit does not accept is tried
 * again.
 */
export class UnauthenticatedSums {
  readonly #parts: UnauthenticatedSumsParts;
  readonly #timer: NodeJS.Timeout;
  #running: Promise<void> | undefined;

  constructor(parts: UnauthenticatedSumsParts) {
    this.#parts = parts;
    this.#timer = setInterval(() => void this.write(), ROUND_EVERY_MS);
    this.#timer.unref();
  }

  /** Runs one round; while a round waits for the disk, returns that round. Never rejects. */
  write(): Promise<void> {
    const { limit, clock } = this.#parts;
    this.#running ??= this.#writeAll([...limit.drain(clock()), ...limit.drainLargest(SUMS_PER_ROUND_MAX)]).finally(
      () => {
        this.#running = undefined;
      },
    );
    return this.#running;
  }

  /** Writes the remaining sums, as long as the audit accepts any of them. Never rejects. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
    for (let before = Number.POSITIVE_INFINITY; ; ) {
      const left = this.#parts.limit.drain(Number.POSITIVE_INFINITY);
      if (left.length === 0 || left.length >= before) return;
      before = left.length;
      await this.#writeAll(left);
    }
  }

  async #writeAll(sums: readonly UnauthenticatedSum[]): Promise<void> {
    for (let start = 0; start < sums.length; start += AT_ONCE_MAX) {
      await Promise.all(sums.slice(start, start + AT_ONCE_MAX).map((sum) => this.#write(sum)));
    }
  }

  async #write(sum: UnauthenticatedSum): Promise<void> {
    const { limit, audit, ids, entryOf = sumEntry } = this.#parts;
    await audit.append(entryOf(sum, ids())).catch(() => limit.giveBack(sum));
  }
}

interface NewEntry {
  readonly entry: EntryDraft;
  readonly request: { readonly source: string };
  /** Returns Unix milliseconds. */
  readonly clock: () => number;
}

interface SumLimits {
  readonly unauthenticated: UnauthenticatedLimit;
  readonly callers: UnauthenticatedLimit;
}

/**
 * Records a call. Entries of unauthenticated clients that call too often are summed up, and so are entries of callers that keep
 * calling while the audit accepts no calls; every other call gets its own entry.
 */
export function record(
  audit: AuditLog,
  { unauthenticated, callers }: SumLimits,
  { entry, request, clock }: NewEntry,
): Promise<Receipt> {
  const { caller, error, traceId } = entry;
  if (error === undefined) return audit.append(entry);
  const { code } = error;
  let receipt: Receipt | undefined;
  if (caller.sub === "anonymous") receipt = unauthenticated.sumUp({ source: request.source, code, traceId }, clock());
  else if (isNotAdmitted(entry)) receipt = callers.sumUp({ source: callerSource(caller), code, traceId }, clock());
  return receipt === undefined ? audit.append(entry) : Promise.resolve(receipt);
}

/** Returns whether the call was refused at admission, before anything was planned or an approval was consumed. */
function isNotAdmitted({ error, plan, approval }: EntryDraft): boolean {
  return error?.code === "AUDIT_UNAVAILABLE" && plan === undefined && approval === undefined;
}

/** Hashes the canonical text of the arguments, or the bytes when they were not JSON. */
export function hashArgs(sent: string | Uint8Array, key: Uint8Array | undefined): string {
  return key === undefined ? sha256Hex(sent) : hmacSha256Hex(key, sent);
}
