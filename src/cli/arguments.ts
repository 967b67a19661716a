import { isTable } from "../core/json.ts";
import { BOUNDED_TEXT_LIMITS, parseStrictJson, whyUnusable } from "../core/strict-json.ts";
import { wrongUsage } from "./output.ts";

/** Returns the arguments as they were typed: the positional ones, which are `{}` when absent, or those of `--args`. */
export function callArguments(positional: string, option: string | undefined): string {
  if (option === undefined) return positional;
  if (positional !== "{}") return wrongUsage("give the arguments once: after the tool's name, or with --args");
  return option;
}

/** Reads the arguments of a call as the service reads them: what two readers may read differently is refused. */
export function argumentsIn(text: string): Readonly<Record<string, unknown>> {
  try {
    const args = parseStrictJson(text, BOUNDED_TEXT_LIMITS);
    if (isTable(args)) return args;
  } catch (error) {
    return wrongUsage(`the arguments are not a JSON object: ${whyUnusable(error)}`);
  }
  return wrongUsage("the arguments are not a JSON object");
}
