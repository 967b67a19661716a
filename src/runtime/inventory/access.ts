import type { Tool } from "../../core/types.ts";
import { couldUse } from "../../pipeline/built-in-points.ts";
import type { ResolvedBinding } from "../composition/roles.ts";
import type { Config } from "../config/config.ts";
import { ownJwt } from "../config/tenants.ts";

/** One statement of the configuration about who holds which permissions, and the tools that they open. */
export interface AccessRow {
  /** Agents call tools; operators open endpoints of their own. */
  readonly audience: "agents" | "operators";
  readonly issuer: string;
  /**
   * `table`: `subjectPermissions`. `binding`: a role. `certificate`: `jwt.clientCertificates`. `token`: whatever the issuer puts
   * into its tokens. `together`: all rows of one subject, which may open more than each of them.
   */
  readonly source: "table" | "binding" | "certificate" | "together" | "token";
  readonly subject?: string | undefined;
  readonly group?: string | undefined;
  /** Claims that the token must have, nested as in the token. */
  readonly claim?: object | undefined;
  readonly spiffeId?: string | undefined;
  readonly role?: string | undefined;
  /** Position in `bindings`. */
  readonly binding?: number | undefined;
  /** When the first of the bindings ends, ISO 8601; left out: never. */
  readonly until?: string | undefined;
  /** Where tokens list permissions; only for the source `token`. */
  readonly permissionsClaim?: string | undefined;
  readonly permissions: readonly string[];
  /** Tools that the permissions open, some arguments excepted. */
  readonly tools: readonly string[];
  /** Those of `tools` that require further permissions for some arguments, which are held too. */
  readonly elevated: readonly string[];
}

type Grant = Omit<AccessRow, "tools" | "elevated">;
type Issuer = Config["jwt"]["issuers"][number];

/** Returns every statement about access, in an order that does not depend on the order of the configuration. */
export function accessRows(
  config: Pick<Config, "jwt" | "tenant" | "hub">,
  tools: readonly Tool[],
  bindings: readonly ResolvedBinding[],
): readonly AccessRow[] {
  const { issuers, clientCertificates } = ownJwt(config);
  const tables = issuers.flatMap(tableGrants);
  const bound = bindings.filter((one) => issuers.some((issuer) => isOf(one, issuer))).map(bindingGrant);
  const certified = clientCertificates.map(
    ({ issuer, subject, spiffeId, permissions }): Grant => ({
      audience: "agents",
      issuer,
      source: "certificate",
      subject,
      spiffeId,
      permissions: sorted(permissions),
    }),
  );
  const alone = [...tables, ...bound, ...certified];
  const grants = [...alone, ...togetherGrants(alone), ...issuers.flatMap(tokenGrant)];
  return grants.map((grant) => ({ ...grant, ...opened(grant, tools) })).sort(byContent);
}

function isOf({ issuer, isForOperators }: ResolvedBinding, profile: Issuer): boolean {
  return profile.issuer === issuer && profile.operators === isForOperators;
}

function tableGrants({ issuer, operators, subjectPermissions = {} }: Issuer): readonly Grant[] {
  return Object.entries(subjectPermissions).map(([subject, permissions]) => ({
    audience: audienceOf(operators),
    issuer,
    source: "table",
    subject,
    permissions: sorted(permissions),
  }));
}

function bindingGrant({ index, written, role, issuer, permissions, untilMs, isForOperators }: ResolvedBinding): Grant {
  const { subject, group, claim } = written;
  return {
    audience: audienceOf(isForOperators),
    issuer,
    source: "binding",
    subject,
    group,
    claim,
    role,
    binding: index,
    until: untilMs === undefined ? undefined : new Date(untilMs).toISOString(),
    permissions: sorted(permissions),
  };
}

/**
 * Returns what subjects hold that are named several times. A caller with a certificate holds the roles of its subject, but not its
 * row of the table.
 */
