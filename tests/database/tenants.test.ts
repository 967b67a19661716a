import { afterEach, describe, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sqliteStore } from "../../src/database/sqlite.ts";
import { askFor } from "../support/approvals.ts";
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

  test("tables of one are refused in the place of another", async () => {
    const folder = makeFolder();
    const fileOf = (name: string) => join(folder, name);
    const url = `sqlite://${fileOf("approvals.sqlite")}`;
    for (const tenant of [undefined, "acme"]) await (await openTenant(url, tenant)).close();
    copyFileSync(fileOf("approvals.acme.sqlite"), fileOf("approvals.globex.sqlite"));
    copyFileSync(fileOf("approvals.sqlite"), fileOf("approvals.initech.sqlite"));
    const ofAcme = `sqlite://${fileOf("approvals.acme.sqlite")}`;
    const opening = (at: string, tenant?: string) => openTenant(at, tenant).then((opened) => opened.close());
    for (const [act, owner] of [
      [() => opening(url, "globex"), "the tenant acme"],
      [() => opening(url, "initech"), "the service itself"],
      [() => opening(ofAcme), "the tenant acme"],
      [() => sqliteStore.inspect(ofAcme, { now: Date.now, tenant: undefined }), "the tenant acme"],
    ] as const) {
      await expect(act()).rejects.toThrow(`belongs to ${owner}`);
    }
    for (const tenant of [undefined, "acme"]) await opening(url, tenant);
  });

  test("no name of a tenant is that of a file that SQLite keeps next to another tenant's", async () => {
    for (const name of ["approvals", "approvals.db"]) {
      const folder = makeFolder();
      const url = `sqlite://${join(folder, name)}`;
      const names = [undefined, "acme", "acme-wal", "acme-shm", "acme-journal", "wal"];
      const opened: Awaited<ReturnType<typeof openTenant>>[] = [];
      for (const tenant of names) opened.push(await openTenant(url, tenant));
      for (const approvals of opened) await askFor(approvals);
      expect(await Promise.all(opened.map((approvals) => approvals.lastSeq()))).toEqual(names.map(() => 1));
      for (const approvals of opened) await approvals.close();
    }
  });
});
