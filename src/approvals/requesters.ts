import type { Requester } from "./identities.ts";

/**
 * Whether one of the names is of those who ask. By name, whatever the issuer: one person may have accounts at two, which may
 * write the name in another case or compose its letters in another way.
 */
export function isAmongAskers(
  { subject, actors }: Pick<Requester, "subject" | "actors">,
  names: readonly string[],
): boolean {
  const asking = new Set([subject, ...actors].map(folded));
  return names.some((name) => asking.has(folded(name)));
}

/** What shows nothing: no two people's names differ by it. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/gu;

/**
 * Names that one person may go by are the same. Through the capitals of the small letters, since some letters have one capital
 * only: `ß` and `ẞ` are `ss` then, a `ς` at the end a `σ`, and all i are one.
 */
export function folded(name: string): string {
  const plain = name.normalize("NFKC").replace(UNSEEN, "");
  const small = plain.toLowerCase().toUpperCase().toLowerCase().normalize("NFKC");
  return small.replaceAll("ς", "σ").replaceAll("i\u0307", "i").replace(/\s+/g, " ").trim();
}
