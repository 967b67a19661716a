import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import { Refusal } from "../core/errors.ts";
import { type Fresh, mint, type Planned } from "../core/evidence.ts";
import { isSameJson } from "../core/json.ts";
import type { CallerContext, ExecutionPlan } from "../core/types.ts";
import type { CallScope } from "./call-scope.ts";
import { sessionText } from "./call-session.ts";

const PLAN_LIMITS = { depthMax: 64, nodesMax: 100_000, bytesMax: 8_388_608 } as const;

/** Texts up to this length have fewer values than `PLAN_LIMITS` allows. */
const REUSED_CHARACTERS_MAX = PLAN_LIMITS.nodesMax / 2;
const REUSED_DEPTH_MAX = PLAN_LIMITS.depthMax / 2;

/** The session that the caller names, and the arguments as sent with their canonical text, if it is known. */
interface Sent {
  readonly request: { readonly session?: string | undefined; readonly args?: unknown };
  readonly argsText?: string;
}

/**
 * Makes the plan that will run and seals it. The digest covers tool, plan, arguments, caller, the caller's actors and session, so
 * that another plan, or the same plan for another caller or through other actors, has another digest.
 *
 * @throws {Refusal} when the handler's inspection of the target fails, or DEADLINE_EXCEEDED, CANCELLED
 */
export function makePlan(fresh: Fresh, scope: CallScope, sent: Sent): Planned | Promise<Planned> {
  const plan = fresh.binding.plan(fresh.input, scope);
  if (!(plan instanceof Promise)) return sealed(fresh, plan, sent);
  return scope.within(plan).then((settled) => sealed(fresh, settled, sent));
}

function sealed(fresh: Fresh, plan: ExecutionPlan, { request, argsText }: Sent): Planned {
  const { identity, input, caller, binding } = fresh;
  const inputText = argsText !== undefined && isReusable(argsText, request.args, input) ? argsText : undefined;
  const session = sessionText({ caller, named: request.session });
  const digest = seal({ identity, input, caller, plan, binding }, session, inputText);
  return mint<Planned>({ ...fresh, plan, digest });
}

/**
 * Seals the labels that the call carries as well: an approval that was given before the caller had earned one of them does not
 * cover the call.
 */
export function carrying(planned: Planned, labels: readonly string[]): Planned {
  if (labels.length === 0) return planned;
  return mint<Planned>({ ...planned, carried: labels, digest: withLabels(planned.digest, labels) });
}

function withLabels(digest: string, labels: readonly string[] = []): string {
  return labels.length === 0 ? digest : sha256Hex(`stc/carried/v1 ${digest} ${labels.join(" ")}`);
}

/** Returns whether the schema passed the arguments on as they were sent: then both have the same canonical text. */
function isReusable(text: string, args: unknown, input: unknown): boolean {
  return text.length <= REUSED_CHARACTERS_MAX && isSameJson(args, input, REUSED_DEPTH_MAX);
}

/**
 * Returns the digest of the call (hex SHA-256) for any session that its caller names or opens. Sessions that the issuer names
 * have different digests.
 */
export function digestInAnySession(planned: Planned): string {
  return withLabels(seal(planned, planned.caller.session ?? ""), planned.carried);
}

type Sealed = Pick<Planned, "identity" | "input" | "caller" | "plan" | "binding">;

/**
 * Hashes the JCS of `{act, args, iss, plan, session, sub, t, tool}`, with `act` only if there are actors. The object is written
 * out by hand, because only plan and arguments vary in shape. `inputText` is the canonical text of the arguments, if it is known.
 */
function seal({ identity, input, caller, plan, binding }: Sealed, session: string, inputText?: string): string {
  try {
    const isInput = binding.planIsInput === true;
    const args = isInput ? "null" : (inputText ?? argumentsOf(input));
    const known = isInput && inputText !== undefined ? textWithInput(plan, input, inputText) : undefined;
    const planText = known ?? canonicalPlan(plan, isInput);
    const { act, iss, sub } = quotedCaller(caller);
    return sha256Hex(
      `{${act}"args":${args},"iss":${iss},"plan":${planText},"session":${session === "" ? '""' : quote(session)},"sub":${sub},"t":"stc/plan/v1","tool":"${identity}"}`,
    );
  } catch (error) {
    if (!(error instanceof NotJsonError)) throw error;
    throw new Refusal("INTERNAL", "The call could not be planned.", { cause: error });
  }
}

interface QuotedCaller {
  readonly act: string;
  readonly iss: string;
  readonly sub: string;
}

/** The members of a digest that are the same in all calls of a caller. */
const quotedCallers = new WeakMap<CallerContext, QuotedCaller>();

function quotedCaller(caller: CallerContext): QuotedCaller {
  let quoted = quotedCallers.get(caller);
  if (quoted === undefined) {
    const { actors, issuer, subject } = caller;
    const act = actors.length === 0 ? "" : `"act":${JSON.stringify(actors)},`;
    quoted = { act, iss: quote(issuer), sub: quote(subject) };
    quotedCallers.set(caller, quoted);
  }
  return quoted;
}

/** Returns the canonical text of a plan that consists of the arguments and its kind; undefined for any other plan. */
function textWithInput(plan: ExecutionPlan, input: unknown, inputText: string): string | undefined {
  const isJustInput = plan["input"] === input && Object.keys(plan).length === 2;
  return isJustInput ? `{"input":${inputText},"kind":${quote(plan.kind)}}` : undefined;
}

/** Returns the canonical text of a plan. A plan that is the arguments may hold any value that the schema produced. */
function canonicalPlan(plan: ExecutionPlan, isInput: boolean): string {
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
