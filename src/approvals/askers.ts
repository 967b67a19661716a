import type { Requester } from "./types.ts";

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

/** Names that one person may go by are the same. */
export function folded(name: string): string {
  return name.normalize("NFKC").toLowerCase().normalize("NFKC");
}
