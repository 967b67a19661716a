import type { KeyObject } from "node:crypto";
import { basename } from "node:path";
import type { NamedWebhooks } from "../../approvals/notify/webhooks.ts";
import type { ReceiptSigner } from "../../approvals/receipts/receipts.ts";
import type { RiskRules } from "../../approvals/risk.ts";
import { errorText } from "../../core/error-text.ts";
import { ManifestError, StartupError } from "../../core/errors.ts";
import type { Tool } from "../../core/types.ts";
import { type CallerContext, createCallerContext } from "../../pipeline/caller-context.ts";
import { createRegistry, type Registry } from "../../pipeline/registry.ts";
import { repositoryFault } from "../../targets/command/git-repository.ts";
import { cliHandler } from "../../targets/command/handler.ts";
import { inlineHandler } from "../../targets/function/handler.ts";
import { type AssertionSigner, assertionSigner } from "../../targets/grpc/assertion.ts";
import { type ContractReport, contractReport } from "../../targets/grpc/contract/contract-report.ts";
import type { GrpcHandler, GrpcSystem } from "../../targets/grpc/handler.ts";
import { type Config, isGrpcSystem } from "../config/config.ts";
import { loadTools } from "../manifests/loader.ts";
import { forgetModules } from "../manifests/modules.ts";
import { identityOf, type LoadedTools } from "../manifests/sources.ts";
import { readPlatformFiles } from "../platform/files.ts";
import { readApprovals } from "./approvals.ts";
import { type ConfinementShown, holdCommands, shownConfinement } from "./confinement.ts";
import { readExports } from "./exports.ts";
import {
  privateEmptyDirectory,
  readAssertion,
  readAuditPlace,
  readCheckpointKey,
  readIssuers,
  readRepositories,
  readSystems,
  resolveCommands,
} from "./files.ts";
import { type IdentityParts, readDoors, readIdentity } from "./identity.ts";
import { limitProblems } from "./limits.ts";
import { socketProblems } from "./own-paths.ts";
import { policyFindings, ruleProblems } from "./policies.ts";
import { attempt } from "./problems.ts";
import { readTraces } from "./telemetry.ts";
import { openWorkspace, type Workspace } from "./workspace.ts";

/** What a reading has to know of those before it. */
export interface InUse {
  /** Names of the manifests' modules that others use: what a reading that fails has loaded besides is let go. */
  readonly modulesInUse?: (() => ReadonlySet<string>) | undefined;
  /** Whose place the callers' verifier takes. */
  readonly formerCallers?: CallerContext | undefined;
}

/** What is taken from outside, handed in. */
interface Powers extends InUse {
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Unguessable. */
  readonly newId: () => string;
  /** From 0 to 1. */
  readonly random: () => number;
  /** Processes that a command left behind, and that were killed. */
  readonly onSurvivors?: ((survivors: { readonly command: string; readonly count: number }) => void) | undefined;
  /** Whether whoever embeds the library says who decides. */
  readonly isEmbedded?: boolean | undefined;
}

/** What is joined before the audit is opened: enough to check a configuration and to plan a call. */
export interface Parts {
  readonly registry: Registry;
  readonly callers: CallerContext;
  readonly grpc: GrpcHandler;
  readonly loaded: LoadedTools;
  readonly report: ContractReport;
  readonly risk: RiskRules;
  /** Signs the receipts of decisions; without it there are none. */
  readonly receiptOf: ReceiptSigner | undefined;
  /** Who is told of approvals, and through whom people may answer. */
  readonly webhooks: NamedWebhooks;
  /** Of the argument hashes; without it they are plain. */
  readonly hashKey: Uint8Array | undefined;
  /** Signs the audit's checkpoints; without it the chain stands by itself. */
  readonly checkpointKey: KeyObject | undefined;
  readonly workspace: Workspace;
  readonly identity: IdentityParts;
  /** Where the doors are to be. */
  readonly doors: ReturnType<typeof readDoors>;
  readonly exports: ReturnType<typeof readExports>;
  readonly traces: ReturnType<typeof readTraces>;
  readonly confinement: ConfinementShown | undefined;
  /** What of the approvals' policies starts, and is probably not what was meant. */
  readonly policyNotes: readonly string[];
  close(): Promise<void>;
}

/**
 * Reads everything the configuration names and joins it, without opening the audit: what `stc check` and `stc plan` need.
 *
 * @throws {StartupError} with everything that is wrong at once
 */
export async function assemble(config: Config, powers: Powers): Promise<Parts> {
  const opened: Opened = { modules: new Set(), closings: [] };
  try {
    return await join(config, powers, opened);
  } catch (error) {
    await closeOpened(opened);
    if (powers.modulesInUse !== undefined) forgetModules(opened.modules, powers.modulesInUse());
    throw error;
  }
}

/** What there is to close, whether or not the rest of it comes about. */
interface Opened {
  modules: ReadonlySet<string>;
  readonly closings: (() => unknown)[];
}

async function closeOpened({ closings }: Opened): Promise<void> {
  await Promise.all(closings.map(async (close) => close()));
}

