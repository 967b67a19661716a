import { type OperatorRule, readOperatorRules } from "../../approvals/risk/operators.ts";
import { hint, listed } from "../../core/nearest.ts";
import type { Tool } from "../../core/types.ts";
import type { Config } from "../config/config.ts";
import type { LoadedTools } from "../manifests/loader.ts";

type Loaded = Pick<LoadedTools, "tools" | "notRegistered" | "problems">;

/**
 * A rule about a misspelt tool or argument would never hold. Where tools were left out for want of something to reach, or could
 * not be read, a name may be one of theirs.
 */
export function ruleProblems({ approvals }: Config, { tools, notRegistered, problems }: Loaded): readonly string[] {
  const { rules, problems: unread } = readOperatorRules(approvals.rules);
  if (unread.length > 0) return [];
  const known = new Map(tools.map((tool) => [tool.name, tool]));
  const areAllKnown = notRegistered.length === 0 && problems.length === 0;
  return rules.flatMap(({ when }, index) => {
    const field = `approvals.rules[${index}].when`;
    if (when.tool === undefined) return [];
    const tool = known.get(when.tool);
    if (tool !== undefined) return argumentProblems(when, tool).map((problem) => `${field}.args.${problem}`);
    return areAllKnown ? [`${field}.tool: no tool is called ${when.tool}${hint(when.tool, known.keys())}`] : [];
  });
}

/** A field is looked for as it is written and by its path: the first step of that is known where the input takes nothing else. */
function argumentProblems({ args = {} }: OperatorRule["when"], { name, input }: Tool): readonly string[] {
  if (input.def.catchall?._zod.def.type !== "never") return [];
  const own = Object.keys(input.shape);
  return Object.keys(args).flatMap((field) => {
    const [first = field] = field.split(".", 1);
    if (own.includes(field) || own.includes(first)) return [];
    return [`${field}: ${name} has no such argument; it has ${listed(own)}${hint(first, own)}`];
  });
}
