import type { StreamName } from "../audit/chain/chain.ts";
import type { AuditStore, StoredLog, StorePage } from "../audit/store/audit-store.ts";
import { AuditStoreError, SlowStatement } from "../audit/store/store-error.ts";
import { type StoreQuery, writeStoreCursor } from "../audit/store/store-query.ts";
import type { AuditSource, FleetState } from "../core/api/audit.ts";
import { Refusal } from "../core/errors.ts";
import { resultWithin } from "../core/time-limits.ts";
import type { EpochMs } from "../core/types.ts";
import type { EndpointServices } from "./endpoint.ts";

/** Answers about the audits of a fleet, from the store that its replicas fill. */

/** What the endpoints need to ask the store. */
export interface FleetPart {
  /** Returns the store; undefined without `audit.storeUrlFile`. */
  readonly auditStore: () => AuditStore | undefined;
}

/** Limit for all statements of one answer. */
const ANSWER_MS = 20_000;
/** An exporter says every five seconds until when an idle log is complete, and in ClickHouse every thirty. */
const BEHIND_MS = 60_000;
const LOGS_MAX = 1_000;

/**
 * Returns the store that answers; undefined when this replica's files do.
 *
 * @throws {Refusal} MALFORMED_REQUEST when the fleet is asked for and no store is configured
 */
export function askedStore(source: AuditSource | undefined, { auditStore }: FleetPart): AuditStore | undefined {
  if (source === "replica") return undefined;
  const store = auditStore();
  if (store === undefined && source === "fleet") {
    const message = "source: there is no audit store here (audit.storeUrlFile): leave it out to ask this replica";
    throw new Refusal("MALFORMED_REQUEST", "The query is not valid for this route.", {
      details: { issues: [{ message }] },
    });
  }
  return store;
}

/**
 * Returns the answer of the store. The operators' log has the reason when there is none.
 *
 * @throws {Refusal} TARGET_UNAVAILABLE, or DEADLINE_EXCEEDED when the question takes too long
 */
async function fromStore<T>({ logError }: Pick<EndpointServices, "logError">, work: () => Promise<T>): Promise<T> {
  try {
    return await resultWithin(work(), ANSWER_MS, () => new SlowStatement(`no answer within ${ANSWER_MS} ms`));
  } catch (error) {
    if (!(error instanceof AuditStoreError)) throw error;
    logError(error);
    const details = { source: "fleet" } as const;
    throw error instanceof SlowStatement
      ? new Refusal(
          "DEADLINE_EXCEEDED",
          "The audit store needs too long for this question: give a shorter time with from and to, or ask this replica's own files with source=replica.",
          { details, cause: error },
        )
      : new Refusal(
          "TARGET_UNAVAILABLE",
          "The audit store does not answer, so nothing is known about other replicas: repeat later, or ask this replica's own files with source=replica.",
          { details, cause: error },
        );
  }
}

interface StateAsked {
  readonly streams: readonly StreamName[];
  /** End of the time that was asked for. */
  readonly toMs?: EpochMs | undefined;
}

/** Returns what was found in the store, and the members of an answer that say where it is from and how complete it is. */
export function askFleet<T>(
  services: Pick<EndpointServices, "logError" | "clock">,
  { store, ...asked }: StateAsked & { readonly store: AuditStore },
  find: () => Promise<T>,
): Promise<{ readonly found: T; readonly state: { readonly source: AuditSource; readonly fleet: FleetState } }> {
  return fromStore(services, async () => {
    // Read before the lines: afterwards, the logs may be complete until later than the answer.
    const logs = await store.logs();
    const found = await find();
    return { found, state: { source: "fleet", fleet: fleetStateOf(logs, { ...asked, nowMs: services.clock() }) } };
  });
}

function fleetStateOf(
  logs: readonly StoredLog[],
  { streams, toMs, nowMs }: StateAsked & { readonly nowMs: EpochMs },
): FleetState {
  const wantedMs = Math.min(toMs ?? nowMs, nowMs - BEHIND_MS);
  const asked = logs.filter(({ stream }) => streams.includes(stream));
  const isBehind = ({ completeMs = Number.NEGATIVE_INFINITY }: StoredLog): boolean => completeMs < wantedMs;
  return {
    completeUntil: iso(asked.find((log) => !isBehind(log))?.completeMs),
    logs: asked.slice(0, LOGS_MAX).map((each) => {
      const { log, stream, instance, nextSeq, newestMs, completeMs } = each;
      const times = { newestAt: iso(newestMs), completeUntil: iso(completeMs) };
      return { log, stream, instance, nextSeq, ...times, isBehind: isBehind(each) };
    }),
    logsLeftOut: Math.max(0, asked.length - LOGS_MAX),
  };
}

function iso(ms: EpochMs | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}

/** Returns the cursor of the next page. As in files, a search with the oldest first always continues. */
export function cursorAfter(query: StoreQuery, { after, more }: StorePage): string | undefined {
  const goesOn = after !== undefined && (more || query.order === "oldest");
  return goesOn ? writeStoreCursor(query, after) : undefined;
}
