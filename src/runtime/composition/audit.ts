import { createHmac, createPrivateKey, type KeyObject } from "node:crypto";
import { lstatSync, statSync } from "node:fs";
import { type AuditLog, openAuditLog } from "../../audit/audit-log.ts";
import { createSigningKey, isSignedLog } from "../../audit/chain/signing-key.ts";
import type { Announced } from "../../audit/entry.ts";
import { type Exporters, type ExporterTarget, startExporters } from "../../audit/export/exporter.ts";
import { DirectoryInUse } from "../../audit/journal/directory-lock.ts";
import { intentLine } from "../../audit/journal/journal.ts";
import { logsIn } from "../../audit/logs.ts";
import type { AuditStore } from "../../audit/store/audit-store.ts";
import { errorText, systemCode } from "../../core/error-text.ts";
import { Refusal, StartupError } from "../../core/errors.ts";
import { serviceDirOf } from "../../core/tenant-names.ts";
import type { Json } from "../../core/types.ts";
import type { AdmissionOptions } from "../../pipeline/admission.ts";
import { type Config, checkpointKeyFileOf, pathFrom } from "../config/config.ts";
import type { Modules } from "../module-types.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import { instanceOf, logDirOf } from "./instance.ts";
import { readNamed } from "./problems.ts";

const HASH_KEY_BYTES_MIN = 16;

/** Checks the path of the audit directory and reads the key of the argument hashes. The directory is opened later. */
export function readHashKey(config: Config, problems: string[]): Uint8Array | undefined {
  problems.push(...auditDirProblems(config));
  if (config.audit.hashKeyFile === undefined) return undefined;
  const key = readNamed(config, { path: config.audit.hashKeyFile, field: "audit.hashKeyFile" }, problems);
  if (key !== undefined && key.length < HASH_KEY_BYTES_MIN) {
    problems.push(`audit.hashKeyFile: contains fewer than ${HASH_KEY_BYTES_MIN} bytes`);
  }
  return key && tenantKey(key, config.tenant);
}

/** Returns the key of a tenant: the same arguments have different hashes in different tenants. */
function tenantKey(key: Uint8Array, tenant: string | undefined): Uint8Array {
  return tenant === undefined ? key : createHmac("sha256", key).update(`stc/tenant/v1\n${tenant}`).digest();
}

const KEY_FIELD = "audit.checkpointKeyFile";

/**
 * Creates the key that signs checkpoints, when the configuration names none and the log is not signed yet. Returns the problem if
 * that fails.
 */
export function createCheckpointKey(config: Config): readonly string[] {
  if (checkpointKeyState(config) !== "to be created") return [];
  const path = pathFrom(config, checkpointKeyFileOf(config));
  try {
    createSigningKey(path);
  } catch (error) {
    const code = systemCode(error);
    // Another process has just created it.
    if (code === "EEXIST") return [];
    return [
      `${KEY_FIELD}: ${path} cannot be created (${code}): let the service write to that folder, or create a key with stc audit keys --new FILE and name it here`,
    ];
  }
  return [];
}

/** "missing": a new key would hide that the one that has signed so far is gone. */
function checkpointKeyState(config: Config): "named" | "own" | "to be created" | "missing" {
  if (config.audit.checkpointKeyFile !== undefined) return "named";
  // Read first: a process that starts at the same time may create the key and sign with it.
  const isSigned = logsIn(pathFrom(config, config.audit.dir)).some(({ dir }) => isSignedLog(dir));
  if (isTaken(pathFrom(config, checkpointKeyFileOf(config)))) return "own";
  return isSigned ? "missing" : "to be created";
}

/** A link without a target is there, too. */
function isTaken(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    // Reading it reports the problem.
    return true;
  }
}

/** Returns the key that signs checkpoints; undefined before the first start, which creates it. */
export function readCheckpointKey(config: Config, problems: string[]): KeyObject | undefined {
  const path = checkpointKeyFileOf(config);
  const state = checkpointKeyState(config);
  if (state === "to be created") return undefined;
  if (state === "missing") {
    problems.push(
      `${KEY_FIELD}: ${pathFrom(config, path)} is missing, and the audit is signed already: restore that file, or name the key here; stc audit keys --new FILE creates another one`,
    );
    return undefined;
  }
  const pem = readNamed(config, { path, field: KEY_FIELD }, problems);
  if (pem === undefined) return undefined;
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyType === "ed25519") return key;
  } catch {
    // Reported below, without the error: it must not reveal the file's content.
  }
  problems.push(
    `${KEY_FIELD}: ${path} holds no Ed25519 private key (PEM, PKCS8): make one with stc audit keys --new FILE`,
  );
  return undefined;
}

/** Returns the problems of the audit directory that are visible without opening it. */
export function auditDirProblems(config: Config): readonly string[] {
  const dir = pathFrom(config, config.audit.dir);
  try {
    const found = statSync(dir, { throwIfNoEntry: false });
    return found === undefined || found.isDirectory() ? [] : [`audit.dir: ${dir} is not a directory`];
  } catch (error) {
    return [`audit.dir: ${dir} cannot be read (${systemCode(error)})`];
  }
}

interface AuditParts extends Pick<Capabilities, "clock" | "monotonic" | "ids">, Pick<Hooks, "onBatch" | "onWait"> {
  readonly checkpointKey: KeyObject | undefined;
}

/** Time for a process to end after its drain: calls are cut off, and the last lines are written. */
const AFTER_DRAIN_MS = 10_000;
const LOOK_EVERY_MS = 50;

/**
 * Opens the log. Waits while a process that is ending writes it, at most for the time that such a process takes.
 *
 * @throws {StartupError} when the directory cannot be written or does not verify
 */
