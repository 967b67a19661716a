import { Refusal } from "../core/errors.ts";
import { type Authorized, type Elevated, type Known, mint, type Parsed } from "../core/evidence.ts";

/**
 * The caller must hold every required permission: exact strings, no prefixes, no wildcards.
 *
 * @throws {Refusal} PERMISSION_DENIED naming what is missing
 */
export function authorize(known: Known): Authorized {
  demand(known, known.tool.permissions.required);
  return mint<Authorized>(known);
}

/**
 * Judges `elevatedIf` on the parsed input, so that neither spelling nor type dodges it. Whatever is not a plain `false` elevates.
 *
 * @throws {Refusal} PERMISSION_DENIED naming what these arguments need beyond the tool's own permissions
 */
export function elevate(parsed: Parsed): Elevated {
  const { elevatedIf } = parsed.tool.permissions;
  if (elevatedIf !== undefined && elevatedIf.when(parsed.input as never) !== false) demand(parsed, elevatedIf.required);
  return mint<Elevated>(parsed);
}

/** Whether the tool may be shown to a caller: the elevated permissions depend on arguments that nobody sent yet. */
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
