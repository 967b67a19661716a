import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { EntryDraft } from "./audit/entry.ts";
import { type AuditLog, openAuditLog } from "./audit/json-logger.ts";
import type { Batch } from "./audit/line-writer.ts";
import { StrangerLimit, sumEntry } from "./audit/strangers.ts";
import { type Config, pathFrom } from "./config.ts";
import { canonicalJson, hmacSha256Hex, NotJsonError, sha256Hex } from "./core/digest.ts";
import { ManifestError, Refusal, StartupError } from "./core/errors.ts";
import type { Receipt } from "./core/evidence.ts";
import { repositoryFault } from "./handlers/cli/git-repository.ts";
import { cliHandler } from "./handlers/cli/handler.ts";
import { type AssertionSigner, assertionSigner } from "./handlers/grpc/assertion.ts";
import { type ContractReport, contractReport } from "./handlers/grpc/contract-report.ts";
import { type CertificateEvent, type GrpcHandler, grpcHandler } from "./handlers/grpc/handler.ts";
import { withReflection } from "./handlers/grpc/reflected-systems.ts";
import { inlineHandler } from "./handlers/inline/handler.ts";
import { type LoadedTools, loadTools } from "./manifest-loader.ts";
import { readPlatformFiles } from "./platform-files.ts";
import { type Admission, createAdmission } from "./proxy/admission.ts";
import { type CallerContext, createCallerContext } from "./proxy/caller-context.ts";
import { createExecutor } from "./proxy/executor.ts";
import { createProxy, type ToolProxy } from "./proxy/proxy.ts";
import { createRegistry, type Registry } from "./proxy/registry.ts";
import { createTrails, type TrailLog } from "./proxy/trail.ts";
import {
  privateEmptyDirectory,
  readAssertion,
  readAuditPlace,
  readIssuers,
  readRepositories,
  readSystems,
  resolveCommands,
} from "./wiring-files.ts";

/** What the surroundings want to hear. The library may leave all of it out. */
export interface Hooks {
  readonly observe?: (entry: EntryDraft) => void;
  readonly onBatch?: (batch: Batch) => void;
  readonly log?: (line: TrailLog) => void;
  readonly onCertificates?: (event: CertificateEvent) => void;
}

/** Every part, joined. What the doors need and nothing else. */
export interface Service {
  readonly proxy: ToolProxy;
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly admission: Admission;
  readonly journal: AuditLog["journal"];
  readonly auditHealth: AuditLog["health"];
  readonly channels: GrpcHandler["states"];
  readonly systems: GrpcHandler["status"];
  /** Tools that the configuration leaves nothing to do for, and why. */
  readonly notRegistered: readonly string[];
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
  /** Of the argument hashes; without it they are plain. */
  readonly hashKey: Uint8Array | undefined;
  close(): Promise<void>;
}

const clock = (): number => Date.now();
const monotonic = (): number => performance.now();
const STRANGER_SUMS_EVERY_MS = 10_000;
const POLL_MS = 20;

/**
 * Reads everything the configuration names and joins it, without opening the audit: what `stc check` and `stc plan` need.
 *
 * @throws {StartupError} with everything that is wrong at once
 */
export async function assemble(config: Config): Promise<Parts> {
  const problems: string[] = [];
  const commands = resolveCommands(config, problems);
  const repositories = readRepositories(config, problems);
  const systems = readSystems(config, problems);
  const issuers = readIssuers(config, problems);
  const hashKey = readAuditPlace(config, problems);
  const loaded = await loadTools(config, repositories);
  problems.push(...loaded.problems);
  const emptyDirectory = privateEmptyDirectory();
  const cli = cliHandler({
    commands,
    emptyDirectory,
    inspections: new Map([["git", repositoryFault], ...readPlatformFiles(config, problems)]),
    now: clock,
    newId: randomUUID,
  });
  const sign = assertionOf(config, problems);
  const described = await withReflection(systems, loaded.tools, problems);
  const grpc = described && attempt(problems, () => grpcHandler({ systems: described, sign, random: Math.random }));
  const callers = issuers === undefined ? undefined : attempt(problems, () => createCallerContext({ issuers, clock }));
  const registry =
    grpc === undefined
      ? undefined
      : attempt(problems, () => createRegistry(loaded.tools, { grpc, cli, inline: inlineHandler }), loaded);
  const report = contractReport(registry && grpc ? grpc.contracts() : [], loaded.tools);
  problems.push(...report.problems);
  const close = async (): Promise<void> => {
    await Promise.all([cli.close(), grpc?.close()]);
  };
  if (problems.length > 0 || registry === undefined || callers === undefined || grpc === undefined) {
    await close();
    throw new StartupError(problems);
  }
  return { registry, callers, grpc, loaded, report, hashKey, close };
}

/**
 * Builds the whole service from its configuration.
 *
 * @throws {StartupError} with everything that is wrong at once
 */
