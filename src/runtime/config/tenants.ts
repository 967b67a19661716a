import { StartupError } from "../../core/errors.ts";
import { speaksFor } from "../../pipeline/identity/tenant-claim.ts";
import type { Config } from "./config.ts";
import { fieldOf } from "./problems.ts";
import { FAMILY, type ReadTenant, ServiceProblems, TenantProblems } from "./tenant-family.ts";
import { inherited, OF_SERVICE_ONLY, type Section, tableIn, WRITABLE, writtenTenant } from "./tenant-sections.ts";

/** The configurations of the tenants of a service, and where their problems are written. */

/** Problem of a reload: each tenant has files and tables of its own, which are opened and closed with the process. */
export const OTHER_NAMES = "tenants: the names are not those of the start: needs a restart";

type CallersOf = Pick<Config, "jwt" | "tenant" | "hub">;

/** Returns the tenant whose callers are accepted, at a member also its hub's; undefined: the service's own callers are. */
export function callersTenant({ tenant, hub }: Pick<Config, "tenant" | "hub">): string | undefined {
  return tenant ?? hub?.tenant;
}

/** Returns the section `jwt` without issuers and certificates whose callers belong to others: those of a service's tenants. */
export function ownJwt(config: CallersOf): Config["jwt"] {
  const { jwt } = config;
  const tenant = callersTenant(config);
  const clientCertificates = jwt.clientCertificates.filter((certificate) => certificate.tenant === tenant);
  return { ...jwt, issuers: ownIssuers(config), clientCertificates };
}

/** Returns the issuers of the tokens of agents that are accepted. */
export function agentIssuers(config: CallersOf): Config["jwt"]["issuers"] {
  return ownIssuers(config).filter(({ operators }) => !operators);
}

/** Returns the words for an issuer whose operators may approve, for messages: one of the service itself, or of its tenant. */
export function operatorIssuer(config: CallersOf): string {
  const tenant = callersTenant(config);
  const isShared = config.jwt.issuers.some(({ tenants }) => tenants !== undefined);
  const whose = isShared ? ` and ${tenant === undefined ? "without tenants" : `${tenant} in tenants.names`}` : "";
  return `issuer in jwt.issuers with operators: true${whose}`;
}

function ownIssuers(config: CallersOf): Config["jwt"]["issuers"] {
  const tenant = callersTenant(config);
  return config.jwt.issuers.filter((issuer) => speaksFor(issuer, tenant));
}

/** Returns the configurations of all tenants, in the order in which they are written. Each has its name in `tenant`. */
export function tenantConfigs(config: Config): readonly Config[] {
  return readTenants(config).flatMap((tenant) => tenant.config ?? []);
}

/**
 * Returns what `read` returns, also when tenants have problems: `tenantConfigOf` reports them.
 *
 * @throws {StartupError} with the problems of the service itself
 */
export async function keepingTenants(read: () => Promise<Config>): Promise<Config> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof TenantProblems) return error.config as Config;
    throw error;
  }
}

/** Shown to operators of a tenant in place of the problems outside of its section. */
export const OTHERS_HAVE_PROBLEMS =
  "the configuration has problems outside of this tenant's section: operators of the service are shown them";

/**
 * Returns what `keepingTenants` returns, for the reload of one tenant.
 *
 * @throws {StartupError} with the tenant's own problems alone: its operators are shown them, and those of others name others
 */
export async function keepingTenantsFor(name: string, read: () => Promise<Config>): Promise<Config> {
  try {
    return await keepingTenants(read);
  } catch (error) {
    if (!(error instanceof StartupError)) throw error;
    const own = error instanceof ServiceProblems ? error.tenants.find((one) => one.name === name)?.problems : undefined;
    throw new StartupError([...(own ?? []), OTHERS_HAVE_PROBLEMS]);
  }
}

/** Returns all tenants, also those with problems (`keepingTenants`). */
export function readTenants(config: Config): readonly ReadTenant<Config>[] {
  return config[FAMILY]?.tenants ?? [];
}

/**
 * Returns the configuration of one tenant.
 *
 * @throws {StartupError} with its problems, or when there is no such tenant
 */
export function tenantConfigOf(config: Config, name: string): Config {
  const tenant = readTenants(config).find((one) => one.name === name);
  if (tenant === undefined) throw new StartupError([OTHER_NAMES]);
  if (tenant.config === undefined) throw new StartupError(tenant.problems);
  return tenant.config;
}

interface OtherSections extends Section {
  readonly tenants: Readonly<Record<string, Section>>;
}

/** Returns the sections of the others in the file as written: of the service itself, and of the other tenants. */
export function sectionsOfOthers(config: Config): OtherSections {
  const { written } = config[FAMILY] ?? {};
  if (written === undefined) return { tenants: {} };
  const all = tableIn(written, "tenants");
  const others = Object.keys(all).filter((name) => name !== config.tenant);
  const ofTenants = Object.fromEntries(others.map((name) => [name, tableIn(all, name)]));
  return { ...(config.tenant !== undefined && written), tenants: ofTenants };
}

/**
 * Returns a problem of a tenant, found after its configuration was read, with the field where it is written. Problems of the service
 * itself, and those that name the tenant already, stay as they are.
 */
export function problemOf({ tenant: name, origin, [FAMILY]: family }: Config, problem: string): string {
  if (name === undefined || family === undefined || problem.startsWith(`${origin}: `)) return problem;
  const ofTenant = `tenants.${name}: `;
  if (problem.startsWith(ofTenant) || problem.endsWith(inherited(name))) return problem;
  const [, first, second, index] = /^([a-zA-Z]+)(?:\.([a-zA-Z]+))?(?:\[(\d+)\])?(?=[.[:]|$)/.exec(problem) ?? [];
  if (first === undefined || !(WRITABLE.includes(first) || OF_SERVICE_ONLY.has(first))) return `${ofTenant}${problem}`;
  const path = [first, ...(second === undefined ? [] : [second]), ...(index === undefined ? [] : [Number(index)])];
  const at = writtenTenant(family.written, name).pathOf(path);
  const shown = `${fieldOf(at)}${problem.slice(fieldOf(path).length)}`;
  return at[0] === "tenants" ? shown : `${shown}${inherited(name)}`;
}

/** Returns a problem of a setting that a tenant has from the service as the service itself reports it; any other as it is. */
export function asOfService({ tenant = "" }: Config, problem: string): string {
  const end = inherited(tenant);
  return problem.endsWith(end) ? problem.slice(0, -end.length) : problem;
}
