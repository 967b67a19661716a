import { errorText } from "../../core/error-text.ts";
import { resultWithin } from "../../core/time-limits.ts";
import type { Config } from "../config/config.ts";
import type { Modules } from "../module-types.ts";
import { configuredStore } from "./approvals.ts";
import { readExports } from "./audit.ts";
import { readIssuers, sourceOf } from "./identity.ts";

/** A connection to a system that the configuration names. */
interface Probe {
  readonly field: string;
  /** Connects and changes nothing. Rejects with an error that says what is wrong. */
  check(): Promise<void>;
}

export interface Connection {
  readonly field: string;
  /** Undefined: the service could use the system. */
  readonly problem: string | undefined;
}

const CONNECT_MS_MAX = 10_000;
/** The service's own limit for fetching keys. */
const KEYS_MS_MAX = 5_000;

/** Connects once, at the same time, to the database, the issuers' key sets and the receivers of the audit. */
export function connect(config: Config, modules: Modules): Promise<readonly Connection[]> {
  const probes = [...databaseProbes(config, modules), ...keyProbes(config, modules), ...exportProbes(config, modules)];
  return Promise.all(
    probes.map(async ({ field, check }) => {
      const tooLate = () => new Error(`gave no answer within ${CONNECT_MS_MAX / 1_000} s`);
      const problem = await resultWithin(check(), CONNECT_MS_MAX, tooLate).then(() => undefined, errorText);
      return { field, problem };
    }),
  );
}

// Whoever assembles the configuration reports what cannot be read.

function databaseProbes(config: Config, { approvalStores }: Modules): readonly Probe[] {
  try {
    const { kind, url } = configuredStore(config, approvalStores) ?? {};
    if (kind?.probe === undefined || url === undefined) return [];
    return [{ field: `approvals.${kind.setting}`, check: async () => kind.probe?.(url) }];
  } catch {
    return [];
  }
}

function keyProbes(config: Config, { tokenSources }: Modules): readonly Probe[] {
  return (readIssuers(config, tokenSources, []) ?? []).flatMap(({ keys, algorithms }, index) => {
    const issuer = config.jwt.issuers[index];
    if (keys.probe === undefined || issuer === undefined) return [];
    const field = `jwt.issuers[${index}].${sourceOf(issuer, tokenSources)?.key}`;
    return [{ field, check: async () => keys.probe?.({ algorithms, timeoutMs: KEYS_MS_MAX }) }];
  });
}

function exportProbes(config: Config, { auditExporters }: Modules): readonly Probe[] {
  return readExports(config, auditExporters, []).map(({ name, receiver }) => ({
    field: `audit.export[${config.audit.export.findIndex((entry) => entry.name === name)}]`,
    check: async () => {
      const outcome = await receiver.deliver([], AbortSignal.timeout(CONNECT_MS_MAX));
      await receiver.close?.();
      // A refusal of an empty list comes from a receiver that was reached and knows the credentials.
      if (outcome.kind === "later") throw new Error(`the receiver ${name} cannot be used: ${outcome.reason}`);
    },
  }));
}
