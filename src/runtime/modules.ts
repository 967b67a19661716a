import { riskPoint } from "../approvals/floor.ts";
import type { ApprovalStore } from "../approvals/store/database.ts";
import { postgresStore } from "../approvals/store/postgres-url.ts";
import { sqliteStore } from "../approvals/store/sqlite.ts";
import { type AuditExporter, lokiExporter, otlpExporter } from "../audit/export/collectors.ts";
import {
  jwksFileSource,
  jwksSource,
  jwksUriSource,
  publicKeyFileSource,
  publicKeySource,
  type TokenSource,
} from "../pipeline/identity/token-sources.ts";
import { elevation, permissions } from "../pipeline/permission-engine.ts";
import type { PolicyPoints } from "../pipeline/policy.ts";

/** What a build contains. Everything else is derived from these declarations. */
export interface Modules {
  readonly policyPoints: PolicyPoints;
  readonly approvalStores: readonly ApprovalStore[];
  readonly auditExporters: readonly AuditExporter[];
  readonly tokenSources: readonly TokenSource[];
}

export const MODULES = {
  policyPoints: {
    permissions,
    elevation,
    risk: riskPoint,
    others: [],
  },
  approvalStores: [sqliteStore, postgresStore],
  auditExporters: [otlpExporter, lokiExporter],
  tokenSources: [jwksUriSource, jwksFileSource, publicKeyFileSource, jwksSource, publicKeySource],
} as const satisfies Modules;
