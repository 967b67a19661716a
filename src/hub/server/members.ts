import { Refusal } from "../../core/errors.ts";
import { ownerText } from "../../core/tenant-names.ts";
import type { EpochMs } from "../../core/types.ts";
import { certificateOf, certificateProblemOf } from "../../http/connections/listening-tls.ts";
import type { ReceivedRequest } from "../../http/messages.ts";
import type { CallerVerifier } from "../../pipeline/caller-context.ts";
import { isValid } from "../../pipeline/identity/binding.ts";
import { HEADER_VALUE, type HubMember, MEMBER_HEADERS } from "../contract.ts";
import { HubRefusal, HubUnavailable } from "../errors.ts";

/** A name with which members may connect. `*` stands for any characters except `/`. */
export interface MemberRule {
  /** Name in a client certificate. */
  readonly certificate?: string | undefined;
  /** Subject of a workload token. */
  readonly subject?: string | undefined;
  /** Issuer of the workload token. Default: any issuer of workload tokens. */
  readonly tokenIssuer?: string | undefined;
  /** Issuers of the callers that the member may speak for. */
  readonly issuers?: readonly string[] | undefined;
  /** The tenant that the member belongs to. Default: the service itself. */
  readonly tenant?: string | undefined;
}

export interface MembersOptions {
  /** Read at each request. */
  readonly rules: () => readonly MemberRule[];
  /** Returns the issuers of callers for a rule of this tenant without `issuers`. */
  readonly issuers: (tenant: string | undefined) => readonly string[];
  /** Verifies workload tokens. */
  readonly tokens: Pick<CallerVerifier, "verify"> | undefined;
  readonly clock: () => EpochMs;
}

export interface Identified {
  readonly member: HubMember;
  /** Expiry of its certificate or its token. */
  readonly untilMs: EpochMs;
}

/** Identifies members by their certificate, or by a workload token. */
export class Members {
  readonly #options: MembersOptions;

  constructor(options: MembersOptions) {
    this.#options = options;
  }

  /** Rejects with `HubRefusal` 401 for an unknown member, with `HubUnavailable` when its token cannot be verified now. */
  async identify(request: ReceivedRequest): Promise<Identified> {
    const instance = request.headers[MEMBER_HEADERS.instance];
    if (typeof instance !== "string" || !HEADER_VALUE.test(instance)) {
      throw new HubRefusal(
        400,
        "MALFORMED_REQUEST",
        `the header ${MEMBER_HEADERS.instance} must name the member's log`,
      );
    }
    const { authorization } = request.headers;
    const byCertificate = this.#byCertificate(request);
    if (typeof byCertificate === "string" && authorization === undefined) throw unknownMember(byCertificate);
    const named = typeof byCertificate === "string" ? await this.#byToken(authorization ?? "", request) : byCertificate;
    assertTenant(named, request.headers[MEMBER_HEADERS.tenant]);
    return identified(instance, named);
  }

  /** Returns the member that the certificate names, or the reason why it names none. */
  #byCertificate(request: ReceivedRequest): Named | string {
    const certificate = certificateOf(request);
    if (certificate === undefined) {
      const problem = certificateProblemOf(request);
      return problem === undefined
        ? "there is neither a client certificate nor a workload token"
        : `the client certificate is not trusted: ${problem}`;
    }
    if (!isValid(certificate, this.#options.clock())) return "the client certificate has expired";
    const { names = [] } = certificate;
    for (const name of names) {
      const rule = this.#options.rules().find(({ certificate: pattern }) => matches(pattern, name));
      if (rule !== undefined) return { name, ...this.#allowedBy(rule), untilMs: certificate.notAfterMs };
    }
    return `hub.members has none of the certificate's names: ${names.slice(0, 4).join(", ") || "it has no usable name"}`;
  }

  async #byToken(authorization: string, request: ReceivedRequest): Promise<Named> {
    const { tokens } = this.#options;
    if (tokens === undefined) throw unknownMember("the hub accepts no workload tokens: hub.tokens is not configured");
    let caller: Awaited<ReturnType<typeof tokens.verify>>["caller"];
    try {
      ({ caller } = await tokens.verify(authorization, "agents", certificateOf(request)));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const reason = error.cause instanceof Error ? error.cause.message : error.message;
      if (error.code !== "UNAUTHENTICATED") throw new HubUnavailable(`the workload token: ${reason}`);
      throw unknownMember(`the workload token is refused: ${reason}`);
    }
    const { issuer, subject, expiresAt } = caller;
    const rule = this.#options
      .rules()
      .find((one) => matches(one.subject, subject) && (one.tokenIssuer ?? issuer) === issuer);
    if (rule === undefined) throw unknownMember(`hub.members does not have the token's subject ${subject}`);
    // No name in a certificate has an @: a subject cannot pass for one.
    return { name: `${subject}@${issuer}`, ...this.#allowedBy(rule), untilMs: expiresAt * 1_000 };
  }

  #allowedBy({ tenant, issuers = this.#options.issuers(tenant) }: MemberRule): Omit<Named, "name" | "untilMs"> {
    return { tenant, issuers };
  }
}

interface Named {
  readonly name: string;
  readonly tenant: string | undefined;
  readonly issuers: readonly string[];
  readonly untilMs: EpochMs;
}

/** A member that accepts callers of another tenant must not use this one's approvals. */
function assertTenant({ tenant }: Named, stated: string | readonly string[] | undefined): void {
  if (stated === undefined || stated === tenant) return;
  throw unknownMember(`hub.members has the member in ${ownerText(tenant)}, and its hub.tenant names another one`);
}

function identified(instance: string, { name, tenant, issuers, untilMs }: Named): Identified {
  return { member: { name, tenant, instance, speaksFor: (issuer) => issuers.includes(issuer) }, untilMs };
}

function matches(pattern: string | undefined, name: string): boolean {
  return pattern !== undefined && expressionOf(pattern).test(name);
}

const expressions = new Map<string, RegExp>();

function expressionOf(pattern: string): RegExp {
  const known = expressions.get(pattern);
  if (known !== undefined) return known;
  const parts = pattern.split("*").map((part) => part.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  const expression = new RegExp(`^${parts.join("[^/]*")}$`);
  expressions.set(pattern, expression);
  return expression;
}

function unknownMember(reason: string): HubRefusal {
  return new HubRefusal(401, "UNAUTHENTICATED", reason);
}
