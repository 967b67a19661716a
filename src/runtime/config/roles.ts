import { z } from "zod";
import { isTable } from "../../core/json.ts";
import { hint, listed } from "../../core/nearest.ts";
import { permission, toolPattern } from "../../core/rule-conditions.ts";
import { problemAdder } from "./values.ts";

/** Declares the sections `roles` and `bindings`: which permissions callers get because of the claims in their tokens. */

const ROLES_MAX = 500;
const BINDINGS_MAX = 10_000;
/** As many as one token may list. */
export const ROLE_PERMISSIONS_MAX = 256;
const TOOLS_MAX = 256;
const CLAIMS_MAX = 8;
const CLAIM_DEPTH_MAX = 8;
const CLAIM_CHARACTERS_MAX = 512;
const TOO_LONG = `must have at most ${CLAIM_CHARACTERS_MAX} characters`;
const ROLE_NAME = /^[A-Za-z][A-Za-z0-9._-]{0,63}$/;

const role = z
  .strictObject({
    /** Permissions that the role gives, in addition to those of `tools`. */
    permissions: z.array(permission).max(ROLE_PERMISSIONS_MAX).default([]),
    /**
     * Tools whose required permissions the role gives: names, in which `*` matches any characters. Permissions that only some
     * arguments require are not given; list them in `permissions`.
     */
    tools: z.array(toolPattern).max(TOOLS_MAX).default([]),
  })
  .refine(
    ({ permissions, tools }) => permissions.length + tools.length > 0,
    "must give something: permissions or tools",
  );

/** The section `roles`. */
export const roles = z
  .record(z.string().regex(ROLE_NAME, "must be a name of letters, digits, dot, dash, underscore"), role)
  .refine((all) => Object.keys(all).length <= ROLES_MAX, `has more than ${ROLES_MAX} roles`)
  .default({});

/** Claims as the configuration writes them: nested as in the token, each with the text that it must have. */
export interface WrittenClaims {
  readonly [name: string]: string | WrittenClaims;
}

const claim = z
  .custom<WrittenClaims>(isTable, "must be a table of claims and their values")
  .superRefine((table, context) => {
    const add = problemAdder(context);
    const found = readClaims(table);
    for (const { path, message } of found.problems) add(path, message);
    if (found.problems.length > 0) return;
    if (found.claims.length === 0) add([], "must name at least one claim: it would bind every caller");
    if (found.claims.length > CLAIMS_MAX) add([], `names more than ${CLAIMS_MAX} claims`);
  });

/** A claim by its path in the token, and the text that it must have. */
interface WrittenClaim {
  readonly path: readonly string[];
  readonly value: string;
}

interface ReadClaims {
  readonly claims: readonly WrittenClaim[];
  readonly problems: readonly { readonly path: readonly string[]; readonly message: string }[];
}

/** Returns the claims of a table, which may be any value. Nothing that was written is left out silently. */
function readClaims(table: unknown, path: readonly string[] = []): ReadClaims {
  if (typeof table === "string") {
    const isLong = table.length > CLAIM_CHARACTERS_MAX;
    return isLong ? problem(path, TOO_LONG) : { claims: [{ path, value: table }], problems: [] };
  }
  if (!isTable(table)) return problem(path, "must be the text that the claim has: put it in quotes");
  if (path.length >= CLAIM_DEPTH_MAX) return problem(path, `is nested deeper than ${CLAIM_DEPTH_MAX} levels`);
  const members = Object.keys(table);
  if (members.length === 0 && path.length > 0) return problem(path, "must hold at least one claim");
  const found = members.map((name) =>
    name === "__proto__"
      ? problem([...path, name], "cannot be the name of a claim")
      : readClaims(table[name], [...path, name]),
  );
  return { claims: found.flatMap(({ claims }) => claims), problems: found.flatMap(({ problems }) => problems) };
}

function problem(path: readonly string[], message: string): ReadClaims {
  return { claims: [], problems: [{ path, message }] };
}

