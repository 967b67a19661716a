import { Refusal } from "../../../core/errors.ts";
import { hasExactNumbers } from "../../../core/json.ts";
import type { CallerContext } from "../../../core/types.ts";
import { CLAIM } from "../settings.ts";
import type { Setting } from "./database.ts";

/** The settings and the role that transactions get from the caller: values are `subject`, `issuer` or `claims.name`. */
export interface CallerSettings {
  readonly settings: Readonly<Record<string, string>>;
  readonly role?: string | undefined;
  readonly roles: readonly string[];
}

/**
 * Returns the settings of a caller's transaction, the role last: it may not be allowed to make the others.
 * @throws {Refusal} TARGET_REFUSED for a token without the claim, or with a role that is not listed
 */
export function settingsOf(wanted: CallerSettings | undefined, caller: CallerContext): readonly Setting[] {
  if (wanted === undefined) return [];
  const { settings, role, roles } = wanted;
  const made = Object.entries(settings).map(([name, from]): Setting => [name, textOf(from, caller)]);
  if (role === undefined) return made;
  const named = textOf(role, caller);
  if (!roles.includes(named)) throw refused(`the role of ${role} is not among the system's caller.roles`);
  return [...made, ["role", named]];
}

/** Returns the settings with empty values, for the check of a statement. */
export function emptySettings(wanted: CallerSettings | undefined): readonly Setting[] {
  return Object.keys(wanted?.settings ?? {}).map((name) => [name, ""]);
}

function textOf(from: string, { subject, issuer, claims = {} }: CallerContext): string {
  if (from === "subject") return subject;
  if (from === "issuer") return issuer;
  const value = claims[from.slice(CLAIM.length)];
  // A lone surrogate would become another character.
  if (typeof value === "string" && value !== "" && value.isWellFormed()) return value;
  // A number that has lost digits may be the number of another tenant.
  if (typeof value === "boolean" || (typeof value === "number" && hasExactNumbers(value))) return String(value);
  throw refused(`the caller's token has no text, boolean or exact number in ${from}`);
}

function refused(because: string): Refusal {
  return new Refusal("TARGET_REFUSED", "The caller's token lacks what this database needs to know of the caller.", {
    details: { status: "PERMISSION_DENIED" },
    cause: { because },
  });
}
