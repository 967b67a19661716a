import { judgeShell } from "../../src/approvals/risk/shell/shell.ts";
import type { Risk } from "../../src/approvals/types.ts";

const RISKS: readonly Risk[] = ["low", "medium", "high", "critical"];

/** Where the commands of the tests stand. */
export const WORKSPACE = { cwd: "/ws/project", home: "/ws/project" };

export interface Level {
  readonly risk: Risk;
  readonly verdict: "deny" | "ask" | "none";
}

/** The strictest of what the table says of a command. */
export function levelOf(command: string): Level {
  const { rules } = judgeShell(command, WORKSPACE);
  const risk = RISKS[Math.max(0, ...rules.map((rule) => RISKS.indexOf(rule.risk)))] ?? "critical";
  const verdicts = rules.map(({ verdict }) => verdict);
  const asks = verdicts.includes("ask") ? "ask" : "none";
  return { risk, verdict: verdicts.includes("deny") ? "deny" : asks };
}
