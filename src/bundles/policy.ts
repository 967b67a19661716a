import { join } from "node:path";
import { isTable } from "../core/json.ts";
import { pathProblem } from "./archive.ts";
import { BundleError } from "./bundle-error.ts";
import { MANIFEST_FILE } from "./metadata.ts";

/** File of a bundle with its part of the configuration. */
export const POLICY_FILE = "policy.yaml";
/** Files of a bundle that it does not declare itself. */
export const OWN_FILES: ReadonlySet<string> = new Set([".manifest", MANIFEST_FILE]);

interface PolicyField {
  /** Keys with dots; `[]`: every entry of a list, `*`: any key, `**` at the end: everything below. */
  readonly field: string;
  /** The value is a path in the bundle. */
  readonly isPath?: true;
}

/**
 * Settings that a bundle may have. Everything else stays with each member: listeners, audit, issuers and keys, credentials and addresses of
 * systems, commands and their confinement, and `bundle` itself. A new setting is refused until it is listed here. Rejected: a list of
 * what is refused, which every new setting would escape.
 */
export const POLICY_FIELDS: readonly PolicyField[] = [
  { field: "tools.[]", isPath: true },
  { field: "roles.**" },
  { field: "bindings.**" },
  { field: "limits.**" },
  { field: "redaction.**" },
  { field: "dataFlow.**" },
  { field: "halts.whenUnknown" },
  { field: "approvals.mode" },
  { field: "approvals.attach" },
  { field: "approvals.rules.**" },
  { field: "approvals.policies.**" },
  { field: "decisionPoints.[].name" },
  { field: "decisionPoints.[].when.**" },
  { field: "decisionPoints.[].timeoutMs" },
  { field: "decisionPoints.[].arguments" },
  { field: "decisionPoints.[].claims.**" },
  // The files of Cedar alone: a remote point has an address and credentials.
  { field: "decisionPoints.[].cedar.policiesFile", isPath: true },
  { field: "decisionPoints.[].cedar.schemaFile", isPath: true },
  { field: "decisionPoints.[].cedar.entitiesFile", isPath: true },
  // The contract of a system, not where it is.
  { field: "systems.*.proto", isPath: true },
  { field: "systems.*.descriptorSet", isPath: true },
  { field: "systems.*.contractSha256" },
  { field: "systems.*.anyTypes.**" },
  { field: "systems.*.http.openapi", isPath: true },
  { field: "systems.*.http.graphql.schemaFile", isPath: true },
];

/** Files that hold no code. */
const DATA = /\.(?:ya?ml|json|proto|pb|bin|desc|descriptor|graphqls?|gql|cedar|cedarschema|md|txt)$/i;
/** Files that the loader of manifests runs. */
const CODE = /\.[cm]?[jt]sx?$/;

/** Returns why a bundle must not hold a file; undefined when it may. */
export function fileProblem(path: string, allowsCode: boolean): string | undefined {
  if (OWN_FILES.has(path) || DATA.test(path)) return undefined;
  if (!CODE.test(path)) return `${path}: a bundle holds manifests, contracts and policies, not files of this kind`;
  return allowsCode ? undefined : `${path}: is code, which needs bundle.allowCode: true`;
}

/** Returns everything that a bundle's part of the configuration must not say. */
export function policyProblems(policy: unknown, paths: Iterable<string>): readonly string[] {
  if (!isTable(policy)) return [`${POLICY_FILE}: must be a table of settings`];
  const held = new Set(paths);
  const isHeld = (path: string): boolean => held.has(path) || [...held].some((one) => one.startsWith(`${path}/`));
  return leavesOf(policy, []).flatMap(({ keys, value }) => {
    const shown = `${POLICY_FILE}: ${keys.join(".")}`;
    const field = POLICY_FIELDS.find((one) => matches(one.field.split("."), keys));
    if (field === undefined) return [`${shown}: cannot be set by a bundle`];
    // A binding of an operators' issuer would give people permissions.
    if (keys[0] === "bindings" && keys[2] === "operators" && value !== false)
      return [`${shown}: a bundle binds agents only`];
    if (field.isPath !== true) return [];
    const path = typeof value === "string" ? plain(value) : "";
    const isUsable = pathProblem(path) === undefined && isHeld(path);
    return isUsable ? [] : [`${shown}: must be a relative path in the bundle`];
  });
}

