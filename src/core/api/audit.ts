import { z } from "zod";
import type { ReadonlyDeep } from "./readonly.ts";

/** Which logs answer: those of the whole fleet, from the audit store, or this replica's own files. */
export const auditSource = z.enum(["fleet", "replica"]);

const time = z.iso.datetime().nullable();

const storedLog = z.object({
  log: z.string().describe("Id of the log, as in the origin of its checkpoints."),
  stream: z.enum(["calls", "journal"]),
  instance: z.string().describe("The replica that wrote its newest line."),
  nextSeq: z.int().describe("`seq` of the line that is stored next."),
  newestAt: time.describe("Time of its newest line."),
  completeUntil: time.describe("The store has every line with an earlier time; `null` when that is not known."),
  isBehind: z.boolean().describe("Lines of the time that was asked for may be missing."),
});

/** How complete an answer of the audit store is. */
export const fleetState = z.object({
  completeUntil: time.describe("The earliest of the logs that are not behind."),
  logs: z.array(storedLog).describe("The log that is furthest behind comes first."),
  logsLeftOut: z.int().describe("Logs that are complete until later."),
});

const calls = z.record(z.string(), z.int()).describe("Calls by decision; decisions without calls are missing.");

const counted = {
  lastAt: time.describe("Time of the newest of the calls."),
  day: calls,
  hour: calls,
} as const;

/** Who called what lately: `GET /audit/activity`. */
export const auditActivity = z.object({
  dayFrom: z.iso.datetime().describe("When the day begins that is counted."),
  hourFrom: z.iso.datetime().describe("When its last hour begins."),
  isPartial: z.boolean().describe("The calls were too many for one request: the oldest were not counted."),
  all: z.object(counted),
  callers: z
    .array(z.object({ sub: z.string(), iss: z.string().optional(), ...counted }))
    .describe("At most 1,000, those with the most calls first. Unauthenticated callers have no `iss`."),
  tools: z.array(z.object({ tool: z.string(), ...counted })).describe("At most 500."),
  codes: z.array(z.object({ code: z.string(), ...counted })).describe("Refusal codes of calls that have one."),
});

export type AuditActivity = ReadonlyDeep<z.output<typeof auditActivity>>;
export type AuditSource = z.output<typeof auditSource>;
export type FleetState = ReadonlyDeep<z.output<typeof fleetState>>;

/** `GET /audit/exporters`. */
export const exporterListing = z.object({
  exporters: z.array(
    z.object({
      exporter: z.string().describe("Its `name` in `audit.export`."),
      stream: z.enum(["calls", "journal", "checkpoints"]),
      failingSince: time.describe("Nothing was accepted since; `null` while nothing fails."),
      lastAcceptedAt: time.describe("`null` before the receiver has accepted lines since the start."),
      bytesBehind: z.number().nullable().describe("Not accepted yet; `null` while the log cannot be read."),
      secondsBehind: z
        .number()
        .nullable()
        .describe(
          "Age of the oldest line that was not accepted yet; of checkpoints, which hold no time, since nothing was left to send.",
        ),
      sentLines: z.int().describe("Accepted since the start."),
      deadLines: z.int().describe("Rejected permanently since the start, and kept as dead letters."),
      failures: z.int().describe("Failed requests since the start."),
      conflicts: z.int().describe("Those of the failures for which an archive holds other content than the log."),
    }),
  ),
});

/** `GET /audit/keys`. */
export const keyListing = z.object({
  keys: z.array(
    z.object({
      verifierKey: z.string().describe("For `stc audit verify --key`: `name+id+key`."),
      publicKey: z.string().describe("The same key in PEM."),
      sha256: z.string().describe("Its fingerprint: hex SHA-256 of the key in DER."),
    }),
  ),
});

export type ExporterListing = ReadonlyDeep<z.output<typeof exporterListing>>;
export type ExporterShown = ExporterListing["exporters"][number];
export type KeyListing = ReadonlyDeep<z.output<typeof keyListing>>;