export async function openAudit(config: Config, parts: AuditParts): Promise<AuditLog> {
  const { shutdownDelayMs, drainTimeoutMs } = config.server;
  const until = parts.monotonic() + shutdownDelayMs + drainTimeoutMs + AFTER_DRAIN_MS;
  for (let looks = 0; ; looks += 1) {
    try {
      return openOnce(config, parts);
    } catch (error) {
      const holder = error instanceof DirectoryInUse ? endingHolder(config, error) : undefined;
      if (holder === undefined || parts.monotonic() >= until)
        throw new StartupError([`audit.dir: ${errorText(error)}`]);
      if (looks === 0) parts.onWait?.(`waiting until the process that writes ${logDirOf(config)} has ended: ${holder}`);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

/**
 * Returns the holder's name if it is ending. One that writes a worker's log is, whether it knows it already or not: its parent is
 * gone, because this service has the lock of the directory above.
 */
function endingHolder({ worker }: Config, { holder: { name, isEnding } }: DirectoryInUse): string | undefined {
  return isEnding || worker !== undefined ? name : undefined;
}

function openOnce(config: Config, { clock, monotonic, ids, checkpointKey, onBatch }: AuditParts): AuditLog {
  return openAuditLog({
    dir: logDirOf(config),
    instance: instanceOf(config),
    tenant: config.tenant,
    clock,
    monotonic,
    durability: config.audit.durability,
    queueEntriesMax: config.audit.queueEntriesMax,
    diskReserveBytes: config.audit.diskReserveBytes,
    reserveOf: config.tenant === undefined ? undefined : serviceDirOf(logDirOf(config)),
    ids,
    checkpointKey,
    ...(onBatch !== undefined && { onBatch }),
  });
}

/** Returns functions that say whether the audit accepts an entry, and why not. */
export function auditState(audit: AuditLog): Pick<AdmissionOptions, "auditReady" | "auditProblem"> {
  return {
    auditReady: (now) => audit.hasRoom(now),
    auditProblem: () => {
      const health = audit.health();
      return health.status === "failing" ? health.reason : undefined;
    },
  };
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

/** @throws {Refusal} AUDIT_UNAVAILABLE: a change does not become final unless its facts are on disk */
export async function recordFacts(
  audit: AuditLog,
  traceId: string,
  facts: Readonly<Record<string, Json>>,
): Promise<void> {
  try {
    await audit.journal({ ...facts, type: "change.prepared", traceId });
  } catch (cause) {
    throw new Refusal("AUDIT_UNAVAILABLE", "The change was taken back: its facts could not be recorded.", {
      details: { outcome: "not_run" },
      cause,
    });
  }
}

/** Limit for one statement of an operator's question. */
const STATEMENT_MS = 10_000;

/** Returns the store that holds the lines of all replicas, without contacting it. Loads its code only where it is configured. */
export async function readAuditStore(config: Config, problems: string[]): Promise<AuditStore | undefined> {
  const { storeUrlFile: path } = config.audit;
  if (path === undefined) return undefined;
  const field = "audit.storeUrlFile";
  const url = readNamed(config, { path, field }, problems)?.toString().trim();
  if (url === undefined) return undefined;
  if (/\s/.test(url)) {
    problems.push(`${field}: ${path} must hold the URL of a database and nothing else`);
    return undefined;
  }
  const { openAuditStore } = await import("../../audit/store/open-store.ts");
  try {
    return await openAuditStore(url, { statementMs: STATEMENT_MS, scope: { tenant: config.tenant } });
  } catch (error) {
    problems.push(`${field}: ${path}: ${errorText(error)}`);
    return undefined;
  }
}

interface ExportParts extends Pick<Capabilities, "clock" | "random">, Pick<Hooks, "logError"> {
  readonly audit: Pick<AuditLog, "journal" | "settled">;
}

interface ExportOpening {
  readonly exporters: Modules["auditExporters"];
  readonly problems: string[];
  readonly clock: Capabilities["clock"];
}

export function readExports(config: Config, { exporters, problems, clock }: ExportOpening): readonly ExporterTarget[] {
  return config.audit.export.flatMap(({ name, type, ...settings }, index) => {
    const receiver = exporters
      .find((exporter) => exporter.type === type)
      ?.open(settings, {
        path: (path) => pathFrom(config, path),
        clock,
        tenant: config.tenant,
        problem: (setting, message) => problems.push(`audit.export[${index}].${setting}: ${message}`),
      });
    return receiver === undefined ? [] : [{ name, receiver }];
  });
}

export function startExports(
  config: Config,
  targets: readonly ExporterTarget[],
  { clock, random, audit, logError }: ExportParts,
): Exporters {
  const { retentionDays } = config.audit;
  const report = (message: string): void => logError?.(message, undefined);
  return startExporters({
    dir: logDirOf(config),
    targets,
    retentionDays,
    clock,
    random,
    settled: (stream) => audit.settled(stream),
    journal: (line) => audit.journal(line),
    report,
  });
}

/** Part of the five seconds that a service takes after its calls have ended. */
const LAST_LINES_MS = 2_000;

/** Closes a log. Its last lines and checkpoints are sent, if the receivers accept them in time. */
export async function closeAudit(
  audit: AuditLog,
  exporters: Exporters,
  lastLine?: Parameters<AuditLog["journal"]>[0],
): Promise<void> {
  await exporters.stopPruning();
  if (lastLine !== undefined) await audit.journal(lastLine).catch(() => {});
  await audit.close(() => exporters.stop(LAST_LINES_MS));
}
