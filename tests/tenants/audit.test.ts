import { afterEach, beforeEach, expect, spyOn, test } from "bun:test";
import { fstatSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { diskFiles } from "../../src/audit/journal/file-operations.ts";
import { auditDirOf, type TenantName, TenantService } from "../support/tenant-service.ts";

/** The log of one tenant fails while the service runs; its disk is played, everything else is real. */

const ALL: readonly TenantName[] = [undefined, "acme", "globex"];

let service: TenantService;
beforeEach(async () => {
  service = new TenantService();
  await service.start({ audit: { dir: "./audit", durability: "write" } });
});
afterEach(() => service.end());

function filesOfAcme(): ReadonlySet<number> {
  const folder = auditDirOf(service.folder, "acme");
  return new Set(readdirSync(folder, { recursive: true }).map((name) => statSync(join(folder, `${name}`)).ino));
}

async function answers(): Promise<readonly string[]> {
  const replies = await Promise.all(ALL.map((tenant) => service.callTo(tenant, "do_read")));
  return replies.map(({ http, body }) => `${http} ${body.result?.by ?? body.error.code}`);
}

async function readiness(tenant: TenantName) {
  const token = await service.operatorOf(tenant, ["metrics:read"]);
  const { http, body } = await service.send("GET", "/readyz", { token });
  return { http, ...body };
}

test("a tenant whose log cannot be written is refused its calls, is not ready, and the others go on", async () => {
  expect(await answers()).toEqual(["200 service", "200 acme", "200 globex"]);
  const files = filesOfAcme();
  const { write } = diskFiles;
  const failing = spyOn(diskFiles, "write").mockImplementation((fd, bytes, offset) => {
    if (files.has(fstatSync(fd).ino)) throw Object.assign(new Error("ENOSPC: no space left"), { code: "ENOSPC" });
    return write(fd, bytes, offset);
  });
  try {
    const refused = "503 AUDIT_UNAVAILABLE";
    expect(await answers()).toEqual(["200 service", refused, "200 globex"]);
    const changed = await Promise.all(
      ["acme", "globex"].map((name) =>
        service.callTo(name as TenantName, "do_write", { headers: { prefer: "wait=0" } }),
      ),
    );
    expect(changed.map(({ http }) => http)).toEqual([503, 202]);
    const began = service.begun.length;
    expect(await answers()).toEqual(["200 service", refused, "200 globex"]);
    expect(service.begun.slice(began).sort()).toEqual(["do_read of globex", "do_read of service"]);
    expect(await readiness(undefined)).toMatchObject({ http: 200, status: "ready", tenantsWithoutAudit: ["acme"] });
    expect(await readiness("acme")).toMatchObject({
      http: 503,
      reasons: ["audit_unavailable"],
      audit: { status: "failing" },
    });
    expect(await readiness("globex")).toMatchObject({ http: 200, status: "ready" });
    const nobody = await service.send("GET", "/readyz", {});
    expect([nobody.http, nobody.body]).toEqual([200, { status: "ready" }]);
    const { body } = await service.send("GET", "/tenants", {
      token: await service.operatorOf(undefined, ["tenants:read"]),
    });
    const shown = body.tenants.map(({ name, audit }: { name: string; audit: { status: string } }) => [
      name,
      audit.status ?? audit,
    ]);
    expect(shown).toEqual([
      ["acme", "failing"],
      ["globex", "ok"],
    ]);
    const authorization = `Bearer ${await service.operatorOf(undefined, ["metrics:read"])}`;
    const metrics = await (await fetch(`${service.url}/metrics`, { headers: { authorization } })).text();
    expect(
      metrics
        .split("\n")
        .filter((line) => line.startsWith("stc_ready"))
        .sort(),
    ).toEqual(["stc_ready 1", 'stc_ready{tenant="acme"} 0', 'stc_ready{tenant="globex"} 1']);
  } finally {
    failing.mockRestore();
  }
});
