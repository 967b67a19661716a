import { isTable } from "../../core/json.ts";
import type { ClientCertificate } from "./binding.ts";
import { selectedBy } from "./issuer-profile.ts";
import { TOKEN_LENGTH_MAX } from "./reader.ts";
import { type IssuerTenants, speaksFor } from "./tenant-claim.ts";

/** Finds the tenant that a request names, before any part of the request is verified. */

/** Unverified credentials of a request. */
export interface Presented {
  /** The raw header `Authorization`. */
  readonly authorization?: string | undefined;
  /** The certificate whose key the connection's client has proved to hold. */
  readonly certificate?: ClientCertificate | undefined;
}

/** Chooses tenants by the issuers of a configuration. */
export interface TenantChoice {
  /** Returns the tenant that a request names; undefined: the service itself. It never throws. */
  of(presented: Presented): string | undefined;
  /** Returns whether a caller of this issuer can belong to the tenant, when no token of the caller is at hand. */
  hasIssuer(issuer: KnownIssuer, tenant: string | undefined): boolean;
}

interface KnownIssuer {
  readonly issuer: string;
  /** True for the issuer's operators, false for its agents: they can belong to different tenants. */
  readonly operators: boolean;
}

interface ChoiceIssuer extends KnownIssuer {
  readonly audience: string | readonly string[];
  readonly tenants?: IssuerTenants | undefined;
}

interface ChoiceSettings {
  readonly jwt: {
    readonly issuers: readonly ChoiceIssuer[];
    readonly clientCertificates: readonly { readonly spiffeId: string; readonly tenant?: string | undefined }[];
  };
}

const SCHEME_LENGTH = "bearer ".length;

/**
 * Returns the choice of a tenant by a request's unverified token or, without a token, by its certificate. The choice grants nothing:
 * the tenant's own verifier checks everything.
 */
export function tenantChosenBy({ jwt: { issuers, clientCertificates } }: ChoiceSettings): TenantChoice {
  const byName = Map.groupBy(issuers, ({ issuer }) => issuer);
  const bySpiffeId = new Map(clientCertificates.map(({ spiffeId, tenant }) => [spiffeId, tenant]));
  const ofToken = (authorization: string): string | undefined => {
    const claims = unverifiedClaims(authorization);
    const named = byName.get(claims?.["iss"] as string) ?? [];
    const meant = selectedBy(named, claims?.["aud"]);
    // A token for several audiences is valid for none, also where only one of the profiles speaks for the tenant.
    const tenants = meant.length > 1 ? undefined : (meant[0] ?? named[0])?.tenants;
    return tenants?.names.find((name) => name === claims?.[tenants.claim]);
  };
  return {
    of({ authorization, certificate }) {
      if (authorization !== undefined) return ofToken(authorization);
      return certificate?.spiffeId === undefined ? undefined : bySpiffeId.get(certificate.spiffeId);
    },
    hasIssuer({ issuer, operators }, tenant) {
      return byName.get(issuer)?.some((one) => one.operators === operators && speaksFor(one, tenant)) === true;
    },
  };
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
