import { createPublicKey, randomBytes, randomUUID } from "node:crypto";
import type { AuditLog } from "../../audit/audit-log.ts";
import type { JournalLine } from "../../audit/journal/journal.ts";
import { StartupError } from "../../core/errors.ts";
import { present } from "../../core/present.ts";
import { operationsOn } from "../../database/operations.ts";
import type { Admission } from "../../pipeline/admission.ts";
import { createExecutor } from "../../pipeline/executor.ts";
import type { ObserverSlot } from "../../pipeline/output-filter.ts";
import { createProxy } from "../../pipeline/proxy.ts";
import { createWaitingRoom } from "../../pipeline/waiting-room.ts";
import type { Config } from "../config/config.ts";
import { problemOf } from "../config/tenants.ts";
import type { Modules } from "../module-types.ts";
import { type Fingerprint, fingerprintOf } from "../reload/fingerprints.ts";
import { currentCallers, currentRegistry, LiveSnapshots } from "../reload/snapshots.ts";
import type { Reloaded } from "../reload/types.ts";
import type { ServiceApprovals } from "./approvals.ts";
import { assemble as assembleParts, type FoundBefore, type InUse, type Parts } from "./assembly.ts";
import { auditState, closeAudit, createCheckpointKey, intend, recordFacts, startExports } from "./audit.ts";
import { keepConfigurations } from "./configuration-history.ts";
import { DataFlowOpener } from "./data-flow.ts";
import { endHaltedCalls, openHalts } from "./halts.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import { openHub } from "./hub-start.ts";
import { resolveInterrupted } from "./interrupted-changes.ts";
import { endLeftClaims } from "./left-claims.ts";
import { openLimits } from "./limits.ts";
import { learningFor, operatorViews } from "./operator-views.ts";
import { openQuotas } from "./quotas.ts";
import { openRecording } from "./recording.ts";
import { joinSnapshot, startReloading } from "./reloading.ts";
import { continueFormerLogs, openStores } from "./stores.ts";
import { startTracing } from "./telemetry.ts";

export type { Hooks, Parts, Reloaded };

const CAPABILITIES: Capabilities = {
  clock: () => Date.now(),
  monotonic: () => performance.now(),
  fill: (words) => void crypto.getRandomValues(words),
  ids: () => Bun.randomUUIDv7(),
  random: Math.random,
};
export const clock = CAPABILITIES.clock;
const { monotonic } = CAPABILITIES;
const SECRET_BYTES = 32;
const newSecret = (): string => randomBytes(SECRET_BYTES).toString("hex");
/** Nearly every call is shorter. */
const LINGER_MS = 900_000;

/**
 * Reads and joins everything that the configuration names, without opening the audit. Enough for `stc check` and `stc plan`.
 *
 * @throws {StartupError} with all problems at once
 */
export async function assemble(
  config: Config,
  modules: Modules,
  hooks: Hooks & InUse & FoundBefore = {},
): Promise<Parts> {
  const capabilities = { now: clock, monotonic, newId: randomUUID, random: Math.random, ...hooks };
  try {
    return await assembleParts(config, capabilities, modules);
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    throw new StartupError(error.problems.map((problem) => problemOf(config, problem)));
  }
}

export type Service = Awaited<ReturnType<typeof wire>>;

/**
 * Builds the whole service from its configuration.
 *
 * @throws {StartupError} with all problems at once
 */
export async function wire(config: Config, modules: Modules, hooks: Hooks = {}) {
  return (await prepare(config, modules, hooks)).open();
}

/**
 * Reads everything that the configuration names, without opening the audit and the stores. The caller opens or closes the result.
 *
 * @throws {StartupError} with all problems at once
 */
export async function prepare(config: Config, modules: Modules, hooks: Hooks = {}) {
  // Before the fingerprint, which covers the key's file.
  const problems = createCheckpointKey(config);
  const fingerprint = fingerprintOf(config);
  const parts = await assemble(config, modules, { ...hooks, problems });
  return {
    /** `later` are callbacks that did not exist while this was read. */
    open: async (later: Hooks = {}) =>
      serviceOf(await open(config, modules, { hooks: { ...hooks, ...later }, fingerprint, parts })),
    close: () => parts.close(),
  };
}

