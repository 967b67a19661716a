import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Databases } from "../../src/targets/sql/databases.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../support/postgres.ts";
import { Authority, type LeafOptions } from "../support/tls-files.ts";
import { ask, databaseAt, loaded, refusal, sqlTool } from "../targets/sql/support.ts";

const native = findPostgres();
const opened: Databases[] = [];
let server: PostgresServer;
let authority: Authority;
let stranger: Authority;

/** Writes a file where only the server can read it. */
function file(name: string, text: string): string {
  const path = join(server.dir, name);
  writeFileSync(path, text, { mode: 0o600 });
  server.own(path);
  return path;
}

/** Starts the server again, with a certificate. */
async function serve(options: LeafOptions = {}): Promise<void> {
  const { cert, key } = await authority.issue("server", options);
  const files = [`ssl_cert_file=${file("cert.pem", cert)}`, `ssl_key_file=${file("key.pem", key)}`];
  await server.stop();
  await server.start(["ssl=on", ...files]);
}

const binding = async (settings: Readonly<Record<string, unknown>>): ReturnType<typeof loaded> => {
  const read = { user: "reader", passwordFile: file("password", "first") };
  const databases = await databaseAt(server.port, { read, ...settings });
  opened.push(databases);
  return loaded(databases, sqlTool({ statement: "select 1 as x", columns: { x: z.int() } }));
};
const answer = async (tls: Readonly<Record<string, string>>): Promise<unknown> => ask(await binding({ tls }));
const rootCert = (): string => file("trusted.pem", authority.pem);
const ANSWER = { rows: [{ x: 1 }] };

describe.skipIf(native === undefined)("a connection to PostgreSQL", () => {
  beforeAll(async () => {
    server = await startPostgres(native ?? "");
    authority = await Authority.create("databases");
    stranger = await Authority.create("stranger");
    await server.createDatabase("shop");
    await server.send("CREATE ROLE reader LOGIN PASSWORD 'first'");
  });
  afterAll(async () => {
    for (const databases of opened) await databases.close();
    await server?.end();
  });

  test("with TLS is not made to a server without it", async () => {
    expect((await refusal(answer({ rootCert: rootCert() }))).code).toBe("TARGET_UNAVAILABLE");
  });

  test("believes a certificate of a trusted authority for this host", async () => {
    await serve();
    expect(await answer({ rootCert: rootCert() })).toEqual(ANSWER);
  });

  test("believes no certificate of another authority", async () => {
    await serve();
    expect((await refusal(answer({ rootCert: file("other.pem", stranger.pem) }))).code).toBe("TARGET_UNAVAILABLE");
    expect((await refusal(answer({}))).code).toBe("TARGET_UNAVAILABLE");
  });

  test("believes no certificate for another name, also not later", async () => {
    await serve({ names: [{ type: "dns", value: "other.example" }] });
    for (let turn = 0; turn < 3; turn += 1) {
      expect((await refusal(answer({ rootCert: rootCert() }))).code).toBe("TARGET_UNAVAILABLE");
    }
  });

  test("believes no certificate that has expired", async () => {
    await serve({ notBefore: new Date(Date.now() - 7_200_000), notAfter: new Date(Date.now() - 3_600_000) });
    expect((await refusal(answer({ rootCert: rootCert() }))).code).toBe("TARGET_UNAVAILABLE");
  });

  test("reads a renewed password when the server ends it", async () => {
    await serve();
    const asked = await binding({ tls: { rootCert: rootCert() }, connections: 1 });
    expect(await ask(asked)).toEqual(ANSWER);
    file("password", "second");
    await server.send(
      "ALTER ROLE reader PASSWORD 'second'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'",
    );
    expect(await ask(asked)).toEqual(ANSWER);
    await server.send(
      "ALTER ROLE reader PASSWORD 'third'; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'",
    );
    const wrong = await refusal(ask(asked));
    expect([wrong.code, wrong.details]).toEqual(["TARGET_FAILED", { status: "UNAUTHENTICATED" }]);
    file("password", "third");
    expect(await ask(asked)).toEqual(ANSWER);
  });
});
