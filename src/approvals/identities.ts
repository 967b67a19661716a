/** What a yes covers: this call, or the same call again in the same session. */
export type Scope = "once" | "session";

/** Who asks. The pair (issuer, subject) is the identity; `session` is one that the service trusts, or undefined. */
export interface Requester {
  readonly issuer: string;
  readonly subject: string;
  /** `sub`s of the RFC 8693 `act` chain, outermost first. */
  readonly actors: readonly string[];
  readonly session: string | undefined;
}

/** Who decides: an operators' token with `approvals:decide`. */
export interface Decider {
  readonly issuer: string;
  readonly subject: string;
}
