import type { LineMembers } from "../../core/audit-fields.ts";
import { isTable } from "../../core/json.ts";

/**
 * Quick check for an object: an exception of `JSON.parse` costs ten times as much as parsing, and most foreign lines
 * are recognizable by their first characters.
 */
const BEGINS_OBJECT = /^[\t\r ]*\{/;

/** Parses a line of JSON; returns `undefined` when it is not an object. */
export function parseLine(line: string): LineMembers | undefined {
  if (!BEGINS_OBJECT.test(line)) return undefined;
  try {
    return membersOf(JSON.parse(line));
  } catch {
    return undefined;
  }
}

export function membersOf(value: unknown): LineMembers | undefined {
  return isTable(value) ? value : undefined;
}
