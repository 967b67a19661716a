import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { runStc } from "../../support/stc.ts";

const TABLES = `CREATE TABLE customers (id INTEGER PRIMARY KEY, email TEXT, "Passwort" TEXT);
INSERT INTO customers VALUES (7, 'ann@canary.example', 'geheim');
CREATE TABLE odd (id INTEGER PRIMARY KEY, "replace" TEXT);`;

test("stc import sql writes tools of a SQLite file that load and answer, and none that SQLite would refuse", async () => {
  const folder = mkdtempSync(join(tmpdir(), "stc import sqlite "));
  try {
    const database = new Database(join(folder, "shop.sqlite"));
    database.run(TABLES);
    database.close();
    const issuer = { issuer: "https://issuer.test", audience: "stc", publicKeyFile: "key.pem", algorithms: ["EdDSA"] };
    const { publicKey } = generateKeyPairSync("ed25519");
    writeFileSync(join(folder, "key.pem"), publicKey.export({ type: "spki", format: "pem" }));
    const config = {
      tools: ["tools"],
      audit: { dir: "audit" },
      commands: { confinement: "prefer" },
      jwt: { issuers: [issuer] },
      systems: { shop: { sql: { url: "sqlite:./shop.sqlite", writable: true } } },
    };
    writeFileSync(join(folder, "stc.yaml"), stringify(config));
    const tools = join(folder, "tools");
    mkdirSync(tools);
    const words = ["--config", join(folder, "stc.yaml")];
    const chosen = ["--table", "customers", "--table", "odd", "--write", "--accept", "--out", tools];
    const made = await runStc(["import", "sql", "shop", ...chosen, ...words]);
    expect([made.code, made.err.trim()]).toEqual([
      1,
      "odd_update: target.sql.statement must not REPLACE: that removes rows which no bound counts; use ON CONFLICT … DO UPDATE",
    ]);
    expect(readdirSync(tools).sort()).toEqual([
      "customers_get.tool.yaml",
      "customers_update.tool.yaml",
      "odd_get.tool.yaml",
    ]);
    const { outputPolicy } = parse(readFileSync(join(tools, "customers_get.tool.yaml"), "utf8"));
    expect(outputPolicy).toEqual({ id: "allow", email: "mask", Passwort: "redact" });
    const { out } = await runStc(["try", "customers_get", '{"id":"7"}', "--yes", "--json", ...words]);
    expect(JSON.parse(out)).toMatchObject({ raw: { id: "7", email: "ann@canary.example", Passwort: "geheim" } });
    expect(JSON.stringify(JSON.parse(out).released)).not.toMatch(/canary|geheim/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
