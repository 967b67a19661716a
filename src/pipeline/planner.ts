import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type Fresh, mint, type Planned } from "../core/evidence.ts";
import type { JsonLimits } from "../core/json.ts";
import type { ExecutionPlan } from "../core/types.ts";
import type { CallScope } from "./call-scope.ts";

const PLAN_LIMITS = { depthMax: 64, nodesMax: 100_000, bytesMax: 8_388_608 } as const;

/**
 * Settles what will run and seals it: the digest covers tool, plan, arguments, caller, the actors it acts through and session, so
 * that another plan, or the same plan for or through somebody else, is another digest.
 *
 * @throws {Refusal} what the handler's look at the world met, or DEADLINE_EXCEEDED, CANCELLED
 */
export function makePlan(fresh: Fresh, scope: CallScope, session: string | undefined): Planned | Promise<Planned> {
  const plan = fresh.binding.plan(fresh.input, scope);
  const inSession = fresh.caller.session ?? session ?? "";
  if (!(plan instanceof Promise)) return sealed(fresh, plan, inSession);
  return scope.within(plan).then((settled) => sealed(fresh, settled, inSession));
}

function sealed(fresh: Fresh, plan: ExecutionPlan, session: string): Planned {
  const { identity, input, caller } = fresh;
  return mint<Planned>({ ...fresh, plan, digest: seal({ identity, input, caller, plan }, session) });
}

/** The same call in whatever session its caller names or opens: hex SHA-256. Sessions that the issuer names stay apart. */
export function digestInAnySession(planned: Planned): string {
  return seal(planned, planned.caller.session ?? "");
}

type Sealed = Pick<Planned, "identity" | "input" | "caller" | "plan">;

/**
 * The JCS of `{act, args, iss, plan, session, sub, t, tool}`, `act` only where there are actors; written out, since only plan
 * and arguments have a shape of their own.
 */
function seal({ identity, input, caller, plan }: Sealed, session: string): string {
  try {
    // A function's plan is its arguments.
    const args = plan.kind === "inline" ? "null" : argumentsOf(input);
    const what = textOf(plan);
    const act = caller.actors.length === 0 ? "" : `"act":${JSON.stringify(caller.actors)},`;
    return sha256Hex(
      `{${act}"args":${args},"iss":${quote(caller.issuer)},"plan":${what},"session":${quote(session)},"sub":${quote(caller.subject)},"t":"stc/plan/v1","tool":"${identity}"}`,
    );
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    throw new Refusal("INTERNAL", "The call could not be planned.", { cause: error });
  }
}

/** Of a function's plan, too, which is whatever the schema made of the arguments. */
function textOf(plan: ExecutionPlan): string {
  try {
    return canonicalJson(plan, PLAN_LIMITS);
  } catch (error) {
    if (!(error instanceof NotJsonError) || error.reason !== "type" || plan.kind !== "inline") throw error;
    return sealedText(plan, PLAN_LIMITS);
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

/**
 * The text of what a schema made of arguments when JSON has no word for it: sets, maps, large numbers, bytes. Every container says
 * what it is, so that no two values have the same text.
 *
 * @throws NotJsonError for anything else
 */
function sealedText(value: unknown, limits: JsonLimits): string {
  return canonicalJson(worded(value), limits);
}

function worded(value: unknown): unknown {
  if (typeof value === "bigint") return { bigint: value.toString() };
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return { list: value.map(worded) };
  if (value instanceof Set) return { set: [...value].map(worded) };
  if (value instanceof Map) return { map: [...value].map(([key, inner]) => [worded(key), worded(inner)]) };
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString("base64") };
  if (value instanceof Date) return { date: value };
  // What instances of other classes hide would be lost in silence.
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return { table: Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, worded(inner)])) };
}
