import { Refusal } from "../core/errors.ts";
import { type Approved, mint, type Planned } from "../core/evidence.ts";
import type { Tool } from "../core/types.ts";

/** What a row of the gate says; the first row that says anything decides. */
interface Verdict {
  readonly verdict: "allow" | "ask";
  /** Recorded in the audit: which rule decided. */
  readonly by: string;
}

type Row = (tool: Tool, input: unknown) => Verdict | undefined;

const ROWS: readonly Row[] = [
  // The floor: no row below can soften these.
  ({ classification }) => (classification === "destructive" ? { verdict: "ask", by: "floor:destructive" } : undefined),
  ({ approval }) => (approval.required === true ? { verdict: "ask", by: "floor:approval.required" } : undefined),
  ({ category }) => (category === "ask" ? { verdict: "ask", by: "floor:category" } : undefined),
  ({ category }) => (category === "read" ? { verdict: "allow", by: "category:read" } : undefined),
  ({ approval }, input) =>
    approval.needsApproval !== undefined && saysNo(approval.needsApproval, input)
      ? { verdict: "allow", by: "needsApproval" }
      : undefined,
];

/** A question that nobody answers is a no. */
const OTHERWISE: Verdict = { verdict: "ask", by: "default" };

/**
 * Lets a plan through, or asks. Nobody can be asked yet, so what must ask is denied.
 *
 * @throws {Refusal} APPROVAL_DENIED
 */
export function approve(planned: Planned): Approved {
  const { tool, input } = planned;
  const { verdict, by } = firstVerdict(tool, input);
  if (verdict === "allow") return mint<Approved>({ ...planned, by });
  throw new Refusal("APPROVAL_DENIED", "This call needs a person's approval, and no approver is configured.", {
    details: { rule: by },
  });
}

function firstVerdict(tool: Tool, input: unknown): Verdict {
  for (const row of ROWS) {
    const verdict = row(tool, input);
    if (verdict !== undefined) return verdict;
  }
  return OTHERWISE;
}

/** Only a plain `false` is a no; a throw, a promise or anything else asks. */
function saysNo(needsApproval: NonNullable<Tool["approval"]["needsApproval"]>, input: unknown): boolean {
  try {
    return needsApproval(input as never) === false;
  } catch {
    return false;
  }
}
