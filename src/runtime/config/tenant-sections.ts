import { isTable } from "../../core/json.ts";
import { tenantDirOf } from "../../core/tenant-names.ts";

/**
 * Derives what a tenant's configuration would be if it were a file of its own. What a tenant may reach is its own; what limits it is
 * the service's, unless the tenant writes the section itself.
 */

export type Section = Readonly<Record<string, unknown>>;

const OF_SERVICE = "cannot be set for a tenant: the service's own setting applies to all tenants";
const OF_STORE = "cannot be set for a tenant: each has its own part of the service's database";

/** Sections that a tenant has only if it writes them. */
const OWN: readonly string[] = ["tools", "systems", "commands", "workspace"];
/** Sections that a tenant has from the service unless it writes them. */
const INHERITED: readonly string[] = [
  ...["roles", "bindings", "decisionPoints", "dataFlow", "limits", "redaction"],
  ...["halts", "mcp", "assertion", "telemetry"],
];
/** Sections of the service that its tenants have, too. */
const SHARED: readonly string[] = ["instance", "server", "log", "reload"];

interface MergedSection {
  /** Keys that a tenant has only if it writes them; every other key it has from the service unless it writes it. */
  readonly own: readonly string[];
  /** Keys that a tenant may not write, with the reasons. */
  readonly ofService: ReadonlyMap<string, string>;
}

const MERGED: ReadonlyMap<string, MergedSection> = new Map([
  [
    "approvals",
    {
      own: ["webhooks", "receiptKeyFile"],
      ofService: new Map([
        ["store", OF_STORE],
        ["storeUrlFile", OF_STORE],
        ["deployment", "cannot be set for a tenant: it is the service's value, a slash and the tenant's name"],
      ]),
    },
  ],
  [
    "audit",
    {
      own: ["export", "storeUrlFile", "checkpointKeyFile"],
      ofService: new Map([
        ["dir", "cannot be set for a tenant: it is the folder tenants/<name> below the service's audit.dir"],
        ["hashKeyFile", "cannot be set for a tenant: each tenant's key is derived from the service's"],
        ...["durability", "queueEntriesMax", "diskReserveBytes"].map((key) => [key, OF_SERVICE] as const),
      ]),
    },
  ],
]);

/** Sections that a tenant may write. */
export const WRITABLE: readonly string[] = [...OWN, ...INHERITED, ...MERGED.keys()];

/** Sections that a tenant may not write, with the reasons. */
export const OF_SERVICE_ONLY: ReadonlyMap<string, string> = new Map([
  ...[...SHARED, "console", "hub", "bundle"].map((key) => [key, OF_SERVICE] as const),
  ["tenants", "cannot be set for a tenant: a tenant has no tenants of its own"],
  ["jwt", "cannot be set for a tenant: each issuer in the service's jwt.issuers names its tenants in tenants.names"],
]);

/** Returns the end of the message of a problem that a tenant has in a section of the service. */
export function inherited(name: string): string {
  return ` (for the tenant ${name})`;
}

/** Returns the keys of a section that a tenant may not write, with the reasons. */
export function keysOfService(section: string): ReadonlyMap<string, string> {
  return MERGED.get(section)?.ofService ?? new Map();
}

/** A tenant's configuration before it is parsed. */
export interface WrittenTenant {
  readonly name: string;
  /** The service's whole configuration as written. */
  readonly service: Section;
  /** The tenant's own section as written. */
  readonly own: Section;
  /** The whole configuration that follows from it. */
  readonly written: Section;
  /** True when no issuer speaks for the tenant. */
  readonly hasNoIssuer: boolean;
  /** Returns the path at which a value of the derived configuration is written. */
  readonly pathOf: (path: readonly PropertyKey[]) => readonly PropertyKey[];
}

/** The default of `approvals.deployment`. */
export const DEPLOYMENT = "safe-tool-call";

/** Returns the tenant of the service with this configuration. */
export function writtenTenant(service: Section, name: string): WrittenTenant {
  const own = withoutNull(tableIn(tableIn(service, "tenants"), name));
  const issuers = entriesIn(service["jwt"], "issuers");
  const ofTenant = issuers.filter(({ value }) => speaksFor(value, name));
  const certificates = entriesIn(service["jwt"], "clientCertificates").filter(
    ({ value }) => isTable(value) && value["tenant"] === name,
  );
  const inherited = entriesIn(service, "bindings").filter(({ value }) =>
    isBindingOf(
      value,
      issuers.map((issuer) => issuer.value),
      ofTenant.map((issuer) => issuer.value),
    ),
  );
  const bindings = Array.isArray(service["bindings"]) ? { bindings: inherited.map(({ value }) => value) } : {};
  const hasOperators = ofTenant.some(({ value }) => isTable(value) && value["operators"] === true);
  const { dir } = tableIn(service, "audit");
  const { deployment = DEPLOYMENT } = tableIn(service, "approvals");
  const written: Section = {
    ...picked(service, [...SHARED, ...INHERITED, ...(hasOperators ? ["console"] : [])]),
    ...bindings,
    ...picked(own, [...OWN, ...INHERITED]),
    ...picked({ jwt: jwtOf(service["jwt"], { name, issuers: ofTenant, certificates }) }, ["jwt"]),
    approvals: merged("approvals", [service, own], {
      deployment: typeof deployment === "string" ? `${deployment}/${name}` : deployment,
    }),
    audit: merged("audit", [service, own], { dir: typeof dir === "string" ? tenantDirOf(dir, name) : dir }),
  };
  const indexes = {
    "jwt.issuers": ofTenant,
    "jwt.clientCertificates": certificates,
    ...(own["bindings"] === undefined && { bindings: inherited }),
  };
  const hasNoIssuer = issuers.length > 0 && ofTenant.length === 0;
  const isOwn = (path: readonly PropertyKey[]): boolean => isWrittenBy(own, path);
  return {
    name,
    service,
    own,
    written,
    hasNoIssuer,
    pathOf: (path) => (isOwn(path) ? ["tenants", name, ...path] : withIndexOf(path, indexes)),
  };
}

