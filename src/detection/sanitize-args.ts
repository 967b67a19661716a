import type { Json } from "../core/types.ts";
import { redact, TooLarge } from "./redact.ts";
import { isPlural, secretKind } from "./secrets/names.ts";
import { REDACTED } from "./sensitive.ts";

/** Arguments nested deeper are not shown. */
const DEPTH_MAX = 64;
const NAME_CHARACTERS_MAX = 256;

/**
 * Returns the arguments for display: hides every value whose name identifies a secret, whatever it looks like, and every value
 * that looks like a secret. For display only: the call uses the original arguments.
 */
export function sanitizeArgs(args: unknown): Json {
  try {
    return args === undefined ? {} : redact(withoutNamed(args as Json, 0), { level: "secrets" }).value;
  } catch (error) {
    if (!(error instanceof TooLarge)) throw error;
    return {};
  }
}

/**
 * Returns whether a name alone identifies a secret: `password`, `api_key` or `dbToken`, but not `sort_key` or `max_tokens`. For
 * ambiguous names, the detectors decide by the value. A number under a plural name is a count (`tokens: 500`); a list of numbers
 * contains the secrets themselves.
 */
export function namesSecret(name: string, value?: unknown): boolean {
  if (name.length > NAME_CHARACTERS_MAX) return false;
  if (typeof value === "number" && isPlural(name)) return false;
  const kind = secretKind(name);
  return kind !== undefined && kind !== "key" && kind !== "basic";
}

function withoutNamed(value: Json, depth: number): Json {
  if (typeof value !== "object" || value === null) return value;
  if (depth > DEPTH_MAX) return REDACTED;
  if (Array.isArray(value)) return value.map((item: Json) => withoutNamed(item, depth + 1));
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      namesSecret(key, inner) ? hidden(inner, depth + 1) : withoutNamed(inner, depth + 1),
    ]),
  );
}

/** Hides a text, a number, or a list of them. An object may describe a secret, so its members are examined instead. */
function hidden(value: Json, depth: number): Json {
  if (typeof value === "string") return value === "" ? "" : REDACTED;
  if (typeof value === "number") return REDACTED;
  if (!Array.isArray(value)) return withoutNamed(value, depth);
  return depth > DEPTH_MAX ? REDACTED : value.map((item: Json) => hidden(item, depth + 1));
}
