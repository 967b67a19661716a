import type { SecretsOf } from "../approvals/view.ts";
import { Refusal } from "../core/errors.ts";
import { type CompiledPolicy, type Filtered, shownPath } from "../core/output-policy/output-policy.ts";
import type { CompiledScan } from "../core/output-policy/scan-policy.ts";
import type { Json } from "../core/types.ts";
import { type Redacted, type RedactOptions, redact, TooLarge } from "../detection/redact.ts";
import type { Detector } from "../detection/sensitive.ts";

const FILTERED_FIELDS_MAX = 1_000;

export interface RedactedOutput {
  readonly value: Json;
  /** Sorted, with the paths at which something was hidden. */
  readonly filteredFields: readonly string[];
  /** How often each rule hid something; undefined when none did. */
  readonly redactions: Readonly<Record<string, number>> | undefined;
}

/** The level of each field, and the rules to apply; without a detector, the built-in rules. */
export type Search = CompiledScan | { readonly level: CompiledScan; readonly detector: Detector };

/**
 * Searches the policy's output for secrets and personal data that were not meant to be released, as a second safeguard. Also
 * removes invisible characters.
 *
 * @throws {Refusal} OUTPUT_TOO_LARGE: an output that cannot be searched completely is not released in part
 */
export function redactOutput(value: Json, search: Search, filteredFields: readonly string[]): RedactedOutput {
  return redactWith({ result: value, filteredFields }, { ...optionsOf(search), clean: true });
}

/**
 * Searches like `redactOutput`, directly after a policy. Paths of hidden values are reported in the policy's form, without keys
 * that are data.
 *
 * @throws {Refusal} OUTPUT_TOO_LARGE
 */
export function redactFiltered(filtered: Filtered, search: Search, policy: CompiledPolicy): RedactedOutput {
  return redactWith(filtered, { ...optionsOf(search), clean: true, pathOf: (steps) => shownPath(policy, steps) });
}

function optionsOf(search: Search): Pick<RedactOptions, "level" | "detector"> {
  return typeof search === "object" ? search : { level: search };
}

function redactWith({ result, filteredFields }: Filtered, options: RedactOptions): RedactedOutput {
  const { value, findings } = redacted(result, options);
  if (findings.length === 0) return { value, filteredFields, redactions: undefined };
  const found = findings.map(({ path }) => path);
  return { value, filteredFields: listed(filteredFields, found), redactions: countByRule(findings) };
}

const CUT = "…";

/** Returns the paths sorted and without duplicates. The list ends in `…` when it was cut, now or before. */
function listed(before: readonly string[], found: readonly string[]): readonly string[] {
  const all = new Set([...before, ...found]);
  const wasCut = before.at(-1) === CUT && all.delete(CUT);
  const paths = [...all].sort();
  return wasCut || paths.length > FILTERED_FIELDS_MAX ? [...paths.slice(0, FILTERED_FIELDS_MAX), CUT] : paths;
}

function redacted(value: Json, options: RedactOptions): Redacted {
  try {
    return redact(value, options);
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error;
    throw new Refusal("OUTPUT_TOO_LARGE", "The target's answer is too large to scan. Ask for less.", {
      cause: error,
    });
  }
}

function countByRule(findings: Redacted["findings"]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (const { rule } of findings) counts[rule] = (counts[rule] ?? 0) + 1;
  return counts;
}

export interface SafeInput {
  readonly input: unknown;
  /** Paths at which the agent sent a secret. */
  readonly secrets: readonly string[] | undefined;
}

const SECRETS_SHOWN_MAX = 32;

/** Returns arguments without secrets, for the audit, whatever the tool's input policy permits. */
export function withoutSecrets(input: unknown, detector: Detector): SafeInput {
  if (input === undefined) return { input, secrets: undefined };
  try {
    const { value, findings } = redact(input as Json, { level: "secrets", detector });
    if (findings.length === 0) return { input, secrets: undefined };
    return { input: value, secrets: [...new Set(findings.map(({ path }) => path))].slice(0, SECRETS_SHOWN_MAX) };
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error;
    return { input: {}, secrets: undefined };
  }
}

/** Returns what finds secrets for an approver's view, by the rules of a detector. */
export function secretsOf(detector: Detector): SecretsOf {
  return {
    filterSecrets: (text) => detector.filterSecrets(text).text,
    findSecrets: (text) => detector.filterSecrets(text).findings,
  };
}

export function textWithoutSecrets(text: string | undefined, detector: Detector): string | undefined {
  return text === undefined ? undefined : detector.filterSecrets(text).text;
}