interface Read {
  readonly hooks: Hooks;
  /** Fingerprint of the files before they were read. */
  readonly fingerprint: Fingerprint;
  readonly parts: Parts;
}

/** Opens everything, or closes again what was opened until one of the parts failed. */
async function open(config: Config, modules: Modules, read: Read) {
  const closings: Closing[] = [];
  try {
    return await openParts(config, modules, { ...read, closings });
  } catch (error) {
    await closeAll(closings, 0).catch(() => {});
    throw error;
  }
}

/** Closes an open part. Running calls may take up to `graceMs`. */
type Closing = (graceMs: number) => unknown;

/**
 * Closes the parts in reverse order of opening. When one fails, the others are closed all the same.
 *
 * @throws the first failure
 */
async function closeAll(closings: readonly Closing[], graceMs: number): Promise<void> {
  const failures: unknown[] = [];
  for (const close of closings.toReversed()) {
    try {
      await close(graceMs);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

interface Opening extends Read {
  /** One for each open part, in the order of opening. They run after a failed start and at the end of the service, in reverse. */
  readonly closings: Closing[];
}

/** Opens everything in order: what a part needs is there before it. */
async function openParts(config: Config, modules: Modules, { hooks, fingerprint, parts, closings }: Opening) {
  const { hashKey } = parts;
  let closeParts = (): Promise<void> => parts.close();
  closings.push(() => closeParts());
  let inUse: Pick<LiveSnapshots<ReturnType<typeof joinSnapshot>>, "current"> | undefined;
  const { audit, stored, state, member } = await openStores(
    config,
    { ...CAPABILITIES, ...hooks },
    {
      ...parts,
      stores: modules.approvalStores,
      policyVersion: () => inUse?.current().version,
    },
  );
  const approvals: ServiceApprovals | undefined =
    member === undefined ? stored : { ...member.approvals, receiptOf: parts.receiptOf };
  let endAudit = (): Promise<void> => audit.close();
  // These close at the same time, because each may wait for another system.
  const atEnd: Closing[] = [() => endAudit()];
  closings.push(
    (graceMs) => Promise.all(atEnd.map((close) => close(graceMs))),
    () => member?.close(),
    () => approvals?.close(),
    () => state.close(),
  );
  const journal: AuditLog["journal"] = (line) => audit.journal(line);
  const operations = member?.operations ?? operationsOn(state, journal);
  const log = hooks.logError ?? (() => {});
  const flow = new DataFlowOpener({ state: operations, modules, newId: randomUUID, newSecret, log });
  closings.push(() => flow.close());
  const join = async (read: Config, joined: Parts, taken: Fingerprint) => {
    const dataFlow = await flow.policyFor(read, joined.loaded.tools, (tool) => joined.targets.placesOf(tool));
    return joinSnapshot(read, joined, { approvals, newId: randomUUID, fingerprint: taken, dataFlow, ...hooks });
  };
  const snapshots = new LiveSnapshots(await join(config, parts, fingerprint), LINGER_MS);
  inUse = snapshots;
  const limits = openLimits(config, { ...CAPABILITIES, ...hooks, audit: auditState(audit) });
  const quotas = openQuotas({ ...CAPABILITIES, ...hooks, state: operations });
  closings.push(limits.close, () => quotas.close());
  await quotas.prepare(config);
  quotas.change(config);
  const executor = createExecutor({
    intend: (announced) => intend(audit, announced),
    record: (traceId, facts) => recordFacts(audit, traceId, facts),
    workers: config.worker === undefined ? 1 : config.server.workers,
  });
  const tracing = await startTracing(config, parts.traces, { ...CAPABILITIES, ...hooks });
  const { tracer } = tracing;
  atEnd.push(() => tracing.close());
  const halts = openHalts(config, {
    ...CAPABILITIES,
    ...hooks,
    state: operations,
    journal,
    newId: randomUUID,
    registry: currentRegistry(snapshots),
  });
  closings.push(() => halts.close());
  const refusalFor = halts.refusalFor.bind(halts);
  const recording = openRecording({
    ...CAPABILITIES,
    ...hooks,
    audit,
    limits: limits.inUse,
    hashKey,
    tracer,
    refusalFor,
  });
  closings.push(() => recording.stop());
  const waitingRoom = createWaitingRoom(approvals, refusalFor);
  endHaltedCalls(halts, { callRecords: recording.callRecords, waitingRoom });
  const versions = keepConfigurations(config, { clock, ...hooks });
  await journal({
    ...startLine(parts, hooks.readAgain === undefined ? undefined : fingerprint),
    ...(await versions.prepare(snapshots.current())),
    ...ownOrigins(audit),
  });
  await versions.adopt(snapshots.current(), "start");
  await halts.start();
  const left = approvals && (await endLeftClaims(config, { ...CAPABILITIES, ...hooks, audit, approvals, member }));
  if (left?.open !== undefined) member?.holdClaims(left.open);
  closings.push(() => left?.close());
  const hub = await openHub(config, {
    ...CAPABILITIES,
    ...hooks,
    hub: parts.hub,
    approvals: stored,
    operations,
    journal,
  });
  const tenantHub = stored && hooks.serviceHub?.({ approvals: stored, operations, onHubRequest: hooks.onHubRequest });
  closings.push(
    () => hub?.close(),
    () => tenantHub?.close(),
  );
  closeParts = async () => {};
  // Calls that still run end with their targets: they are recorded before the next part is closed.
  closings.push(async (graceMs) => {
    await snapshots.close();
    await idle(limits.admission, graceMs);
  });
  const resolving = resolveInterrupted(config, {
    ...CAPABILITIES,
    ...hooks,
    audit,
    approvals: left,
    targets: () => snapshots.current().parts.targets,
  });
  closings.push(() => resolving.close());
  const exporters = startExports(config, parts.exports, { ...CAPABILITIES, ...hooks, audit });
  endAudit = () => closeAudit(audit, exporters);
  const formerLogs = await continueFormerLogs(
    config,
    { ...CAPABILITIES, ...hooks },
    { ...parts, approvals, member, modules },
  );
  atEnd.push(() => formerLogs?.close());
  const reloading = startReloading(config, {
    snapshots,
    fingerprint,
    journal,
    clock,
    versions,
    ...hooks,
    adopted: ({ config: read, parts: { loaded, webhooks } }) => {
      limits.change(read, loaded.tools);
      halts.change(read.halts.whenUnknown);
      quotas.change(read);
      stored?.webhooks.change(webhooks);
      hub?.change(read);
    },
    build: async (read, { callers, parts: { points } }, taken) => {
      await quotas.prepare(read);
      const previous = { modulesInUse: () => snapshots.modules(), formerCallers: callers, formerPoints: points };
      return join(read, await assemble(read, modules, { ...hooks, ...previous }), taken);
    },
  });
  endAudit = () => closeAudit(audit, exporters, { type: "service.stopped", ...ownOrigins(audit) });
  return {
    closings,
    parts,
    audit,
    approvals,
    state,
    flow,
    snapshots,
    limits,
    quotas,
    executor,
    tracing,
    halts,
    recording,
    waitingRoom,
    exporters,
    formerLogs,
    reloading,
    versions,
    hub,
    tenantHub,
    member,
    operations,
  };
}

type Opened = Awaited<ReturnType<typeof open>>;

/** Returns what programs use of a service. */
function serviceOf(opened: Opened) {
  const { parts, audit, approvals, state, flow, snapshots, limits, quotas, tracing, halts, reloading } = opened;
  const { exporters, formerLogs } = opened;
  const { admission, inUse } = limits;
  const { waitingRoom, executor } = opened;
  const { callRecords } = opened.recording;
  const observerSlot: ObserverSlot = { observer: undefined };
  return {
    proxy: createProxy({
      snapshots,
      admission,
      waitingRoom,
      halts,
      approvals,
      executor,
      callRecords,
      observerSlot,
      quotaSlot: quotas.slot,
    }),
    learning: learningFor(observerSlot, clock, randomUUID),
    registry: currentRegistry(snapshots),
    callers: currentCallers(snapshots),
    admission,
    /** Returns the quotas of the configuration in use; undefined while none was configured. */
    quotas: () => quotas.slot.quotas,
    /** The limits of the configuration in use, also after a reload. */
    limits: inUse,
    /** Stores approval requests; undefined when the configuration names no store. */
    approvals,
    /** The halts that operators have set. */
    halts,
    /** Whether the shared state is shared with other processes, or only between calls. */
    policyScope: opened.operations.scope,
    /** Rows that all processes of the approvals' database share. */
    sharedState: state,
    dataFlow: () => snapshots.current().dataFlow,
    /** Counts of data flow since the start; undefined until a configuration has turned it on. */
    flowCounts: () => flow.ledger?.counts,
    /** Returns whether the same call again uses the approval that was given for it. */
    attaches: () => snapshots.current().config.approvals.attach === "on",
    clock,
    journal: (line: JournalLine) => audit.journal(line),
    auditHealth: () => audit.health(),
    /** Returns the names of this process's log in its checkpoints. */
    auditOrigins: () => audit.origins(),
    /** The store that holds the lines of all replicas; undefined without `audit.storeUrlFile`. */
    auditStore: () => snapshots.current().parts.auditStore,
    auditFreeBytes: () => audit.diskFreeBytes(),
    /** The public key that verifies the checkpoints. */
    checkpointKey: createPublicKey(present(parts.checkpointKey, "the key that the start has created")),
    exports: () => [...exporters.states(), ...(formerLogs?.states() ?? [])],
    droppedSpans: () => tracing.dropped(),
    detector: () => snapshots.current().detector,
    targets: () => snapshots.current().parts.targets,
    /** Returns the states of the decision points in use. */
    decisionPoints: () => snapshots.current().parts.points.states(),
    /** Returns the open connections, including those of replaced configurations. */
    channels: () => snapshots.all().flatMap(({ parts: { targets } }) => targets.channels()),
    /** Returns the state of the configuration in use and of the last refusal. */
    configuration: () => reloading.state(),
    /** The configurations that were in use, and what each changed. */
    configurationVersions: opened.versions,
    ...operatorViews({
      snapshots,
      reloading,
      audit,
      halts,
      approvals,
      quotas: quotas.slot,
      ids: CAPABILITIES.ids,
      clock,
      admission,
    }),
    reload: reloading.reload,
    listeners: parts.listeners,
    /** Returns the state of the revocation list; undefined when there is none. */
    revocations: () => snapshots.current().parts.identity.revocations?.state(),
    /** The hub's end for members: lists them, and serves those of tenants; undefined when the service is no hub. */
    hubListener: opened.hub,
    /** The members that operators see: of the hub, or of the tenant; undefined without a hub. */
    hub: opened.hub ?? opened.tenantHub,
    /** The connection of a member to its hub, which replaces the database; undefined when the service is no member. */
    member: opened.member,
    /** Returns the URLs from which agents may get tokens. */
    authorizationServers: () => snapshots.current().parts.identity.authorizationServers,
    /** Tools whose target is not configured, with the reason. */
    notRegistered: parts.loaded.notRegistered,
    /** Stops reloading, and lets the next start wait for the end of this service. */
    announceEnd(): void {
      audit.noteEnding();
      reloading.stop();
    },
    /** Stops admitting and reloading; calls that wait for an approver get their 202. */
    drain: () => drain(opened),
    /** Stops admitting, waits up to `graceMs` for running calls, ends the rest and closes the audit. */
    close: (graceMs: number): Promise<void> => close(opened, graceMs),
  };
}

function drain({ audit, limits, waitingRoom, reloading }: Opened): void {
  audit.noteEnding();
  limits.admission.drain();
  // Calls that wait for an approver get their current answer.
  waitingRoom.releaseAll();
  reloading.stop();
}

/** Gives running calls their time before the targets are closed, and closes the audit last. */
async function close(opened: Opened, graceMs: number): Promise<void> {
  drain(opened);
  await idle(opened.limits.admission, graceMs);
  opened.recording.callRecords.shutDown();
  await closeAll(opened.closings, graceMs);
}

function startLine({ registry }: Parts, fingerprint: Fingerprint | undefined): JournalLine {
  const configuration = fingerprint && { configuration: fingerprint.sha256 };
  return { type: "service.started", tools: registry.list().length, pid: process.pid, ...configuration };
}

/** Names the logs of this process in its journal: a database with the lines of many logs can then miss one. */
function ownOrigins(audit: AuditLog): { readonly origins?: readonly string[] } {
  const origins = audit.origins();
  return origins.length === 0 ? {} : { origins };
}

const POLL_MS = 20;

/** Waits until no call runs, but at most this time. */
async function idle(admission: Admission, graceMs: number): Promise<void> {
  const until = monotonic() + graceMs;
  while (admission.inFlight() > 0 && monotonic() < until) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
