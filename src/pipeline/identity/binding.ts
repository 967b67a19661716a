import type { CallerContext } from "../../core/types.ts";
import { subjectProblem } from "./claims.ts";
import { unauthenticated } from "./refusal.ts";

/** The certificate whose key a connection's client has proved to hold, issued under a CA that the configuration names. */
export interface ClientCertificate {
  /** SHA-256 of the certificate's DER bytes, base64url: the value that a token's `cnf.x5t#S256` names. */
  readonly thumbprint: string;
  /** The certificate's only URI, when that is a SPIFFE ID. */
  readonly spiffeId: string | undefined;
  /** Its URIs and DNS names, in this order; of a certificate without any, its common name. Empty for a certificate that can sign others. */
  readonly names?: readonly string[] | undefined;
  /** Milliseconds since 1970. */
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

/** A caller who needs no token on a connection with this certificate. */
export interface CertificateCaller {
  readonly spiffeId: string;
  readonly issuer: string;
  readonly subject: string;
  readonly permissions: readonly string[];
  /** Tenant of the caller; undefined for a caller of the service itself. */
  readonly tenant?: string | undefined;
}

/** Returns the problems, each with the field to fix. A certificate must represent a subject that a token could name. */
export function certificateCallerProblems(callers: readonly CertificateCaller[]): readonly string[] {
  return callers.flatMap(({ subject }, index) => {
    const problem = subjectProblem(subject);
    return problem === undefined
      ? []
      : [`jwt.clientCertificates[${index}].subject: no token may name such a subject: ${problem}`];
  });
}

/** Checks a token that is bound to a certificate: it is valid only on connections with that certificate (RFC 8705, 3). */
export function assertBound(
  thumbprint: string | undefined,
  certificate: ClientCertificate | undefined,
  nowMs: number,
): void {
  if (thumbprint === undefined) return;
  if (certificate === undefined || !isValid(certificate, nowMs)) {
    throw unauthenticated("unbound", "cnf: no valid client certificate on this connection");
  }
  if (certificate.thumbprint !== thumbprint) throw unauthenticated("unbound", "cnf: another certificate's");
}

/** Returns whether the certificate is valid now: it may expire while its connection stays open. */
export function isValid({ notBeforeMs, notAfterMs }: ClientCertificate, nowMs: number): boolean {
  return nowMs >= notBeforeMs && nowMs < notAfterMs;
}

/** The callers that the configuration identifies by their certificate. */
export class CertificateCallers {
  readonly #bySpiffeId: ReadonlyMap<string, CertificateCaller>;

  constructor(callers: readonly CertificateCaller[]) {
    this.#bySpiffeId = new Map(callers.map((caller) => [caller.spiffeId, caller]));
  }

  /** Returns the permissions of a caller under any of its certificates; undefined when none is mapped to it. */
  permissionsOf(caller: {
    readonly issuer: string | undefined;
    readonly subject: string;
  }): readonly string[] | undefined {
    const mapped = [...this.#bySpiffeId.values()].filter(
      ({ issuer, subject }) => issuer === caller.issuer && subject === caller.subject,
    );
    return mapped.length === 0 ? undefined : mapped.flatMap(({ permissions }) => permissions);
  }

  find(certificate: ClientCertificate, nowMs: number): CallerContext | undefined {
    if (certificate.spiffeId === undefined || !isValid(certificate, nowMs)) return undefined;
    const known = this.#bySpiffeId.get(certificate.spiffeId);
    if (known === undefined) return undefined;
    return Object.freeze({
      issuer: known.issuer,
      subject: known.subject,
      permissions: known.permissions,
      actors: [],
      session: undefined,
      expiresAt: Math.floor(certificate.notAfterMs / 1000),
      ...(known.tenant !== undefined && { tenant: known.tenant }),
    });
  }
}
