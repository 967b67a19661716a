/**
 * Records what a version leaves behind: `bun tests/upgrade/record.ts <checkout> <name>` starts the service of a checkout with its
 * dependencies installed, on SQLite and on PostgreSQL, and writes `tests/upgrade/stores/<name>/`. `UPGRADE_TOOLS=deeds.ts` for
 * versions without halts, quotas, data flow and bounded grants.
 */
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { gzipSync } from "node:zlib";
import { findPostgres, type PostgresAccess, startPostgres } from "../support/postgres.ts";
import { run } from "../support/stc.ts";
import { live, QUOTA_CALLS } from "./before-and-after.ts";
import { PEOPLE_ISSUER, StoredService } from "./stored-service.ts";

const [checkout = "", name = ""] = process.argv.slice(2);
const hasPolicies = process.env["UPGRADE_TOOLS"] !== "deeds.ts";
const native = findPostgres();
if (checkout === "" || name === "" || native === undefined) throw new Error("usage: record.ts <checkout> <name>");

const { bin } = JSON.parse(readFileSync(join(checkout, "package.json"), "utf8")) as { readonly bin: { stc: string } };
const argv = [
  ...[process.execPath, "--no-env-file", `--config=${resolve(checkout, "bunfig.toml")}`, "--no-install"],
  resolve(checkout, bin.stc),
];

const configuration = (store: string): string => `\
server: { port: 0 }
tools: [./tools]
audit: { dir: ./audit, checkpointKeyFile: ./checkpoint-key.pem, hashKeyFile: ./hash-key }
jwt:
  issuers:
    - { issuer: "https://idp.test", jwksFile: ./agents.json }
    - { issuer: "${PEOPLE_ISSUER}", audience: safe-tool-call-operators, operators: true, jwksFile: ./people.json }
approvals:
  ${store}
  decideBySeconds: 7200
  executeBySeconds: 7200
  policies:
    - { name: two-people, when: { tools: [pay] }, require: { count: 2 } }
${hasPolicies ? POLICIES : ""}`;

const POLICIES = `\
limits:
  quotas:
    - { name: metered, per: [caller], calls: ${QUOTA_CALLS}, window: month, when: { tools: [metered] } }
dataFlow: {}
`;

async function record(database: string, store: string, prepare: (folder: string) => Promise<void>): Promise<void> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "stc-record-")));
  mkdirSync(join(folder, "tools"));
  for (const file of hasPolicies ? ["deeds.ts", "flow.ts"] : ["deeds.ts"]) {
    cpSync(join(import.meta.dir, "tools", file), join(folder, "tools", file));
  }
  writeFileSync(join(folder, "stc.yaml"), configuration(store));
  writeFileSync(join(folder, "hash-key"), "a hash key of the tests\n");
  const keys = await run([...argv, "audit", "keys", "--new", join(folder, "checkpoint-key.pem")]);
  writeFileSync(join(folder, "checkpoint-key.pub"), keys.out);
  await prepare(folder);
  const service = new StoredService(folder, argv);
  await service.start();
  const recorded = await live(service, hasPolicies);
  writeFileSync(join(folder, "recorded.json"), `${JSON.stringify(recorded, undefined, 2)}\n`);
  const version = join(import.meta.dir, "stores", name);
  cpSync(join(folder, "tools"), join(version, "tools"), { recursive: true });
  const target = join(version, database);
  rmSync(target, { recursive: true, force: true });
  cpSync(folder, target, { recursive: true, filter: (path) => !NOT_KEPT.test(path) });
  if (database === "sqlite")
    writeFileSync(join(target, "approvals.sqlite.gz"), await packed(join(folder, "approvals.sqlite")));
  rmSync(folder, { recursive: true, force: true });
}

/** The tests make keys and addresses of their own; the reserve is free space; the tools are the same on both databases. */
const NOT_KEPT = /\/(?:tools|agents\.json|people\.json|service\.log|begun|url|reserve|\.lock|approvals\.sqlite[^/]*)$/;

/** Returns the database with what its log holds, because a log is far larger than what it changes. */
async function packed(path: string): Promise<Uint8Array> {
  const sql = new Bun.SQL({ adapter: "sqlite", filename: path });
  await sql.unsafe("PRAGMA wal_checkpoint(TRUNCATE)");
  await sql.close();
  return gzipSync(readFileSync(path));
}

/** Returns SQL that makes the tables of a database again, with their rows. */
async function dump(server: PostgresAccess, database: string): Promise<string> {
  const ask = async (statement: string) => (await server.send(statement, database)).map((row) => String(row["line"]));
  const tables = await ask("SELECT tablename AS line FROM pg_tables WHERE schemaname = 'public' ORDER BY 1");
  const parts: string[] = [];
  for (const table of tables) {
    const of = `attrelid = 'public.${table}'::regclass AND attnum > 0 AND NOT attisdropped`;
    const columns = await ask(`
      SELECT format('  %I %s%s%s%s', attname, format_type(atttypid, atttypmod),
        CASE WHEN collname = 'C' THEN ' COLLATE "C"' ELSE '' END, CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END,
        ' DEFAULT ' || pg_get_expr(adbin, adrelid)) AS line
      FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        LEFT JOIN pg_collation c ON c.oid = attcollation WHERE ${of} ORDER BY attnum`);
    const constraints = await ask(`
      SELECT '  ' || pg_get_constraintdef(oid) AS line FROM pg_constraint
      WHERE conrelid = 'public.${table}'::regclass AND contype IN ('p', 'c') ORDER BY conname`);
    const names = await ask(`SELECT quote_ident(attname) AS line FROM pg_attribute WHERE ${of} ORDER BY attnum`);
    const values = names.map((column) => `quote_nullable(${column})`).join(", ");
    parts.push(`CREATE TABLE ${table} (\n${[...columns, ...constraints].join(",\n")}\n);`);
    parts.push(
      ...(await ask(
        `SELECT 'INSERT INTO ${table} VALUES (' || concat_ws(', ', ${values}) || ');' AS line FROM ${table} ORDER BY 1`,
      )),
    );
    parts.push(
      ...(await ask(`
        SELECT replace(indexdef, ' public.', ' ') || ';' AS line FROM pg_indexes
        WHERE tablename = '${table}' AND indexname NOT IN (SELECT conname FROM pg_constraint) ORDER BY indexname`)),
    );
  }
  return `${parts.join("\n")}\n`;
}

await record("sqlite", "store: sqlite://./approvals.sqlite", async () => {});
const server = await startPostgres(native);
try {
  await record("postgres", "storeUrlFile: ./url", async (folder) => {
    writeFileSync(join(folder, "url"), await server.createDatabase("recorded"));
  });
  writeFileSync(join(import.meta.dir, "stores", name, "postgres/dump.sql"), await dump(server, "recorded"));
} finally {
  await server.end();
}
