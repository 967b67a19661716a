import type { KeyObject } from "node:crypto";
import { basename } from "node:path";
import type { NamedWebhooks } from "../../approvals/notify/webhooks.ts";
import type { ReceiptSigner } from "../../approvals/receipts/receipts.ts";
import type { RiskRules } from "../../approvals/risk.ts";
import { errorText } from "../../core/error-text.ts";
import { ManifestError, StartupError } from "../../core/errors.ts";
import type { Tool } from "../../core/types.ts";
import { operatorRuleFaults, operatorRules } from "../../detection/rules/operators.ts";
import { DETECTOR, Detector } from "../../detection/sensitive.ts";
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
import { MODULES } from "../modules.ts";
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

/** Facts about earlier readings that a reading of the configuration needs. */
export interface InUse {
  /**
   * Returns the names of manifest modules used by other snapshots: all other modules that a failed reading has loaded are
   * released.
   */
  readonly modulesInUse?: (() => ReadonlySet<string>) | undefined;
  /** The caller context that the new one replaces. */
  readonly formerCallers?: CallerContext | undefined;
}

/** External capabilities, passed in. */
interface Powers extends InUse {
  /** Returns milliseconds since 1970. */
  readonly now: () => number;
  /** Returns unguessable ids. */
  readonly newId: () => string;
  /** Returns a number from 0 to 1. */
  readonly random: () => number;
  /** Called when processes that a command left running were killed. */
  readonly onSurvivors?: ((survivors: { readonly command: string; readonly count: number }) => void) | undefined;
  /** True when the embedder of the library determines the approvers. */
  readonly isEmbedded?: boolean | undefined;
}

/** The parts that are built before the audit is opened: enough to check a configuration and to plan a call. */
export interface Parts {
  readonly registry: Registry;
  readonly callers: CallerContext;
  /** Finds secrets and personal data by the built-in rules and those of the configuration. */
  readonly detector: Detector;
  readonly grpc: GrpcHandler;
  readonly loaded: LoadedTools;
  readonly report: ContractReport;
  readonly risk: RiskRules;
  /** Signs the receipts of decisions; undefined: no receipts. */
  readonly receiptOf: ReceiptSigner | undefined;
  /** The webhooks that are notified of approvals, and the integrations through which people may answer. */
  readonly webhooks: NamedWebhooks;
  /** The key of the argument hashes; undefined: plain hashes. */
  readonly hashKey: Uint8Array | undefined;
  /** Signs the audit's checkpoints; undefined: the chain has no signatures. */
  readonly checkpointKey: KeyObject | undefined;
  readonly workspace: Workspace;
  readonly identity: IdentityParts;
  /** The settings of the listeners. */
  readonly doors: ReturnType<typeof readDoors>;
  readonly exports: ReturnType<typeof readExports>;
  readonly traces: ReturnType<typeof readTraces>;
  readonly confinement: ConfinementShown | undefined;
  /** Approval policies that are accepted but probably not what was meant. */
  readonly policyNotes: readonly string[];
  close(): Promise<void>;
}

/**
 * Reads and joins everything that the configuration names, without opening the audit: what `stc check` and `stc plan` need.
 *
 * @throws {StartupError} with all problems at once
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

/** Resources to close, even if the rest of the assembly fails. */
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
  const detector = readDetector(config, problems);
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
    ...{
      registry,
      callers,
      detector,
      grpc,
      loaded,
      report,
      ...judged,
      hashKey,
      checkpointKey,
      exports,
      traces,
      workspace,
    },
    ...{ identity, doors, close, policyNotes: policies.notes, confinement: shownConfinement(config, confinement) },
  };
}

/** Returns the detector with the operators' rules, which are checked against their own examples. */
function readDetector({ redaction: { rules } }: Config, problems: string[]): Detector {
  if (rules.length === 0) return DETECTOR;
  problems.push(...operatorRuleFaults(rules).map((fault) => `redaction.rules${fault}`));
  return new Detector([...Object.values(MODULES.detectorRules).flat(), ...operatorRules(rules)]);
}

interface Reached {
  readonly tools: readonly Tool[];
  readonly systems: ReadonlyMap<string, unknown>;
  readonly commands: ReadonlyMap<string, string>;
  readonly problems: readonly string[];
}

/**
 * Returns the tools without those whose system or program is configured but broken: that problem is already reported, and it
 * prevents the start.
 */
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

/** Returns a signer of the caller's identity for services, if the configuration names a key. */
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

/**
 * Opens the handler of the gRPC systems. Its packages are the largest of all, so they are loaded only when there is a system to
 * call.
 */
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

/** Used when no system is configured and no tool needs one. */
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