function togetherGrants(alone: readonly Grant[]): readonly Grant[] {
  const bySubject = new Map<string, Grant[]>();
  for (const grant of alone) {
    const { audience, issuer, subject } = grant;
    if (subject === undefined) continue;
    const key = JSON.stringify([audience, issuer, subject]);
    bySubject.set(key, [...(bySubject.get(key) ?? []), grant]);
  }
  return [...bySubject.values()].flatMap((grants) => {
    const roles = grants.filter(({ source }) => source === "binding");
    const withToken = grants.filter(({ source }) => source !== "certificate");
    const withCertificates = grants
      .filter(({ source }) => source === "certificate")
      .map((certificate) => [certificate, ...roles]);
    return [withToken, ...withCertificates].flatMap((several) => (several.length > 1 ? [joined(several)] : []));
  });
}

function joined(grants: readonly Grant[]): Grant {
  const [first] = grants;
  if (first === undefined) throw new Error("no grants to join");
  const { audience, issuer, subject } = first;
  const [until] = grants.flatMap((grant) => (grant.until === undefined ? [] : [grant.until])).sort();
  const spiffeId = grants.find((grant) => grant.spiffeId !== undefined)?.spiffeId;
  return {
    audience,
    issuer,
    source: "together",
    subject,
    spiffeId,
    until,
    permissions: sorted(grants.flatMap(({ permissions }) => permissions)),
  };
}

function tokenGrant({ issuer, operators, profile, permissionsClaim, subjectPermissions }: Issuer): readonly Grant[] {
  if (subjectPermissions !== undefined || profile === "kubernetes") return [];
  return [{ audience: audienceOf(operators), issuer, source: "token", permissionsClaim, permissions: [] }];
}

function audienceOf(operators: boolean): AccessRow["audience"] {
  return operators ? "operators" : "agents";
}

function opened({ audience, permissions }: Grant, tools: readonly Tool[]): Pick<AccessRow, "tools" | "elevated"> {
  if (audience === "operators") return { tools: [], elevated: [] };
  const usable = tools.filter((tool) => couldUse(permissions, tool.permissions.required));
  const elevated = usable.filter(
    ({ permissions: { elevatedIf } }) => elevatedIf !== undefined && couldUse(permissions, elevatedIf.required),
  );
  return { tools: sorted(usable.map(({ name }) => name)), elevated: sorted(elevated.map(({ name }) => name)) };
}

function sorted(names: readonly string[]): readonly string[] {
  return [...new Set(names)].sort();
}

const SOURCES: readonly AccessRow["source"][] = ["table", "binding", "certificate", "together", "token"];

/** Compares code units, so that the order is the same on every machine. */
function byContent(one: AccessRow, other: AccessRow): number {
  const [left, right] = [orderOf(one), orderOf(other)];
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

function orderOf(row: AccessRow): string {
  const { audience, issuer, source, subject, group, claim, role, until, spiffeId, permissions } = row;
  const who = [subject ?? "", group ?? "", claim ?? "", spiffeId ?? ""];
  return JSON.stringify([audience, issuer, SOURCES.indexOf(source), ...who, role ?? "", until ?? "", permissions]);
}

/** Returns the agents who may call a tool, by name or by a role that their groups or claims give them. */
export function callersOf(
  { permissions: { required } }: Tool,
  rows: readonly AccessRow[],
): {
  readonly subjects: readonly string[];
  readonly certificates: readonly string[];
  readonly roles: readonly string[];
} {
  const able = rows.filter(({ audience, permissions }) => audience === "agents" && couldUse(permissions, required));
  const isNamed = ({ subject, spiffeId, source }: AccessRow): boolean =>
    subject !== undefined && spiffeId === undefined && source !== "token";
  const named = new Map(
    able.filter(isNamed).map(({ issuer, subject = "" }) => [JSON.stringify([issuer, subject]), subject]),
  );
  const certified = able.filter(({ spiffeId }) => spiffeId !== undefined);
  const roles = able.flatMap(({ role, subject }) => (role === undefined || subject !== undefined ? [] : [role]));
  return {
    subjects: [...named.values()].sort(),
    certificates: [...new Map(certified.map(({ spiffeId, subject = "" }) => [spiffeId, subject])).values()],
    roles: sorted(roles),
  };
}
