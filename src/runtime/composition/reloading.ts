import type { AuditLog } from "../../audit/audit-log.ts";
import { StartupError } from "../../core/errors.ts";
import { filterSecrets } from "../../detection/secrets/secrets-filter.ts";
import type { CertificateEvent } from "../../targets/grpc/handler.ts";
import type { Config } from "../config/config.ts";
import { isPipe } from "../config/plain-file.ts";
import type { Fingerprint } from "../reload/fingerprints.ts";
import { Reload } from "../reload/reload.ts";
import type { LiveSnapshots } from "../reload/snapshots.ts";
import { unharmed } from "../reload/surroundings.ts";
import type { ConfigurationState, ReloadAsker, ReloadEvent, Reloaded } from "../reload/types.ts";
import { watchReload } from "../reload/watch.ts";
import type { Parts } from "./assembly.ts";
import { watchRevocations } from "./identity.ts";
import type { RevocationEvent } from "./revocation-file.ts";
import type { Joined } from "./snapshot.ts";

export interface ReloadingParts {
  readonly generations: LiveSnapshots<Joined>;
  /** Of the files, taken before the first reading; with `readAgain`. */
  readonly print: Fingerprint | undefined;
  /** @throws {StartupError} with everything that is wrong at once */
  readonly build: (config: Config, former: Joined) => Promise<Joined>;
  /** Called when it is in use, before anything enters it. Never fails. */
  readonly adopted: (content: Joined) => void;
  /** Durable when resolved. */
  readonly journal: AuditLog["journal"];
  /** Milliseconds since 1970. */
  readonly clock: () => number;
  /** Reads the configuration anew; without it there is no reload. @throws {StartupError} */
  readonly readAgain?: (() => Config | Promise<Config>) | undefined;
  /** In somebody else's process what all share is theirs to change, at any time. */
  readonly isEmbedded?: boolean | undefined;
  /** What became of a reload, and the configuration that is in use after it. */
  readonly onReload?: ((event: ReloadEvent, config: Config) => void) | undefined;
  readonly onCertificates?: ((event: CertificateEvent) => void) | undefined;
  readonly onRevocations?: (event: RevocationEvent) => void;
}

export interface Reloading {
  /** Undefined where nothing can be read again. */
  state(): ConfigurationState | undefined;
  /** Undefined there too, and where nothing is to be. */
  readonly reload: ((by: ReloadAsker) => Promise<Reloaded>) | undefined;
  /** From now on everything stays as it is. */
  stop(): void;
}

/** Keeps what is in use up to date, as far as the configuration wants it. */
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

/** Addresses with passwords, and what manifests throw, come this way. */
function withoutSecrets(reloaded: Reloaded): Reloaded {
  if (reloaded.outcome !== "refused") return reloaded;
  return { ...reloaded, problems: reloaded.problems.map((problem) => filterSecrets(problem).text) };
}

/** What is followed file by file, until the generation is closed. One that was exchanged says nothing any more. */
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
  followed.grpc.watch({
    now: clock,
    report: (event) => {
      if (!isInUse()) return;
      journal({ ...event }).catch(() => {});
      listeners.onCertificates?.(event);
    },
  });
}
