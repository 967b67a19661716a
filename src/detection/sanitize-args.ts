import type { Json } from "../core/types.ts";
import { redact, TooLarge } from "./redact.ts";
import { isOfSeveral, secretKind } from "./secrets/names.ts";
import { REDACTED } from "./sensitive.ts";

/** Deeper arguments are not shown at all. */
const DEPTH_MAX = 64;
const NAME_CHARACTERS_MAX = 256;

/**
 * Returns the arguments as people may see them: a value whose name says that it is a secret is hidden whatever it looks like,
 * and so is whatever looks like a secret. For showing alone: the call is made with the arguments themselves.
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
 * Whether a name alone says that its value is a secret: `password`, `api_key`, `dbToken`. A name such as `sort_key` does not,
 * and neither does `max_tokens`; whether the value of a name that may mean either is a secret, the detectors say.
 * `tokens: 500` says how many there are; a list of numbers holds the secrets themselves.
 */
export function namesSecret(name: string, value?: unknown): boolean {
  if (name.length > NAME_CHARACTERS_MAX) return false;
  if (typeof value === "number" && isOfSeveral(name)) return false;
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

/** A text, a number, or a list of them; what has members may be a description of a secret, and is looked through. */
function hidden(value: Json, depth: number): Json {
  if (typeof value === "string") return value === "" ? "" : REDACTED;
  if (typeof value === "number") return REDACTED;
  if (!Array.isArray(value)) return withoutNamed(value, depth);
  return depth > DEPTH_MAX ? REDACTED : value.map((item: Json) => hidden(item, depth + 1));
}
