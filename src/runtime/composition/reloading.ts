import type { Approvals } from "../../approvals/types.ts";
import type { AuditLog } from "../../audit/audit-log.ts";
import { sha256Hex } from "../../core/digest.ts";
import { StartupError } from "../../core/errors.ts";
import type { CertificateEvent } from "../../core/target-kind.ts";
import type { DataFlowPolicy } from "../../data-flow/flow.ts";
import { filterSecrets } from "../../detection/sensitive.ts";
import { createApprovalGate } from "../../pipeline/approval/gate.ts";
import type { Config } from "../config/config.ts";
import { isPipe } from "../config/plain-file.ts";
import { type Fingerprint, fingerprintOf } from "../reload/fingerprints.ts";
import { Reload, type Reloadable } from "../reload/reload.ts";
import { protectingGlobals } from "../reload/shared-globals.ts";
import type { LiveSnapshots } from "../reload/snapshots.ts";
import type { ConfigurationState, ReloadCandidate, Reloaded, ReloadOrder, ReloadRequester } from "../reload/types.ts";
import type { Parts } from "./assembly.ts";
import type { ConfigurationVersionsKept } from "./configuration-history.ts";
import type { Capabilities, Hooks } from "./hooks.ts";
import { watchRevocations } from "./identity.ts";

/** A configuration snapshot: everything that a reload replaces as a whole. */
interface ServiceSnapshot extends Reloadable {
  readonly parts: Parts;
}

interface JoinOptions extends Pick<Hooks, "onToolApprove" | "logError"> {
  readonly approvals: Approvals | undefined;
  readonly newId: () => string;
  /** Fingerprint of the files of this reading. */
  readonly fingerprint: Fingerprint;
  readonly dataFlow: DataFlowPolicy | undefined;
}

/** Joins the parts of one reading of the configuration with the parts that outlive a reload. */
export function joinSnapshot(config: Config, parts: Parts, options: JoinOptions): ServiceSnapshot {
  const { approvals, onToolApprove, newId, logError, dataFlow, fingerprint } = options;
  const { registry, callers, policy, detector, loaded } = parts;
  const gate = createApprovalGate({
    approvals,
    mode: config.approvals.mode,
    attaches: config.approvals.attach === "on",
    onToolApprove,
    callbackTimeoutMs: config.approvals.callbackTimeoutMs,
    detector,
    newId,
    confirmation: (call) => policy.confirmation(call),
  });
  const close = (): Promise<void> =>
    parts.close().catch((cause: unknown) => logError?.("a former configuration could not be closed", cause));
  const version = policyVersion(fingerprint, parts);
  return {
    config,
    parts,
    registry,
    callers,
    policy,
    gate,
    detector,
    dataFlow,
    version,
    modules: loaded.modules,
    close,
  };
}

/** Returns the version of a configuration that was just read. */
export function policyVersionOf(config: Config, parts: Parts): string {
  return policyVersion(fingerprintOf(config), parts);
}

/**
 * Returns what audit entries name as the configuration that judged them: its fingerprint. Tools that an embedder gives as values
 * are in no file, so their identities count too.
 */
function policyVersion({ sha256 }: Fingerprint, { registry, loaded }: Pick<Parts, "registry" | "loaded">): string {
  const given = registry.list().filter(({ tool }) => !loaded.origins.has(tool));
  return given.length === 0 ? sha256 : sha256Hex([sha256, ...given.map(({ identity }) => identity)].join("\n"));
}

type ReloadHooks = Pick<Hooks, "readAgain" | "isEmbedded" | "onReload" | "onCertificates" | "onRevocations">;

