import type { CallerContext, EpochMs } from "../../core/types.ts";

/** Who holds a role: one subject, or everybody whose token has all of these claims. */
export type BoundCallers = { readonly subject: string } | { readonly claims: readonly RequiredClaim[] };

/** A claim of a token by its path, such as `["realm_access", "roles"]`, and its value. */
export interface RequiredClaim {
  readonly path: readonly string[];
  /** Compared exactly: with the claim, or with each member of a claim that is a list of texts. */
  readonly value: string;
}

/** Gives the permissions of a role to callers of one issuer. */
export interface RoleBinding {
  readonly role: string;
  readonly permissions: readonly string[];
  readonly issuer: string;
  /** Whether the callers are the operators of the issuer, or its agents. */
  readonly isForOperators: boolean;
  readonly callers: BoundCallers;
  /** When the binding ends; undefined: never. */
  readonly untilMs: EpochMs | undefined;
}

/** The roles that a caller holds at one moment, and what they add. */
interface HeldRoles {
  readonly names: readonly string[];
  readonly permissions: readonly string[];
  /** When the first of the bindings ends: then the roles must be determined again. */
  readonly untilMs: EpochMs;
}

/** Maximum number of role names in `CallerContext.roles`, and so in an audit entry. The permissions of all roles count. */
const NAMES_MAX = 32;

type Claims = ReadonlyMap<string, unknown>;

interface Issuer {
  readonly issuer: string;
  readonly operators: boolean;
}

/** Facts, besides the caller's identity, that decide which roles the caller holds. */
interface HolderFacts {
  readonly claims: Claims | undefined;
  readonly operators: boolean;
}

function keyOf(issuer: string, operators: boolean): string {
  return JSON.stringify([issuer, operators]);
}

/** The bindings of all issuers. */
export class RoleBindings {
  readonly #byIssuer = new Map<string, BindingIndex>();

  constructor(bindings: readonly RoleBinding[]) {
    for (const binding of bindings) {
      const key = keyOf(binding.issuer, binding.isForOperators);
      const index = this.#byIssuer.get(key) ?? new BindingIndex();
      index.add(binding);
      this.#byIssuer.set(key, index);
    }
  }

  has({ issuer, operators }: Issuer): boolean {
    return this.#byIssuer.has(keyOf(issuer, operators));
  }

  /**
   * Returns the caller with the roles that it holds now, and until when they are certain. Without `claims`, only bindings of
   * subjects count.
   */
  withRoles(
    caller: CallerContext,
    { claims, operators }: HolderFacts,
    nowMs: EpochMs,
  ): { caller: CallerContext; untilMs: EpochMs } {
    const held = this.#byIssuer.get(keyOf(caller.issuer, operators))?.heldBy(caller.subject, claims, nowMs);
    if (held === undefined) return { caller, untilMs: Number.POSITIVE_INFINITY };
    const permissions = Object.freeze([...new Set([...caller.permissions, ...held.permissions])]);
    const roles = Object.freeze(held.names.slice(0, NAMES_MAX));
    return { caller: Object.freeze({ ...caller, permissions, roles }), untilMs: held.untilMs };
  }
}

/** The bindings whose first claim has one path, by the value of that claim. */
interface ClaimIndex {
  readonly path: readonly string[];
  readonly byValue: Map<string, RoleBinding[]>;
}

/** The bindings of one issuer. Finding those of a caller takes one lookup per value of the bound claims in its token. */
class BindingIndex {
  readonly #bySubject = new Map<string, RoleBinding[]>();
  readonly #byClaim = new Map<string, ClaimIndex>();

  add(binding: RoleBinding): void {
    const { callers } = binding;
    if ("subject" in callers) {
      append(this.#bySubject, callers.subject, binding);
      return;
    }
    const [first] = callers.claims;
    // A binding without a condition would bind everybody.
    if (first === undefined) throw new Error(`a binding of the role ${binding.role} names no claim`);
    const key = JSON.stringify(first.path);
    const index = this.#byClaim.get(key) ?? { path: first.path, byValue: new Map<string, RoleBinding[]>() };
    append(index.byValue, first.value, binding);
    this.#byClaim.set(key, index);
  }

  /** Returns undefined when no binding applies. */
  heldBy(subject: string, claims: Claims | undefined, nowMs: EpochMs): HeldRoles | undefined {
    const found = new Set(this.#bySubject.get(subject));
    if (claims !== undefined) this.#addClaimed(claims, found);
    const inForce = [...found].filter(({ untilMs }) => untilMs === undefined || nowMs < untilMs);
    if (inForce.length === 0) return undefined;
    return {
      names: [...new Set(inForce.map(({ role }) => role))].sort(),
      permissions: inForce.flatMap(({ permissions }) => permissions),
      untilMs: Math.min(...inForce.map(({ untilMs }) => untilMs ?? Number.POSITIVE_INFINITY)),
    };
  }

  #addClaimed(claims: Claims, found: Set<RoleBinding>): void {
    for (const { path, byValue } of this.#byClaim.values()) {
      for (const value of new Set(textsAt(claims, path))) {
        for (const binding of byValue.get(value) ?? []) if (hasClaims(claims, binding)) found.add(binding);
      }
    }
  }
}

function append(lists: Map<string, RoleBinding[]>, key: string, binding: RoleBinding): void {
  const list = lists.get(key);
  if (list === undefined) lists.set(key, [binding]);
  else list.push(binding);
}

function hasClaims(claims: Claims, { callers }: RoleBinding): boolean {
  return "claims" in callers && callers.claims.every(({ path, value }) => textsAt(claims, path).includes(value));
}

/**
 * Returns the values of a claim: a text, or the members of a list that holds nothing but texts. Every other value, and a list
 * with one other member, has none: what an issuer means by it is not known.
 */
function textsAt(claims: Claims, [name = "", ...inner]: readonly string[]): readonly string[] {
  let value = claims.get(name);
  for (const key of inner) {
    if (typeof value !== "object" || value === null || Array.isArray(value) || !Object.hasOwn(value, key)) return [];
    value = (value as Readonly<Record<string, unknown>>)[key];
  }
  if (typeof value === "string") return [value];
  return Array.isArray(value) && value.every((member) => typeof member === "string") ? value : [];
}
