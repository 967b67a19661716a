import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { z } from "zod";
import { Refusal } from "../../../src/core/errors.ts";
import type { Binding } from "../../../src/core/types.ts";
import type { Databases } from "../../../src/targets/sql/databases.ts";
import { REPEATS_MIN } from "../../../src/targets/sql/postgres/state.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../../support/postgres.ts";
import { runContext } from "../http/support.ts";
import { ask, databaseAt, faultsOf, loaded, refusal, sqlTool } from "./support.ts";

const native = findPostgres();
const text = z.string().nullable();

/** Any object that a change of the database makes visible shows `canary`, or calls a function that is not listed. */
const TABLES = `CREATE SCHEMA app; CREATE SCHEMA other; CREATE SCHEMA reader;
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE FUNCTION leaks(varchar, varchar) RETURNS varchar LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN ''canary''; END';
CREATE FUNCTION leaks(mood) RETURNS text LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN ''canary''; END';
CREATE FUNCTION leaks(date) RETURNS text LANGUAGE plpgsql VOLATILE AS 'BEGIN RETURN ''canary''; END';
CREATE TABLE days (day date); INSERT INTO days VALUES ('2020-01-01');
CREATE FUNCTION joins(varchar, varchar) RETURNS varchar LANGUAGE sql IMMUTABLE AS 'SELECT ''ok''::varchar';
CREATE OPERATOR ### (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = joins);
CREATE TABLE app.people (a varchar, b varchar, mood mood); INSERT INTO app.people VALUES ('a', 'b', 'sad');
CREATE TABLE public.people (a varchar, b varchar, mood mood); INSERT INTO public.people VALUES ('a', 'b', 'sad');
CREATE TABLE reader.people (a varchar, b varchar, mood mood); INSERT INTO reader.people VALUES ('a', 'canary', 'sad');
CREATE TABLE other.secrets (a varchar, b varchar, mood mood); INSERT INTO other.secrets VALUES ('a', 'canary', 'sad');
CREATE VIEW other.people AS SELECT a, leaks(a, b) AS b, mood FROM public.people;
CREATE VIEW inner_view AS SELECT a, b FROM people; CREATE VIEW outer_view AS SELECT a, b FROM inner_view;
CREATE TABLE above (a varchar, b varchar, mood mood); CREATE TABLE higher (a varchar);
CREATE TABLE family (b varchar); CREATE TABLE child () INHERITS (family); CREATE TABLE grandchild (b varchar); INSERT INTO grandchild VALUES ('canary');
CREATE TABLE parts (b varchar, n integer) PARTITION BY RANGE (n); CREATE TABLE part (b varchar, n integer); INSERT INTO part VALUES ('canary', 1);
CREATE TABLE guarded (b varchar); INSERT INTO guarded VALUES ('canary'); ALTER TABLE guarded ENABLE ROW LEVEL SECURITY; ALTER TABLE guarded OWNER TO owner;
GRANT USAGE ON SCHEMA app, other TO reader;
GRANT SELECT ON ALL TABLES IN SCHEMA public, app, other, reader TO reader;`;

/** After these calls, the state of the server is compared instead of the digest. */
async function askUntilCompared(binding: Binding): Promise<void> {
  for (let call = 0; call < REPEATS_MIN + 3; call += 1) await ask(binding);
}

let server: PostgresServer;
let databases: Databases;

