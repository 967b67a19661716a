import { auditLog, exportBacklog } from "./audit.ts";
import { certificates } from "./certificates.ts";
import type { Check } from "./check.ts";
import { secretFiles, storage } from "./files.ts";
import { hub } from "./hub.ts";
import { decisionPoints, halts, service, workers } from "./service.ts";
import { configuration, confinement, environment, tools } from "./setup.ts";
import { clocks, database, exporters, issuers, tokenReview } from "./systems.ts";

/** The checks of what each tenant has of its own. */
export const CHECKS_OF_TENANTS: readonly Check[] = [
  ...[configuration, tools, confinement, secretFiles, certificates],
  ...[storage, auditLog, exportBacklog, exporters, database],
];

/** The checks of `stc doctor`, in the order in which they are reported. Each is a declaration; none changes anything. */
export const CHECKS: readonly Check[] = [
  ...[configuration, tools, confinement, environment],
  ...[secretFiles, certificates, clocks],
  ...[storage, auditLog, exportBacklog, exporters],
  ...[database, hub, issuers, tokenReview],
  ...[service, workers, decisionPoints, halts],
];
