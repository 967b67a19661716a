import type { Json } from "../../core/types.ts";
import { toLine } from "../entry.ts";
import { escapeJson } from "../escape.ts";

/** Limits for the members that a journal line keeps when it exceeds the maximum line length. */
const REDUCED_MEMBERS_MAX = 32;
const REDUCED_MEMBER_CHARACTERS_MAX = 512;
/** Removes members that the chain itself writes, so that they do not appear twice. */
const NO_LINK = { seq: undefined, prev: undefined, hash: undefined } as const;

/**
 * One line of `audit-logs/journal/YYYY-MM-DD.jsonl` (an intent, a start, a listing …). The log adds `timestamp` and
 * `instance`.
 */
export interface JournalLine {
  readonly type: string;
  readonly [member: string]: Json | undefined;
}

export interface Stamp {
  readonly timestamp: string;
  readonly instance: string;
}

/**
 * Serializes a journal line as one line of JSON, without the line end. A line that exceeds the maximum length loses its
 * large members and gets `truncated: true`.
 */
export function serializeJournalLine(line: JournalLine, stamp: Stamp): string {
  const { timestamp, instance } = stamp;
  const whole = toLine(Object.assign({ timestamp, type: line.type }, line, stamp, NO_LINK));
  if (whole !== undefined) {
    return whole;
  }
  const type = line.type.slice(0, REDUCED_MEMBER_CHARACTERS_MAX);
  return escapeJson(JSON.stringify({ timestamp, type, ...smallMembers(line), truncated: true, instance }));
}

function smallMembers(line: JournalLine): Record<string, Json | undefined> {
  const members = Object.entries(line).filter(([key]) => key !== "type" && key !== "timestamp" && !(key in NO_LINK));
  return Object.fromEntries(members.filter(isSmall).slice(0, REDUCED_MEMBERS_MAX));
}

function isSmall(member: readonly [string, Json | undefined]): boolean {
  const json = JSON.stringify(member);
  const max = REDUCED_MEMBER_CHARACTERS_MAX;
  return json.length <= max && escapeJson(json).length <= max;
}
