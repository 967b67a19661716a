import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LiveIssuers } from "../support/live-tokens.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { runStc } from "../support/stc.ts";

const TOOL = `
name: read_note
description: Reads a note
classification: read
permissions: { required: ["notes:read"] }
input: { type: object, properties: {}, additionalProperties: false }
output: { type: object, properties: { text: { type: string } } }
outputPolicy: { text: allow }
target: { system: api, http: { method: GET, path: /note } }
`;
const native = findPostgres();
const folder = mkdtempSync(join(tmpdir(), "stc-connect-"));
const path = join(folder, "stc.yaml");
let server: PostgresServer;

beforeAll(async () => {
  if (native !== undefined) server = await startPostgres(native);
  writeFileSync(join(folder, "a.tool.yaml"), TOOL);
  writeFileSync(
    path,
    JSON.stringify({
      tools: ["./a.tool.yaml"],
      systems: { api: { http: { baseUrl: "https://api.test" } } },
      audit: { dir: "./audit" },
      jwt: {
        issuers: new LiveIssuers().profiles().map(({ jwks, ...issuer }, index) => {
          writeFileSync(join(folder, `keys-${index}.json`), JSON.stringify(jwks));
          return { ...issuer, jwksFile: `./keys-${index}.json` };
        }),
      },
      approvals: { storeUrlFile: "./store-url" },
    }),
  );
});
afterAll(async () => {
  await server?.end();
  rmSync(folder, { recursive: true, force: true });
});

async function check(url: string) {
  writeFileSync(join(folder, "store-url"), url, { mode: 0o600 });
  const ended = await runStc(["check", "--config", path, "--connect"]);
  expect(ended.out + ended.err).not.toContain("secret");
  return ended;
}

describe.skipIf(native === undefined)("stc check --connect and PostgreSQL", () => {
  test("a database that the service can use is named, and gets no tables", async () => {
    const { code, out } = await check(await server.createDatabase("usable"));
    expect(code).toBe(0);
    expect(out).toContain("connected: approvals.storeUrlFile");
    expect(await server.send("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", "usable")).toEqual([]);
  });

  test("another encoding, a missing database, a wrong password, missing rights and another program's tables are named", async () => {
    const usable = await server.createDatabase("other");
    await server.send("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
    await server.send("CREATE ROLE reader LOGIN PASSWORD 'r'");
    const foreign = await server.createDatabase("taken");
    await server.send("CREATE TABLE approvals (id integer)", "taken");
    for (const [url, problem] of [
      [usable.replace("/other", "/latin"), "must be a database with the encoding UTF8"],
      [usable.replace("/other", "/missing"), "there is no such database: create it"],
      [usable.replace(/:[^:@]+@/, ":wrong@"), "refuses this user or password"],
      [
        usable.replace(/\/\/[^@]+@/, "//reader:r@"),
        "may not be used or written by this user: grant it CREATE in its schema",
      ],
      [foreign, "has a table `approvals` of another program"],
    ] as const) {
      const { code, err } = await check(url);
      expect([code, err]).toEqual([78, expect.stringContaining(problem)]);
      expect(err).toMatch(/approvals\.storeUrlFile: approvals store postgres:\/\/127\.0\.0\.1:\d+\//);
    }
  });

  test("a server that is away is named", async () => {
    const url = await server.createDatabase("away");
    await server.stop();
    const { code, err } = await check(url);
    await server.start();
    expect(code).toBe(78);
    expect(err).toContain("cannot be reached");
  });

  test("the tables of each tenant are looked for in its own schema, which an administrator may have to create", async () => {
    const url = await server.createDatabase("shared");
    await server.send("CREATE ROLE app LOGIN PASSWORD 'r'; GRANT ALL ON SCHEMA public TO app", "shared");
    const written = JSON.parse(readFileSync(path, "utf8"));
    const [issuer] = written.jwt.issuers;
    const ofTenants = { ...issuer, issuer: "https://tenants.test", tenants: { names: ["acme", "globex"] } };
    const own = { tools: written.tools, systems: written.systems };
    const tenants = { acme: own, globex: own };
    const jwt = { issuers: [...written.jwt.issuers, ofTenants] };
    const checkTenants = async (user: string) => {
      writeFileSync(join(folder, "store-url"), url.replace(/\/\/[^@]+@/, `//${user}@`), { mode: 0o600 });
      const file = join(folder, "tenants.yaml");
      writeFileSync(file, JSON.stringify({ ...written, jwt, tenants }));
      const { code, out, err } = await runStc(["check", "--config", file, "--connect"]);
      const problems = err.split("\n").filter((line) => line.startsWith("  - "));
      return { code, problems, connected: out.split("\n").filter((line) => line.startsWith("connected: ")) };
    };
    const missing = (tenant: string) =>
      expect.stringContaining(
        `has no schema for the tenant ${tenant}, and this user may not create one: run CREATE SCHEMA "stc_${tenant}" AUTHORIZATION app`,
      );
    expect(await checkTenants("app:r")).toEqual({
      code: 78,
      problems: [missing("acme"), missing("globex")],
      connected: [],
    });
    await server.send("CREATE SCHEMA stc_acme AUTHORIZATION app", "shared");
    expect((await checkTenants("app:r")).problems).toEqual([missing("globex")]);
    await server.send("CREATE SCHEMA stc_globex AUTHORIZATION app", "shared");
    const field = "connected: approvals.storeUrlFile";
    expect(await checkTenants("app:r")).toEqual({
      code: 0,
      problems: [],
      connected: [field, `${field} (for the tenant acme)`, `${field} (for the tenant globex)`],
    });
    // The same problem of all is said once.
    expect((await checkTenants("app:wrong")).problems).toEqual([
      expect.stringContaining("approvals.storeUrlFile: approvals store "),
    ]);
  });
});

/** A server that lets everybody in and then answers nothing. */
function stalledPostgres() {
  const message = (type: string, body: readonly number[]) => [type.charCodeAt(0), 0, 0, 0, 4 + body.length, ...body];
  const welcome = Uint8Array.from([...message("R", [0, 0, 0, 0]), ...message("Z", ["I".charCodeAt(0)])]);
  const greeted = new WeakSet<object>();
  return Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        if (greeted.has(socket)) return;
        greeted.add(socket);
        socket.write(welcome);
      },
    },
  });
}

test("stc check --connect ends when a database server accepts the connection and then answers nothing", async () => {
  const stalled = stalledPostgres();
  const { code, err } = await check(`postgres://stc:secret@127.0.0.1:${stalled.port}/db`);
  stalled.stop(true);
  expect(code).toBe(78);
  expect(err).toMatch(
    /approvals\.storeUrlFile: approvals store postgres:\/\/127\.0\.0\.1:\d+\/db: cannot be reached \(no answer/,
  );
});