/** Paths of a bundle's files on disk. */
export interface BundleFolders {
  readonly folder: string;
  /** Folders of the parts that systems name as contracts, by the first step of their paths. */
  readonly contracts: ReadonlyMap<string, string>;
}

/**
 * Returns a member's own configuration with the bundle's part. Each setting is in one of the two: neither replaces the other's.
 *
 * @throws {BundleError} when both have a setting
 */
export function withPolicy(own: unknown, policy: unknown, folders: BundleFolders): unknown {
  return merged(own, located(policy, [], folders), []);
}

/** Returns the first steps of the paths that the policy's systems name. */
export function contractRoots(policy: unknown): ReadonlySet<string> {
  const paths = leavesOf(policy, []).filter(({ keys }) => keys[0] === "systems" && isPathField(keys));
  return new Set(paths.flatMap(({ value }) => (typeof value === "string" ? rootOf(value) : [])));
}

function rootOf(path: string): string {
  return plain(path).split("/")[0] ?? "";
}

function merged(own: unknown, added: unknown, keys: readonly string[]): unknown {
  if (own === undefined || own === null) return added;
  if (!isTable(own) || !isTable(added))
    throw new BundleError("policy", `${keys.join(".")}: is set by the bundle and by the configuration of this member`);
  const changes = Object.entries(added).map(([key, value]) => [
    key,
    merged(Object.hasOwn(own, key) ? own[key] : undefined, value, [...keys, key]),
  ]);
  return { ...own, ...Object.fromEntries(changes) };
}

/** Returns the policy with paths of files on disk, and with bindings of agents only. */
function located(value: unknown, keys: readonly string[], folders: BundleFolders): unknown {
  if (Array.isArray(value)) return value.map((one: unknown) => located(one, [...keys, "[]"], folders));
  if (isTable(value)) {
    const entries = Object.entries(value).map(([key, inner]) => [key, located(inner, [...keys, key], folders)]);
    const isBinding = keys[0] === "bindings" && keys.length === 2;
    return Object.fromEntries(isBinding ? [...entries, ["operators", false]] : entries);
  }
  if (!isPathField(keys) || typeof value !== "string") return value;
  const contract = keys[0] === "systems" ? folders.contracts.get(rootOf(value)) : undefined;
  return join(contract ?? folders.folder, plain(value));
}

function isPathField(keys: readonly string[]): boolean {
  return POLICY_FIELDS.some(({ field, isPath }) => isPath === true && matches(field.split("."), keys));
}

/** Returns a path without a leading `./`, as people write it. */
function plain(path: string): string {
  return path.replace(/^\.\//, "").replace(/\/$/, "");
}

interface Leaf {
  readonly keys: readonly string[];
  readonly value: unknown;
}

/** Returns all values that are neither a table nor a list, and empty ones, by the keys that lead there. */
function leavesOf(value: unknown, keys: readonly string[]): readonly Leaf[] {
  const inner = membersOf(value);
  return inner.length === 0 ? [{ keys, value }] : inner.flatMap(([key, one]) => leavesOf(one, [...keys, key]));
}

function membersOf(value: unknown): readonly (readonly [string, unknown])[] {
  if (Array.isArray(value)) return value.map((one: unknown) => ["[]", one]);
  return isTable(value) ? Object.entries(value) : [];
}

function matches(pattern: readonly string[], keys: readonly string[]): boolean {
  const below = pattern.at(-1) === "**";
  const fixed = below ? pattern.slice(0, -1) : pattern;
  if (below ? keys.length < fixed.length : keys.length !== fixed.length) return false;
  return fixed.every((part, at) => part === keys[at] || (part === "*" && keys[at] !== "[]"));
}
