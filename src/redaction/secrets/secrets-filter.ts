import type { Finding } from "../finding.ts";
import { findSensitive, hideFindings } from "../sensitive.ts";

/** Puts `[REDACTED]` in place of each secret. The very same string when there is none. Findings hold no text. */
export function filterSecrets(text: string): { readonly text: string; readonly findings: readonly Finding[] } {
  const findings = findSensitive(text, "secrets");
  return { text: hideFindings(text, findings), findings };
}
