import { createPublicKey, type KeyObject, randomUUID } from "node:crypto";
import type { ApprovalCallback } from "./approvals/callback.ts";
import type { RiskRules } from "./approvals/risk.ts";
import type { Approvals } from "./approvals/types.ts";
import type { EntryDraft } from "./audit/entry.ts";
import type { Batch } from "./audit/journal/line-writer.ts";
import type { AuditLog } from "./audit/json-logger.ts";
import { StrangerLimit, sumEntry } from "./audit/strangers.ts";
import type { Config } from "./config.ts";
import { StartupError } from "./core/errors.ts";
import type { Tool } from "./core/types.ts";
import { repositoryFault } from "./handlers/cli/git-repository.ts";
import { cliHandler } from "./handlers/cli/handler.ts";
import { type AssertionSigner, assertionSigner } from "./handlers/grpc/assertion.ts";
import { type ContractReport, contractReport } from "./handlers/grpc/contract/contract-report.ts";
import { withReflection } from "./handlers/grpc/contract/reflected-systems.ts";
import { type CertificateEvent, type GrpcHandler, grpcHandler } from "./handlers/grpc/handler.ts";
import { inlineHandler } from "./handlers/inline/handler.ts";
import { identityOf } from "./manifests/digest.ts";
import { type LoadedTools, loadTools } from "./manifests/loader.ts";
import { readPlatformFiles } from "./platform/files.ts";
import { type Admission, createAdmission } from "./proxy/admission.ts";
import { type ApprovalGate, createApprovalGate } from "./proxy/approval-gate.ts";
import { type CallerContext, createCallerContext } from "./proxy/caller-context.ts";
import { createExecutor } from "./proxy/executor.ts";
import { createProxy, type ToolProxy } from "./proxy/proxy.ts";
import { createRegistry, type Registry } from "./proxy/registry.ts";
import { createTrails, type TrailLog } from "./proxy/trail.ts";
import { createWaitingRoom } from "./proxy/waiting-room.ts";
import { filterSecrets } from "./redaction/secrets/secrets-filter.ts";
import { openStore, readRiskRules } from "./wiring/approvals.ts";
import { hashArgs, intend, openAudit, record } from "./wiring/audit.ts";
import { closeAll } from "./wiring/closing.ts";
import { type ConfinementShown, holdCommands, shownConfinement } from "./wiring/confinement.ts";
import { readExports, startExports } from "./wiring/exports.ts";
import {
  privateEmptyDirectory,
  readAssertion,
  readAuditPlace,
  readCheckpointKey,
  readIssuers,
  readRepositories,
  readSystems,
  resolveCommands,
} from "./wiring/files.ts";
import { attempt } from "./wiring/problems.ts";
import { openWorkspace, type Workspace } from "./wiring/workspace.ts";

/** What the surroundings want to hear. The library may leave all of it out. */
export interface Hooks {
  readonly observe?: (entry: EntryDraft) => void;
  readonly onBatch?: (batch: Batch) => void;
  readonly log?: (line: TrailLog) => void;
  readonly onCertificates?: (event: CertificateEvent) => void;
  /** The library's own way to ask. */
  readonly onToolApprove?: ApprovalCallback | undefined;
  /** Processes that a command left behind, and that were killed. */
  readonly onSurvivors?: (survivors: { readonly command: string; readonly count: number }) => void;
  /** What fails beside the calls. */
  readonly logFault?: (message: string, cause: unknown) => void;
}

/** Every part, joined. What the doors need and nothing else. */
export interface Service {
  readonly proxy: ToolProxy;
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly admission: Admission;
  /** Where people are asked; undefined when the configuration names no store. */
  readonly approvals: Approvals | undefined;
  readonly clock: () => number;
  readonly journal: AuditLog["journal"];
  readonly auditHealth: AuditLog["health"];
  /** Its public half: what the audit's checkpoints are verified with. */
  readonly checkpointKey: KeyObject | undefined;
  readonly exports: ReturnType<typeof startExports>["states"];
  readonly channels: GrpcHandler["states"];
  readonly systems: GrpcHandler["status"];
  readonly certificates: GrpcHandler["certificates"];
  readonly confinement: ConfinementShown | undefined;
  /** Tools that the configuration leaves nothing to do for, and why. */
  readonly notRegistered: readonly string[];
  /** What keeps file tools inside their mounts; undefined where there are none. */
  readonly fileConfinement: Workspace["confinement"];
  /** Calls that wait for a person get their 202 now. */
  releaseWaiters(): void;
  /** Stops admitting, waits for calls under way up to `graceMs`, ends the rest, closes the audit. */
  close(graceMs: number): Promise<void>;
}

