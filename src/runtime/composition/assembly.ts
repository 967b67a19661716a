import type { KeyObject } from "node:crypto";
import type { NamedWebhooks } from "../../approvals/notify/webhooks.ts";
import type { ReceiptSigner } from "../../approvals/receipts/receipts.ts";
import type { RiskRules } from "../../approvals/risk.ts";
import type { AuditStore } from "../../audit/store/audit-store.ts";
import { StartupError } from "../../core/errors.ts";
import type { KindReport } from "../../core/target-kind.ts";
import type { Tool } from "../../core/types.ts";
import { operatorRuleProblems, operatorRules } from "../../detection/rules/operators.ts";
import { DETECTOR_RULES } from "../../detection/rules/rules.ts";
import { DETECTOR, Detector } from "../../detection/sensitive.ts";
import {
  type CallerVerifier,
  type CallerVerifierOptions,
  createCallerVerifier,
} from "../../pipeline/caller-context.ts";
import type { ReviewObserver } from "../../pipeline/identity/token-review.ts";
import { createPolicyEvaluator, type PolicyEvaluator } from "../../pipeline/policy-points.ts";
import { createRegistry, type Registry } from "../../pipeline/registry.ts";
import { type Config, liveKeys } from "../config/config.ts";
import { callersTenant } from "../config/tenants.ts";
import { forgetModules } from "../manifests/fresh-modules.ts";
import { loadTools } from "../manifests/loader.ts";
import { argsDigestOf, identityOf, type LoadedTools } from "../manifests/sources.ts";
import type { Modules } from "../module-types.ts";
import { readApprovals } from "./approvals.ts";
import { policyFindings, ruleProblems } from "./approver-policies.ts";
import { readAuditStore, readCheckpointKey, readExports, readHashKey } from "./audit.ts";
import { dataFlowNotes } from "./data-flow.ts";
import { DecisionPoints } from "./decision-points.ts";
import type { HubReading, HubSettings } from "./hub-settings.ts";
import { type IdentityParts, readIdentity, readIssuers } from "./identity.ts";
import { limitProblems } from "./limits.ts";
import { readListeners } from "./listeners.ts";
import { attempt } from "./problems.ts";
import { quotaNotes } from "./quotas.ts";
import { type KindCapabilities, Targets } from "./targets.ts";
import { readTraces } from "./telemetry.ts";

/** State of the configuration in use, which is needed to read a changed one. */
export interface InUse {
  /**
   * Returns the manifest modules of the snapshots in use. If a reading fails, all other modules that it loaded are released.
   */
  readonly modulesInUse?: (() => ReadonlySet<string>) | undefined;
  readonly formerCallers?: CallerVerifier | undefined;
  readonly formerPoints?: DecisionPoints | undefined;
}

/** Problems found before the assembly, which is refused because of them, too. */
export interface FoundBefore {
  readonly problems?: readonly string[] | undefined;
}

interface AssemblyCapabilities
  extends InUse,
    FoundBefore,
    KindCapabilities,
    Omit<ReviewObserver, "now">,
    Pick<CallerVerifierOptions, "choice"> {
  /** True when the embedder of the library determines the approvers. */
  readonly isEmbedded?: boolean | undefined;
  /** Milliseconds, never decreasing. */
  readonly monotonic: () => number;
}

/** The parts that are built before the audit is opened: enough to check a configuration and to plan a call. */
export interface Parts {
  readonly registry: Registry;
  readonly callers: CallerVerifier;
  /** Finds secrets and personal data by the built-in rules and those of the configuration. */
  readonly detector: Detector;
  readonly targets: Targets;
  readonly targetKinds: Modules["targetKinds"];
  readonly liveKeys: readonly string[];
  readonly loaded: LoadedTools;
  readonly report: Required<KindReport>;
  readonly risk: RiskRules;
  readonly policy: PolicyEvaluator;
  readonly points: DecisionPoints;
  /** Signs the receipts of decisions; undefined: no receipts. */
  readonly receiptOf: ReceiptSigner | undefined;
  /** The webhooks that are notified of approvals, and the integrations through which people may answer. */
  readonly webhooks: NamedWebhooks;
  /** The key of the argument hashes; undefined: plain hashes. */
  readonly hashKey: Uint8Array | undefined;
  /** Signs the audit's checkpoints; undefined before the first start, which creates it. */
  readonly checkpointKey: KeyObject | undefined;
  readonly identity: IdentityParts;
  readonly listeners: ReturnType<typeof readListeners>;
  readonly exports: ReturnType<typeof readExports>;
  /** Holds the lines of all replicas; undefined without `audit.storeUrlFile`. */
  readonly auditStore: AuditStore | undefined;
  readonly traces: ReturnType<typeof readTraces>;
  /** The files of the section `hub`; undefined without it. */
  readonly hub: HubSettings | undefined;
  /** Notes on approval policies and quotas that are valid but probably not intended. */
  readonly policyNotes: readonly string[];
  close(): Promise<void>;
}

/**
 * Reads and joins everything that the configuration names, without opening the audit. Enough for `stc check` and `stc plan`.
 *
 * @throws {StartupError} with all problems at once
 */
export async function assemble(config: Config, capabilities: AssemblyCapabilities, modules: Modules): Promise<Parts> {
  const opened: Opened = { modules: new Set(), resources: [] };
  try {
    return await readParts(config, { capabilities, modules }, opened);
  } catch (error) {
    await closeOpened(opened);
    if (capabilities.modulesInUse !== undefined) forgetModules(opened.modules, capabilities.modulesInUse());
    throw error;
  }
}

