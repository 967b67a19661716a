import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type Fresh, mint, type Planned } from "../core/evidence.ts";
import type { ExecutionPlan } from "../core/types.ts";
import type { CallScope } from "./call-scope.ts";

const PLAN_LIMITS = { depthMax: 64, nodesMax: 100_000, bytesMax: 8_388_608 } as const;

/**
 * Settles what will run and seals it: the digest covers tool, plan, arguments, caller and session, so that another plan, or the
 * same plan for somebody else, is another digest.
 *
 * @throws {Refusal} what the handler's look at the world met, or DEADLINE_EXCEEDED, CANCELLED
 */
export async function makePlan(fresh: Fresh, scope: CallScope, session: string | undefined): Promise<Planned> {
  const { binding, input } = fresh;
  const pending = binding.plan(input, scope);
  const plan = pending instanceof Promise ? await scope.within(pending) : pending;
  return mint<Planned>({ ...fresh, plan, digest: seal(fresh, plan, fresh.caller.session ?? session ?? "") });
}

/** The JCS of `{args, iss, plan, session, sub, t, tool}`; written out, since only plan and arguments have a shape of their own. */
function seal({ identity, input, caller }: Fresh, plan: ExecutionPlan, session: string): string {
  try {
    // A function's plan is its arguments.
    const args = plan.kind === "inline" ? "null" : argumentsOf(input);
    const what = canonicalJson(plan, PLAN_LIMITS);
    return sha256Hex(
      `{"args":${args},"iss":${quote(caller.issuer)},"plan":${what},"session":${quote(session)},"sub":${quote(caller.subject)},"t":"stc/plan/v1","tool":"${identity}"}`,
    );
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    throw new Refusal("INTERNAL", "The call could not be planned.", { cause: error });
  }
}

/** A schema may make of the arguments what is no JSON (a date, a set): then the plan, which always is, stands for them. */
function argumentsOf(input: unknown): string {
  try {
    return canonicalJson(input, PLAN_LIMITS);
  } catch (error) {
    if (error instanceof NotJsonError) return "null";
    throw error;
  }
}

const quote = (text: string): string => JSON.stringify(text);
