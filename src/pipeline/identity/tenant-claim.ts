import { unauthenticated } from "./refusal.ts";

/** Reads the tenant that a token names, and compares it with the tenant that is asked. */

/** The tenants of an issuer. */
export interface IssuerTenants {
  /** Claim with the name of the caller's tenant. */
  readonly claim: string;
  /** Tenants that the issuer may speak for. */
  readonly names: readonly string[];
}

interface TenantRules {
  /** Undefined for an issuer of callers of the service itself. */
  readonly tenants?: IssuerTenants | undefined;
  /** The tenant whose callers are identified; undefined: the service itself. */
  readonly tenant?: string | undefined;
}

/** Returns whether tokens of the issuer can be those of callers here. */
export function speaksFor({ tenants }: Pick<TenantRules, "tenants">, tenant: string | undefined): boolean {
  return tenant === undefined ? tenants === undefined : tenants?.names.includes(tenant) === true;
}

/**
 * Returns the tenant that a verified token names: the one that is asked.
 * @throws {Refusal} UNAUTHENTICATED
 */
export function readTenant(claims: ReadonlyMap<string, unknown>, { tenants, tenant }: TenantRules): string | undefined {
  const here = tenant === undefined ? "this is the service itself" : `this is ${tenant}`;
  if (tenants === undefined) {
    if (tenant === undefined) return undefined;
    throw foreign("the issuer speaks for no tenant", `the issuer speaks for no tenant, and ${here}`);
  }
  const named = claims.get(tenants.claim);
  if (named === undefined) throw foreign("the claim is missing");
  if (typeof named !== "string") throw foreign("the claim is not a text");
  if (!tenants.names.includes(named)) throw foreign("the issuer may not speak for the one that is named");
  if (named !== tenant) throw foreign("another one is named", `${named} is named, and ${here}`);
  return tenant;
}

/** The answer is the same for every reason, so that nobody learns the names of tenants. `logged`: what the operators' log says. */
function foreign(reason: string, logged = reason) {
  const findings = [{ point: "tenant", verdict: "deny", reason, rememberable: false }] as const;
  return unauthenticated("wrongAudience", `tenant: ${logged}`, undefined, { findings });
}
