import { StartupError } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import type { Modules } from "../module-types.ts";
import { type Config, configSchema, type Environment, environmentOverrides, server } from "./config.ts";
import { withIssuerList } from "./jwt.ts";
import { configMessage, configProblems, fieldOf } from "./problems.ts";
import { FAMILY, type Family, type ReadTenant, ServiceProblems, TenantProblems } from "./tenant-family.ts";
import {
  combinationProblems,
  derivedTenants,
  type FieldProblem,
  integrationProblems,
  tenantProblems,
  withoutTenantSections,
} from "./tenant-problems.ts";
import { type WrittenTenant, withoutNull } from "./tenant-sections.ts";

/** Reads a configuration as it is written: with the variables of the environment, and one configuration for each tenant. */

interface ReadOptions {
  readonly folder: string;
  readonly environment: Environment;
  /** Name of the configuration in messages. */
  readonly origin: string;
}

/**
 * Reads a configuration object, which has the same shape as the file.
 *
 * @throws {StartupError} with every error
 */
export function readConfig(written: unknown, options: ReadOptions, modules: Modules): Config {
  const overridden = withIssuers(withOverrides(written, options.environment), modules.tokenSources);
  const { config, problems: own } = parse(withoutTenantSections(overridden), options, modules);
  const problems = [...own, ...(config === undefined ? [] : combinationProblems(config))];
  const derived = derivedTenants(overridden).map((tenant) => ({ tenant, ...parseTenant(tenant, options, modules) }));
  const known = [config, ...derived.map((each) => each.config)].flatMap((each) => each ?? []);
  const all = derived.map(({ tenant, ...read }): ReadTenant<Config> => {
    const found = tenantProblems(tenant, read.problems, problems);
    const texts = textsOf([...found, ...integrationProblems(known, read.config)], options);
    const family = { tenants: [], written: tenant.service };
    return {
      name: tenant.name,
      problems: texts,
      ...(texts.length === 0 && read.config && { config: withFamily(read.config, family) }),
    };
  });
  const ofTenants = all.flatMap((tenant) => tenant.problems);
  const texts = [...new Set([...textsOf(problems, options), ...ofTenants])];
  if (config === undefined || problems.length > 0) throw new ServiceProblems(texts, all);
  const read = withFamily(config, { tenants: all, written: overridden });
  if (texts.length > 0) throw new TenantProblems(texts, read);
  return read;
}

function parseTenant({ name, written }: WrittenTenant, options: ReadOptions, modules: Modules): ParsedConfig {
  const { config, problems } = parse(written, options, modules);
  return { problems, ...(config !== undefined && { config: { ...config, tenant: name } }) };
}

function withFamily(
  config: Config,
  { tenants: all, written }: { readonly tenants: Family<Config>["tenants"]; readonly written: unknown },
): Config {
  const isAlone = all.length === 0 && config.tenant === undefined;
  const family =
    isAlone || !isTable(written) ? {} : { [FAMILY]: Object.freeze({ written, tenants: Object.freeze(all) }) };
  return deepFreeze({ ...config, ...family });
}

function textsOf(problems: readonly FieldProblem[], { origin, environment }: ReadOptions): readonly string[] {
  const texts = problems.map(
    ({ path, message }) => `${origin}: ${fieldOf(path)}: ${message}${overrideHint(path, environment)}`,
  );
  return [...new Set(texts)];
}

interface ParsedConfig {
  readonly config?: Config;
  readonly problems: readonly FieldProblem[];
}

function parse(written: unknown, { folder, environment, origin }: ReadOptions, modules: Modules): ParsedConfig {
  const parsed = configSchema(modules).safeParse(written, { error: configMessage });
  if (!parsed.success) return { problems: configProblems(parsed.error.issues) };
  const worker = workerIn(environment);
  const searchPath = environment["PATH"] ?? "";
  return {
    config: { ...parsed.data, folder, origin, searchPath, ...(worker !== undefined && { worker }) },
    problems: [],
  };
}

/** Environment variable with the number of a worker, which its parent process sets. */
export const WORKER_VARIABLE = "STC_WORKER";

function workerIn(environment: Environment): number | undefined {
  const text = environment[WORKER_VARIABLE];
  return text === undefined || !/^[1-9]\d{0,3}$/.test(text) ? undefined : Number(text);
}

/**
 * Reads the section `server` alone and ignores errors in the other sections.
 *
 * @throws {StartupError} with every error in the section
 */
export function readServer(written: unknown, { environment, origin }: ReadOptions): Config["server"] {
  const config = withOverrides(written ?? {}, environment);
  const section = typeof config === "object" && config !== null && "server" in config ? config.server : undefined;
  const parsed = server.safeParse(section, { error: configMessage });
  if (parsed.success) return parsed.data;
  const problems = configProblems(parsed.error.issues);
  throw new StartupError(problems.map(({ path, message }) => `${origin}: ${fieldOf(["server", ...path])}: ${message}`));
}

function withOverrides(written: unknown, environment: Environment): unknown {
  if (typeof written !== "object" || written === null || Array.isArray(written)) return written;
  const config: Record<string, unknown> = { ...withoutNull({ ...written }) };
  for (const { variable, path, read } of environmentOverrides) {
    const value = environment[variable];
    if (value === undefined || value === "") continue;
    const [section, key] = path;
    const before = config[section];
    config[section] = { ...(typeof before === "object" ? before : {}), [key]: read(value) };
  }
  return config;
}

/** Takes a single issuer, too: the section `jwt` may be one. */
function withIssuers(config: unknown, sources: Modules["tokenSources"]): unknown {
  return isTable(config) && "jwt" in config ? { ...config, jwt: withIssuerList(config["jwt"], sources) } : config;
}

function overrideHint(path: readonly PropertyKey[], environment: Environment): string {
  const override = environmentOverrides.find((row) => row.path.join(".") === path.join("."));
  return override !== undefined && environment[override.variable] ? ` (set by ${override.variable})` : "";
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  if (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}
