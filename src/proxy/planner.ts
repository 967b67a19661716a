import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type Elevated, mint, type Planned } from "../core/evidence.ts";
import type { ExecutionPlan } from "../core/types.ts";
import type { CallScope } from "./call-scope.ts";

const PLAN_LIMITS = { depthMax: 64, nodesMax: 100_000, bytesMax: 8_388_608 } as const;

/**
 * Settles what will run and seals it: the digest covers tool, plan and caller, so that another plan, or the same plan for
 * somebody else, is another digest.
 *
 * @throws {Refusal} what the handler's look at the world met, or DEADLINE_EXCEEDED, CANCELLED
 */
export async function makePlan(elevated: Elevated, scope: CallScope): Promise<Planned> {
  const { binding, input } = elevated;
  const pending = binding.plan(input, scope);
  const plan = pending instanceof Promise ? await scope.within(pending) : pending;
  return mint<Planned>({ ...elevated, plan, digest: seal(elevated, plan) });
}

function seal({ tool, caller }: Elevated, plan: ExecutionPlan): string {
  const sealed = {
    t: "stc/plan/v1",
    tool: tool.name,
    version: tool.version,
    plan,
    iss: caller.issuer,
    sub: caller.subject,
  };
  try {
    return sha256Hex(canonicalJson(sealed, PLAN_LIMITS));
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    throw new Refusal("INTERNAL", "The call could not be planned.", { cause: error });
  }
}
