import { createPublicKey, type KeyObject, randomUUID } from "node:crypto";
import type { ApprovalCallback } from "../../approvals/callback.ts";
import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import type { EntryDraft } from "../../audit/entry.ts";
import type { JournalLine } from "../../audit/journal/journal.ts";
import type { WrittenBatch } from "../../audit/journal/line-writer.ts";
import type { CertificateEvent } from "../../core/target-kind.ts";
import type { Detector } from "../../detection/sensitive.ts";
import type { Admission } from "../../pipeline/admission.ts";
import type { CallRecordLog } from "../../pipeline/call-record.ts";
import type { CallerContext } from "../../pipeline/caller-context.ts";
import { createExecutor } from "../../pipeline/executor.ts";
import { createProxy, type ToolProxy } from "../../pipeline/proxy.ts";
import type { Registry } from "../../pipeline/registry.ts";
import { createWaitingRoom } from "../../pipeline/waiting-room.ts";
import type { Config } from "../config/config.ts";
import { MODULES, type Modules } from "../modules.ts";
import { type Fingerprint, fingerprintOf } from "../reload/fingerprints.ts";
import { currentCallers, currentRegistry, LiveSnapshots } from "../reload/snapshots.ts";
import type { ConfigurationState, ReloadEvent, Reloaded, ReloadRequester } from "../reload/types.ts";
import { openStore } from "./approvals.ts";
import { assemble as assembleParts, type InUse, type Parts } from "./assembly.ts";
import { auditState, intend, openAudit, startExports } from "./audit.ts";
import type { RevocationEvent, RevocationState } from "./identity.ts";
import { openLimits } from "./limits.ts";
import { openRecording } from "./recording.ts";
import { joinSnapshot, startReloading } from "./reloading.ts";
import type { Targets } from "./targets.ts";
import { startTracing } from "./telemetry.ts";

export type { Parts, Reloaded };

/** Callbacks for the surrounding program. The library may omit all of them. */
export interface Hooks {
  readonly observe?: (entry: EntryDraft) => void;
  readonly onBatch?: (batch: WrittenBatch) => void;
  readonly log?: (line: CallRecordLog) => void;
  readonly onCertificates?: (event: CertificateEvent) => void;
  readonly onToolApprove?: ApprovalCallback | undefined;
  /** True when the embedder of the library determines the approvers. */
  readonly isEmbedded?: boolean;
  /** Called when processes that a command left running were killed. */
  readonly onSurvivors?: (survivors: { readonly command: string; readonly count: number }) => void;
  readonly onRevocations?: (event: RevocationEvent) => void;
  /**
   * Reads the configuration again; undefined: no reload.
   * @throws {StartupError}
   */
  readonly readAgain?: (() => Config | Promise<Config>) | undefined;
  /** Receives the result of a reload and the configuration that is in use after it. */
  readonly onReload?: (event: ReloadEvent, config: Config) => void;
  /** Receives errors that belong to no call. */
  readonly logError?: (message: string, cause: unknown) => void;
}

export interface Service {
  readonly proxy: ToolProxy;
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly admission: Admission;
  /** The limits of the configuration in use, also after a reload. */
  readonly limits: Config["limits"];
  /** Stores approval requests; undefined when the configuration names no store. */
  readonly approvals: Approvals | undefined;
  readonly clock: () => number;
  readonly detector: () => Detector;
  readonly journal: AuditLog["journal"];
  readonly auditHealth: AuditLog["health"];
  readonly checkpointKey: KeyObject | undefined;
  readonly exports: ReturnType<typeof startExports>["states"];
  readonly droppedSpans: () => number;
  readonly targets: () => Targets;
  /** Returns the open connections, those of replaced configurations included. */
  readonly channels: Targets["channels"];
  /** Returns the state of the configuration in use and of the last refusal. */
  readonly configuration: () => ConfigurationState | undefined;
  /** Applies changes, as a whole or not at all. Undefined when nothing can be read again. */
  readonly reload: ((by: ReloadRequester) => Promise<Reloaded>) | undefined;
  readonly listeners: Parts["listeners"];
  /** Returns the state of the revocation list; undefined when there is none. */
  readonly revocations: () => RevocationState | undefined;
  /** Returns the URLs from which agents may get tokens. */
  readonly authorizationServers: () => readonly string[];
  /** Tools whose target is not configured, with the reason. */
  readonly notRegistered: readonly string[];
  /** Stops admitting and reloading; calls that wait for an approver get their 202. */
  drain(): void;
  /** Stops admitting, waits up to `graceMs` for running calls, ends the rest and closes the audit. */
  close(graceMs: number): Promise<void>;
}

const clock = (): number => Date.now();
const monotonic = (): number => performance.now();
const fill = (words: BigUint64Array<ArrayBuffer>): void => void crypto.getRandomValues(words);
const ids = (): string => Bun.randomUUIDv7();
/**
 * Time after which the targets of a replaced snapshot are closed, even if a call still uses them. Nearly every call is shorter.
 */
const LINGER_MS = 900_000;

/**
 * Reads and joins everything that the configuration names, without opening the audit. Enough for `stc check` and `stc plan`.
 *
 * @throws {StartupError} with all problems at once
 */
