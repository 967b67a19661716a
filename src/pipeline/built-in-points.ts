import { Refusal } from "../core/errors.ts";
import { ALLOWED, type PolicyDecision, type PolicyRequests, type StagePoint } from "../core/policy-point.ts";
import type { CallerContext, Tool } from "../core/types.ts";
import type { HaltPoint } from "./policy-points.ts";

/** Operators may halt calls, by tool, system, caller and session, or all of them. */
export const halts: HaltPoint = {
  name: "halts",
  stage: "permission",
  refusalFor: ({ tool, caller }, { session, halts: inForce }) => inForce.refusalFor({ tool, caller, session }),
};

/** The caller must hold every permission that the tool requires: exact strings, no prefixes, no wildcards. */
export const permissions: StagePoint<"permission", PolicyDecision> & { readonly name: "permissions" } = {
  name: "permissions",
  stage: "permission",
  decide: (request) => demanded(request, request.tool.permissions.required),
};

/**
 * The caller must also hold the permissions of `elevatedIf` when it elevates the call. It is evaluated on the parsed input, so
 * that neither spelling nor type evades it. Any result except `false` elevates.
 */
export const elevation: StagePoint<"elevation", PolicyDecision> & { readonly name: "elevation" } = {
  name: "elevation",
  stage: "elevation",
  decide(request) {
    const { tool, input } = request;
    return demanded(request, elevatedPermissions(tool, input));
  },
};

export function isElevated({ permissions: { elevatedIf } }: Tool, input: unknown): boolean {
  return elevatedIf !== undefined && elevatedIf.when(input as never) !== false;
}

function elevatedPermissions(tool: Tool, input: unknown): readonly string[] {
  return isElevated(tool, input) ? (tool.permissions.elevatedIf?.required ?? []) : [];
}

/** Returns the permissions that a call with these parsed arguments requires. */
export function permissionsFor(tool: Tool, input: unknown): readonly string[] {
  return [...tool.permissions.required, ...elevatedPermissions(tool, input)];
}

/**
 * Returns whether the tool may be listed for a caller. Elevated permissions are ignored, because they depend on arguments that
 * nobody has sent yet.
 */
export function couldUse(held: readonly string[], required: readonly string[]): boolean {
  return required.every((permission) => held.includes(permission));
}

/**
 * Checks a caller again that has waited for an approver: its roles may have ended meanwhile.
 *
 * @throws {Refusal} PERMISSION_DENIED when it has lost a permission that the tool requires for any arguments
 */
export function assertStillHeld({ permissions }: Tool, before: CallerContext, now: CallerContext): void {
  const needed = [...permissions.required, ...(permissions.elevatedIf?.required ?? [])];
  const missing = needed.filter((name) => before.permissions.includes(name) && !now.permissions.includes(name));
  if (missing.length === 0) return;
  throw new Refusal("PERMISSION_DENIED", lackingText(missing), { details: { missingPermissions: missing } });
}

function lackingText(missing: readonly string[]): string {
  return `Your token lacks: ${missing.join(", ")}.`;
}

function demanded({ caller }: PolicyRequests["permission"], required: readonly string[]): PolicyDecision {
  if (couldUse(caller.permissions, required)) return ALLOWED;
  const missing = required.filter((permission) => !caller.permissions.includes(permission));
  return {
    verdict: "deny",
    reasons: missing,
    code: "PERMISSION_DENIED",
    message: lackingText(missing),
    details: { missingPermissions: missing },
  };
}
