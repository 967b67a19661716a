import { afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sqliteStore } from "../../src/database/sqlite.ts";
import { openTenant, tenantTests } from "../support/tenants.ts";

const folders: string[] = [];
function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "stc-tenants-"));
  folders.push(folder);
  return folder;
}
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

describe("tenants in SQLite", () => {
  tenantTests(async () => ({
    url: `sqlite://${join(makeFolder(), "approvals.sqlite")}`,
    columns: `
      SELECT tables.name AS table_name, columns.name AS column_name, columns.type AS data_type
      FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'`,
  }));

  test("each has a file next to the service's, which nobody else can read", async () => {
    const folder = makeFolder();
    const url = `sqlite://${join(folder, "approvals.sqlite")}`;
    const acme = await openTenant(url, "acme");
    expect(readdirSync(folder).filter((name) => name.endsWith("sqlite"))).toEqual(["approvals.acme.sqlite"]);
    expect(await sqliteStore.inspect(url, { now: Date.now, tenant: "globex" })).toMatchObject({ version: 0 });
    expect((await sqliteStore.inspect(url, { now: Date.now, tenant: "acme" })).version).toBeGreaterThan(0);
    expect(statSync(join(folder, "approvals.acme.sqlite")).mode & 0o077).toBe(0);
    await acme.close();
  });
});
