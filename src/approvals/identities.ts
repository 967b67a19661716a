/** Coverage of an approval: this call only, or also the same call again in the same session. */
export type Scope = "once" | "session";

/** The caller of a tool. Its identity is the pair (issuer, subject); `session` is set only when the service trusts it. */
export interface Requester {
  readonly issuer: string;
  readonly subject: string;
  /** `sub`s of the RFC 8693 `act` chain, outermost first. */
  readonly actors: readonly string[];
  readonly session: string | undefined;
}

/** The approver: holder of an operator token with `approvals:decide`. */
export interface Approver {
  readonly issuer: string;
  readonly subject: string;
}
