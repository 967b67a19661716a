import { z } from "zod";
import { StartupError } from "../../core/errors.ts";
import { isTable } from "../../core/json.ts";
import type { Config } from "./config.ts";

/** Derives the configuration of each tenant from what is written. A tenant is a whole service of its own inside the process. */

/** The name is part of paths, of a database schema and of labels. */
export const tenantName = z
  .string()
  .regex(
    /^[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?$/,
    "must be a name of lowercase letters, digits and dashes, up to 40 characters, that begins with a letter",
  );

/** The section `tenants`, as it is written. `tenantConfigs` returns what is derived from it. */
export const tenants = z.record(tenantName, z.record(z.string(), z.unknown())).optional();

/** Holds the derived configurations. A copy of a configuration made by spreading keeps it; whoever lists its keys does not see it. */
const DERIVED = Symbol("tenants");

/** A configuration, with those of its tenants. */
export interface WithTenants {
  readonly [DERIVED]?: readonly Config[];
}

/** Returns the configurations of all tenants, in the order in which they are written. Each has its name in `tenant`. */
export function tenantConfigs(config: Config): readonly Config[] {
  return config[DERIVED] ?? [];
}

export function withTenantConfigs(config: Config, derived: readonly Config[]): Config {
  return derived.length === 0 ? config : { ...config, [DERIVED]: derived };
}

/** Only parts of tenants have problems: a running service adopts the other parts. A start is refused. */
export class TenantProblems extends StartupError {
  /** The configuration, with those tenants that have no problems. */
  readonly config: Config;
  /** Returns the problems of one tenant. */
  readonly of: (tenant: string) => readonly string[];

  constructor(problems: readonly string[], config: Config, of: (tenant: string) => readonly string[]) {
    super(problems);
    this.config = config;
    this.of = of;
  }
}

/**
 * Returns a problem for each of the tenant's integrations whose name the service, or another tenant, has too: the name in a signed
 * message says whose it is.
 */
export function integrationProblems(all: readonly Config[], tenant: Config | undefined) {
  if (tenant === undefined) return [];
  const others = all.filter((each) => each.tenant !== tenant.tenant);
  const taken = new Set(others.flatMap((each) => integrationsOf(each).map(({ name }) => name)));
  const at = ["tenants", tenant.tenant ?? "", "approvals", "webhooks"] as const;
  return integrationsOf(tenant)
    .filter(({ name }) => taken.has(name))
    .map(({ index }) => ({
      path: [...at, index, "name"],
      message: "is also the name of another integration, of the service or of a tenant: each needs its own",
    }));
}

function integrationsOf({ approvals: { webhooks } }: Config) {
  return webhooks.flatMap(({ name, decisions }, index) => (decisions === undefined ? [] : [{ name, index }]));
}

type Section = Readonly<Record<string, unknown>>;

/** A tenant's configuration before it is parsed. */
export interface WrittenTenant {
  readonly name: string;
  readonly written: Section;
  /** Returns the path at which a value of the derived configuration is written. */
  readonly pathOf: (path: readonly PropertyKey[]) => readonly PropertyKey[];
}

/** Inherited unless the tenant writes the whole section. */
const INHERITED = ["roles", "bindings", "decisionPoints", "dataFlow", "limits", "redaction"] as const;
const INHERITED_TOO = ["halts", "mcp", "assertion", "telemetry"] as const;
/** The service's, and never the tenant's own. */
const SERVICE_ONLY = ["instance", "server", "console", "log", "reload"] as const;
/** Not in a tenant's configuration at all. */
const OWN_ONLY = ["tools", "systems", "commands", "workspace"] as const;

/** Returns what each tenant's configuration would be if it were written as a file of its own. */
export function writtenTenants(written: unknown): readonly WrittenTenant[] {
  if (!isTable(written) || !isTable(written["tenants"])) return [];
  return Object.entries(written["tenants"]).flatMap(([name, own]) =>
    tenantName.safeParse(name).success ? [derive(written, name, isTable(own) ? own : {})] : [],
  );
}

function derive(service: Section, name: string, own: Section): WrittenTenant {
  const audit = tableIn(service, "audit");
  const approvals = tableIn(service, "approvals");
  const { export: _export, storeUrlFile: _url, checkpointKeyFile: _key, ...inheritedAudit } = audit;
  const { webhooks: _webhooks, receiptKeyFile: _receipts, ...inheritedApprovals } = approvals;
  const deployment = approvals["deployment"] ?? "safe-tool-call";
  const written: Record<string, unknown> = {
    ...pick(service, [...INHERITED, ...INHERITED_TOO]),
    ...pick(own, [...INHERITED, ...INHERITED_TOO, ...OWN_ONLY]),
    ...pick(service, SERVICE_ONLY),
    jwt: jwtOf(service["jwt"], name),
    audit: { ...inheritedAudit, ...tableIn(own, "audit"), dir: `${String(audit["dir"])}/tenants/${name}` },
    approvals: { ...inheritedApprovals, ...tableIn(own, "approvals"), deployment: `${String(deployment)}/${name}` },
  };
  return { name, written, pathOf: (path) => (String(path[0]) in own ? ["tenants", name, ...path] : path) };
}

function jwtOf(jwt: unknown, name: string): unknown {
  if (!isTable(jwt) || !Array.isArray(jwt["issuers"])) return jwt;
  const { issuers, clientCertificates } = jwt;
  const speaksFor = (issuer: unknown): boolean => {
    const names = isTable(issuer) && isTable(issuer["tenants"]) ? issuer["tenants"]["names"] : undefined;
    return Array.isArray(names) && names.includes(name);
  };
  const certificates = Array.isArray(clientCertificates)
    ? { clientCertificates: clientCertificates.filter((entry) => isTable(entry) && entry["tenant"] === name) }
    : {};
  // Its operators see this configuration: it does not name other tenants.
  const ofTenant = (issuer: Section): Section => ({
    ...issuer,
    tenants: { ...tableIn(issuer, "tenants"), names: [name] },
  });
  return { ...jwt, issuers: issuers.filter(speaksFor).map(ofTenant), ...certificates };
}

function tableIn(section: Section, key: string): Section {
  const value = section[key];
  return isTable(value) ? value : {};
}

function pick(section: Section, keys: readonly string[]): Section {
  return Object.fromEntries(keys.flatMap((key) => (section[key] == null ? [] : [[key, section[key]] as const])));
}
