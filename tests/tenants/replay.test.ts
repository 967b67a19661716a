import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openAuditLog } from "../../src/audit/audit-log.ts";
import { sha256Hex } from "../../src/core/digest.ts";
import { tenantDirOf } from "../../src/core/tenant-names.ts";
import { draftOf } from "../audit/support/open.ts";
import { runStc } from "../support/stc.ts";
import { PROJECT } from "../support/world.ts";

const folder = mkdtempSync(join(tmpdir(), "stc-tenant-replay-"));
const file = join(folder, "stc.yaml");

/** Writes the log of a tenant with one call, which was allowed. */
async function writeCall(tenant: string): Promise<void> {
  const args = { order: "A-7" };
  const log = openAuditLog({
    dir: tenantDirOf(join(folder, "audit-logs"), tenant),
    ...{ instance: "test", tenant, clock: Date.now, durability: "write", queueEntriesMax: 10 },
  });
  await log.append(
    draftOf(`t-${tenant}`, {
      caller: { sub: "agent-7", permissions: ["orders:read"], iss: "https://login.example.com/" },
      tool: { name: "get_order", classification: "read", targetSystem: "orders" },
      approval: { by: "auto" },
      request: { args, argsHash: sha256Hex(JSON.stringify(args)), hashAlg: "sha256" },
    }),
  );
  await log.close();
}

beforeAll(async () => {
  cpSync(join(PROJECT, "docs/examples/tenants"), folder, { recursive: true });
  for (const tenant of ["acme", "globex"]) await writeCall(tenant);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const replayed = async (tenant: string) => {
  const { code, out, err } = await runStc(["replay", "--config", file, "--tenant", tenant, "--json"]);
  return { code, err, report: JSON.parse(out || "{}") };
};

test("replay reads the log of one tenant, and judges its calls by that tenant's policies", async () => {
  const before = await replayed("globex");
  expect([before.err, before.code, before.report.calls, before.report.unchanged]).toEqual(["", 0, 1, 1]);
  const written = readFileSync(file, "utf8");
  cpSync(join(folder, "tools"), join(folder, "stricter"), { recursive: true });
  const manifest = join(folder, "stricter/get-order.tool.yaml");
  writeFileSync(manifest, readFileSync(manifest, "utf8").replace("[orders:read]", "[orders:secret]"));
  const at = written.indexOf("\n  globex:");
  writeFileSync(file, written.slice(0, at) + written.slice(at).replace("tools: [./tools]", "tools: [./stricter]"));
  const [acme, globex] = [await replayed("acme"), await replayed("globex")];
  expect([acme.code, acme.report.calls, acme.report.unchanged]).toEqual([0, 1, 1]);
  expect([globex.code, globex.report.calls, globex.report.changed]).toEqual([1, 1, 1]);
});
