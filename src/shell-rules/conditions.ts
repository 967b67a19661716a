import { type Call, isOne, operandsOf, surelyHas } from "./call.ts";
import { globMatches } from "./paths.ts";
import type { ShellScript } from "./script.ts";

/** Conditions on a call, written by operators. One member of each given list must apply. */
export interface CallConditions {
  readonly programs: readonly string[];
  readonly subcommands?: readonly string[] | undefined;
  readonly options?: readonly string[] | undefined;
  readonly arguments?: readonly string[] | undefined;
}

/** Returns whether one call of a script fulfils the conditions. Dynamic words match no name and no pattern. */
export function hasCall({ calls }: ShellScript, conditions: CallConditions): boolean {
  return calls.some((call) => isCall(call, conditions));
}

function isCall(call: Call, { programs, subcommands, options, arguments: patterns }: CallConditions): boolean {
  if (!isOne(call, new Set(programs))) return false;
  const operands = operandsOf(call.args);
  // The verb is searched for anywhere, because options with values may come before it.
  const line = ` ${operands.join(" ")} `;
  if (subcommands !== undefined && !subcommands.some((verb) => line.includes(` ${verb} `))) return false;
  if (options !== undefined && !options.some((option) => surelyHas(call.args, option))) return false;
  return patterns === undefined || patterns.some((pattern) => call.args.some((arg) => globMatches(pattern, arg)));
}
