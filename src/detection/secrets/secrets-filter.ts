import type { Finding } from "../finding.ts";
import { findOrWhole, hideFindings } from "../sensitive.ts";

/**
 * Puts `[REDACTED]` in place of each secret, or of the text as a whole when it is too much to look through. The very same string
 * when there is none. Findings hold no text.
 */
export function filterSecrets(text: string): { readonly text: string; readonly findings: readonly Finding[] } {
  const findings = findOrWhole(text, "secrets");
  return { text: hideFindings(text, findings), findings };
}