/** What is joined before the audit is opened: enough to check a configuration and to plan a call. */
export interface Parts {
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly grpc: GrpcHandler;
  readonly loaded: LoadedTools;
  readonly report: ContractReport;
  readonly risk: RiskRules;
  /** Of the argument hashes; without it they are plain. */
  readonly hashKey: Uint8Array | undefined;
  /** Signs the audit's checkpoints; without it the chain stands by itself. */
  readonly checkpointKey: KeyObject | undefined;
  readonly workspace: Workspace;
  readonly exports: ReturnType<typeof readExports>;
  readonly confinement: ConfinementShown | undefined;
  close(): Promise<void>;
}

const clock = (): number => Date.now();
const monotonic = (): number => performance.now();
const STRANGER_SUMS_EVERY_MS = 10_000;

/**
 * Reads everything the configuration names and joins it, without opening the audit: what `stc check` and `stc plan` need.
 *
 * @throws {StartupError} with everything that is wrong at once
 */
export async function assemble(config: Config, hooks: Hooks = {}): Promise<Parts> {
  const problems: string[] = [];
  const commands = resolveCommands(config, problems);
  const repositories = readRepositories(config, problems);
  const systems = readSystems(config, problems);
  const issuers = readIssuers(config, problems);
  const hashKey = readAuditPlace(config, problems);
  const checkpointKey = readCheckpointKey(config, problems);
  const exports = readExports(config, problems);
  const risk = readRiskRules(config, problems);
  const workspace = openWorkspace(config, { now: clock, newId: randomUUID }, problems);
  const found = await loadTools(config, repositories, workspace.fault);
  problems.push(...found.problems);
  const { confinement, loaded } = await holdCommands(
    config,
    { loaded: found, commands, repositories, newId: randomUUID },
    problems,
  );
  const emptyDirectory = privateEmptyDirectory();
  const cli = cliHandler({
    commands,
    emptyDirectory,
    confinement,
    inspections: new Map([["git", repositoryFault], ...readPlatformFiles(config, problems)]),
    now: clock,
    newId: randomUUID,
    onSurvivors: (survivors) => hooks.onSurvivors?.(survivors),
  });
  const sign = assertionOf(config, problems);
  const described = await withReflection(systems, loaded.tools, problems);
  const grpc = described && attempt(problems, () => grpcHandler({ systems: described, sign, random: Math.random }));
  const callers = issuers === undefined ? undefined : attempt(problems, () => createCallerContext({ issuers, clock }));
  const identify = (tool: Tool): string => identityOf(tool, { config, loaded, policy: risk?.version ?? "" });
  const handlers = grpc && { grpc, cli, fs: workspace.handler, inline: inlineHandler };
  const registry = handlers && attempt(problems, () => createRegistry(loaded.tools, handlers, identify), loaded);
  const report = contractReport(registry && grpc ? grpc.contracts() : [], loaded.tools);
  problems.push(...report.problems);
  const close = async (): Promise<void> => {
    await Promise.all([cli.close(), workspace.handler.close(), grpc?.close()]);
  };
  if (problems.length > 0 || registry === undefined || callers === undefined || grpc === undefined || !risk) {
    await close();
    throw new StartupError(problems);
  }
  const joined = { registry, callers, grpc, loaded, report, risk, hashKey, checkpointKey, exports, workspace };
  return { ...joined, confinement: shownConfinement(config, confinement), close };
}

/**
 * Builds the whole service from its configuration.
 *
 * @throws {StartupError} with everything that is wrong at once
 */
