import { z } from "zod";
import { isTable } from "../../core/json.ts";
import { hint } from "../../core/nearest.ts";
import { fieldOf } from "./problems.ts";
import {
  inherited,
  keysOfService,
  OF_SERVICE_ONLY,
  type Section,
  tableIn,
  WRITABLE,
  type WrittenTenant,
  writtenTenant,
} from "./tenant-sections.ts";
import { tenantName } from "./values.ts";

/** Declares the section `tenants`, and says what is wrong with it. */

/**
 * The section `tenants`. Here, only the names are read: the sections of a tenant are checked as parts of the configuration that is
 * derived from them (`tenantConfigs`).
 */
export const tenants = z
  .record(tenantName, z.record(z.string(), z.unknown()).nullable(), {
    error: ({ code }) => (code === "invalid_type" ? "must be a table of tenants by name" : undefined),
  })
  .optional();

/** A problem with the path of the field to fix. */
export interface FieldProblem {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

/** Returns the tenants with their derived configurations: each that the service itself has no problem with. */
export function derivedTenants(written: unknown): readonly WrittenTenant[] {
  const service = sectionsIn(written);
  return Object.entries(tableIn(service, "tenants"))
    .filter(([name, own]) => tenantName.safeParse(name).success && isSection(own))
    .map(([name]) => writtenTenant(service, name));
}

/** Returns whether a tenant's section can be read. Null is an empty one (`withoutNull`). */
function isSection(own: unknown): boolean {
  return own === null || isTable(own);
}

/** Returns what the service itself reads: of its tenants, only the names. */
export function withoutTenantSections(written: unknown): unknown {
  const service = sectionsIn(written);
  const all = Object.entries(tableIn(service, "tenants"));
  if (all.length === 0) return written;
  // A value that is neither a table nor empty stays, and is a problem.
  const names = all.map(([name, own]) => [name, isSection(own) ? {} : own] as const);
  return { ...service, tenants: Object.fromEntries(names) };
}

function sectionsIn(written: unknown): Section {
  return tableIn({ written }, "written");
}

/**
 * Returns the problems of a tenant, each at the field where it is written. Those that the service itself has, too, are left out.
 *
 * @param found the problems of the derived configuration
 * @param ofService the problems of the service itself
 */
export function tenantProblems(
  tenant: WrittenTenant,
  found: readonly FieldProblem[],
  ofService: readonly FieldProblem[],
): readonly FieldProblem[] {
  const known = new Set(ofService.map(keyOf));
  const derived = found.flatMap(({ path, message }): readonly FieldProblem[] => {
    if (tenant.hasNoIssuer && path[0] === "jwt") return [];
    const written = tenant.pathOf(path);
    if (written[0] === "tenants") return [{ path: written, message }];
    const problem = { path: written, message };
    return known.has(keyOf(problem)) ? [] : [{ ...problem, message: `${message}${inherited(tenant.name)}` }];
  });
  const unnamed = tenant.hasNoIssuer
    ? [{ path: ["tenants", tenant.name], message: "no issuer in jwt.issuers names this tenant in tenants.names" }]
    : [];
  return [...unnamed, ...forbidden(tenant), ...derived];
}

function keyOf({ path, message }: FieldProblem): string {
  return JSON.stringify([fieldOf(path), message]);
}

/** Reports keys that a tenant cannot have. */
function forbidden({ name, own }: WrittenTenant): readonly FieldProblem[] {
  return Object.keys(own).flatMap((key): readonly FieldProblem[] => {
    const path = ["tenants", name, key];
    const reason = OF_SERVICE_ONLY.get(key);
    if (reason !== undefined) return [{ path, message: reason }];
    if (!WRITABLE.includes(key)) return [{ path, message: `is not a known key${hint(key, WRITABLE)}` }];
    const keys = keysOfService(key);
    return Object.keys(tableIn(own, key)).flatMap((inner) => {
      const message = keys.get(inner);
      return message === undefined ? [] : [{ path: [...path, inner], message }];
    });
  });
}

interface WithIntegrations {
  readonly tenant?: string | undefined;
  readonly approvals: { readonly webhooks: readonly { readonly name: string; readonly decisions?: unknown }[] };
}

/**
 * Returns a problem for each of the tenant's integrations whose name the service, or another tenant, has too: the name in a signed
 * message says whose it is.
 */
export function integrationProblems(
  all: readonly WithIntegrations[],
  tenant: WithIntegrations | undefined,
): readonly FieldProblem[] {
  if (tenant === undefined) return [];
  const others = all.filter((each) => each.tenant !== tenant.tenant);
  const taken = new Set(others.flatMap((each) => integrationsOf(each).map(({ name }) => name)));
  const at = ["tenants", tenant.tenant ?? "", "approvals", "webhooks"] as const;
  return integrationsOf(tenant)
    .filter(({ name }) => taken.has(name))
    .map(({ index }) => ({
      path: [...at, index, "name"],
      message: "is also the name of another integration, of the service or of a tenant: each needs its own",
    }));
}

function integrationsOf({ approvals: { webhooks } }: WithIntegrations) {
  return webhooks.flatMap(({ name, decisions }, index) => (decisions === undefined ? [] : [{ name, index }]));
}

interface Sections {
  readonly server: { readonly workers: number };
  readonly hub?: { readonly url?: string | undefined } | undefined;
  readonly tenants?: Readonly<Record<string, unknown>> | undefined;
  readonly jwt: {
    readonly issuers: readonly {
      readonly issuer: string;
      readonly tenants?: { readonly names: readonly string[] } | undefined;
    }[];
    readonly clientCertificates: readonly { readonly issuer: string; readonly tenant?: string | undefined }[];
  };
}

/** Returns the settings of the service with which tenants cannot work, and names of tenants that do not exist. */
export function combinationProblems({ server, hub, jwt, tenants: all = {} }: Sections): readonly FieldProblem[] {
  const names = Object.keys(all);
  const problems: FieldProblem[] = [];
  const add = (path: readonly PropertyKey[], message: string): void => void problems.push({ path, message });
  // A member of a hub has no tenants itself: it belongs to one.
  const isMember = hub?.url !== undefined;
  const isUnknown = (name: string): boolean => !isMember && !names.includes(name);
  const addUnknown = (path: readonly PropertyKey[], name: string): void =>
    add(path, `${name} is not in tenants${hint(name, names)}`);
  if (names.length > 0 && server.workers > 1)
    add(["server", "workers"], "must be 1 where there are tenants: for more processors, run replicas with PostgreSQL");
  for (const [index, { tenants }] of jwt.issuers.entries()) {
    for (const [at, name] of (tenants?.names ?? []).entries()) {
      if (isUnknown(name)) addUnknown(["jwt", "issuers", index, "tenants", "names", at], name);
    }
  }
  for (const [index, { issuer, tenant }] of jwt.clientCertificates.entries()) {
    const path = ["jwt", "clientCertificates", index, "tenant"];
    const named = jwt.issuers.filter((one) => one.issuer === issuer);
    const possible = named.flatMap(({ tenants }) => tenants?.names ?? []);
    const isForService = named.length === 0 || named.some(({ tenants }) => tenants === undefined);
    if (tenant === undefined && !isForService) add(path, `is missing: the issuer ${issuer} has tenants`);
    if (tenant === undefined) continue;
    if (isUnknown(tenant)) addUnknown(path, tenant);
    else if (named.length > 0 && !possible.includes(tenant)) {
      add(path, `the issuer ${issuer} does not name ${tenant} in its tenants`);
    }
  }
  return problems;
}
