import fs from "node:fs";
import { join } from "node:path";
import { auditDirOf, type TenantName, TenantService } from "../support/tenant-service.ts";
import { until } from "../support/until.ts";

// Fills the file system of one tenant's log while the service runs, frees it again, and prints what calls were answered.
// Runs where it may mount, in a namespace of its own.
const ALL: readonly TenantName[] = [undefined, "acme", "globex"];
const service = new TenantService();
const dir = auditDirOf(service.folder, "acme");
const filler = join(dir, "..", "acme-disk");

async function answers(): Promise<string> {
  const replies = await Promise.all(ALL.map((tenant) => service.callTo(tenant, "do_read")));
  return replies.map(({ body }) => body.result?.by ?? body.error.code).join(" ");
}

/** Waits: the service looks at the free space once a second. */
function answering(wanted: string): Promise<string> {
  return until(wanted, async () => ((await answers()) === wanted ? wanted : undefined));
}

async function ready(tenant: TenantName): Promise<number> {
  const token = await service.operatorOf(tenant, ["metrics:read"]);
  return (await service.send("GET", "/readyz", { token })).http;
}

function fill(): void {
  const fd = fs.openSync(join(filler, "filler"), "w");
  const block = Buffer.alloc(4_096);
  try {
    while (fs.writeSync(fd, block) === block.length);
  } catch {
    // Full.
  } finally {
    fs.closeSync(fd);
  }
}

function run(...command: readonly string[]): void {
  const { exitCode, stderr } = Bun.spawnSync([...command]);
  if (exitCode !== 0) throw new Error(stderr.toString());
}

try {
  fs.mkdirSync(filler, { recursive: true });
  run("mount", "-t", "tmpfs", "-o", "size=8m", "stc", filler);
  fs.mkdirSync(join(filler, "log"), { mode: 0o700 });
  fs.mkdirSync(dir, { mode: 0o700 });
  run("mount", "--bind", join(filler, "log"), dir);
  await service.start({ audit: { dir: "./audit", durability: "write" } });
  const before = await answers();
  fill();
  const full = await answering("service AUDIT_UNAVAILABLE globex");
  const readyWhenFull = await Promise.all(ALL.map(ready));
  fs.rmSync(join(filler, "filler"));
  const after = await answering("service acme globex");
  const readyAfter = await Promise.all(ALL.map(ready));
  await service.stop();
  process.stdout.write(JSON.stringify({ before, full, readyWhenFull, after, readyAfter }));
} finally {
  await service.stop();
  for (const path of [dir, filler]) Bun.spawnSync(["umount", path]);
  await service.end();
}
