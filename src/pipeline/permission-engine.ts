import { Refusal } from "../core/errors.ts";
import { type Authorized, type Elevated, type Known, mint, type Parsed } from "../core/evidence.ts";

/**
 * Checks that the caller holds every required permission: exact strings, no prefixes, no wildcards.
 *
 * @throws {Refusal} PERMISSION_DENIED naming the missing permissions
 */
export function authorize(known: Known): Authorized {
  demand(known, known.tool.permissions.required);
  return mint<Authorized>(known);
}

/**
 * Evaluates `elevatedIf` on the parsed input, so that neither spelling nor type evades it. Any result except `false` elevates.
 *
 * @throws {Refusal} PERMISSION_DENIED naming the missing permissions that these arguments need in addition to the tool's own
 */
export function elevate(parsed: Parsed): Elevated {
  const { elevatedIf } = parsed.tool.permissions;
  if (elevatedIf !== undefined && elevatedIf.when(parsed.input as never) !== false) demand(parsed, elevatedIf.required);
  return mint<Elevated>(parsed);
}

/**
 * Returns whether the tool may be listed for a caller. Elevated permissions are ignored, because they depend on arguments that
 * nobody has sent yet.
 */
export function couldUse(permissions: readonly string[], required: readonly string[]): boolean {
  return required.every((permission) => permissions.includes(permission));
}

function demand({ caller }: Known | Parsed, required: readonly string[]): void {
  if (couldUse(caller.permissions, required)) return;
  const missing = required.filter((permission) => !caller.permissions.includes(permission));
  throw new Refusal("PERMISSION_DENIED", `Your token lacks: ${missing.join(", ")}.`, {
    details: { missingPermissions: missing },
  });
}
