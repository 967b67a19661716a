import type { EntryDraft } from "../../audit/entry.ts";
import type { AuditLog } from "../../audit/json-logger.ts";
import {
  callerSumEntry,
  createCallerLimit,
  LOW_DISK_SOURCES_MAX,
  STRANGER_SOURCES_MAX,
  StrangerLimit,
} from "../../audit/strangers.ts";
import { createTrails, type TrailLog, type TrailOptions, type Trails } from "../../pipeline/trail.ts";
import type { Config } from "../config/config.ts";
import { hashArgs, record } from "./audit.ts";
import { StrangerSums } from "./stranger-sums.ts";

export interface RecordingParts extends Pick<TrailOptions, "clock" | "monotonic" | "ids" | "tracer"> {
  readonly audit: AuditLog;
  /** Those of the moment. */
  readonly limits: Config["limits"];
  /** Of the argument hashes; without it they are plain. */
  readonly hashKey: Uint8Array | undefined;
  readonly observe?: ((entry: EntryDraft) => void) | undefined;
  readonly log?: ((line: TrailLog) => void) | undefined;
}

export interface Recording {
  readonly trails: Trails;
  /** Writes what strangers were summed up to; from now on the clock writes nothing. Never rejects. */
  stop(): Promise<void>;
}

/** Every call's way into the audit. */
export function openRecording({ clock, monotonic, ids, tracer, audit, hashKey, ...parts }: RecordingParts): Recording {
  const { limits, observe = () => {}, log = () => {} } = parts;
  const strangers = new StrangerLimit({
    get linesPerMinuteMax() {
      return audit.isDiskLow() ? 0 : limits.strangerLinesPerMinute;
    },
    get sourcesMax() {
      return audit.isDiskLow() ? LOW_DISK_SOURCES_MAX : STRANGER_SOURCES_MAX;
    },
  });
  const callers = createCallerLimit();
  const sums = [
    new StrangerSums({ strangers, audit, ids, clock }),
    new StrangerSums({ strangers: callers, audit, ids, clock, entryOf: callerSumEntry }),
  ];
  const trails = createTrails({
    ...{ clock, monotonic, ids, tracer, observe, log },
    hashArgs: (sent) => hashArgs(sent, hashKey),
    hashAlg: hashKey === undefined ? "sha256" : "hmac-sha256",
    record: (entry, request) => record(audit, { strangers, callers }, { entry, request, now: clock() }),
  });
  return { trails, stop: async () => void (await Promise.all(sums.map((sum) => sum.stop()))) };
}
