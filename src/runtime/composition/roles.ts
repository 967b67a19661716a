import { hint } from "../../core/nearest.ts";
import { isOperatorPermission } from "../../core/operator-permissions.ts";
import { present } from "../../core/present.ts";
import { matchesToolName } from "../../core/tool-names.ts";
import type { EpochMs, Tool } from "../../core/types.ts";
import { couldUse } from "../../pipeline/built-in-points.ts";
import { subjectProblem, visibilityProblem } from "../../pipeline/identity/claims.ts";
import { serviceAccountOf } from "../../pipeline/identity/profiles.ts";
import { type RoleBinding, RoleBindings } from "../../pipeline/identity/roles.ts";
import type { Config } from "../config/config.ts";
import { claimsOf, issuerOf, ROLE_PERMISSIONS_MAX, type WrittenBinding } from "../config/roles.ts";
import { ownJwt } from "../config/tenants.ts";
import type { LoadedTools } from "../manifests/sources.ts";

type Sections = Pick<Config, "roles" | "bindings" | "jwt" | "tenant" | "hub">;
type Issuer = Config["jwt"]["issuers"][number];

/** A binding with what it refers to. */
export interface ResolvedBinding extends RoleBinding {
  /** Position in the section `bindings`. */
  readonly index: number;
  readonly written: WrittenBinding;
  /** Whether the callers are service accounts of a cluster. */
  readonly isServiceAccount: boolean;
}

/** Returns the bindings with the permissions of their roles, those of the roles' tools included. */
export function resolveBindings(config: Sections, tools: readonly Tool[]): readonly ResolvedBinding[] {
  const permissionsOf = new Map(
    Object.entries(config.roles).map(([name, role]) => [name, rolePermissions(role, tools)] as const),
  );
  return config.bindings.flatMap((written, index) => {
    const issuer = issuerOf(written, config.jwt.issuers);
    if (issuer === undefined) return [];
    return [
      {
        index,
        written,
        role: written.role,
        issuer: issuer.issuer,
        isForOperators: issuer.operators,
        isServiceAccount: issuer.profile === "kubernetes",
        permissions: permissionsOf.get(written.role) ?? [],
        callers: callersOf(written, issuer),
        untilMs: written.until === undefined ? undefined : Date.parse(written.until),
      },
    ];
  });
}

function callersOf(written: WrittenBinding, issuer: Issuer): RoleBinding["callers"] {
  const claims = claimsOf(written, issuer);
  return claims === undefined ? { subject: present(written.subject, "the subject of a binding") } : { claims };
}

/** Returns the permissions of a role, sorted: its own, and those that its tools require for any arguments. */
export function rolePermissions(
  { permissions, tools: patterns }: Config["roles"][string],
  tools: readonly Tool[],
): readonly string[] {
  const named = tools.filter(({ name }) => patterns.some((pattern) => matchesToolName(pattern, name)));
  return [...new Set([...permissions, ...named.flatMap((tool) => tool.permissions.required)])].sort();
}

/** Returns the bindings that have not ended. */
export function inForce(bindings: readonly ResolvedBinding[], nowMs: EpochMs): readonly ResolvedBinding[] {
  return bindings.filter(({ untilMs }) => untilMs === undefined || nowMs < untilMs);
}

interface OpenedBindings {
  readonly resolved: readonly ResolvedBinding[];
  readonly index: RoleBindings;
  readonly problems: readonly string[];
}

/** Opens the bindings for the callers of one configuration. */
export function openBindings(config: Sections, loaded: Loaded): OpenedBindings {
  const resolved = resolveBindings(config, loaded.tools);
  return { resolved, index: new RoleBindings(resolved), problems: roleProblems(config, loaded) };
}

type Loaded = Pick<LoadedTools, "tools" | "notRegistered" | "problems">;

/**
 * Reports tools of roles that do not exist, roles with too many permissions, and bindings that can never match. Tool names are
 * not checked while a manifest cannot be read or a target is missing: the name may be one of those tools'.
 */
function roleProblems(config: Sections, { tools, notRegistered, problems }: Loaded): readonly string[] {
  const known = new Set(tools.map(({ name }) => name));
  const areAllKnown = notRegistered.length === 0 && problems.length === 0;
  const ofBindings = resolveBindings(config, []).flatMap(callersProblems);
  const ofRoles = Object.entries(config.roles).flatMap(([name, role]) => {
    const unknown = role.tools.flatMap((tool, index) =>
      areAllKnown && !tool.includes("*") && !known.has(tool)
        ? [`roles.${name}.tools[${index}]: no tool is called ${tool}${hint(tool, known)}`]
        : [],
    );
    const count = rolePermissions(role, tools).length;
    if (count <= ROLE_PERMISSIONS_MAX) return unknown;
    return [
      ...unknown,
      `roles.${name}: gives ${count} permissions, at most ${ROLE_PERMISSIONS_MAX}: use several roles`,
    ];
  });
  return [...ofRoles, ...ofBindings];
}