export async function wire(config: Config, hooks: Hooks = {}): Promise<Service> {
  const parts = await assemble(config);
  const { hashKey } = parts;
  const audit = await openAudit(config, parts, hooks);
  const strangers = new StrangerLimit({ linesPerMinuteMax: config.limits.strangerLinesPerMinute });
  const { limits } = config;
  const admission = createAdmission({
    concurrentCallsMax: limits.concurrentCallsMax,
    concurrentCallsPerCallerMax: limits.concurrentCallsPerCallerMax,
    auditReady: () => audit.hasRoom(),
  });
  const executor = createExecutor({ intend: (approved, { traceId }) => intend(audit, { ...approved, traceId }) });
  const trails = createTrails({
    clock,
    monotonic,
    ids: () => Bun.randomUUIDv7(),
    hashArgs: (sent) => hashArgs(sent, hashKey),
    hashAlg: hashKey === undefined ? "sha256" : "hmac-sha256",
    record: (entry, request) => record(audit, strangers, { entry, request }),
    observe: hooks.observe ?? (() => {}),
    log: hooks.log ?? (() => {}),
  });
  const sumUp = (now: number): void => {
    for (const sum of strangers.drain(now)) audit.append(sumEntry(sum, Bun.randomUUIDv7())).catch(() => {});
  };
  const sums = setInterval(() => sumUp(clock()), STRANGER_SUMS_EVERY_MS);
  sums.unref();
  await audit.journal({ type: "service.started", tools: parts.registry.list().length, pid: process.pid });
  parts.grpc.watch({
    now: clock,
    report: (event) => {
      audit.journal({ ...event }).catch(() => {});
      hooks.onCertificates?.(event);
    },
  });

  return {
    proxy: createProxy({ registry: parts.registry, callers: parts.callers, admission, executor, trails }),
    registry: parts.registry,
    callers: parts.callers,
    admission,
    journal: (line) => audit.journal(line),
    auditHealth: () => audit.health(),
    channels: () => parts.grpc.states(),
    systems: () => parts.grpc.status(),
    notRegistered: parts.loaded.notRegistered,
    async close(graceMs) {
      admission.drain();
      clearInterval(sums);
      await idle(admission, graceMs);
      trails.shutDown();
      await parts.close();
      await idle(admission, graceMs);
      sumUp(Number.POSITIVE_INFINITY);
      await audit.journal({ type: "service.stopped" }).catch(() => {});
      await audit.close();
    },
  };
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

async function openAudit(config: Config, parts: Parts, hooks: Hooks): Promise<AuditLog> {
  try {
    return openAuditLog({
      dir: pathFrom(config, config.audit.dir),
      instance: hostname(),
      clock,
      monotonic,
      durability: config.audit.durability,
      queueEntriesMax: config.audit.queueEntriesMax,
      ...(hooks.onBatch !== undefined && { onBatch: hooks.onBatch }),
    });
  } catch (error) {
    await parts.close();
    throw new StartupError([`audit.dir: ${error instanceof Error ? error.message : String(error)}`]);
  }
}

interface Recorded {
  readonly entry: EntryDraft;
  readonly request: { readonly source: string };
}

/** Strangers who knock too often are summed up; everybody else gets a line. */
function record(audit: AuditLog, strangers: StrangerLimit, { entry, request }: Recorded): Promise<Receipt> {
  const isStranger = entry.caller.sub === "anonymous";
  const code = entry.error?.code;
  const summed =
    isStranger && code !== undefined
      ? strangers.sumUp({ source: request.source, code, traceId: entry.traceId }, clock())
      : undefined;
  return summed === undefined ? audit.append(entry) : Promise.resolve(summed);
}

interface Intent {
  readonly traceId: string;
  readonly tool: { readonly name: string; readonly classification: string };
  readonly caller: { readonly subject: string; readonly issuer: string };
  readonly digest: string;
}

/** @throws {Refusal} AUDIT_UNAVAILABLE: without its intent on disk a change does not run */
async function intend(audit: AuditLog, { traceId, tool, caller, digest }: Intent): Promise<void> {
  try {
    await audit.journal({
      type: "intent",
      traceId,
      tool: tool.name,
      classification: tool.classification,
      sub: caller.subject,
      iss: caller.issuer,
      planDigest: digest,
    });
  } catch (cause) {
    throw new Refusal("AUDIT_UNAVAILABLE", "The call was not run: its intent could not be recorded.", {
      details: { outcome: "not_run" },
      cause,
    });
  }
}

const ARGS_LIMITS = { depthMax: 256, nodesMax: 1_000_000, bytesMax: 67_108_864 } as const;

/** Of the JCS of what was sent, or of the bytes when they were no JSON. */
function hashArgs(sent: unknown, key: Uint8Array | undefined): string {
  const bytes = sent instanceof Uint8Array ? sent : canonical(sent);
  return key === undefined ? sha256Hex(bytes) : hmacSha256Hex(key, bytes);
}

function canonical(sent: unknown): string {
  try {
    return canonicalJson(sent, ARGS_LIMITS);
  } catch (error) {
    if (error instanceof NotJsonError) return "";
    throw error;
  }
}

function attempt<T>(problems: string[], make: () => T, loaded?: LoadedTools): T | undefined {
  try {
    return make();
  } catch (error) {
    if (error instanceof StartupError) problems.push(...error.problems);
    else if (error instanceof AggregateError)
      problems.push(...error.errors.flatMap((inner) => manifestProblems(inner, loaded)));
    else throw error;
    return undefined;
  }
}

function manifestProblems(error: unknown, loaded: LoadedTools | undefined): readonly string[] {
  if (!(error instanceof ManifestError)) return [error instanceof Error ? error.message : String(error)];
  const tool = loaded?.tools.find(({ name }) => name === error.tool);
  const file = tool === undefined ? undefined : loaded?.origins.get(tool);
  return error.faults.map(
    ({ field, message }) => `${file === undefined ? "" : `${file}: `}tool ${error.tool}: ${field}: ${message}`,
  );
}

async function idle(admission: Admission, graceMs: number): Promise<void> {
  const until = monotonic() + graceMs;
  while (admission.inFlight() > 0 && monotonic() < until) await new Promise((resolve) => setTimeout(resolve, POLL_MS));
}
