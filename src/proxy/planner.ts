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

/** The JCS of `{iss, plan, sub, t, tool, version}`; written out, since only the plan has a shape of its own. */
function seal({ tool, caller }: Elevated, plan: ExecutionPlan): string {
  try {
    const what = canonicalJson(plan, PLAN_LIMITS);
    return sha256Hex(
      `{"iss":${quote(caller.issuer)},"plan":${what},"sub":${quote(caller.subject)},"t":"stc/plan/v1","tool":"${tool.name}","version":${quote(tool.version)}}`,
    );
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    throw new Refusal("INTERNAL", "The call could not be planned.", { cause: error });
  }
}

const quote = (text: string): string => JSON.stringify(text);
