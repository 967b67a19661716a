import type { EntryDraft } from "../audit/entry.ts";
import type { AuditLog } from "../audit/json-logger.ts";
import { StrangerLimit, sumEntry } from "../audit/strangers.ts";
import type { Config } from "../config.ts";
import { createTrails, type TrailLog, type TrailOptions, type Trails } from "../proxy/trail.ts";
import { hashArgs, record } from "./audit.ts";

const STRANGER_SUMS_EVERY_MS = 10_000;

export interface RecordingParts extends Pick<TrailOptions, "clock" | "monotonic" | "ids" | "tracer"> {
  readonly audit: AuditLog;
  /** Of the argument hashes; without it they are plain. */
  readonly hashKey: Uint8Array | undefined;
  readonly observe?: ((entry: EntryDraft) => void) | undefined;
  readonly log?: ((line: TrailLog) => void) | undefined;
}

export interface Recording {
  readonly trails: Trails;
  /** Writes the lines of strangers that are summed up; those of the minute that `now` lies in wait. */
  sumUp(now: number): void;
  /** From now on nobody is summed up by the clock. */
  stop(): void;
}

/** Every call's way into the audit. */
export function openRecording(config: Config, parts: RecordingParts): Recording {
  const { clock, monotonic, ids, tracer, audit, hashKey, observe = () => {}, log = () => {} } = parts;
  const strangers = new StrangerLimit({ linesPerMinuteMax: config.limits.strangerLinesPerMinute });
  const sumUp = (now: number): void => {
    for (const sum of strangers.drain(now)) audit.append(sumEntry(sum, ids())).catch(() => {});
  };
  const sums = setInterval(() => sumUp(clock()), STRANGER_SUMS_EVERY_MS);
  sums.unref();
  const trails = createTrails({
    ...{ clock, monotonic, ids, tracer, observe, log },
    hashArgs: (sent) => hashArgs(sent, hashKey),
    hashAlg: hashKey === undefined ? "sha256" : "hmac-sha256",
    record: (entry, request) => record(audit, strangers, { entry, request, now: clock() }),
  });
  return { trails, sumUp, stop: () => clearInterval(sums) };
}
