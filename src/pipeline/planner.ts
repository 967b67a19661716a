import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type Fresh, mint, type Planned } from "../core/evidence.ts";
import type { ExecutionPlan } from "../core/types.ts";
import type { CallScope } from "./call-scope.ts";

const PLAN_LIMITS = { depthMax: 64, nodesMax: 100_000, bytesMax: 8_388_608 } as const;

/**
 * Makes the plan that will run and seals it. The digest covers tool, plan, arguments, caller, the caller's actors and session, so
 * that another plan, or the same plan for another caller or through other actors, has another digest.
 *
 * @throws {Refusal} when the handler's inspection of the target fails, or DEADLINE_EXCEEDED, CANCELLED
 */
export function makePlan(fresh: Fresh, scope: CallScope, session: string | undefined): Planned | Promise<Planned> {
  const plan = fresh.binding.plan(fresh.input, scope);
  const inSession = fresh.caller.session ?? session ?? "";
  if (!(plan instanceof Promise)) return sealed(fresh, plan, inSession);
  return scope.within(plan).then((settled) => sealed(fresh, settled, inSession));
}

function sealed(fresh: Fresh, plan: ExecutionPlan, session: string): Planned {
  const { identity, input, caller, binding } = fresh;
  return mint<Planned>({ ...fresh, plan, digest: seal({ identity, input, caller, plan, binding }, session) });
}

/**
 * Returns the digest of the call (hex SHA-256) for any session that its caller names or opens. Sessions that the issuer names
 * have different digests.
 */
export function digestInAnySession(planned: Planned): string {
  return seal(planned, planned.caller.session ?? "");
}

type Sealed = Pick<Planned, "identity" | "input" | "caller" | "plan" | "binding">;

/**
 * Hashes the JCS of `{act, args, iss, plan, session, sub, t, tool}`, with `act` only if there are actors. The object is written
 * out by hand, because only plan and arguments vary in shape.
 */
function seal({ identity, input, caller, plan, binding }: Sealed, session: string): string {
  try {
    const isInput = binding.planIsInput === true;
    const args = isInput ? "null" : argumentsOf(input);
    const planText = textOf(plan, isInput);
    const act = caller.actors.length === 0 ? "" : `"act":${JSON.stringify(caller.actors)},`;
    return sha256Hex(
      `{${act}"args":${args},"iss":${quote(caller.issuer)},"plan":${planText},"session":${quote(session)},"sub":${quote(caller.subject)},"t":"stc/plan/v1","tool":"${identity}"}`,
    );
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    throw new Refusal("INTERNAL", "The call could not be planned.", { cause: error });
  }
}

/** Returns the canonical text of a plan. A plan that is the arguments may hold any value that the schema produced. */
function textOf(plan: ExecutionPlan, isInput: boolean): string {
  try {
    return canonicalJson(plan, PLAN_LIMITS);
  } catch (error) {
    if (!(error instanceof NotJsonError) || error.reason !== "type" || !isInput) throw error;
    return canonicalJson(typed(plan), PLAN_LIMITS);
  }
}

/**
 * Returns the canonical text of the arguments. A schema may produce values that are not JSON (a date, a set): then "null" is
 * used, and the plan, which always has a text, represents the arguments.
 */
function argumentsOf(input: unknown): string {
  try {
    return canonicalJson(input, PLAN_LIMITS);
  } catch (error) {
    if (error instanceof NotJsonError) return "null";
    throw error;
  }
}

const quote = (text: string): string => JSON.stringify(text);

/**
 * Returns JSON for schema-produced values that JSON cannot express: sets, maps, large numbers, bytes. Every container names its
 * type, so that no two values have the same text.
 */
function typed(value: unknown): unknown {
  if (typeof value === "bigint") return { bigint: value.toString() };
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return { list: value.map(typed) };
  if (value instanceof Set) return { set: [...value].map(typed) };
  if (value instanceof Map) return { map: [...value].map(([key, inner]) => [typed(key), typed(inner)]) };
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString("base64") };
  if (value instanceof Date) return { date: value };
  // Instances of other classes may have hidden state, which the text would silently omit.
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return { table: Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, typed(inner)])) };
}
