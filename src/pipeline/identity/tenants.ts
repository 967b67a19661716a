import { isTable } from "../../core/json.ts";
import type { ClientCertificate } from "./binding.ts";
import { TOKEN_LENGTH_MAX } from "./reader.ts";
import { unauthenticated } from "./refusal.ts";

/** Which tenant a caller belongs to: what its token or certificate says, and whether that is the tenant that is asked. */

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
    throw foreign(`the issuer speaks for no tenant, and ${here}`);
  }
  const named = claims.get(tenants.claim);
  if (named === undefined) throw foreign("the claim is missing");
  if (typeof named !== "string") throw foreign("the claim is not a text");
  if (!tenants.names.includes(named)) throw foreign("the issuer may not speak for the one that is named");
  if (named !== tenant) throw foreign(`${named} is named, and ${here}`);
  return tenant;
}

/** The answer is the same for every reason, so that nobody learns the names of tenants. */
function foreign(reason: string) {
  return unauthenticated("wrongAudience", `tenant: ${reason}`);
}

/** What a request presents before anything of it is verified. */
export interface Presented {
  /** The raw header `Authorization`. */
  readonly authorization?: string | undefined;
  /** The certificate whose key the connection's client has proved to hold. */
  readonly certificate?: ClientCertificate | undefined;
}

/** Returns the tenant that a request names; undefined: the service itself. */
export type TenantChoice = (presented: Presented) => string | undefined;

interface ChoiceIssuer extends Pick<TenantRules, "tenants"> {
  readonly issuer: string;
  readonly audience: string | readonly string[];
}

interface ChoiceSettings {
  readonly jwt: {
    readonly issuers: readonly ChoiceIssuer[];
    readonly clientCertificates: readonly { readonly spiffeId: string; readonly tenant?: string | undefined }[];
  };
}

const SCHEME_LENGTH = "bearer ".length;

/**
 * Returns a function that says which tenant a request names, from its unverified token or, without a token, from its certificate. The
 * choice grants nothing: the tenant's own verifier checks everything. It never throws.
 */
export function tenantChosenBy({ jwt: { issuers, clientCertificates } }: ChoiceSettings): TenantChoice {
  const byName = Map.groupBy(issuers, ({ issuer }) => issuer);
  const bySpiffeId = new Map(clientCertificates.map(({ spiffeId, tenant }) => [spiffeId, tenant]));
  const ofToken = (authorization: string): string | undefined => {
    const claims = unverifiedClaims(authorization);
    const named = byName.get(claims?.["iss"] as string);
    const tenants = named && (selectedBy(named, claims?.["aud"])[0] ?? named[0])?.tenants;
    const name = tenants && claims?.[tenants.claim];
    return typeof name === "string" && tenants?.names.includes(name) === true ? name : undefined;
  };
  return ({ authorization, certificate }) => {
    if (authorization !== undefined) return ofToken(authorization);
    return certificate?.spiffeId === undefined ? undefined : bySpiffeId.get(certificate.spiffeId);
  };
}

/** Returns the profiles of one issuer whose audience is among those of a token: an issuer may serve agents and operators. */
export function selectedBy<Profile extends Pick<ChoiceIssuer, "audience">>(
  profiles: readonly Profile[],
  aud: unknown,
): readonly Profile[] {
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  return profiles.filter(({ audience }) => [audience].flat().some((one) => audiences.includes(one)));
}

/** Returns the claims of a header's token, without any check of them; undefined for anything else. */
function unverifiedClaims(authorization: string): Readonly<Record<string, unknown>> | undefined {
  if (authorization.length > TOKEN_LENGTH_MAX + SCHEME_LENGTH) return undefined;
  const start = authorization.indexOf(".") + 1;
  const end = authorization.indexOf(".", start);
  if (start === 0 || end === -1) return undefined;
  try {
    const claims: unknown = JSON.parse(Buffer.from(authorization.slice(start, end), "base64url").toString());
    return isTable(claims) ? claims : undefined;
  } catch {
    return undefined;
  }
}