/** Returns whether the tenant's own section says, or would have to say, what is at this path. */
function isWrittenBy(own: Section, [first, second]: readonly PropertyKey[]): boolean {
  const [section, key] = [String(first), String(second)];
  if (OWN.includes(section)) return true;
  const merging = MERGED.get(section);
  const value = own[section];
  if (merging === undefined) return INHERITED.includes(section) && value !== undefined;
  if (second === undefined || (value !== undefined && !isTable(value))) return value !== undefined;
  if (merging.ofService.has(key)) return false;
  return merging.own.includes(key) || Object.hasOwn(tableIn(own, section), key);
}

/** Entries of a list, each with its index there. */
type Entries = readonly { readonly value: unknown; readonly index: number }[];

function entriesIn(section: unknown, key: string): Entries {
  const list = isTable(section) ? section[key] : undefined;
  return Array.isArray(list) ? list.map((value: unknown, index) => ({ value, index })) : [];
}

/** Replaces the index in a list of the derived configuration by that in the list that was filtered for it. */
function withIndexOf(path: readonly PropertyKey[], lists: Readonly<Record<string, Entries>>): readonly PropertyKey[] {
  const at = path.findIndex((part) => typeof part === "number");
  const entry = lists[path.slice(0, Math.max(at, 0)).join(".")]?.[Number(path[at])];
  return entry === undefined ? path : path.with(at, entry.index);
}

function speaksFor(issuer: unknown, name: string): boolean {
  const names = isTable(issuer) ? tableIn(issuer, "tenants")["names"] : undefined;
  return Array.isArray(names) && names.includes(name);
}

interface OfTenant {
  readonly name: string;
  readonly issuers: Entries;
  readonly certificates: Entries;
}

function jwtOf(jwt: unknown, { name, issuers, certificates }: OfTenant): unknown {
  if (!isTable(jwt) || !Array.isArray(jwt["issuers"])) return jwt;
  // Its operators see this configuration: it does not name other tenants.
  const alone = ({ value: issuer }: Entries[number]): unknown =>
    isTable(issuer) ? { ...issuer, tenants: { ...tableIn(issuer, "tenants"), names: [name] } } : issuer;
  const isGiven = Array.isArray(jwt["clientCertificates"]);
  return {
    ...jwt,
    issuers: issuers.map(alone),
    ...(isGiven && { clientCertificates: certificates.map(({ value }) => value) }),
  };
}

/** Returns false for a binding of the service whose callers are those of an issuer that the tenant does not have. */
function isBindingOf(binding: unknown, all: readonly unknown[], ofTenant: readonly unknown[]): boolean {
  if (!isTable(binding)) return true;
  const { issuer: name, operators = false } = binding;
  const isMeant = (issuer: unknown): boolean =>
    isTable(issuer) && (name === undefined ? (issuer["operators"] ?? false) === operators : issuer["issuer"] === name);
  // One that means no issuer at all is a problem, and stays.
  return !all.some(isMeant) || ofTenant.some(isMeant);
}

function merged(key: string, [service, own]: readonly [Section, Section], derived: Section): unknown {
  const section = own[key];
  if (section !== undefined && !isTable(section)) return section;
  const { own: ownKeys = [], ofService = new Map<string, string>() } = MERGED.get(key) ?? {};
  const without = (written: Section, keys: Iterable<string>): Section => {
    const left = new Set(keys);
    return Object.fromEntries(Object.entries(written).filter(([name]) => !left.has(name)));
  };
  const defined = Object.entries(derived).filter(([, value]) => value !== undefined);
  // The service's own problem says that the section is missing.
  if (section === undefined && service[key] === undefined && defined.length === 0) return undefined;
  return {
    ...without(tableIn(service, key), ownKeys),
    ...without(section ?? {}, ofService.keys()),
    ...Object.fromEntries(defined),
  };
}

export function tableIn(section: Section, key: string): Section {
  const value = Object.hasOwn(section, key) ? section[key] : undefined;
  return isTable(value) ? value : {};
}

/** Removes empty sections: in YAML, a section whose keys are all commented out is null. */
export function withoutNull(section: Section): Section {
  return Object.fromEntries(Object.entries(section).filter(([, value]) => value !== null));
}

function picked(section: Section, keys: readonly string[]): Section {
  return Object.fromEntries(keys.flatMap((key) => (section[key] === undefined ? [] : [[key, section[key]] as const])));
}
