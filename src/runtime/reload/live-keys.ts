import { isTable } from "../../core/json.ts";
import type { Config } from "../config/config.ts";
import { fieldOf } from "../config/faults.ts";

/** Configuration keys that a reload adopts, with everything below them. Every other key is read only at startup. */
export const LIVE_KEYS = [
  "tools",
  "jwt",
  "systems",
  "commands",
  "workspace",
  "assertion",
  "approvals.mode",
  "approvals.rules",
  "approvals.policies",
  "approvals.callbackTimeoutMs",
  "approvals.webhooks",
  "approvals.publicUrl",
  "limits",
  "redaction",
  "log.level",
] as const;

export function isLive(key: string): boolean {
  return LIVE_KEYS.some((live) => key === live || key.startsWith(`${live}.`) || key.startsWith(`${live}[`));
}

/** Returns the changed keys that need a restart, one message each. */
export function restartProblems(before: Config, after: Config): readonly string[] {
  return changedKeys(before, after, [])
    .filter((key) => !isLive(key))
    .map((key) => `${key}: needs a restart`);
}

function changedKeys(before: unknown, after: unknown, path: readonly string[]): readonly string[] {
  if (isTable(before) && isTable(after)) {
    const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
    return [...keys].flatMap((key) => changedKeys(before[key], after[key], [...path, key]));
  }
  return Bun.deepEquals(before, after, true) ? [] : [fieldOf(path)];
}