const binding = z
  .strictObject({
    /** Name of a role in `roles`. */
    role: z.string().min(1),
    /** The `iss` of the callers' tokens. May be left out where `jwt.issuers` has only one issuer of agents. */
    issuer: z.string().min(1).optional(),
    /** Whether the callers are operators, where `issuer` has profiles for agents and operators. Default: agents, if it has any. */
    operators: z.boolean().optional(),
    /** The caller with this `sub`. */
    subject: z.string().min(1).max(256).optional(),
    /** Callers whose token lists this group, in the claim that `groupsClaim` of their issuer names. */
    group: z.string().min(1).max(CLAIM_CHARACTERS_MAX).optional(),
    /**
     * Callers whose token has all of these claims, nested as in the token: `{ department: support }`. A claim must be the text, or
     * a list of texts that contains it.
     */
    claim: claim.optional(),
    /** When the binding ends, such as `2026-12-24T18:00:00Z`, also for callers that are connected; when left out: never. */
    until: z.iso.datetime({ offset: true, error: "must be a time such as 2026-12-24T18:00:00Z" }).optional(),
  })
  .superRefine(({ subject, group, claim: claims }, context) => {
    const add = problemAdder(context);
    if ([subject, group, claims].filter((one) => one !== undefined).length !== 1) {
      add([], "must name who holds the role by exactly one of subject, group, claim");
    }
  });

/** The section `bindings`. */
export const bindings = z.array(binding).max(BINDINGS_MAX).default([]);

export type WrittenBinding = z.output<typeof binding>;

interface Issuer {
  readonly issuer: string;
  readonly operators: boolean;
  readonly groupsClaim: string | readonly string[];
}

interface RoleSections {
  readonly roles: z.output<typeof roles>;
  readonly bindings: z.output<typeof bindings>;
  readonly jwt: { readonly issuers: readonly Issuer[] };
}

/** Reports bindings of roles and issuers that do not exist. */
export function checkBindings(config: RoleSections, context: z.core.$RefinementCtx): void {
  const addAt = problemAdder(context);
  const { roles: all, jwt } = config;
  for (const [index, written] of config.bindings.entries()) {
    const add = (key: string, message: string): void => addAt(["bindings", index, key], message);
    const known = Object.hasOwn(all, written.role) ? all[written.role] : undefined;
    if (known === undefined) add("role", `${written.role} is not in roles${hint(written.role, Object.keys(all))}`);
    const issuer = issuerOf(written, jwt.issuers);
    if (issuer === undefined) add("issuer", issuerProblem(written, jwt.issuers));
    else if (issuer.operators && (known?.tools.length ?? 0) > 0) {
      add("issuer", `is for operators, who call no tools, and the role ${written.role} names tools`);
    }
  }
}

/** Returns the issuer of a binding; undefined when none has its name and kind, or when it names none and several are possible. */
export function issuerOf<Known extends Pick<Issuer, "issuer" | "operators">>(
  { issuer: name, operators: kind }: Pick<WrittenBinding, "issuer" | "operators">,
  issuers: readonly Known[],
): Known | undefined {
  const named = issuers.filter(
    ({ issuer, operators }) => (name ?? issuer) === issuer && (kind ?? operators) === operators,
  );
  const agents = named.filter(({ operators }) => !operators);
  if (name !== undefined) return agents[0] ?? named[0];
  const only = kind === true ? named : agents;
  return only.length === 1 ? only[0] : undefined;
}

function issuerProblem({ issuer: name, operators }: WrittenBinding, issuers: readonly Issuer[]): string {
  const names = [...new Set(issuers.map(({ issuer }) => issuer))];
  const kind = operators === true ? "operators" : "agents";
  if (name !== undefined && names.includes(name)) return `${name} is not an issuer of ${kind}`;
  if (name !== undefined) return `${name} is not an issuer in jwt.issuers${hint(name, names)}`;
  return `is missing, and jwt.issuers does not have exactly one issuer of ${kind}: name one of ${listed(names)}`;
}

/** Returns the claims that a binding requires; undefined for a binding of a subject. */
export function claimsOf(
  { group, claim: claims }: Pick<WrittenBinding, "group" | "claim">,
  { groupsClaim }: Pick<Issuer, "groupsClaim">,
): readonly WrittenClaim[] | undefined {
  if (group !== undefined) return [{ path: [groupsClaim].flat(), value: group }];
  return claims === undefined ? undefined : readClaims(claims).claims;
}
