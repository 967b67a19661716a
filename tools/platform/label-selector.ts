import { z } from "zod";
import { isDnsSubdomain } from "./names.ts";

const SELECTOR_CHARACTERS_MAX = 512;
const LABEL_CHARACTERS_MAX = 63;

/** Labels as Kubernetes selects by them: `app=web,tier!=db`, `env in (a, b)`, `track notin (canary)`, `release`, `!canary`. */
export const LabelSelector = z
  .string()
  .max(SELECTOR_CHARACTERS_MAX)
  .regex(
    /^[A-Za-z0-9!][A-Za-z0-9!=,() ._/-]*$/,
    "must select by labels: key=value, key!=value, key in (a,b), key, !key",
  )
  .refine(
    isLabelSelector,
    "must be requirements with commas between them: key=value, key!=value, key in (a,b), key, !key",
  )
  .describe("Labels to select by: `app=web,tier!=db`, `env in (a,b)`, `track notin (canary)`, `release`, `!canary`");

export function isLabelSelector(selector: string): boolean {
  return requirementsOf(selector).every(isRequirement);
}

/** Splits at the commas that stand outside of parentheses. */
function requirementsOf(selector: string): readonly string[] {
  const parts: string[] = [];
  let from = 0;
  let isInside = false;
  for (let at = 0; at < selector.length; at += 1) {
    const char = selector[at];
    if (char === "(") isInside = true;
    else if (char === ")") isInside = false;
    else if (char === "," && !isInside) {
      parts.push(selector.slice(from, at));
      from = at + 1;
    }
  }
  return [...parts, selector.slice(from)].map((part) => part.trim());
}

function isRequirement(requirement: string): boolean {
  if (requirement.startsWith("!")) return isLabelKey(requirement.slice(1).trim());
  const open = requirement.indexOf("(");
  if (open !== -1) return isSetRequirement(requirement, open);
  const sign = requirement.search(/[=!]/);
  if (sign === -1) return isLabelKey(requirement);
  const [operator] = /^(?:==?|!=)/.exec(requirement.slice(sign)) ?? [];
  if (operator === undefined) return false;
  const value = requirement.slice(sign + operator.length).trim();
  return isLabelKey(requirement.slice(0, sign).trim()) && isLabelValue(value);
}

function isSetRequirement(requirement: string, open: number): boolean {
  if (requirement.indexOf(")") !== requirement.length - 1) return false;
  const [key = "", operator = "", ...more] = requirement
    .slice(0, open)
    .split(" ")
    .filter((word) => word !== "");
  if (more.length > 0 || (operator !== "in" && operator !== "notin") || !isLabelKey(key)) return false;
  const values = requirement.slice(open + 1, -1).split(",");
  return values.every((value) => isLabelValue(value.trim()));
}

function isLabelKey(key: string): boolean {
  const slash = key.indexOf("/");
  if (slash === -1) return isLabelName(key);
  return isDnsSubdomain(key.slice(0, slash)) && isLabelName(key.slice(slash + 1));
}

function isLabelValue(value: string): boolean {
  return value === "" || isLabelName(value);
}

function isLabelName(name: string): boolean {
  if (name.length > LABEL_CHARACTERS_MAX || !/^[A-Za-z0-9._-]+$/.test(name)) return false;
  return /^[A-Za-z0-9]/.test(name) && /[A-Za-z0-9]$/.test(name);
}
