/** Rights of a user that no tool needs: they are over the whole server, and reach past what its tables grant. */
const SERVER_RIGHTS: Readonly<Record<string, string>> = {
  SUPERUSER: "rolsuper",
  BYPASSRLS: "rolbypassrls",
  REPLICATION: "rolreplication",
  ...memberOf("pg_read_server_files", "pg_write_server_files", "pg_execute_server_program"),
};
/** Rights on every table: operators get a note. */
const TABLE_RIGHTS = memberOf("pg_read_all_data", "pg_write_all_data");

/** Object id of the superuser that every server has. A superuser is a member of every role. */
const SUPERUSER_ID = 10;

/** Returns a query for the names of the rights of these users together, with spaces between them. */
function rightsOf(users: string): string {
  const names = Object.entries({ ...SERVER_RIGHTS, ...TABLE_RIGHTS });
  const held = names.map(([name, has]) => `CASE WHEN bool_or(${has}) THEN '${name}' END`);
  return `(SELECT concat_ws(' ', ${held.join(", ")}) FROM pg_catalog.pg_roles WHERE rolname IN (${users}))`;
}

/** Returns whether row-level security of a table in `pg_class` is not applied to one of these users, who is its owner. */
function owns(...users: readonly string[]): string {
  const isOwner = users.map((user) => `pg_has_role(${user}, relowner, 'USAGE')`).join(" OR ");
  return `relrowsecurity AND NOT relforcerowsecurity AND (${isOwner})`;
}

/** The rights of the connection's user, and of the role that it has when it connects (`ALTER ROLE … SET role`). */
export const RIGHTS_SQL = rightsOf("session_user, current_user");
export const OWNS_SQL = owns("session_user", "current_user");

/** The rights that `RIGHTS_SQL` has found. */
export interface Rights {
  readonly isSuperuser: boolean;
  readonly bypassesRowSecurity: boolean;
  readonly serverRights: readonly string[];
  readonly tableRights: readonly string[];
}

/** Reads what `RIGHTS_SQL` returns. */
export function rightsIn(text: string): Rights {
  const names = text.split(" ").filter((name) => name !== "");
  return {
    isSuperuser: names.includes("SUPERUSER"),
    bypassesRowSecurity: names.includes("BYPASSRLS"),
    serverRights: names.filter((name) => Object.hasOwn(SERVER_RIGHTS, name)),
    tableRights: names.filter((name) => Object.hasOwn(TABLE_RIGHTS, name)),
  };
}

/** The part of a digest about rights of the user, and the column of `pg_class` in it. */
interface DigestedRights {
  readonly user: string;
  readonly table: string;
}

/**
 * Returns what a digest has about rights. `hasCallerRole`: a role that the operator has listed may bypass row-level security, and the
 * connection's user may not. Without such roles, the server is asked about the tables instead: `pg_roles` is a view, which takes as
 * long to plan as a short query. REPLICATION is not in it then; a statement cannot use that right.
 */
export function digestedRights(hasCallerRole: boolean): DigestedRights {
  // Rights of the caller's role do not count.
  if (hasCallerRole) return { user: rightsOf("session_user"), table: owns("session_user") };
  const members = Object.values({ ...SERVER_RIGHTS, ...TABLE_RIGHTS }).filter((has) => has.startsWith("pg_has_role"));
  return {
    user: ["current_user", isMember(String(SUPERUSER_ID)), ...members].join(", "),
    table: "relrowsecurity, row_security_active(oid)",
  };
}

function memberOf(...roles: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(roles.map((role) => [role, isMember(`'${role}'`)]));
}

function isMember(role: string): string {
  return `pg_has_role(session_user, ${role}, 'MEMBER')`;
}
