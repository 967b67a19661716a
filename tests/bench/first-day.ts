import { mkdtempSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { packService } from "../../deploy/release/npm.ts";
import { FirstDay } from "../support/first-day.ts";

/**
 * Measures a newcomer's first day in a clean home: `bun run bench:first-day`. The package is downloaded with its Bun; the
 * clone's packages come from a warm cache. The limits are promises of the product. Exits with 1 when a step takes longer.
 */
const { BUN_INSTALL_CACHE_DIR, BUN_INSTALL } = process.env;
const cache = BUN_INSTALL_CACHE_DIR ?? join(BUN_INSTALL ?? join(homedir(), ".bun"), "install/cache");

const day = new FirstDay(cache);
const built = mkdtempSync(join(tmpdir(), "stc-built-"));
try {
  const tarball = await packService(built);
  const rows = [
    { step: "npm i -g the package, with its Bun", limitSeconds: 60, ms: await day.install(tarball) },
    { step: "package: stc init to own tool called", limitSeconds: 60, ms: await day.installedInitToCall() },
    { step: "package: a call approved, and run", limitSeconds: 60, ms: await day.approvalToCall() },
    { step: "package: signed audit verified", limitSeconds: 10, ms: await day.verifyAudit() },
    { step: "clone to first governed call", limitSeconds: 30, ms: await day.cloneToCall() },
    { step: "stc init to own tool called", limitSeconds: 60, ms: await day.initToCall() },
    { step: "stc import grpc to a working manifest", limitSeconds: 10, ms: await day.importToCall() },
  ];
  console.table(
    rows.map(({ step, limitSeconds, ms }) => ({ step, seconds: Number((ms / 1_000).toFixed(1)), limit: limitSeconds })),
  );
  if (rows.some(({ limitSeconds, ms }) => ms > limitSeconds * 1_000)) process.exitCode = 1;
} finally {
  await day.close();
  rmSync(built, { recursive: true, force: true });
}
