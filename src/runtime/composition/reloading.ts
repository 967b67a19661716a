import type { AuditLog } from "../../audit/audit-log.ts";
import { StartupError } from "../../core/errors.ts";
import type { CertificateEvent } from "../../core/target-kind.ts";
import { filterSecrets } from "../../detection/sensitive.ts";
import type { Config } from "../config/config.ts";
import { isPipe } from "../config/plain-file.ts";
import type { Fingerprint } from "../reload/fingerprints.ts";
import { Reload, watchReload } from "../reload/reload.ts";
import type { LiveSnapshots } from "../reload/snapshots.ts";
import { unharmed } from "../reload/surroundings.ts";
import type { ConfigurationState, ReloadAsker, ReloadEvent, Reloaded } from "../reload/types.ts";
import type { Parts } from "./assembly.ts";
import { watchRevocations } from "./identity.ts";
import type { RevocationEvent } from "./revocation-file.ts";
import type { Joined } from "./snapshot.ts";

export interface ReloadingParts {
  readonly generations: LiveSnapshots<Joined>;
  /** Fingerprint of the files, taken before the first reading; defined together with `readAgain`. */
  readonly print: Fingerprint | undefined;
  /** @throws {StartupError} with all problems at once */
  readonly build: (config: Config, former: Joined) => Promise<Joined>;
  /** Called when the new snapshot is in use, before any call enters it. Never fails. */
  readonly adopted: (content: Joined) => void;
  /** Writes a journal line; the line is durable when the promise resolves. */
  readonly journal: AuditLog["journal"];
  /** Returns milliseconds since 1970. */
  readonly clock: () => number;
  /**
   * Reads the configuration again; undefined: no reload.
   * @throws {StartupError}
   */
  readonly readAgain?: (() => Config | Promise<Config>) | undefined;
  /** True inside another process, which may change the shared globals at any time. */
  readonly isEmbedded?: boolean | undefined;
  /** Receives the result of a reload and the configuration that is in use after it. */
  readonly onReload?: ((event: ReloadEvent, config: Config) => void) | undefined;
  readonly onCertificates?: ((event: CertificateEvent) => void) | undefined;
  readonly onRevocations?: (event: RevocationEvent) => void;
}

export interface Reloading {
  /** Returns the state; undefined when nothing can be read again. */
  state(): ConfigurationState | undefined;
  /** Runs a reload. Undefined when nothing can be read again or reloading is turned off. */
  readonly reload: ((by: ReloadAsker) => Promise<Reloaded>) | undefined;
  /** Stops watching and reloading. */
  stop(): void;
}

/** Keeps the current snapshot up to date, as configured. */
export function startReloading({ reload: { trigger, perMinuteMax } }: Config, parts: ReloadingParts): Reloading {
  const { generations, print, build, journal, clock, readAgain, onReload, isEmbedded } = parts;
  followFiles(generations.current().parts, parts);
  if (readAgain === undefined || print === undefined) {
    return { state: () => undefined, reload: undefined, stop: () => {} };
  }
  const reload = new Reload({
    ...{ generations, print, journal, clock, perMinuteMax },
    build: isEmbedded === true ? build : (config, former) => unharmed(() => build(config, former)),
    read: () => {
      const { origin } = generations.current().config;
      if (isPipe(origin)) throw new StartupError([`${origin}: a pipe cannot be read again`]);
      return readAgain();
    },
    adopted: (adopted) => {
      parts.adopted(adopted);
      followFiles(adopted.parts, parts);
    },
    log: (event) => onReload?.(event, generations.current().config),
  });
  const unwatch = trigger === "watch" ? watchReload(reload) : () => {};
  return {
    state: () => reload.state(),
    reload: trigger === "off" ? undefined : async (by) => withoutSecrets(await reload.run(by)),
    stop() {
      unwatch();
      reload.close();
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
function followFiles(followed: Parts, { generations, journal, clock, ...listeners }: ReloadingParts): void {
  const isInUse = (): boolean => generations.current().parts === followed;
  watchRevocations(followed.identity, {
    journal: async (line) => {
      if (isInUse()) await journal(line);
    },
    onRevocations: (event) => {
      if (isInUse()) listeners.onRevocations?.(event);
    },
  });
  followed.targets.watch({
    now: clock,
    report: (event) => {
      if (!isInUse()) return;
      journal({ ...event }).catch(() => {});
      listeners.onCertificates?.(event);
    },
  });
}
