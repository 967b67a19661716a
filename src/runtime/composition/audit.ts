import type { KeyObject } from "node:crypto";
import { hostname } from "node:os";
import { type AuditLog, openAuditLog } from "../../audit/audit-log.ts";
import type { Announced, EntryDraft } from "../../audit/entry.ts";
import { intentLine } from "../../audit/journal/journal.ts";
import type { WrittenBatch } from "../../audit/journal/line-writer.ts";
import { callerSource, type UnauthenticatedLimit } from "../../audit/unauthenticated.ts";
import { canonicalJson, hmacSha256Hex, NotJsonError, sha256Hex } from "../../core/digest.ts";
import { errorText } from "../../core/error-text.ts";
import { Refusal, StartupError } from "../../core/errors.ts";
import type { Receipt } from "../../core/evidence.ts";
import { ARGUMENT_LIMITS } from "../../core/json.ts";
import type { AdmissionOptions } from "../../pipeline/admission.ts";
import { type Config, pathFrom } from "../config/config.ts";

interface AuditParts {
  readonly clock: () => number;
  readonly monotonic: () => number;
  readonly ids: () => string;
  readonly checkpointKey: KeyObject | undefined;
  readonly onBatch?: ((batch: WrittenBatch) => void) | undefined;
}

/** @throws {StartupError} when the directory cannot be written or does not verify */
export function openAudit(config: Config, { clock, monotonic, ids, checkpointKey, onBatch }: AuditParts): AuditLog {
  try {
    return openAuditLog({
      dir: pathFrom(config, config.audit.dir),
      instance: hostname(),
      clock,
      monotonic,
      durability: config.audit.durability,
      queueEntriesMax: config.audit.queueEntriesMax,
      diskReserveBytes: config.audit.diskReserveBytes,
      ids,
      checkpointKey,
      ...(onBatch !== undefined && { onBatch }),
    });
  } catch (error) {
    throw new StartupError([`audit.dir: ${errorText(error)}`]);
  }
}

/** Returns functions that say whether the audit accepts an entry, and why not. */
export function auditState(audit: AuditLog): Pick<AdmissionOptions, "auditReady" | "auditProblem"> {
  return {
    auditReady: () => audit.hasRoom(),
    auditProblem: () => {
      const health = audit.health();
      return health.status === "failing" ? health.reason : undefined;
    },
  };
}

interface Recorded {
  readonly entry: EntryDraft;
  readonly request: { readonly source: string };
  /** Milliseconds since 1970. */
  readonly now: number;
}

interface Summed {
  readonly strangers: UnauthenticatedLimit;
  readonly callers: UnauthenticatedLimit;
}

/**
 * Records a call. Entries of unauthenticated clients that call too often are summed up, and so are entries of callers that keep
 * calling while the audit accepts no calls; every other call gets its own entry.
 */
export function record(
  audit: AuditLog,
  { strangers, callers }: Summed,
  { entry, request, now }: Recorded,
): Promise<Receipt> {
  const { caller, error, traceId } = entry;
  if (error === undefined) return audit.append(entry);
  const { code } = error;
  let receipt: Receipt | undefined;
  if (caller.sub === "anonymous") receipt = strangers.sumUp({ source: request.source, code, traceId }, now);
  else if (isNotAdmitted(entry)) receipt = callers.sumUp({ source: callerSource(caller), code, traceId }, now);
  return receipt === undefined ? audit.append(entry) : Promise.resolve(receipt);
}

/** Returns whether the call was refused at admission, before anything was planned or an approval was consumed. */
function isNotAdmitted({ error, plan, approval }: EntryDraft): boolean {
  return error?.code === "AUDIT_UNAVAILABLE" && plan === undefined && approval === undefined;
}

/** @throws {Refusal} AUDIT_UNAVAILABLE: a change does not run unless its intent is on disk */
export async function intend(audit: AuditLog, announced: Announced): Promise<void> {
  try {
    await audit.journal(intentLine(announced));
  } catch (cause) {
    throw new Refusal("AUDIT_UNAVAILABLE", "The call was not run: its intent could not be recorded.", {
      details: { outcome: "not_run" },
      cause,
    });
  }
}

/** Hashes the JCS of what was sent, or the bytes when they were not JSON. */
export function hashArgs(sent: unknown, key: Uint8Array | undefined): string {
  const bytes = sent instanceof Uint8Array ? sent : canonical(sent);
  return key === undefined ? sha256Hex(bytes) : hmacSha256Hex(key, bytes);
}

function canonical(sent: unknown): string {
  try {
    return canonicalJson(sent, ARGUMENT_LIMITS);
  } catch (error) {
    if (error instanceof NotJsonError) return "";
    throw error;
  }
}