interface ReloadingParts extends ReloadHooks, Pick<Capabilities, "clock"> {
  readonly snapshots: LiveSnapshots<ServiceSnapshot>;
  /** Fingerprint of the files before they were first read. */
  readonly fingerprint: Fingerprint;
  /** @throws {StartupError} with all problems at once */
  readonly build: (config: Config, former: ServiceSnapshot, fingerprint: Fingerprint) => Promise<ServiceSnapshot>;
  /** Called when the new snapshot is in use, before any call enters it. Never fails. */
  readonly adopted: (content: ServiceSnapshot) => void;
  /** Keeps what was in use, for operators. */
  readonly versions: Pick<ConfigurationVersionsKept, "prepare" | "adopt">;
  /** Writes a journal line; the line is durable when the promise resolves. */
  readonly journal: AuditLog["journal"];
}

interface Reloading {
  /** Returns the state; undefined when the configuration has no source to read again. */
  state(): ConfigurationState | undefined;
  /** Returns the problems of the last reload, if it was refused. They may name paths and secrets. */
  problems(): readonly string[];
  /** Runs a reload. Undefined when the configuration has no source to read again, or reloading is turned off. */
  readonly reload:
    | ((by: ReloadRequester, candidate?: ReloadCandidate, order?: ReloadOrder) => Promise<Reloaded>)
    | undefined;
  stop(): void;
}

export function startReloading(
  { reload: { trigger, perMinuteMax }, worker }: Config,
  parts: ReloadingParts,
): Reloading {
  const { snapshots, fingerprint, build, journal, clock, readAgain, onReload, isEmbedded, versions } = parts;
  followFiles(snapshots.current().parts, parts);
  if (readAgain === undefined) {
    return { state: () => undefined, problems: () => [], reload: undefined, stop: () => {} };
  }
  const reload = new Reload({
    snapshots,
    fingerprint,
    journal,
    clock,
    perMinuteMax,
    liveKeys: snapshots.current().parts.liveKeys,
    build: isEmbedded === true ? build : (...given) => protectingGlobals(() => build(...given)),
    read: (candidate) => {
      const { origin } = snapshots.current().config;
      if (isPipe(origin)) throw new StartupError([`${origin}: a pipe cannot be read again`]);
      return readAgain(candidate);
    },
    describe: (content) => versions.prepare(content),
    adopted: (adopted, by) => {
      parts.adopted(adopted);
      void versions.adopt(adopted, by);
      followFiles(adopted.parts, parts);
    },
    log: (event) => onReload?.(event, snapshots.current().config),
  });
  // Workers are told by their parent, which watches the files.
  const unwatch = trigger === "watch" && worker === undefined ? reload.watch() : () => {};
  return {
    state: () => reload.state(),
    problems: () => reload.problems,
    reload: trigger === "off" ? undefined : async (...given) => withoutSecrets(await reload.run(...given)),
    stop() {
      reload.close();
      unwatch();
    },
  };
}

/** Redacts secrets in problems, which may contain URLs with passwords and exceptions thrown by manifests. */
function withoutSecrets(reloaded: Reloaded): Reloaded {
  if (reloaded.outcome !== "refused") return reloaded;
  return { ...reloaded, problems: reloaded.problems.map((problem) => filterSecrets(problem).text) };
}

/**
 * Watches the revocation file and the certificates until the configuration snapshot is closed. A replaced snapshot reports
 * nothing more.
 */
function followFiles(followed: Parts, { snapshots, journal, clock, ...listeners }: ReloadingParts): void {
  const isInUse = (): boolean => snapshots.current().parts === followed;
  watchRevocations(followed.identity, {
    journal: async (line) => {
      if (isInUse()) await journal(line);
    },
    onRevocations: (event) => {
      if (event.type === "revocations.loaded") {
        followed.targets.revoked();
        followed.points.revoked();
      }
      if (isInUse()) listeners.onRevocations?.(event);
    },
  });
  const report = (event: CertificateEvent): void => {
    if (!isInUse()) return;
    journal({ ...event }).catch(() => {});
    listeners.onCertificates?.(event);
  };
  followed.points.watch({ now: clock, report });
  followed.targets.watch({
    now: clock,
    report,
    upstream: ({ type, ...event }) => {
      if (!isInUse() || (type !== "quarantined" && type !== "restored")) return;
      journal({ type: `upstream.${type}`, ...event }).catch(() => {});
    },
  });
}