async function join(config: Config, powers: Powers, opened: Opened): Promise<Parts> {
  const { now, newId, random, formerCallers: former, onSurvivors } = powers;
  const problems: string[] = [];
  const commands = resolveCommands(config, problems);
  const repositories = readRepositories(config, problems);
  const systems = readSystems(config, problems);
  const issuers = readIssuers(config, problems);
  const identity = readIdentity(config, problems);
  opened.closings.push(() => identity.revocations?.close());
  const doors = readDoors(config, problems);
  problems.push(...socketProblems(config));
  const hashKey = readAuditPlace(config, problems);
  const checkpointKey = readCheckpointKey(config, problems);
  const exports = readExports(config, problems);
  const traces = readTraces(config, problems);
  const judged = readApprovals(config, problems);
  const workspace = openWorkspace(config, { now, newId }, problems);
  opened.closings.push(() => workspace.handler.close());
  const found = await loadTools(config, repositories, workspace.fault);
  opened.modules = found.modules;
  problems.push(...found.problems);
  const { confinement, loaded } = await holdCommands(
    config,
    { loaded: found, commands, repositories, newId },
    problems,
  );
  const emptyDirectory = privateEmptyDirectory();
  const cli = cliHandler({
    commands,
    emptyDirectory,
    confinement,
    memoryBytesMax: config.commands.memoryBytesMax,
    inspections: new Map([["git", repositoryFault], ...readPlatformFiles(config, problems)]),
    now,
    newId,
    onSurvivors: (survivors) => onSurvivors?.(survivors),
  });
  opened.closings.push(() => cli.close());
  const sign = assertionOf(config, powers, problems);
  const grpc = await openGrpc({ systems, tools: loaded.tools, sign, random }, problems);
  opened.closings.push(() => grpc?.close());
  const callers =
    issuers === undefined
      ? undefined
      : attempt(problems, () => createCallerContext({ issuers, clock: now, former, ...identity.callers }));
  const identify = (tool: Tool): string =>
    identityOf(tool, { config, loaded, policy: judged?.risk.versionFor(tool) ?? "" });
  const handlers = grpc && { grpc, cli, fs: workspace.handler, inline: inlineHandler };
  const reachable = reachableTools(config, { tools: loaded.tools, systems, commands, problems });
  const registry = handlers && attempt(problems, () => createRegistry(reachable, handlers, identify), loaded);
  const report = contractReport(registry && grpc ? grpc.contracts() : [], loaded.tools);
  const policies = policyFindings(config, { tools: loaded.tools, isEmbedded: powers.isEmbedded === true });
  const rules = ruleProblems(config, loaded);
  problems.push(...report.problems, ...limitProblems(config, loaded), ...rules, ...policies.problems);
  if (problems.length > 0 || registry === undefined || callers === undefined || grpc === undefined || !judged) {
    throw new StartupError(problems);
  }
  const close = (): Promise<void> => closeOpened(opened);
  return {
    ...{ registry, callers, grpc, loaded, report, ...judged, hashKey, checkpointKey, exports, traces, workspace },
    ...{ identity, doors, close, policyNotes: policies.notes, confinement: shownConfinement(config, confinement) },
  };
}

interface Reached {
  readonly tools: readonly Tool[];
  readonly systems: ReadonlyMap<string, unknown>;
  readonly commands: ReadonlyMap<string, string>;
  readonly problems: readonly string[];
}

/** Without the tools whose system or program is configured and broken: that is said already, and nothing starts so. */
function reachableTools(config: Config, { tools, systems, commands, problems }: Reached): readonly Tool[] {
  if (problems.length === 0) return tools;
  const grpcSystems = Object.entries(config.systems).filter(([, system]) => isGrpcSystem(system));
  const configured = new Set(grpcSystems.map(([name]) => name));
  const programs = new Set(config.commands.allowed.map((allowed) => basename(allowed)));
  return tools.filter(({ target }) => {
    if ("grpc" in target) return systems.has(target.system) || !configured.has(target.system);
    if ("cli" in target) return commands.has(target.cli.command) || !programs.has(target.cli.command);
    return true;
  });
}

/** Signs for the services who calls, where the configuration names a key. */
function assertionOf(config: Config, { now, newId }: Powers, problems: string[]): AssertionSigner | undefined {
  const read = readAssertion(config, problems);
  if (read === undefined) return undefined;
  try {
    return assertionSigner({ ...read, now, newId });
  } catch (error) {
    problems.push(`assertion.keyFile: ${errorText(error)}`);
    return undefined;
  }
}

interface GrpcParts {
  readonly systems: ReadonlyMap<string, GrpcSystem>;
  readonly tools: readonly Tool[];
  readonly sign: AssertionSigner | undefined;
  readonly random: () => number;
}

/** What reaches the gRPC systems. Its packages are the largest of all, and are loaded only where there is something to reach. */
async function openGrpc(
  { systems, tools, sign, random }: GrpcParts,
  problems: string[],
): Promise<GrpcHandler | undefined> {
  if (systems.size === 0 && !tools.some(({ target }) => "grpc" in target)) return NO_GRPC;
  const [{ withReflection }, { grpcHandler }] = await Promise.all([
    import("../../targets/grpc/contract/reflection.ts"),
    import("../../targets/grpc/handler.ts"),
  ]);
  const described = await withReflection(systems, tools, problems);
  return described && attempt(problems, () => grpcHandler({ systems: described, sign, random }));
}

/** Where no system is configured and no tool wants one. */
const NO_GRPC: GrpcHandler = {
  bind: ({ name, target }) => {
    throw new ManifestError(name, [{ field: "target.system", message: `${target.system} is not configured` }]);
  },
  close: async () => {},
  states: () => [],
  certificates: () => [],
  metadataKeys: () => [],
  contracts: () => [],
  status: async () => ({}),
  watch: () => {},
};
