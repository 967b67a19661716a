import { z } from "zod";
import { canonicalJson, NotJsonError, sha256Hex } from "../core/digest.ts";
import { isTable } from "../core/json.ts";
import { visible } from "../core/terminal-text.ts";
import { type ArgumentBound, type Json, type OfferedGrants, RISKS, type Risk } from "../core/types.ts";
import type { Requester } from "./identities.ts";

/** A bound under which an argument may vary. Arguments without one must be as in the approved call. */
export type VaryingBound = Exclude<ArgumentBound, "equal">;

/** The terms of a bounded grant: a number of runs, for a time, while the arguments are within their bounds. */
export interface GrantTerms {
  /** Runs altogether, the approved call included. */
  readonly runs: number;
  readonly minutes: number;
  readonly arguments: Readonly<Record<string, VaryingBound>>;
}

/** Facts that decide whether a bounded grant covers a call. */
export interface BoundedCall {
  readonly requester: Requester;
  /** Hex SHA-256 over what must be the same: tool, caller, actors, session and the fixed parts of the plan. */
  readonly boundsKey: string;
  readonly input: unknown;
  readonly isElevated: boolean;
  readonly risk: Risk;
  /** The rules for which the call needs an approval, and all that matched. */
  readonly rules: readonly string[];
}

/** The bounds of a grant, with what is needed to compare calls with the approved one. Holds no argument of that call. */
export interface GrantBounds extends Pick<BoundedCall, "boundsKey" | "isElevated" | "risk" | "rules"> {
  readonly terms: GrantTerms;
  /** Digest of the approved plan: different for each call, so that equal arguments of two calls have different digests. */
  readonly salt: string;
  /** Hex SHA-256 of each argument of the approved call. */
  readonly digests: Readonly<Record<string, string>>;
}

/** The terms that an approver chooses: what is left out is as offered. */
export interface ChosenTerms {
  readonly runs?: number | undefined;
  readonly minutes?: number | undefined;
  readonly arguments?: Readonly<Record<string, ArgumentBound>> | undefined;
}

const LIMITS = { depthMax: 64, nodesMax: 100_000, bytesMax: 8_388_608 } as const;

/** Returns `BoundedCall.boundsKey`. */
export function boundsKeyOf(
  { issuer, subject, actors, session = "" }: Requester,
  {
    identity,
    fixed,
    within,
  }: { readonly identity: string; readonly fixed: Json; readonly within?: string | undefined },
): string {
  const facts = {
    t: "stc/bounds/v1",
    actors,
    fixed,
    identity,
    issuer,
    session,
    subject,
    ...(within !== undefined && { within }),
  };
  return sha256Hex(canonicalJson(facts, LIMITS));
}

/**
 * Returns the widest grant that approvers of this call may give. Undefined when the call itself is outside the bounds, or when an
 * argument cannot be compared, because it is not JSON.
 */
export function offerFor(call: BoundedCall, offered: OfferedGrants, salt: string): GrantBounds | undefined {
  const { boundsKey, isElevated, risk, rules } = call;
  const varying = Object.entries(offered.arguments ?? {}).filter(([, bound]) => bound !== "equal");
  const terms = { ...offered, arguments: Object.fromEntries(varying) as GrantTerms["arguments"] };
  try {
    const digests = Object.fromEntries(
      argumentsOf(call.input).map(([name, value]) => [name, digestOf(salt, name, value)]),
    );
    const bounds = { boundsKey, isElevated, risk, rules: [...rules], terms, salt, digests };
    return isCovered(bounds, call) ? bounds : undefined;
  } catch (error) {
    if (error instanceof NotJsonError) return undefined;
    throw error;
  }
}

/**
 * Returns whether the call is within the bounds. Arguments are those that the schema returned: with defaults, and without unknown
 * keys. A call of higher risk, one for which another rule wants an approval, and one that needs the elevated permissions when the
 * approved call did not, is outside.
 */
export function isCovered({ terms, salt, digests, ...approved }: GrantBounds, call: BoundedCall): boolean {
  if (approved.boundsKey !== call.boundsKey || (call.isElevated && !approved.isElevated)) return false;
  if (RISKS.indexOf(call.risk) > RISKS.indexOf(approved.risk)) return false;
  if (!call.rules.every((rule) => rule === "default" || approved.rules.includes(rule))) return false;
  const given = new Map(argumentsOf(call.input));
  return [...new Set([...given.keys(), ...Object.keys(digests), ...Object.keys(terms.arguments)])].every((name) => {
    const bound = memberOf(terms.arguments, name);
    if (bound !== undefined) return isWithin(bound, given.get(name));
    const digest = given.has(name) ? sameDigestOf(salt, name, given.get(name)) : undefined;
    return digest === memberOf(digests, name);
  });
}

/** Returns the arguments that are set. */
function argumentsOf(input: unknown): readonly (readonly [string, unknown])[] {
  return isTable(input) ? Object.entries(input).filter(([, value]) => value !== undefined) : [];
}

function memberOf<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** @throws {NotJsonError} */
function digestOf(salt: string, name: string, value: unknown): string {
  return sha256Hex(canonicalJson([salt, name, value], LIMITS));
}

/** Returns a text that is no digest for a value that is not JSON: it equals nothing. */
function sameDigestOf(salt: string, name: string, value: unknown): string {
  try {
    return digestOf(salt, name, value);
  } catch (error) {
    if (error instanceof NotJsonError) return "not JSON";
    throw error;
  }
}

function isWithin(bound: VaryingBound, value: unknown): boolean {
  if (bound === "any") return true;
  if ("oneOf" in bound) return bound.oneOf.some((one) => one === value);
  return typeof value === "number" && value >= (bound.min ?? 0) && value <= bound.max;
}

