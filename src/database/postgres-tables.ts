import { errorText } from "../core/error-text.ts";
import { resultWithin } from "../core/time-limits.ts";
import { type Sql, StoreProblem, schemaVersion, transact } from "./dialect.ts";
import { clockOf, limitTransaction, READ, stateOf, WRITE } from "./postgres.ts";
import { integer, text } from "./rows.ts";
import { assertOwner, migrate, POSTGRES_STEPS } from "./schema.ts";
import { quotedSchemaOf, schemaOf } from "./tenant-schema.ts";

/** Limit for the first look at a database, with the connection: a server that has stopped may still accept connections. */
const FIRST_READ_MS_MAX = 8_000;
/** Advisory lock held during a migration: "stc-appr" in ASCII. */
const MIGRATION_LOCK = "8319383458219585650";
/** Minimum `server_version_num`: PostgreSQL 13. */
const SERVER_VERSION_MIN = 130_000;

/** Returns the version of the tables, once the server and the database are known to be usable. Changes nothing. */
export function readDatabase(sql: Bun.SQL, tenant: string | undefined): Promise<number> {
  const tooLate = (): Error => new Error(`no answer within ${FIRST_READ_MS_MAX / 1_000} s`);
  return resultWithin(readUsable(sql, tenant), FIRST_READ_MS_MAX, tooLate);
}

/** Creates the tables, or those that are missing. */
export async function prepareDatabase(sql: Bun.SQL, tenant: string | undefined): Promise<void> {
  if ((await readDatabase(sql, tenant)) >= POSTGRES_STEPS.length) return;
  await transact(sql, WRITE, async (tx) => {
    await limitTransaction(tx);
    await tx`SELECT pg_advisory_xact_lock(${MIGRATION_LOCK}::bigint)`;
    if (tenant !== undefined) await createSchema(tx, tenant);
    // Another process may have migrated the tables while this one waited for the lock.
    const from = await versionOf(tx, tenant);
    await migrate(tx, { steps: POSTGRES_STEPS, from, tenant, run: (step) => tx.unsafe(step) });
  });
}

function readUsable(sql: Bun.SQL, tenant: string | undefined): Promise<number> {
  return transact(sql, READ, async (tx) => {
    await clockOf(tx);
    const schema = tenant === undefined ? undefined : await enterSchema(tx, tenant);
    const [row = {}] = await tx`
      SELECT current_setting('server_version_num')::integer AS version, current_setting('server_encoding') AS encoding,
        current_setting('synchronous_commit') AS durable, has_schema_privilege(current_schema(), 'CREATE') AS creates`;
    if (integer(row, "version") < SERVER_VERSION_MIN)
      throw new StoreProblem("is too old: it must be PostgreSQL 13 or later");
    if (row["encoding"] !== "UTF8") throw new StoreProblem("must be a database with the encoding UTF8");
    if (row["durable"] === "off") {
      throw new StoreProblem("forgets commits when it crashes: set synchronous_commit to on for this user");
    }
    if (schema === "missing") return 0;
    const version = await versionOf(tx, tenant);
    if (version < POSTGRES_STEPS.length && row["creates"] !== true) throw new StoreProblem(noCreate(schema));
    return version;
  });
}

/** A tenant's schema, with the statement that lets this user create tables in it. */
interface TenantSchema {
  readonly grant: string;
}

function noCreate(schema: TenantSchema | undefined): string {
  return `may not be used or written by this user: ${schema?.grant ?? "grant it CREATE in its schema"}`;
}

/**
 * Makes the schema of a tenant the only one of this transaction. Returns "missing" when the schema can be created.
 * @throws {StoreProblem} when it can be neither used nor created
 */
async function enterSchema(tx: Sql, tenant: string): Promise<TenantSchema | "missing"> {
  const name = schemaOf(tenant);
  const [row = {}] = await tx`
    SELECT quote_ident(current_user) AS name, has_database_privilege(current_database(), 'CREATE') AS creates,
      (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = ${name}) AS usable`;
  await assertForeign(tx, tenant);
  await tx`SELECT set_config('search_path', ${quotedSchemaOf(tenant)}, true)`;
  const user = text(row, "name");
  if (row["usable"] === null && row["creates"] === true) return "missing";
  if (row["usable"] === null) {
    const create = `CREATE SCHEMA ${quotedSchemaOf(tenant)} AUTHORIZATION ${user}`;
    throw new StoreProblem(`has no schema for the tenant ${tenant}, and this user may not create one: run ${create}`);
  }
  const grant = `run GRANT USAGE, CREATE ON SCHEMA ${quotedSchemaOf(tenant)} TO ${user}`;
  if (row["usable"] !== true) throw new StoreProblem(noCreate({ grant }));
  return { grant };
}

/** Creates the schema if it is missing, and makes it the only one of this transaction. */
async function createSchema(tx: Bun.TransactionSQL, tenant: string): Promise<void> {
  const found = await tx`SELECT 1 FROM pg_namespace WHERE nspname = ${schemaOf(tenant)}`;
  // `IF NOT EXISTS` alone needs the right to create schemas also when the schema exists.
  if (found.length === 0) await tx.unsafe(`CREATE SCHEMA ${quotedSchemaOf(tenant)}`);
  // The name of a new schema may be in the search path already.
  await assertForeign(tx, tenant);
  await tx`SELECT set_config('search_path', ${quotedSchemaOf(tenant)}, true)`;
}

/** The service without a tenant looks for its tables in all schemas of its search path. */
async function assertForeign(tx: Sql, tenant: string): Promise<void> {
  const [row = {}] = await tx`SELECT ${schemaOf(tenant)} = ANY (current_schemas(false)) AS own`;
  if (row["own"] === false) return;
  throw new StoreProblem(
    `has the schema ${quotedSchemaOf(tenant)} of the tenant ${tenant} in the search path of this user: set another search_path`,
  );
}

/**
 * Returns the schema version; 0 for a database without the service's tables. Queries the catalog because `to_regclass` may
 * return a state from before a lock wait.
 */
async function versionOf(sql: Sql, tenant: string | undefined): Promise<number> {
  const tables = await sql`
    SELECT tablename AS name FROM pg_tables
    WHERE schemaname = ANY (current_schemas(false)) AND tablename IN ('approval_schema', 'approvals')`;
  if (!tables.some((table) => table["name"] === "approval_schema")) {
    if (tables.length > 0) throw new StoreProblem("has a table `approvals` of another program: name another database");
    return 0;
  }
  const version = schemaVersion(await sql`SELECT * FROM approval_schema`, {
    latest: POSTGRES_STEPS.length,
    ifDamaged: "is damaged: restore it from a backup, or drop its tables to start with no approvals",
    other: "database",
  });
  await assertOwner(sql, tenant);
  return version;
}

/** Returns what is wrong with a database, and what to do; never the user's password. */
export function explain(error: unknown): string {
  if (error instanceof StoreProblem) return error.message;
  const state = stateOf(error);
  const message = errorText(error);
  if (state.startsWith("28")) return "refuses this user or password, or this way of connecting (pg_hba.conf)";
  if (state === "3D000") return "there is no such database: create it";
  if (state === "42501") return `may not be used or written by this user (${message}): grant it CREATE in its schema`;
  if (state !== "") return `cannot be prepared (${message})`;
  return `cannot be reached (${message}): check its address, and the certificates of sslmode, and that it runs`;
}
