import { createPublicKey, type KeyObject, randomUUID } from "node:crypto";
import type { ApprovalCallback } from "../../approvals/callback.ts";
import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import type { EntryDraft } from "../../audit/entry.ts";
import type { JournalLine } from "../../audit/journal/journal.ts";
import type { WrittenBatch } from "../../audit/journal/line-writer.ts";
import type { Admission } from "../../pipeline/admission.ts";
import type { CallRecordLog } from "../../pipeline/call-record.ts";
import type { CallerContext } from "../../pipeline/caller-context.ts";
import { createExecutor } from "../../pipeline/executor.ts";
import { createProxy, type ToolProxy } from "../../pipeline/proxy.ts";
import type { Registry } from "../../pipeline/registry.ts";
import { createWaitingRoom, type WaitingRoom } from "../../pipeline/waiting-room.ts";
import type { CertificateEvent, GrpcHandler } from "../../targets/grpc/handler.ts";
import type { Config } from "../config/config.ts";
import { currentCallers, currentRegistry } from "../reload/current.ts";
import { type Fingerprint, printOf } from "../reload/fingerprints.ts";
import { LiveSnapshots } from "../reload/snapshots.ts";
import type { ConfigurationState, ReloadAsker, ReloadEvent, Reloaded } from "../reload/types.ts";
import { openStore } from "./approvals.ts";
import { assemble as assembleParts, type InUse, type Parts } from "./assembly.ts";
import { auditState, intend, openAudit } from "./audit.ts";
import type { ConfinementShown } from "./confinement.ts";
import { startExports } from "./exports.ts";
import { openLimits } from "./limits.ts";
import { openRecording, type Recording } from "./recording.ts";
import { startReloading } from "./reloading.ts";
import type { RevocationEvent, RevocationState } from "./revocation-file.ts";
import { joinGeneration } from "./snapshot.ts";
import { startTracing, type Tracing } from "./telemetry.ts";
import type { Workspace } from "./workspace.ts";

export type { Parts, Reloaded };

/** What the surroundings want to hear. The library may leave all of it out. */
export interface Hooks {
  readonly observe?: (entry: EntryDraft) => void;
  readonly onBatch?: (batch: WrittenBatch) => void;
  readonly log?: (line: CallRecordLog) => void;
  readonly onCertificates?: (event: CertificateEvent) => void;
  /** The library's own way to ask. */
  readonly onToolApprove?: ApprovalCallback | undefined;
  /** Whether whoever embeds the library says who decides. */
  readonly isEmbedded?: boolean;
  /** Processes that a command left behind, and that were killed. */
  readonly onSurvivors?: (survivors: { readonly command: string; readonly count: number }) => void;
  readonly onRevocations?: (event: RevocationEvent) => void;
  /** Reads the configuration anew; without it there is no reload. @throws {StartupError} */
  readonly readAgain?: (() => Config | Promise<Config>) | undefined;
  /** What became of a reload, and the configuration that is in use after it. */
  readonly onReload?: (event: ReloadEvent, config: Config) => void;
  /** What fails beside the calls. */
  readonly logFault?: (message: string, cause: unknown) => void;
}

