import type { ClientCertificate } from "./binding.ts";

/** What a request presents before anything of it is verified. */
export interface Presented {
  /** The raw header `Authorization`. */
  readonly authorization?: string | undefined;
  /** The certificate whose key the connection's client has proved to hold. */
  readonly certificate?: ClientCertificate | undefined;
}

/** Returns the tenant that a request names; undefined: the service itself. */
export type TenantChoice = (presented: Presented) => string | undefined;

interface ChoiceSettings {
  readonly jwt: {
    readonly issuers: readonly {
      readonly issuer: string;
      readonly audience: string | readonly string[];
      readonly tenants?: { readonly claim: string; readonly names: readonly string[] } | undefined;
    }[];
    readonly clientCertificates: readonly { readonly spiffeId: string; readonly tenant?: string | undefined }[];
  };
}

/**
 * Returns a function that says which tenant a request names, from its unverified token or its certificate. The choice grants nothing:
 * the tenant's own verifier checks everything. It never throws.
 */
export function tenantChosenBy(_config: ChoiceSettings): TenantChoice {
  return () => undefined;
}
