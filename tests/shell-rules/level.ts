import type { Risk } from "../../src/core/types.ts";
import { SHELL_RULES } from "../../src/shell-rules/shell-rules.ts";

const RISKS: readonly Risk[] = ["low", "medium", "high", "critical"];

/** Directories of the scripts in tests. */
export const WORKSPACE = { cwd: "/ws/project", home: "/ws/project" };

interface Level {
  readonly risk: Risk;
  readonly verdict: "deny" | "ask" | "none";
  readonly rememberable: boolean;
}

/** Returns the strictest of what the rules say about a script. */
export function levelOf(script: string): Level {
  const { rules } = SHELL_RULES.judge(script, WORKSPACE);
  const risk = RISKS[Math.max(0, ...rules.map((rule) => RISKS.indexOf(rule.risk)))] ?? "critical";
  const verdicts = rules.map(({ verdict }) => verdict);
  const asks = verdicts.includes("ask") ? "ask" : "none";
  const rememberable = rules.every((rule) => rule.rememberable);
  return { risk, verdict: verdicts.includes("deny") ? "deny" : asks, rememberable };
}