export async function wire(config: Config, hooks: Hooks = {}): Promise<Service> {
  const parts = await assemble(config, hooks);
  const { hashKey, registry, callers } = parts;
  const { audit, approvals } = await openStores(config, hooks, parts.checkpointKey).catch(async (error: unknown) => {
    await parts.close();
    throw error;
  });
  const strangers = new StrangerLimit({ linesPerMinuteMax: config.limits.strangerLinesPerMinute });
  const { limits } = config;
  const admission = createAdmission({
    concurrentCallsMax: limits.concurrentCallsMax,
    concurrentCallsPerCallerMax: limits.concurrentCallsPerCallerMax,
    auditReady: () => audit.hasRoom(),
    cancellations: { perMinuteMax: limits.cancellationsPerMinuteMax, clock },
  });
  const executor = createExecutor({ intend: (approved, { traceId }) => intend(audit, { ...approved, traceId }) });
  const trails = createTrails({
    clock,
    monotonic,
    ids: () => Bun.randomUUIDv7(),
    hashArgs: (sent) => hashArgs(sent, hashKey),
    hashAlg: hashKey === undefined ? "sha256" : "hmac-sha256",
    record: (entry, request) => record(audit, strangers, { entry, request, now: clock() }),
    observe: hooks.observe ?? (() => {}),
    log: hooks.log ?? (() => {}),
  });
  const sumUp = (now: number): void => {
    for (const sum of strangers.drain(now)) audit.append(sumEntry(sum, Bun.randomUUIDv7())).catch(() => {});
  };
  const sums = setInterval(() => sumUp(clock()), STRANGER_SUMS_EVERY_MS);
  sums.unref();
  const gate = gateOf(config, hooks, { risk: parts.risk, approvals });
  const waitingRoom = createWaitingRoom(approvals);
  await audit.journal({ type: "service.started", tools: parts.registry.list().length, pid: process.pid });
  const journal: AuditLog["journal"] = (line) => audit.journal(line);
  const exporters = startExports(config, parts.exports, { clock, random: Math.random, journal, ...hooks });
  parts.grpc.watch({
    now: clock,
    report: (event) => {
      audit.journal({ ...event }).catch(() => {});
      hooks.onCertificates?.(event);
    },
  });

  return {
    proxy: createProxy({ registry, callers, admission, gate, waitingRoom, approvals, executor, trails }),
    registry,
    callers,
    admission,
    approvals,
    clock,
    journal,
    auditHealth: () => audit.health(),
    checkpointKey: parts.checkpointKey && createPublicKey(parts.checkpointKey),
    exports: () => exporters.states(),
    channels: () => parts.grpc.states(),
    systems: () => parts.grpc.status(),
    certificates: () => parts.grpc.certificates(),
    confinement: parts.confinement,
    notRegistered: parts.loaded.notRegistered,
    fileConfinement: parts.workspace.confinement,
    releaseWaiters: () => waitingRoom.empty(),
    close: (graceMs) => {
      clearInterval(sums);
      return closeAll(
        { ...parts, admission, trails, waitingRoom, approvals, audit, exporters, sumUp, monotonic },
        graceMs,
      );
    },
  };
}

interface GateParts {
  readonly risk: RiskRules;
  readonly approvals: Approvals | undefined;
}

function gateOf(config: Config, hooks: Hooks, { risk, approvals }: GateParts): ApprovalGate {
  return createApprovalGate({
    approvals,
    assess: (call) => risk.assess(call),
    mode: config.approvals.mode,
    onToolApprove: hooks.onToolApprove,
    callbackTimeoutMs: config.approvals.callbackTimeoutMs,
    filterSecrets: (text) => filterSecrets(text).text,
    newId: randomUUID,
  });
}

/** Signs for the services who calls, where the configuration names a key. */
function assertionOf(config: Config, problems: string[]): AssertionSigner | undefined {
  const read = readAssertion(config, problems);
  if (read === undefined) return undefined;
  try {
    return assertionSigner({ ...read, now: clock, newId: randomUUID });
  } catch (error) {
    problems.push(`assertion.keyFile: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
}

interface Stores {
  readonly audit: AuditLog;
  readonly approvals: Approvals | undefined;
}

async function openStores(config: Config, hooks: Hooks, checkpointKey: Parts["checkpointKey"]): Promise<Stores> {
  const ids = (): string => Bun.randomUUIDv7();
  const audit = openAudit(config, { clock, monotonic, ids, checkpointKey, onBatch: hooks.onBatch });
  try {
    const journal: AuditLog["journal"] = (line) => audit.journal(line);
    const approvals = await openStore(config, { clock, journal, log: hooks.logFault ?? (() => {}) });
    return { audit, approvals };
  } catch (error) {
    await audit.close();
    throw error;
  }
}