/** Every part, joined. What the doors need and nothing else. */
export interface Service {
  readonly proxy: ToolProxy;
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly admission: Admission;
  /** Those of the moment, each read when it is asked for. */
  readonly limits: Config["limits"];
  /** Where people are asked; undefined when the configuration names no store. */
  readonly approvals: Approvals | undefined;
  readonly clock: () => number;
  readonly journal: AuditLog["journal"];
  readonly auditHealth: AuditLog["health"];
  /** Its public half: what the audit's checkpoints are verified with. */
  readonly checkpointKey: KeyObject | undefined;
  readonly exports: ReturnType<typeof startExports>["states"];
  /** Spans of traces that nobody will see, since the start. */
  readonly droppedSpans: () => number;
  readonly channels: GrpcHandler["states"];
  readonly systems: GrpcHandler["status"];
  readonly certificates: GrpcHandler["certificates"];
  /** What is in use, and what was refused last. */
  readonly configuration: () => ConfigurationState | undefined;
  /** Takes over what has changed, as a whole or not at all. Undefined where nothing can be read again. */
  readonly reload: ((by: ReloadAsker) => Promise<Reloaded>) | undefined;
  /** How the commands of the tools in use are held. */
  readonly confinement: () => ConfinementShown | undefined;
  /** Where the doors are to be. */
  readonly doors: Parts["doors"];
  /** How the list of revocations stands; undefined where there is none. */
  readonly revocations: () => RevocationState | undefined;
  /** Where agents may get tokens, as URLs. */
  readonly authorizationServers: () => readonly string[];
  /** Tools that the configuration leaves nothing to do for, and why. */
  readonly notRegistered: readonly string[];
  /** What keeps file tools inside their mounts; undefined where there are none. */
  readonly fileConfinement: Workspace["confinement"];
  /** From now on nobody is admitted and nothing is reloaded; calls that wait for a person get their 202. */
  drain(): void;
  /** Stops admitting, waits for calls under way up to `graceMs`, ends the rest, closes the audit. */
  close(graceMs: number): Promise<void>;
}

const clock = (): number => Date.now();
const monotonic = (): number => performance.now();
const fill = (words: BigUint64Array<ArrayBuffer>): void => void crypto.getRandomValues(words);
const ids = (): string => Bun.randomUUIDv7();
/** Longer than nearly every call; what then still runs of an exchanged configuration loses its target. */
const LINGER_MS = 900_000;

/**
 * Reads everything the configuration names and joins it, without opening the audit: what `stc check` and `stc plan` need.
 *
 * @throws {StartupError} with everything that is wrong at once
 */
export function assemble(config: Config, hooks: Hooks = {}, inUse: InUse = {}): Promise<Parts> {
  return assembleParts(config, { now: clock, newId: randomUUID, random: Math.random, ...hooks, ...inUse });
}

/**
 * Builds the whole service from its configuration.
 *
 * @throws {StartupError} with everything that is wrong at once
 */
export async function wire(config: Config, hooks: Hooks = {}): Promise<Service> {
  const print = hooks.readAgain === undefined ? undefined : printOf(config);
  const parts = await assemble(config, hooks);
  const { hashKey } = parts;
  const { audit, approvals } = await openStores(config, hooks, parts).catch(async (error: unknown) => {
    await parts.close();
    throw error;
  });
  const join = (read: Config, joined: Parts) =>
    joinGeneration(read, joined, { approvals, newId: randomUUID, ...hooks });
  const generations = new LiveSnapshots(join(config, parts), { lingerMs: LINGER_MS });
  const limits = openLimits(config, { clock, monotonic, audit: auditState(audit), log: hooks.logFault });
  const { admission, inForce } = limits;
  const executor = createExecutor({ intend: (announced) => intend(audit, announced) });
  const tracing = await startTracing(config, parts.traces, { clock, monotonic, fill, ...hooks });
  const { tracer } = tracing;
  const recording = openRecording({ audit, limits: inForce, hashKey, tracer, clock, monotonic, ids, ...hooks });
  const waitingRoom = createWaitingRoom(approvals);
  const journal: AuditLog["journal"] = (line) => audit.journal(line);
  await journal(started(parts, print));
  const exporters = startExports(config, parts.exports, { clock, random: Math.random, journal, ...hooks });
  const reloading = startReloading(config, {
    ...{ generations, print, journal, clock, ...hooks },
    adopted: ({ config: read, parts: { loaded, webhooks } }) => {
      limits.change(read, loaded.tools);
      approvals?.webhooks.change(webhooks);
    },
    build: async (read, { callers }) =>
      join(read, await assemble(read, hooks, { modulesInUse: () => generations.modules(), formerCallers: callers })),
  });
  const drain = (): void => {
    admission.drain();
    waitingRoom.empty();
    reloading.stop();
  };

  return {
    proxy: createProxy({ generations, admission, waitingRoom, approvals, executor, trails: recording.trails }),
    registry: currentRegistry(generations),
    callers: currentCallers(generations),
    admission,
    limits: inForce,
    approvals,
    clock,
    journal,
    auditHealth: () => audit.health(),
    checkpointKey: parts.checkpointKey && createPublicKey(parts.checkpointKey),
    exports: () => exporters.states(),
    droppedSpans: () => tracing.dropped(),
    channels: () => generations.all().flatMap(({ parts: { grpc } }) => grpc.states()),
    systems: () => generations.current().parts.grpc.status(),
    certificates: () => generations.current().parts.grpc.certificates(),
    configuration: () => reloading.state(),
    reload: reloading.reload,
    confinement: () => generations.current().parts.confinement,
    doors: parts.doors,
    revocations: () => generations.current().parts.identity.revocations?.state(),
    authorizationServers: () => generations.current().parts.identity.authorizationServers,
    notRegistered: parts.loaded.notRegistered,
    fileConfinement: parts.workspace.confinement,
    drain,
    close: (graceMs) => {
      drain();
      const close = (): Promise<void> => generations.close();
      return closeAll(
        { close, admission, recording, waitingRoom, approvals, audit, exporters, tracing, monotonic },
        graceMs,
      ).finally(() => limits.close());
    },
  };
}