/** Returns why a binding can never match, or looks like a pattern. Everything is compared as written. */
function callersProblems({ index, callers, isServiceAccount, written }: ResolvedBinding): readonly string[] {
  const at = `bindings[${index}]`;
  if ("subject" in callers) {
    const { subject } = callers;
    const problem = subjectProblem(subject);
    if (problem !== undefined) return [`${at}.subject: no token may name such a subject: ${problem}`];
    if (subject.includes("*")) return [`${at}.subject: * is not a pattern here: write out each subject`];
    const isNamed = !isServiceAccount || serviceAccountOf(subject) !== undefined;
    return isNamed ? [] : [`${at}.subject: must be system:serviceaccount:<namespace>:<name>`];
  }
  return callers.claims.flatMap(({ path, value }) => {
    const field = written.group === undefined ? `${at}.claim.${path.join(".")}` : `${at}.group`;
    const problem = visibilityProblem(value);
    if (problem !== undefined) return [`${field}: cannot be compared: ${problem}`];
    return value.includes("*") ? [`${field}: * is not a pattern here: values are compared exactly`] : [];
  });
}

/** Returns notes about roles and bindings that are valid but probably not intended. */
export function roleNotes(config: Sections, tools: readonly Tool[], nowMs: EpochMs): readonly string[] {
  const bound = resolveBindings(config, tools);
  const firstOf = firstBindings(bound);
  return [
    ...Object.entries(config.roles).flatMap(([name, role]) => [
      ...(bound.some((binding) => binding.role === name) ? [] : [`roles.${name}: no binding gives it to anybody`]),
      ...role.tools.flatMap((pattern, index) =>
        pattern.includes("*") && !tools.some((tool) => matchesToolName(pattern, tool.name))
          ? [`roles.${name}.tools[${index}]: ${pattern} matches no tool`]
          : [],
      ),
      ...alsoOpened(name, role, tools),
    ]),
    ...bound.flatMap((binding) => bindingNotes(binding, { firstOf, tools, nowMs })),
    ...unreachable(config, tools, inForce(bound, nowMs)),
  ];
}

/** Notes the tools that a role opens without naming them, because they require no more than those that it names. */
function alsoOpened(name: string, role: Config["roles"][string], tools: readonly Tool[]): readonly string[] {
  const given = rolePermissions({ ...role, permissions: [] }, tools);
  const others = tools.filter(
    ({ name: tool, permissions: { required } }) =>
      required.length > 0 &&
      couldUse(given, required) &&
      !couldUse(role.permissions, required) &&
      !role.tools.some((pattern) => matchesToolName(pattern, tool)),
  );
  if (others.length === 0) return [];
  const names = others.map((tool) => tool.name).join(", ");
  return [`roles.${name}.tools: also opens ${names}, which need no other permissions than the tools that it names`];
}

interface NoteContext {
  /** The first binding for each role and its callers. */
  readonly firstOf: ReadonlyMap<string, ResolvedBinding>;
  readonly tools: readonly Tool[];
  readonly nowMs: EpochMs;
}

function bindingNotes(binding: ResolvedBinding, { firstOf, tools, nowMs }: NoteContext): readonly string[] {
  const { index, role, permissions, untilMs, isForOperators, issuer } = binding;
  const at = `bindings[${index}]`;
  const notes: string[] = [];
  if (untilMs !== undefined && untilMs <= nowMs) notes.push(`${at}: ended at ${new Date(untilMs).toISOString()}`);
  const former = firstOf.get(identityOf(binding));
  if (former !== undefined && former.index < index)
    notes.push(`${at}: gives the role ${role} to the same callers as bindings[${former.index}]`);
  if (isForOperators) return notes;
  const opened = tools.some(({ permissions: { required } }) => required.length > 0 && couldUse(permissions, required));
  if (!opened) notes.push(`${at}: the role ${role} opens no tool by itself`);
  const operators = permissions.filter(isOperatorPermission);
  if (operators.length > 0)
    notes.push(`${at}: ${operators.join(", ")} open nothing for ${issuer}, an issuer of agents`);
  return notes;
}

function firstBindings(bound: readonly ResolvedBinding[]): ReadonlyMap<string, ResolvedBinding> {
  return new Map(bound.toReversed().map((binding) => [identityOf(binding), binding]));
}

function identityOf({ role, issuer, isForOperators, callers }: ResolvedBinding): string {
  return JSON.stringify([role, issuer, isForOperators, callers]);
}

/**
 * Notes the tools that nobody can call. Only where that is certain: no agents' issuer puts permissions into its tokens, so tables,
 * certificates and bindings say everything. The bindings together count, because one caller may hold several roles.
 */
function unreachable(config: Sections, tools: readonly Tool[], all: readonly ResolvedBinding[]): readonly string[] {
  const bindings = all.filter(({ isForOperators }) => !isForOperators);
  const { issuers, clientCertificates } = ownJwt(config);
  const agents = issuers.filter(({ operators }) => !operators);
  if (agents.some(({ subjectPermissions, profile }) => subjectPermissions === undefined && profile !== "kubernetes"))
    return [];
  const holdings = [
    ...agents.flatMap(({ issuer, subjectPermissions = {} }) => {
      const bound = bindings.filter((binding) => binding.issuer === issuer).flatMap(({ permissions }) => permissions);
      return [bound, ...Object.values(subjectPermissions).map((held) => [...held, ...bound])];
    }),
    ...clientCertificates.map(({ issuer, permissions }) => [
      ...permissions,
      ...bindings.filter((binding) => binding.issuer === issuer).flatMap((binding) => binding.permissions),
    ]),
  ];
  const closed = tools.filter(({ permissions: { required } }) => !holdings.some((held) => couldUse(held, required)));
  if (closed.length === 0) return [];
  return [`tools that nobody can call: ${closed.map(({ name }) => name).join(", ")}`];
}
