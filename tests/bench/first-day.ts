import { homedir } from "node:os";
import { join } from "node:path";
import { FirstDay } from "../support/first-day.ts";

/**
 * Measures a newcomer's first day in a clean home with a warm cache of packages: `bun run bench:first-day`. The limits are promises
 * of the product. Exits with 1 when a step takes longer.
 */
const { BUN_INSTALL_CACHE_DIR, BUN_INSTALL } = process.env;
const cache = BUN_INSTALL_CACHE_DIR ?? join(BUN_INSTALL ?? join(homedir(), ".bun"), "install/cache");

const day = new FirstDay(cache);
try {
  const rows = [
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
}
