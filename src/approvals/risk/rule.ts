import type { Risk } from "../types.ts";
import type { Invocation } from "./shell/invocation.ts";
import type { ShellScript } from "./shell/script.ts";

/** A row of the table that judges shell commands. Rows only add: the strictest of all that match counts. */
export interface ShellRule {
  readonly name: string;
  readonly risk: Risk;
  readonly verdict: "deny" | "ask" | "none";
  /** Whether a session's yes may cover it, as far as this row is concerned. */
  readonly rememberable: boolean;
  /** For the one who decides. */
  readonly note: string;
  /** Whether one of the programs that the script starts is what the row is about. */
  readonly when?: (run: Invocation, script: ShellScript) => boolean;
  /** Whether the script as a whole is. */
  readonly of?: (script: ShellScript) => boolean;
  /** Commands that the row must match, and commands that look like them and that it must not. */
  readonly matches: readonly string[];
  readonly misses: readonly string[];
}

type Row = Pick<ShellRule, "name" | "note" | "matches" | "misses"> & (Pick<ShellRule, "when"> | Pick<ShellRule, "of">);

/** Nobody may say yes to this. */
export function banned(row: Row): ShellRule {
  return { risk: "critical", verdict: "deny", rememberable: false, ...row };
}

/** Always asks, and a yes is not remembered. */
export function high(row: Row): ShellRule {
  return { risk: "high", verdict: "ask", rememberable: false, ...row };
}

export function medium(row: Row): ShellRule {
  return { risk: "medium", verdict: "none", rememberable: true, ...row };
}
