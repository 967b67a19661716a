import { type Finding, mergeFindings, replaceFindings } from "./finding.ts";
import { scanSecrets } from "./secret-scan.ts";

export const REDACTED = "[REDACTED]";

/** Puts `[REDACTED]` in place of each secret. The very same string when there is none. */
export function filterSecrets(text: string): { readonly text: string; readonly findings: readonly Finding[] } {
  const findings = mergeFindings(scanSecrets(text));
  return { text: replaceFindings(text, findings, () => REDACTED), findings };
}
