import { join } from "node:path";

/** Names that a tenant may have. No other text becomes a part of a path or of an identifier in a database. */
export const TENANT_NAME = /^[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?$/;

/** The same rule in words, for messages. */
export const TENANT_NAME_RULE =
  "must be a name of lowercase letters, digits and dashes, up to 40 characters, that begins with a letter and does not end with a dash";

/** Returns the name. @throws {Error} when no tenant may have it */
export function checkedTenant(name: string): string {
  if (TENANT_NAME.test(name)) return name;
  throw new Error(`a tenant's name ${TENANT_NAME_RULE}`);
}

/** Returns the message that a tenant is not among `names`. `source`: the configuration or the directory that has these, in words. */
export function noTenant(name: string, names: readonly string[], source: string): string {
  const known = names.length === 0 ? `${source} has no tenants` : `the tenants are ${names.join(", ")}`;
  return `there is no tenant ${name}: ${known}`;
}

/** Returns the tenant, or the service itself, in words. */
export function ownerText(tenant: string | undefined): string {
  return tenant === undefined ? "the service itself" : `the tenant ${tenant}`;
}

/** Returns the folder below a service's audit directory that has those of its tenants. No reader of the service's own log reads it. */
export function tenantsDirOf(dir: string): string {
  return join(dir, "tenants");
}

/** Returns the audit directory of a tenant, which is below that of its service. */
export function tenantDirOf(dir: string, tenant: string): string {
  return join(tenantsDirOf(dir), tenant);
}

/** Returns the audit directory of the service that has this one as that of its tenant. */
export function serviceDirOf(dir: string): string {
  return join(dir, "..", "..");
}

/**
 * Returns the database file of a tenant next to the service's own: `approvals.acme.sqlite`. A name contains no dot, so that two
 * tenants never have the same file. It always has an extension: otherwise the file of a tenant whose name ends with `-wal` would be
 * the one that SQLite keeps next to another tenant's.
 */
export function tenantFile(path: string, tenant: string | undefined): string {
  if (tenant === undefined) return path;
  return path.replace(/(?<=[^/])\.[^./]*$|$/, (extension) => `.${checkedTenant(tenant)}${extension || ".sqlite"}`);
}
