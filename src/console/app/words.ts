import { OPERATOR_ADVICE } from "../../core/refusals.ts";

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Returns a time that is left, such as `4 min 05 s`; `none` when there is none. */
export function timeLeft(ms: number): string {
  const seconds = Math.ceil(ms / SECOND_MS);
  if (seconds <= 0) return "none";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
  if (seconds >= 172_800) return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3_600)} h`;
  return `${Math.floor(seconds / 3_600)} h ${String(Math.floor((seconds % 3_600) / 60)).padStart(2, "0")} min`;
}

const SHORT_MS_MIN = 2 * MINUTE_MS;

/** Returns a time that is left for a list: in minutes until there are two, then with seconds. */
export function shortTimeLeft(ms: number): string {
  return ms < SHORT_MS_MIN || ms >= HOUR_MS ? timeLeft(ms) : `${Math.floor(ms / MINUTE_MS)} min`;
}

/** Returns how long ago something was, such as `3 min ago`. */
export function timeAgo(ms: number): string {
  if (ms < 5 * SECOND_MS) return "just now";
  if (ms < MINUTE_MS) return `${Math.floor(ms / SECOND_MS)} s ago`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min ago`;
  if (ms < DAY_MS) return `${Math.floor(ms / HOUR_MS)} h ago`;
  const days = Math.floor(ms / DAY_MS);
  return `${days} ${days === 1 ? "day" : "days"} ago`;
}

/** Returns a count with its noun: `1 request`, `2 requests`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

export function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  if (bytes < 1_000_000) return `${(bytes / 1_000).toFixed(1)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Codes of the console itself, next to those of the service. */
export const OFFLINE = "OFFLINE";
export const UNREADABLE = "UNREADABLE_ANSWER";

const ADVICE: Readonly<Record<string, string>> = {
  ...OPERATOR_ADVICE,
  [OFFLINE]: "The service cannot be reached. Check the connection; the console keeps trying.",
  [UNREADABLE]:
    "The answer is not one of this service. Something between the browser and the service may have changed it.",
  VIEW_MISMATCH:
    "Something between the browser and the service changes answers. Decide in a terminal: `stc approvals show`.",
  ROUTE_NOT_FOUND: "This service does not have this part.",
};

/** Returns what a person can do about a refusal; undefined when its message says so. */
export function adviceFor(code: string): string | undefined {
  return Object.hasOwn(ADVICE, code) ? ADVICE[code] : undefined;
}

/** Compares names for a list: `agent-2` comes before `agent-10`. */
export const compareNames = new Intl.Collator(undefined, { numeric: true }).compare;

/** Returns whether each word of what somebody is searching for is in one of the texts. */
export function hasWords(texts: readonly string[], wanted: string): boolean {
  const all = texts.join("\n").toLowerCase();
  return wanted
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

/** Placeholder names of systems: `unknown` for calls of no tool, `inline` for tools that run in the service itself. */
export const UNNAMED_SYSTEMS: ReadonlySet<string> = new Set(["unknown", "inline"]);
