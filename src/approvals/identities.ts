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

/**
 * Returns whether one of the names belongs to the requester or its actors. Ignores the issuer: one person may have accounts at
 * two issuers, which may differ in the case or the Unicode composition of the name.
 */
export function isAmongRequesters(
  { subject, actors }: Pick<Requester, "subject" | "actors">,
  names: readonly string[],
): boolean {
  const asking = new Set([subject, ...actors].map(folded));
  return names.some((name) => asking.has(folded(name)));
}

/** Invisible characters, which do not distinguish names. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;

/**
 * Folds a name so that variants of one person's name are equal. Converts to lower, upper and lower case again, because some
 * letters share a capital: `ß` and `ẞ` become `ss`, a final `ς` becomes `σ`, and all forms of i become one.
 */
export function folded(name: string): string {
  const plain = name.normalize("NFKC").replace(UNSEEN, "");
  const small = plain.toLowerCase().toUpperCase().toLowerCase().normalize("NFKC");
  return small.replaceAll("ς", "σ").replaceAll("i\u0307", "i").replace(/\s+/g, " ").trim();
}
