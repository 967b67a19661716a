import type { z } from "zod";
import type { Fault } from "../errors.ts";
import { isTable } from "../json.ts";
import { unmatchedPatterns } from "../policy/output-policy.ts";
import { SCAN_LEVELS } from "../policy/scan-policy.ts";
import { isText, oneOf, type Unread, unknownKeys, unless } from "./checks.ts";

const ACTIONS = ["allow", "mask", "redact"];
/** Characters of the reason of an `allow`. */
const REASON_CHARS = { min: 10, max: 300 } as const;
/** One line that a terminal shows as it is. */
const CONTROLS = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u;

export function outputPolicyShape({ outputPolicy }: Unread): readonly Fault[] {
  return shape("outputPolicy", outputPolicy, (declared, field) =>
    isTable(declared)
      ? reasonFaults(declared, field)
      : unless(oneOf(ACTIONS, declared), field, 'must be allow, mask, redact or { action: "allow", reason: "…" }'),
  );
}

export function inputPolicyShape({ inputPolicy }: Unread): readonly Fault[] {
  if (inputPolicy === undefined) return [];
  return shape("inputPolicy", inputPolicy, (declared, field) =>
    unless(oneOf(ACTIONS, declared), field, "must be allow, mask or redact"),
  );
}

function shape(
  field: string,
  policy: unknown,
  faultsOf: (declared: unknown, field: string) => readonly Fault[],
): readonly Fault[] {
  if (!isTable(policy)) return [{ field, message: 'must map field paths to "allow", "mask" or "redact"' }];
  return Object.entries(policy).flatMap(([path, declared]) => faultsOf(declared, `${field}["${path}"]`));
}

function reasonFaults(declared: Unread, field: string): readonly Fault[] {
  const { action, reason } = declared;
  const isSaid = isText(reason) && !CONTROLS.test(reason) && isLongEnough(reason.trim());
  return [
    ...unless(action === "allow", `${field}.action`, "must be allow: nothing else needs a reason"),
    ...unless(
      isSaid,
      `${field}.reason`,
      `must say in ${REASON_CHARS.min} to ${REASON_CHARS.max} characters, on one line, why this leaves`,
    ),
    ...unknownKeys(field, declared, ["action", "reason"]),
  ];
}

function isLongEnough({ length }: string): boolean {
  return length >= REASON_CHARS.min && length <= REASON_CHARS.max;
}

export function scanShape({ scan }: Unread): readonly Fault[] {
  if (scan === undefined) return [];
  if (!isTable(scan)) return [{ field: "scan", message: `must map field paths to ${SCAN_LEVELS.join(", ")}` }];
  return Object.entries(scan).flatMap(([path, level]) =>
    unless(oneOf(SCAN_LEVELS, level), `scan["${path}"]`, `must be one of ${SCAN_LEVELS.join(", ")}`),
  );
}

/** Patterns that are malformed or match no field. */
export function policyFaults(field: string, policy: unknown, schema: unknown): readonly Fault[] {
  return unmatchedPatterns(policy as Record<string, never>, schema as z.ZodType).map((message) => ({ field, message }));
}
