/** Characters of names in a configuration. No other text becomes a part of a path or of an identifier in a database. */
const NAME = /^[a-z][a-z0-9-]{0,39}$/;

/** Returns the name. @throws {Error} when it has other characters */
export function checkedTenant(name: string): string {
  if (NAME.test(name)) return name;
  throw new Error("the name of a tenant must consist of a-z, 0-9 and -");
}

/**
 * Returns the file of a tenant next to the service's own: `approvals.acme.sqlite`. A name contains no dot, so that two tenants never
 * have the same file.
 */
export function tenantFile(path: string, tenant: string | undefined): string {
  if (tenant === undefined) return path;
  return path.replace(/(?<=[^/])\.[^./]*$|$/, (extension) => `.${checkedTenant(tenant)}${extension}`);
}