interface Opened {
  modules: ReadonlySet<string>;
  readonly resources: (() => unknown)[];
}

async function closeOpened({ resources }: Opened): Promise<void> {
  await Promise.all(resources.map(async (close) => close()));
}

async function readParts(
  config: Config,
  { capabilities, modules }: { readonly capabilities: AssemblyCapabilities; readonly modules: Modules },
  opened: Opened,
): Promise<Parts> {
  const { now, random, monotonic, formerCallers: former, formerPoints } = capabilities;
  const problems = [...(capabilities.problems ?? [])];
  const targets = new Targets();
  opened.resources.push(() => targets.close());
  await targets.open(config, modules, { ...capabilities, problems });
  const issuers = readIssuers(config, modules, problems, capabilities);
  const identity = readIdentity(config, problems);
  opened.resources.push(() => identity.revocations?.close());
  const listeners = readListeners(config, problems);
  const hashKey = readHashKey(config, problems);
  const checkpointKey = readCheckpointKey(config, problems);
  const exports = readExports(config, { exporters: modules.auditExporters, problems, clock: now });
  const auditStore = await readAuditStore(config, problems);
  opened.resources.push(() => auditStore?.close());
  const traces = readTraces(config, problems);
  const hub = await readHubSection(config, { ...capabilities, modules, problems });
  const approvals = readApprovals(config, modules, problems);
  const detector = readDetector(config, modules, problems);
  const opening = { now, random, monotonic, detector, problems, former: formerPoints };
  const points = await DecisionPoints.open(config, modules.decisionPoints, opening);
  opened.resources.push(() => points.close());
  const { others } = modules.policyPoints;
  const allPoints = { ...modules.policyPoints, others: [...others, ...points.policyPoints] };
  const policy = approvals && attempt(problems, () => createPolicyEvaluator(allPoints, approvals.risk, detector));
  const found = await loadTools(config, targets.offered());
  opened.modules = found.modules;
  problems.push(...found.problems);
  const loaded = await targets.prepare(found);
  const bound = await readBindings(config, loaded, problems);
  const callers =
    issuers === undefined
      ? undefined
      : attempt(problems, () =>
          createCallerVerifier({
            issuers,
            tenant: callersTenant(config),
            choice: capabilities.choice,
            clock: now,
            former,
            bindings: bound?.index,
            ...identity.callers,
          }),
        );
  points.prepare(loaded.tools, problems);
  const identify = (tool: Tool): string => {
    const kind = targets.kindOf(tool);
    const policy = approvals?.risk.versionFor(tool, kind) ?? "";
    return identityOf(tool, { config, loaded, policy, sections: kind.sections ?? [] });
  };
  const reachable = targets.reachable(loaded.tools);
  const registry = attempt(
    problems,
    () => createRegistry(reachable, targets.handlers(), identify, (tool) => argsDigestOf(tool, { config, loaded })),
    loaded,
  );
  const report = registry && targets.report(loaded.tools);
  const isEmbedded = capabilities.isEmbedded === true;
  const policies = policyFindings(config, {
    tools: loaded.tools,
    isEmbedded,
    hasOwnPoints: others.length > 0 || points.mayAsk,
    bindings: bound?.resolved,
  });
  const rules = ruleProblems(config, loaded);
  problems.push(...(report?.problems ?? []), ...limitProblems(config, loaded), ...rules, ...policies.problems);
  if (problems.length > 0 || !registry || !report || !callers || !approvals || !policy)
    throw new StartupError(problems);
  const close = (): Promise<void> => closeOpened(opened);
  return {
    registry,
    callers,
    detector,
    targets,
    loaded,
    report,
    ...approvals,
    policy,
    points,
    hashKey,
    checkpointKey,
    exports,
    auditStore,
    traces,
    hub,
    identity,
    listeners,
    close,
    targetKinds: modules.targetKinds,
    liveKeys: liveKeys(modules),
    policyNotes: [
      ...policies.notes,
      ...(await quotaNotes(config, { ...loaded, isEmbedded })),
      ...(await dataFlowNotes(config, loaded.tools, modules.targetKinds)),
    ],
  };
}

/** Loads the code only for a hub or a member. */
async function readHubSection(config: Config, reading: HubReading): Promise<HubSettings | undefined> {
  if (config.hub === undefined) return undefined;
  const { readHub } = await import("./hub-settings.ts");
  return readHub(config, config.hub, reading);
}

/** Returns the bindings of roles; undefined when nothing is bound. Loads their code only then. */
async function readBindings(config: Config, loaded: LoadedTools, problems: string[]) {
  if (config.bindings.length === 0 && Object.keys(config.roles).length === 0) return undefined;
  const { openBindings } = await import("./roles.ts");
  const opened = openBindings(config, loaded);
  problems.push(...opened.problems);
  return config.bindings.length === 0 ? undefined : opened;
}

/** Returns the detector with the operators' rules, which are checked against their own examples. */
function readDetector(
  { redaction: { rules } }: Config,
  { detectorRules }: Pick<Modules, "detectorRules">,
  problems: string[],
): Detector {
  if (rules.length === 0 && detectorRules === DETECTOR_RULES) return DETECTOR;
  problems.push(...operatorRuleProblems(rules).map((problem) => `redaction.rules${problem}`));
  return new Detector([...Object.values(detectorRules).flat(), ...operatorRules(rules)]);
}
