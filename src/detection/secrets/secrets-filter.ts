import type { Finding } from "../finding.ts";
import { DETECTOR } from "../sensitive.ts";

/** Calls `filterSecrets` of the detector with the built-in rules. */
export function filterSecrets(text: string): { readonly text: string; readonly findings: readonly Finding[] } {
  return DETECTOR.filterSecrets(text);
}