export function assemble(config: Config, hooks: Hooks & InUse = {}, modules: Modules = MODULES): Promise<Parts> {
  return assembleParts(config, { now: clock, newId: randomUUID, random: Math.random, ...hooks }, modules);
}

/**
 * Builds the whole service from its configuration.
 *
 * @throws {StartupError} with all problems at once
 */
export async function wire(config: Config, hooks: Hooks = {}, modules: Modules = MODULES): Promise<Service> {
  const fingerprint = hooks.readAgain === undefined ? undefined : fingerprintOf(config);
  const parts = await assemble(config, hooks, modules);
  const { hashKey } = parts;
  const { audit, approvals } = await openStores(config, hooks, { ...parts, stores: modules.approvalStores }).catch(
    async (error: unknown) => {
      await parts.close();
      throw error;
    },
  );
  const join = (read: Config, joined: Parts) => joinSnapshot(read, joined, { approvals, newId: randomUUID, ...hooks });
  const snapshots = new LiveSnapshots(join(config, parts), { lingerMs: LINGER_MS });
  const limits = openLimits(config, { clock, monotonic, audit: auditState(audit), log: hooks.logError });
  const { admission, inUse } = limits;
  const executor = createExecutor({ intend: (announced) => intend(audit, announced) });
  const tracing = await startTracing(config, parts.traces, { clock, monotonic, fill, ...hooks });
  const { tracer } = tracing;
  const recording = openRecording({ audit, limits: inUse, hashKey, tracer, clock, monotonic, ids, ...hooks });
  const waitingRoom = createWaitingRoom(approvals);
  const journal: AuditLog["journal"] = (line) => audit.journal(line);
  await journal(startLine(parts, fingerprint));
  const exporters = startExports(config, parts.exports, { clock, random: Math.random, journal, ...hooks });
  const reloading = startReloading(config, {
    ...{ snapshots, fingerprint, journal, clock, ...hooks },
    adopted: ({ config: read, parts: { loaded, webhooks } }) => {
      limits.change(read, loaded.tools);
      approvals?.webhooks.change(webhooks);
    },
    build: async (read, { callers }) => {
      const previous = { modulesInUse: () => snapshots.modules(), formerCallers: callers };
      return join(read, await assemble(read, { ...hooks, ...previous }, modules));
    },
  });
  const drain = (): void => {
    admission.drain();
    // Calls that wait for an approver get their current answer.
    waitingRoom.releaseAll();
    reloading.stop();
  };
  /** Gives running calls their time before the targets are closed, and closes the audit last. */
  const closeAll = async (graceMs: number): Promise<void> => {
    drain();
    await idle(admission, graceMs);
    recording.callRecords.shutDown();
    await snapshots.close();
    await idle(admission, graceMs);
    await recording.stop();
    await approvals?.close();
    await Promise.all([exporters.stop(), tracing.close()]);
    await audit.journal({ type: "service.stopped" }).catch(() => {});
    await audit.close();
  };

  return {
    proxy: createProxy({ snapshots, admission, waitingRoom, approvals, executor, callRecords: recording.callRecords }),
    registry: currentRegistry(snapshots),
    callers: currentCallers(snapshots),
    admission,
    limits: inUse,
    approvals,
    clock,
    journal,
    auditHealth: () => audit.health(),
    checkpointKey: parts.checkpointKey && createPublicKey(parts.checkpointKey),
    exports: () => exporters.states(),
    droppedSpans: () => tracing.dropped(),
    detector: () => snapshots.current().detector,
    targets: () => snapshots.current().parts.targets,
    channels: () => snapshots.all().flatMap(({ parts: { targets } }) => targets.channels()),
    configuration: () => reloading.state(),
    reload: reloading.reload,
    listeners: parts.listeners,
    revocations: () => snapshots.current().parts.identity.revocations?.state(),
    authorizationServers: () => snapshots.current().parts.identity.authorizationServers,
    notRegistered: parts.loaded.notRegistered,
    drain,
    close: (graceMs) => closeAll(graceMs).finally(() => limits.close()),
  };
}

function startLine({ registry }: Parts, fingerprint: Fingerprint | undefined): JournalLine {
  const configuration = fingerprint && { configuration: fingerprint.sha256 };
  return { type: "service.started", tools: registry.list().length, pid: process.pid, ...configuration };
}

interface StoreParts extends Pick<Parts, "checkpointKey" | "receiptOf" | "webhooks"> {
  readonly stores: Modules["approvalStores"];
}

/** Opens the audit and the approval store: both or none. */
async function openStores(config: Config, hooks: Hooks, { checkpointKey, ...parts }: StoreParts) {
  const audit = openAudit(config, { clock, monotonic, ids, checkpointKey, onBatch: hooks.onBatch });
  try {
    const journal: AuditLog["journal"] = (line) => audit.journal(line);
    const log = hooks.logError ?? (() => {});
    return { audit, approvals: await openStore(config, { ...parts, clock, journal, log }) };
  } catch (error) {
    await audit.close();
    throw error;
  }
}

const POLL_MS = 20;

/** Waits until no call runs, but at most this time. */
async function idle(admission: Admission, graceMs: number): Promise<void> {
  const until = monotonic() + graceMs;
  while (admission.inFlight() > 0 && monotonic() < until) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