export type TermsProblem = { readonly field: string; readonly message: string };

/** Returns the terms that an approver grants, or why they are not within the offered ones: approvers narrow, and never widen. */
export function chosenTerms(offered: GrantTerms, chosen: ChosenTerms): GrantTerms | TermsProblem {
  const { runs = offered.runs, minutes = offered.minutes } = chosen;
  for (const [field, value, max] of [
    ["runs", runs, offered.runs],
    ["minutes", minutes, offered.minutes],
  ] as const) {
    if (!Number.isInteger(value) || value < 1 || value > max)
      return { field: `grant.${field}`, message: `must be a whole number from 1 to ${max}` };
  }
  const bounds: Record<string, VaryingBound> = { ...offered.arguments };
  for (const [name, bound] of Object.entries(chosen.arguments ?? {})) {
    const widest = memberOf(offered.arguments, name);
    if (bound === "equal") delete bounds[name];
    else if (widest === undefined || !isNarrower(bound, widest))
      return { field: `grant.arguments.${name}`, message: "would cover more than the request offers" };
    else bounds[name] = bound;
  }
  return { runs, minutes, arguments: bounds };
}

function isNarrower(bound: VaryingBound, widest: VaryingBound): boolean {
  if (widest === "any") return true;
  if (bound === "any") return false;
  if ("oneOf" in bound) return bound.oneOf.every((value) => isWithin(widest, value));
  return "max" in widest && (bound.min ?? 0) >= (widest.min ?? 0) && bound.max <= widest.max;
}

/**
 * Returns the terms on which several approvers agree: the fewest runs, the shortest time, the tightest bounds. An argument on which
 * they agree in nothing must be as in the approved call.
 */
export function narrowest(all: readonly [GrantTerms, ...GrantTerms[]]): GrantTerms {
  return all.reduce((one, other) => ({
    runs: Math.min(one.runs, other.runs),
    minutes: Math.min(one.minutes, other.minutes),
    arguments: Object.fromEntries(
      Object.entries(one.arguments).flatMap(([name, bound]) => {
        const second = memberOf(other.arguments, name);
        const common = second === undefined ? undefined : commonBound(bound, second);
        return common === undefined ? [] : [[name, common]];
      }),
    ),
  }));
}

function commonBound(one: VaryingBound, other: VaryingBound): VaryingBound | undefined {
  if (one === "any") return other;
  if (other === "any") return one;
  if ("oneOf" in one || "oneOf" in other) {
    const [set, second] = "oneOf" in one ? [one, other] : [other as Extract<VaryingBound, { oneOf: unknown }>, one];
    const values = set.oneOf.filter((value) => isWithin(second, value));
    return values.length === 0 ? undefined : { oneOf: values };
  }
  const min = Math.max(one.min ?? 0, other.min ?? 0);
  const max = Math.min(one.max, other.max);
  return min > max ? undefined : { min, max };
}

/** Returns the terms as JSON, for answers and the journal. */
export function termsJson(terms: GrantTerms): Json {
  return JSON.parse(JSON.stringify(terms)) as Json;
}

/** Returns the terms in words for approvers. `names`: the tool's arguments. */
export function termsInWords(terms: GrantTerms, { tool, session, names }: GrantSubject): Json {
  const { runs, minutes } = terms;
  const all = new Set([...names, ...Object.keys(terms.arguments)]);
  const within = session === undefined ? "this caller" : "this caller in this session";
  return {
    covers: `Up to ${runs} ${runs === 1 ? "run" : "runs"} of ${tool} by ${within} within ${minutes} ${minutes === 1 ? "minute" : "minutes"} of the approval, this call included, without asking again. You may grant less.`,
    runs,
    minutes,
    arguments: Object.fromEntries(
      [...all].map((name) => [visible(name), boundInWords(memberOf(terms.arguments, name))]),
    ),
  };
}

interface GrantSubject {
  readonly tool: string;
  readonly session: string | undefined;
  readonly names: Iterable<string>;
}

export function boundInWords(bound: VaryingBound | undefined): string {
  if (bound === undefined) return "as in this call";
  if (bound === "any") return "any value, or none";
  if ("oneOf" in bound) return `one of ${bound.oneOf.map((value) => visible(JSON.stringify(value))).join(", ")}`;
  return `a number from ${bound.min ?? 0} to ${bound.max}`;
}

const count = z.int().min(1);
const scalar = z.union([z.string(), z.number(), z.boolean(), z.null()]);
const bound = z.union([
  z.literal("any"),
  z.strictObject({ oneOf: z.array(scalar).min(1) }),
  z.strictObject({ min: z.number().optional(), max: z.number() }),
]);
/** Terms as they are stored. */
export const grantTerms = z.strictObject({ runs: count, minutes: count, arguments: z.record(z.string(), bound) });

/** The choice of an approver, as endpoints receive it. */
export const chosenTermsSchema = z.strictObject({
  runs: count.optional(),
  minutes: count.optional(),
  arguments: z.record(z.string().max(256), z.union([z.literal("equal"), bound])).optional(),
});

/** The bounds of an offered grant, as they are stored. */
export const grantBounds = z.strictObject({
  boundsKey: z.string(),
  isElevated: z.boolean(),
  risk: z.enum(RISKS),
  rules: z.array(z.string()),
  terms: grantTerms,
  salt: z.string(),
  digests: z.record(z.string(), z.string()),
});

export function readTerms(value: unknown): GrantTerms | undefined {
  return grantTerms.safeParse(value).data;
}

export function readBounds(value: unknown): GrantBounds | undefined {
  return grantBounds.safeParse(value).data;
}