describe.skipIf(native === undefined)("a statement whose database changes", () => {
  beforeAll(async () => {
    server = await startPostgres(native ?? "");
    await server.createDatabase("seed");
    await server.send(`CREATE ROLE reader LOGIN; CREATE ROLE owner; ${TABLES}`, "seed");
    await server.trust();
  });
  beforeEach(() => server.createDatabase("shop", undefined, "seed").then(() => {}));
  afterEach(async () => {
    await databases.close();
    await server.send("DROP DATABASE shop WITH (FORCE)");
  });
  afterAll(() => server?.end());

  const AS_BEFORE = `ALTER ROLE reader NOSUPERUSER NOBYPASSRLS NOREPLICATION; REVOKE pg_read_all_data, pg_write_all_data,
pg_read_server_files, pg_write_server_files, pg_execute_server_program FROM reader, owner; REVOKE owner FROM reader; ALTER ROLE owner NOSUPERUSER NOBYPASSRLS`;
  /** The server ends the connections of the user: settings of users hold for new ones. */
  const RECONNECT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'";
  const RULES = Object.fromEntries(
    ["reader.people.b", "other.secrets.b", "above.b", "higher.a", "grandchild.b", "part.b", "outer_view.a"].map(
      (key) => [key, "never"],
    ),
  );

  const plain = "select b as x from people";
  const drifts: readonly (readonly [what: string, statement: string, change: string])[] = [
    ["the column has another name", plain, "ALTER TABLE people RENAME b TO c"],
    [
      "the column has another type",
      plain,
      "DROP VIEW other.people, inner_view CASCADE; ALTER TABLE people ALTER b TYPE varchar[] USING ARRAY[b]",
    ],
    [
      "the table is another one",
      plain,
      "DROP TABLE public.people CASCADE; ALTER TABLE other.secrets RENAME TO people2; CREATE VIEW public.people AS SELECT a, leaks(a, b) AS b FROM app.people; GRANT SELECT ON people TO reader",
    ],
    ["a schema before the table's own is seen", plain, "GRANT USAGE ON SCHEMA reader TO reader"],
    [
      "the user searches in another order",
      plain,
      `ALTER ROLE reader IN DATABASE shop SET search_path = other, public; ${RECONNECT}`,
    ],
    [
      "schemas change their names",
      "select b as x from app.people",
      "ALTER SCHEMA app RENAME TO old; ALTER SCHEMA other RENAME TO app",
    ],
    [
      "tables change their schemas",
      "select b as x from app.people",
      "CREATE SCHEMA old; ALTER TABLE app.people SET SCHEMA old; ALTER VIEW other.people SET SCHEMA app",
    ],
    [
      "a view within a view is another one",
      "select b as x from outer_view",
      "CREATE OR REPLACE VIEW inner_view AS SELECT a, leaks(a, b) AS b FROM people",
    ],
    ["a table inherits from it", "select b as x from family", "ALTER TABLE grandchild INHERIT family"],
    ["a table inherits from one that does", "select b as x from family", "ALTER TABLE grandchild INHERIT child"],
    ["it inherits from another one", plain, "ALTER TABLE people INHERIT above"],
    ["what it inherits from inherits from another one", "select a as x from above", "ALTER TABLE above INHERIT higher"],
    [
      "it gets a partition",
      "select b as x from parts",
      "ALTER TABLE parts ATTACH PARTITION part FOR VALUES FROM (0) TO (9)",
    ],
    [
      "an operator of its types is found first",
      "select a || b as x from people",
      "CREATE OPERATOR || (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = leaks)",
    ],
    [
      "an operator of its name is another one",
      "select a ### b as x from people",
      "DROP OPERATOR ### (varchar, varchar); CREATE OPERATOR ### (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = leaks)",
    ],
    [
      "a cast in it gets a function",
      "select mood::text as x from people",
      "CREATE CAST (mood AS text) WITH FUNCTION leaks(mood)",
    ],
    [
      "a cast around it gets a function",
      "select mood as x from people",
      "CREATE CAST (mood AS text) WITH FUNCTION leaks(mood)",
    ],
    [
      "a function of its name is found first",
      "select lower(b) as x from people",
      "CREATE FUNCTION lower(varchar) RETURNS text LANGUAGE plpgsql AS 'BEGIN RETURN ''canary''; END'",
    ],
    [
      "a cast of PostgreSQL's types around it gets a function",
      "select day as x from days",
      "CREATE CAST (date AS text) WITH FUNCTION leaks(date)",
    ],
    [
      "its user finds functions of another schema before those of PostgreSQL",
      plain,
      `CREATE FUNCTION other.left(text, integer) RETURNS text LANGUAGE sql AS 'SELECT ''canary''';
CREATE FUNCTION other.md5(text) RETURNS text LANGUAGE sql AS 'SELECT ''same''';
ALTER ROLE reader IN DATABASE shop SET search_path = public, other, pg_catalog; ${RECONNECT}`,
    ],
    ...["SUPERUSER", "BYPASSRLS"].map(
      (right) =>
        [
          `its user gets a role with ${right} when it connects`,
          "select b as x from guarded",
          `ALTER TABLE guarded OWNER TO tester; ALTER ROLE owner ${right}; GRANT SELECT ON guarded TO owner;
GRANT owner TO reader WITH INHERIT FALSE; ALTER ROLE reader IN DATABASE shop SET role = owner; ${RECONNECT}`,
        ] as const,
    ),
    ["its user is a superuser, who sees one schema more", plain, "ALTER ROLE reader SUPERUSER"],
    // In the seed, a superuser finds a table of another schema: without that schema, nothing else is different.
    ["its user is a superuser", "select b as x from family", "DROP SCHEMA reader CASCADE; ALTER ROLE reader SUPERUSER"],
    ["its user bypasses row-level security", "select b as x from guarded", "ALTER ROLE reader BYPASSRLS"],
    [
      "its user bypasses row-level security, which its table gets later",
      plain,
      "ALTER ROLE reader BYPASSRLS; ALTER TABLE people ENABLE ROW LEVEL SECURITY",
    ],
    [
      "its user owns a table with row-level security",
      "select b as x from guarded",
      "ALTER TABLE guarded OWNER TO reader",
    ],
    [
      "its user becomes a member of the owner of a table with row-level security",
      "select b as x from guarded",
      "GRANT owner TO reader",
    ],
    ...["pg_read_server_files", "pg_write_server_files", "pg_execute_server_program"].map(
      (role) => [`its user is a member of ${role}`, plain, `GRANT ${role} TO reader`] as const,
    ),
    [
      "its user is a member of such a role by another one",
      plain,
      "GRANT pg_write_server_files TO owner; GRANT owner TO reader",
    ],
  ];
  test("a column whose origin the database knows has no other one", async () => {
    databases = await databaseAt(server.port, { read: { user: "reader" }, columns: RULES });
    const tool = sqlTool({ statement: plain, columns: { x: text }, origins: { x: "computed" } });
    const knows = "target.sql.origins says where the column x comes from, which the database knows: leave it out";
    expect(await faultsOf(databases, tool)).toEqual([knows]);
  });

  test.each(drifts)("%s: nothing is answered", async (_, statement, change) => {
    databases = await databaseAt(server.port, {
      read: { user: "reader" },
      columns: RULES,
      functions: ["public.joins"],
    });
    // The database does not know where they come from.
    const origins = /\(|\|\||###|::|view/.test(statement) ? { x: "computed" } : undefined;
    const tool = sqlTool({ statement, columns: { x: text }, ...(origins && { origins }) });
    const binding = await loaded(databases, tool);
    await askUntilCompared(binding);
    await server.send(change, "shop");
    try {
      const error = await refusal(ask(binding));
      expect([error.code, error.details]).toEqual(["TARGET_FAILED", { status: "FAILED_PRECONDITION" }]);
      expect(databases.quarantineOf(tool)?.changes).not.toEqual([]);
    } finally {
      await server.send(AS_BEFORE, "shop");
    }
  });

  test.each(["SUPERUSER", "BYPASSRLS", "REPLICATION"])(
    "its user gets %s in a system with roles of callers",
    async (right) => {
      const caller = { settings: {}, role: "claims.role", roles: ["owner"] };
      databases = await databaseAt(server.port, { read: { user: "reader" }, caller });
      await server.send(
        "GRANT owner TO reader WITH INHERIT FALSE; ALTER TABLE guarded OWNER TO tester; GRANT SELECT ON guarded TO owner",
        "shop",
      );
      const tool = sqlTool({ statement: "select b as x from guarded", columns: { x: text } });
      const binding = await loaded(databases, tool);
      const as = { caller: { ...runContext({}).caller, claims: { role: "owner" } } };
      try {
        expect(await ask(binding, {}, undefined, as)).toEqual({ rows: [] });
        // The operator has listed the role, so it may bypass row-level security.
        await server.send("ALTER ROLE owner BYPASSRLS");
        expect(await ask(binding, {}, undefined, as)).toEqual({ rows: [{ x: "canary" }] });
        await server.send(`ALTER ROLE reader ${right}`);
        expect((await refusal(ask(binding, {}, undefined, as))).details).toEqual({ status: "FAILED_PRECONDITION" });
      } finally {
        await server.send(AS_BEFORE, "shop");
      }
    },
  );

  test("rights on every table, granted later, are noted, and its user may still read", async () => {
    databases = await databaseAt(server.port, { read: { user: "reader" } });
    const tool = sqlTool({ statement: "select b as x from family", columns: { x: text } });
    const binding = await loaded(databases, tool);
    const notes = (): readonly unknown[] => databases.report([tool]).toolNotes ?? [];
    expect(notes()).toEqual([]);
    await server.send("DROP SCHEMA reader CASCADE; GRANT pg_read_all_data TO reader", "shop");
    try {
      expect(await ask(binding)).toEqual({ rows: [] });
      const message =
        "its database user has rights on every table (pg_read_all_data): grant it rights on the tables that its tools use";
      expect(notes()).toEqual([{ tool: tool.name, field: "target.system", message }]);
      await server.send("GRANT pg_write_all_data TO reader", "shop");
      await ask(binding);
      expect(JSON.stringify(notes())).toContain("may change family: revoke that");
      expect(JSON.stringify(notes())).toContain("(pg_read_all_data, pg_write_all_data)");
    } finally {
      await server.send(AS_BEFORE, "shop");
    }
  });

  const seen = "GRANT USAGE ON SCHEMA reader TO reader";
  const hidden = "REVOKE USAGE ON SCHEMA reader FROM reader";

  test("a change whose transaction was in progress during many calls: nothing is answered after its commit", async () => {
    databases = await databaseAt(server.port, { read: { user: "reader" }, columns: RULES });
    const binding = await loaded(databases, sqlTool({ statement: plain, columns: { x: text } }));
    const owner = new Bun.SQL({ url: `postgres://tester@127.0.0.1:${server.port}/shop`, tls: false, max: 1 });
    try {
      await owner.unsafe(`BEGIN; ${seen}`);
      // A transaction with a later number is over before.
      await server.send("CREATE TABLE later (n integer)", "shop");
      await askUntilCompared(binding);
      await owner.unsafe("COMMIT");
      expect((await refusal(ask(binding))).code).toBe("TARGET_FAILED");
    } finally {
      await owner.close({ timeout: 0 });
    }
  });

  test.each([
    [plain, [{ x: "b" }]],
    ["select b as x from people where b <> 'b'", []],
  ])(
    "calls during changes that are undone at once have the checked table, or no answer: %s",
    async (statement, rows) => {
      const answers = new Set<string>();
      for (let round = 0; round < 5; round += 1) {
        await databases?.close();
        databases = await databaseAt(server.port, { read: { user: "reader" }, columns: RULES, connections: 8 });
        const binding = await loaded(databases, sqlTool({ statement, columns: { x: text } }));
        await askUntilCompared(binding);
        const asked = Array.from({ length: 64 }, () =>
          ask(binding).then(
            (result) => JSON.stringify(result),
            (error: unknown) => (error instanceof Refusal ? error.code : String(error)),
          ),
        );
        await server.send(seen, "shop");
        await server.send(hidden, "shop");
        for (const answer of await Promise.all(asked)) answers.add(answer);
      }
      expect([...answers].filter((answer) => answer !== "TARGET_FAILED")).toEqual([JSON.stringify({ rows })]);
    },
  );
});