function started({ registry }: Parts, print: Fingerprint | undefined): JournalLine {
  const configuration = print && { configuration: print.sha256 };
  return { type: "service.started", tools: registry.list().length, pid: process.pid, ...configuration };
}

interface Stores {
  readonly audit: AuditLog;
  readonly approvals: Awaited<ReturnType<typeof openStore>>;
}

type Read = Pick<Parts, "checkpointKey" | "receiptOf" | "webhooks">;

async function openStores(config: Config, hooks: Hooks, { checkpointKey, receiptOf, webhooks }: Read): Promise<Stores> {
  const audit = openAudit(config, { clock, monotonic, ids, checkpointKey, onBatch: hooks.onBatch });
  try {
    const journal: AuditLog["journal"] = (line) => audit.journal(line);
    const log = hooks.logFault ?? (() => {});
    const approvals = await openStore(config, { receiptOf, webhooks, clock, journal, log });
    return { audit, approvals };
  } catch (error) {
    await audit.close();
    throw error;
  }
}

const POLL_MS = 20;

interface Closing {
  readonly audit: AuditLog;
  readonly approvals: Approvals | undefined;
  readonly close: () => Promise<void>;
  readonly monotonic: () => number;
  readonly admission: Admission;
  readonly waitingRoom: WaitingRoom;
  readonly exporters: ReturnType<typeof startExports>;
  readonly tracing: Tracing;
  readonly recording: Recording;
}

/** Nobody comes in; whoever waits for a person goes with what they have; the rest has its time; the audit is closed last. */
async function closeAll(
  { admission, recording, waitingRoom, approvals, audit, exporters, tracing, close, monotonic }: Closing,
  graceMs: number,
): Promise<void> {
  admission.drain();
  waitingRoom.empty();
  await idle(admission, monotonic, graceMs);
  recording.trails.shutDown();
  await close();
  await idle(admission, monotonic, graceMs);
  await recording.stop();
  await approvals?.close();
  await Promise.all([exporters.stop(), tracing.close()]);
  await audit.journal({ type: "service.stopped" }).catch(() => {});
  await audit.close();
}

async function idle(admission: Admission, monotonic: () => number, graceMs: number): Promise<void> {
  const until = monotonic() + graceMs;
  while (admission.inFlight() > 0 && monotonic() < until) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
