import type { BundleMember } from "../bundles/member.ts";
import { StartupError } from "../core/errors.ts";
import type { RegisteredTool } from "../core/evidence.ts";
import { printableCell } from "../core/printable.ts";
import { noTenant } from "../core/tenant-names.ts";
import type { EpochMs } from "../core/types.ts";
import { MODULES } from "../modules.ts";
import { assemble, type Parts } from "../runtime/composition/wiring.ts";
import type { Config, Environment } from "../runtime/config/config.ts";
import { processEnvironment } from "../runtime/config/environment.ts";
import { readBundleFile, readConfigFile } from "../runtime/config/file.ts";
import { keepingTenants, readTenants, tenantConfigOf } from "../runtime/config/tenants.ts";
import { isClone } from "../runtime/own-code.ts";
import type { ReloadCandidate } from "../runtime/reload/types.ts";
import type { CONFIGURED, OptionValues } from "./command.ts";
import { wrongUsage } from "./output.ts";

export const NO_DEVELOPMENT =
  "development mode needs the repository: run stc from a clone, or write a service of your own with stc init";

export type ConfigurationOptions = OptionValues<typeof CONFIGURED.options>;

export interface Configured {
  readonly config: Config;
  /**
   * Reads the configuration again, with a candidate in place of the bundle in force.
   *
   * @throws {StartupError}
   */
  readAgain(candidate?: ReloadCandidate): Config;
  /** The fleet's part of the configuration; undefined where it has none. */
  readonly bundle?: BundleMember | undefined;
  /** Starts the services that exist only in development; resolves to the function that stops them. */
  start(): Promise<() => Promise<void>>;
}

/** Environment variables that would let someone take over the service or disable its protection. */
const REFUSED_VARIABLES: readonly { readonly named: RegExp; readonly allowed?: string; readonly because: string }[] = [
  { named: /^BUN_(OPTIONS|BE_BUN|INSPECT.*)$/, because: "it can run code inside the service" },
  {
    named: /^BUN_RUNTIME_TRANSPILER_CACHE_PATH$/,
    allowed: "0",
    because: "files there would run in place of the service",
  },
  {
    named: /^NODE_TLS_REJECT_UNAUTHORIZED$/,
    allowed: "1",
    because: "it turns off the verification of certificates, and anyone could supply an issuer's keys",
  },
];

/** Returns one problem for each dangerous variable. Names variables, never their values. */
export function environmentProblems(environment: Environment): readonly string[] {
  return Object.entries(environment).flatMap(([variable, value]) => {
    const row = REFUSED_VARIABLES.find(({ named }) => named.test(variable));
    if (row === undefined || value === undefined || value === "" || value === row.allowed) return [];
    return [`${variable} is set: ${row.because}`];
  });
}

/**
 * Reads the configuration that the command line or STC_CONFIG names. There is no default, and development mode is never a
 * fallback.
 *
 * @throws {StartupError}
 */
export async function configuration({ config, dev, tenant }: ConfigurationOptions): Promise<Configured> {
  const environment = processEnvironment();
  const problems = environmentProblems(environment);
  if (problems.length > 0) throw new StartupError(problems);
  if (dev === true) {
    if (!isClone()) throw new StartupError([NO_DEVELOPMENT]);
    const { developmentEnvironment } = await import("./development/environment.ts");
    const development = await developmentEnvironment(environment, Date.now());
    const { config: own } = development;
    return { ...development, config: tenant === undefined ? own : ofTenant(own, tenant), readAgain: () => own };
  }
  const file = config ?? environment["STC_CONFIG"];
  if (!file) throw new StartupError(["no configuration: set STC_CONFIG, give --config FILE, or --dev for development"]);
  const bundle = await openBundle(file);
  const readAgain = (candidate: Pick<ReloadCandidate, "amend"> | undefined = bundle): Config =>
    readConfigFile(file, environment, MODULES, (written) =>
      candidate === undefined ? written : candidate.amend(written),
    );
  const readFirst = async (): Promise<Config> =>
    tenant === undefined ? readAgain() : ofTenant(await keepingTenants(async () => readAgain()), tenant);
  const first = bundle === undefined ? await readFirst() : await bundle.firstConfiguration(readFirst);
  return { config: first, readAgain, bundle, start: async () => async () => {} };
}

/** @throws {CommandError} when there is no tenant of this name */
function ofTenant(config: Config, name: string): Config {
  const names = readTenants(config).map((tenant) => tenant.name);
  if (names.includes(name)) return tenantConfigOf(config, name);
  return wrongUsage(noTenant(name, names, "the configuration"));
}

/** Returns undefined for a configuration without a bundle: then nothing is loaded that knows bundles. */
async function openBundle(file: string): Promise<BundleMember | undefined> {
  const section = readBundleFile(file);
  if (section === undefined) return undefined;
  const { BundleMember: Member } = await import("../bundles/member.ts");
  return Member.open(section, { clock: Date.now, monotonic: () => performance.now() });
}

/**
 * Assembles everything that the configuration names, without opening the audit, and closes it again after `use`.
 *
 * @throws {StartupError}
 */
export async function withParts<T>(
  options: ConfigurationOptions,
  use: (parts: Parts, config: Config, nowMs: EpochMs) => T | Promise<T>,
): Promise<T> {
  const { config } = await configuration(options);
  return withPartsOf(config, (parts, nowMs) => use(parts, config, nowMs));
}

/** @throws {StartupError} as `withParts` */
export async function withPartsOf<T>(
  config: Config,
  use: (parts: Parts, nowMs: EpochMs) => T | Promise<T>,
): Promise<T> {
  const parts = await assemble(config, MODULES);
  try {
    return await use(parts, Date.now());
  } finally {
    await parts.close();
  }
}

/** @throws {CommandError} when there is no tool of this name */
export function findTool({ registry }: Parts, name: string, { tenants }: Config): RegisteredTool {
  const found = registry.list().find(({ tool }) => tool.name === name);
  const ofTenants = tenants === undefined ? "" : ", with --tenant NAME those of a tenant";
  return found ?? wrongUsage(`there is no tool ${printableCell(name)}; \`stc tools\` lists them${ofTenants}`);
}
