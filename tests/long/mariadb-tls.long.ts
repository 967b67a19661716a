import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { Databases } from "../../src/targets/sql/databases.ts";
import { type MariaDbServer, startMariaDb } from "../support/mariadb.ts";
import { peakMbOf } from "../support/peak-memory.ts";
import { Authority, type LeafOptions } from "../support/tls-files.ts";
import { ask, databaseAt, loaded, refusal, sqlTool } from "../targets/sql/support.ts";

const opened: Databases[] = [];
let server: MariaDbServer;
let authority: Authority;
let stranger: Authority;

/** Writes a file where the server can read it. */
function file(name: string, text: string): string {
  const path = join(server.dir, name);
  writeFileSync(path, text);
  server.own(path);
  return path;
}

/** Starts the server again, with a certificate. */
async function serve(options: LeafOptions = {}, by = authority): Promise<void> {
  const { cert, key } = await by.issue("server", options);
  const files = [`--ssl-ca=${file("ca.pem", authority.pem)}`, `--ssl-cert=${file("cert.pem", cert)}`];
  await server.kill();
  await server.start([...files, `--ssl-key=${file("key.pem", key)}`]);
}

async function open(tls: Readonly<Record<string, string>>, user = "reader"): Promise<Databases> {
  const read = { user, passwordFile: file("password", "a % secret\n") };
  const databases = await databaseAt(server.port, { read, tls }, "mariadb");
  opened.push(databases);
  return databases;
}

/** Returns the answer of a call over TLS. */
async function answer(tls: Readonly<Record<string, string>>, user?: string): Promise<unknown> {
  const tool = sqlTool({ statement: "select 1 as x", columns: { x: z.int() } });
  return ask(await loaded(await open(tls, user), tool));
}

const rootCert = (): string => file("trusted.pem", authority.pem);
/** The driver's name of what was wrong. */
const because = async (work: Promise<unknown>): Promise<unknown> => {
  const { code, cause } = await refusal(work);
  return [code, (cause as { readonly because?: string }).because];
};
const UNTRUSTED = ["TARGET_UNAVAILABLE", "HANDSHAKE_SSL_ERROR"];

describe("TLS to MariaDB", () => {
  beforeAll(async () => {
    server = await startMariaDb();
    authority = await Authority.create("databases");
    stranger = await Authority.create("stranger");
    await server.send([
      "CREATE DATABASE shop",
      "CREATE USER reader@'%' IDENTIFIED BY 'a % secret' REQUIRE SSL",
      "CREATE USER certified@'%' IDENTIFIED BY 'a % secret' REQUIRE X509",
      "GRANT SELECT ON shop.* TO reader@'%'",
      "GRANT SELECT ON shop.* TO certified@'%'",
    ]);
  });
  afterAll(async () => {
    for (const databases of opened) await databases.close();
    await server?.end();
  });

  test("a server without TLS is refused", async () => {
    await server.kill();
    await server.start(["--skip-ssl"]);
    expect(await because(answer({ rootCert: rootCert() }))).toEqual(["TARGET_UNAVAILABLE", "HANDSHAKE_NO_SSL_SUPPORT"]);
  });

  test("a certificate of a trusted authority for this host is accepted", async () => {
    await serve();
    expect(await answer({ rootCert: rootCert() })).toEqual({ rows: [{ x: 1 }] });
  });

  test("a certificate of another authority is refused", async () => {
    await serve();
    expect(await because(answer({ rootCert: file("other.pem", stranger.pem) }))).toEqual(UNTRUSTED);
    expect(await because(answer({}))).toEqual(UNTRUSTED);
  });

  test("a certificate for another name is refused, also when it was seen before", async () => {
    await serve({ names: [{ type: "dns", value: "other.example" }] });
    for (let turn = 0; turn < 3; turn += 1) expect(await because(answer({ rootCert: rootCert() }))).toEqual(UNTRUSTED);
  });

  test("an expired certificate is refused", async () => {
    await serve({ notBefore: new Date(Date.now() - 7_200_000), notAfter: new Date(Date.now() - 3_600_000) });
    expect(await because(answer({ rootCert: rootCert() }))).toEqual(UNTRUSTED);
  });

  test("a client certificate is sent to a server that asks for one", async () => {
    await serve();
    const { cert, key } = await authority.issue("stc");
    const pair = { clientCert: file("client.pem", cert), clientKey: file("client.key", key) };
    expect(await answer({ rootCert: rootCert(), ...pair }, "certified")).toEqual({ rows: [{ x: 1 }] });
    await expect(answer({ rootCert: rootCert() }, "certified")).rejects.toThrow("error 1045, SQLSTATE 28000");
  });

  test("a result of ten million rows costs less than 20 MB at its peak", async () => {
    await serve();
    const numbers = "(select seq as n from seq_1_to_10000000)";
    const statement = `select n, repeat('x', 100) as x from ${numbers} as numbers limit 10000000`;
    const columns = { n: z.int(), x: z.string() };
    const binding = await loaded(
      await open({ rootCert: rootCert() }),
      sqlTool({ statement, columns, rows: { returns: 1_000 } }),
    );
    const peak = await peakMbOf(async () => {
      const { rows, truncated } = (await ask(binding)) as {
        readonly rows: readonly unknown[];
        readonly truncated: true;
      };
      expect([rows.length, truncated]).toEqual([1_000, true]);
    });
    expect(peak).toBeLessThan(20);
  });
});
